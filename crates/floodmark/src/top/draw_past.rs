//! The graph of the chosen device's memory over time, stacked by category.

use floodmark_analysis::CategoryBytes;
use floodmark_trace::{Bytes, Category};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::draw::seconds;
use super::state::State;
use super::theme::Theme;
use super::view::View;

/// Eighths of a cell, from the bottom.
const BLOCKS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The height of the graph, in lines: more on a taller screen.
pub(crate) fn height(area: Rect) -> u16 {
    match area.height {
        ..16 => 0,
        16..20 => 4,
        20..30 => area.height / 3,
        30.. => area.height * 2 / 5,
    }
}

/// Draws the peak of each column, a legend, and a mark at the time of the rows.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    theme: Theme,
    view: &View,
    state: &mut State,
) {
    let [gutter, picture] =
        Layout::horizontal([Constraint::Length(11), Constraint::Fill(1)]).areas(area);
    state.picture = picture;
    if area.height < 2 || view.history.is_empty() {
        return;
    }
    let has_legend = u16::from(area.height >= 6 && theme.is_coloured);
    let [graph, axis, legend] = Layout::vertical([
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(has_legend),
    ])
    .areas(picture);
    let columns = columns_of(&view.history, usize::from(graph.width));
    let highest = columns.iter().map(sum).max().unwrap_or(0);
    let moment = moment_column(view, columns.len());
    for (at, held) in columns.iter().enumerate() {
        let x = graph.x.saturating_add(u16::try_from(at).unwrap_or(u16::MAX));
        let column = Rect { x, width: 1, ..graph };
        draw_column(frame.buffer_mut(), column, (held, highest), theme, Some(at) == moment);
    }
    let top = Line::styled(format!("{:>10}", Bytes(highest).to_string()), Theme::quiet());
    frame.render_widget(top, Rect { height: 1, ..gutter });
    frame.render_widget(axis_line(view, moment, axis.width), axis);
    frame.render_widget(legend_line(&columns, theme, legend.width), legend);
}

fn sum(held: &CategoryBytes) -> u64 {
    held.iter().map(|bytes| bytes.0).sum()
}

/// One column: categories from the bottom to the top, in eighths of a cell. Without colours, draws their sum.
fn draw_column(
    buffer: &mut Buffer,
    area: Rect,
    (held, highest): (&CategoryBytes, u64),
    theme: Theme,
    is_moment: bool,
) {
    let units = u128::from(area.height) * 8;
    let eighths = |bytes: u64| u128::from(bytes) * units / u128::from(highest.max(1));
    let mut total = 0_u64;
    let mut tops: Vec<(Option<&str>, u128)> = Vec::new();
    for (category, bytes) in Category::ALL.iter().zip(held) {
        total += bytes.0;
        tops.push((Some(category.name()), eighths(total)));
    }
    if !theme.is_coloured || is_moment {
        tops = vec![(None, eighths(total))];
    }
    for (row, y) in (area.y..area.bottom()).rev().enumerate() {
        let bottom = row as u128 * 8;
        let at = |eighth: u128| tops.iter().find(|(_, top)| *top > eighth);
        let Some((name, top)) = at(bottom) else { break };
        let filled = (*top).min(bottom + 8) - bottom;
        let mut style = if is_moment { theme.alarm() } else { theme.category(*name) };
        if filled < 8
            && let Some((above, _)) = at(bottom + filled)
            && let Some(colour) = theme.category(*above).fg
        {
            style = style.bg(colour);
        }
        let symbol = BLOCKS[usize::try_from(filled).unwrap_or(8).min(8)];
        buffer[(area.x, y)].set_symbol(symbol).set_style(style);
    }
}

/// The legend, from the bottom to the top: `■ parameter  ■ activation`.
fn legend_line(columns: &[CategoryBytes], theme: Theme, width: u16) -> Line<'static> {
    let mut room = usize::from(width);
    let mut spans = Vec::new();
    for (at, category) in Category::ALL.iter().enumerate() {
        let is_there = columns.iter().any(|held| held[at] > Bytes(0));
        let text = format!(" {}  ", category.name());
        let needed = 1 + text.trim_end().width();
        if is_there && room >= needed {
            spans.push(Span::styled("■", theme.category(Some(category.name()))));
            room = room.saturating_sub(1 + text.width());
            spans.push(Span::raw(text));
        }
    }
    Line::from(spans)
}

