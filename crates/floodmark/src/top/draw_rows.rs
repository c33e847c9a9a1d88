//! The table; on a wide screen also the bytes of each category.

use std::fmt::Write;

use floodmark_analysis::By;
use floodmark_text::bar::{bar, share};
use floodmark_text::truncate::{cut_end, cut_location};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::rows::{self, ScreenRow};
use super::state::State;
use super::theme::Theme;
use super::view::View;

/// The width from which the categories are beside the table.
const WIDE: u16 = 110;
const BESIDE: u16 = 40;
const NUMBER: usize = 9;

/// Draws the table. Returns the full name under the cursor once the user has moved it.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    theme: Theme,
    view: &View,
    state: &mut State,
) -> Option<String> {
    let has_beside = area.width >= WIDE && state.by() != By::Category;
    let beside = if has_beside { BESIDE } else { 0 };
    let [table, side] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(beside)]).areas(area);
    if has_beside {
        draw_categories(frame, side, theme, view);
    }
    // The answer may still have the previous grouping.
    let report = view.report.as_ref().filter(|report| report.by == state.by());
    let (found, all) =
        report.map_or((Vec::new(), 0), |report| rows::rows(report, &view.growth, state));
    state.rows = found.len();
    state.rows_shown = usize::from(table.height.saturating_sub(1));
    state.row = state.row.min(state.rows.saturating_sub(1));
    let first = (state.row + 1).saturating_sub(state.rows_shown);
    (state.table, state.first_row) = (table, first);
    let mut lines = table.rows();
    if let Some(row) = lines.next() {
        frame.render_widget(title_line(state, &found, all, table.width), row);
    }
    let widths = widths(&found, state.by());
    for ((at, shown), row) in found.iter().enumerate().skip(first).zip(lines) {
        let is_under = at == state.row && state.is_pointing;
        let line = row_line(shown, &widths, theme, table.width);
        frame.render_widget(if is_under { line.style(Theme::chosen()) } else { line }, row);
    }
    found.get(state.row).filter(|_| state.is_pointing).map(|row| row.full.clone())
}

/// The widths of the columns in the middle.
fn widths(found: &[ScreenRow], by: By) -> Vec<usize> {
    let (_, middle, _) = rows::titles(by);
    let mut widths: Vec<usize> = middle.iter().map(|title| title.width()).collect();
    for row in found {
        for (width, cell) in widths.iter_mut().zip(&row.middle) {
            *width = cell.width().max(*width);
        }
    }
    widths
}

/// The width of the bar: on a narrow screen names need the space.
fn bar_cells(width: u16) -> usize {
    match width {
        ..60 => 5,
        60..100 => 10,
        100.. => 16,
    }
}

fn has_middle(width: u16) -> bool {
    width >= 60
}

fn title_line(state: &State, found: &[ScreenRow], all: usize, width: u16) -> Line<'static> {
    let (first, middle, last) = rows::titles(state.by());
    let mut text = format!("{first:>NUMBER$} {:cells$}", "", cells = bar_cells(width));
    if has_middle(width) {
        for (title, width) in middle.iter().zip(widths(found, state.by())) {
            let _ = write!(text, "  {title:>width$}");
        }
    }
    let _ = write!(text, "  {last}");
    let mut notes = Vec::new();
    if !state.filter.is_empty() {
        notes.push(format!(
            "{} of {all} with “{}”",
            found.len(),
            floodmark_text::terminal_safe::safe_text(&state.filter)
        ));
    } else if found.len() > state.rows_shown {
        notes.push(format!("{all} rows"));
    }
    if state.sort != super::state::Sort::Usual {
        notes.push(format!("by {}", state.sort.name(state.by())));
    }
    if !notes.is_empty() {
        let _ = write!(text, " ({})", notes.join(", "));
    }
    Line::styled(cut_end(&text, usize::from(width)), Theme::quiet())
}

fn row_line(shown: &ScreenRow, widths: &[usize], theme: Theme, width: u16) -> Line<'static> {
    let number = format!("{:>NUMBER$} ", shown.bytes.to_string());
    // In reverse video the empty part of a bar looks full.
    let colour = theme.category(shown.category).remove_modifier(Modifier::REVERSED);
    let mut spans = vec![
        Span::styled(number, Style::new()),
        Span::styled(bar(shown.share, bar_cells(width)), colour),
    ];
    if has_middle(width) {
        for (cell, width) in shown.middle.iter().zip(widths) {
            spans.push(Span::raw(format!("  {cell:>width$}")));
        }
    }
    let used: usize = spans.iter().map(|span| span.content.width()).sum();
    let room = usize::from(width).saturating_sub(used + 2);
    spans.push(Span::raw(format!("  {}", cut_location(&shown.name, room))));
    Line::from(spans)
}

fn draw_categories(frame: &mut Frame<'_>, area: Rect, theme: Theme, view: &View) {
    let whole = view.report.as_ref().map_or(0, |report| report.allocated.0);
    let mut lines = area.rows();
    if let Some(row) = lines.next() {
        frame.render_widget(
            Line::styled(format!("  {:>NUMBER$} {:10} Category", "Bytes", ""), Theme::quiet()),
            row,
        );
    }
    for ((name, bytes), row) in view.categories.iter().zip(lines) {
        let line = Line::from(vec![
            Span::raw(format!("  {:>NUMBER$} ", bytes.to_string())),
            Span::styled(bar(share(bytes.0, whole), 10), theme.category(Some(name))),
            Span::raw(format!(" {name}")),
        ]);
        frame.render_widget(line, row);
    }
}