/// For each column, the highest of its pieces.
pub(crate) fn columns_of(pieces: &[CategoryBytes], columns: usize) -> Vec<CategoryBytes> {
    let column = |at: usize| {
        let from = at * pieces.len() / columns;
        let to = ((at + 1) * pieces.len() / columns).max(from + 1).min(pieces.len());
        pieces[from..to].iter().max_by_key(|held| sum(held)).copied().unwrap_or_default()
    };
    (0..columns).map(column).collect()
}

fn moment_column(view: &View, columns: usize) -> Option<usize> {
    column_of(view, view.report.as_ref()?.at.seconds, columns)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a column of a screen"
)]
fn column_of(view: &View, seconds: f64, columns: usize) -> Option<usize> {
    let position = view.axis.position_at(seconds)?;
    if columns == 0 || view.axis.length <= 0.0 {
        return None;
    }
    Some(((position / view.axis.length * columns as f64) as usize).min(columns - 1))
}

/// The axis: its first and last time, `≈` below each shortened idle stretch, and a mark below the chosen time.
fn axis_line(view: &View, moment: Option<usize>, width: u16) -> Line<'static> {
    let width = usize::from(width);
    let knots = (view.axis.knots.first(), view.axis.knots.last());
    let [from, to] = [knots.0, knots.1].map(|knot| knot.map_or(0.0, |knot| knot.seconds));
    let (left, right) = (seconds(from), seconds(to));
    let between = width.saturating_sub(left.width() + right.width());
    let mut letters: Vec<char> = format!("{left}{:between$}{right}", "").chars().collect();
    for stretch in &view.axis.breaks {
        let column = column_of(view, f64::midpoint(stretch.from, stretch.to), width);
        if let Some(letter) = column.and_then(|column| letters.get_mut(column))
            && *letter == ' '
        {
            *letter = '≈';
        }
    }
    let moment = moment.filter(|_| !view.is_now());
    if let Some(letter) = moment.and_then(|moment| letters.get_mut(moment)) {
        *letter = '▲';
    }
    Line::styled(letters.into_iter().collect::<String>(), Theme::quiet())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(bytes: u64) -> CategoryBytes {
        let mut held = CategoryBytes::default();
        held[0] = Bytes(bytes);
        held
    }

    #[test]
    fn a_column_shows_the_highest_of_its_pieces() {
        let pieces = [1, 5, 2, 3].map(held);
        assert_eq!(columns_of(&pieces, 2), [5, 3].map(held));
        assert_eq!(columns_of(&pieces, 8), [1, 1, 5, 5, 2, 2, 3, 3].map(held));
        assert!(columns_of(&pieces, 0).is_empty());
    }

    /// Three eighths of a parameter, and above it a gradient that reaches into the second cell.
    #[test]
    fn categories_are_stacked_in_eighths_of_a_cell() {
        let mut two = held(3);
        two[2] = Bytes(9);
        let area = Rect::new(0, 0, 1, 2);
        let mut buffer = Buffer::empty(area);
        draw_column(&mut buffer, area, (&two, 16), Theme { is_coloured: true }, false);
        let colour = |name| Theme { is_coloured: true }.category(Some(name)).fg.unwrap();
        let cells = [1, 0].map(|y| {
            let cell = &buffer[(0, y)];
            (cell.symbol().to_owned(), cell.fg, cell.bg)
        });
        assert_eq!(cells[0], ("▃".into(), colour("parameter"), colour("gradient")));
        assert_eq!(cells[1], ("▄".into(), colour("gradient"), ratatui::style::Color::Reset));
        let mut grey = Buffer::empty(area);
        draw_column(&mut grey, area, (&two, 16), Theme { is_coloured: false }, false);
        assert_eq!([1, 0].map(|y| grey[(0, y)].symbol().to_owned()), ["█", "▄"]);
    }
}
