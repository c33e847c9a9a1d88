//! Lays out a frame, and drops parts that do not fit on a small screen.

use floodmark_text::plural::plural;
use floodmark_text::terminal_safe::safe_text;
use floodmark_text::truncate::{cut_end, cut_location};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::state::{Sort, State, TABS};
use super::theme::Theme;
use super::view::{Stage, View};
use super::{draw_devices, draw_help, draw_past, draw_ranks, draw_rows};

/// The smallest size that is drawn.
pub(crate) const LEAST: (u16, u16) = (36, 8);

/// What a frame shows besides the answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    /// The name of the trace.
    pub(crate) name: &'a str,
    pub(crate) theme: Theme,
    /// The error of the last attempt to read the file.
    pub(crate) read_error: Option<&'a str>,
    /// Whether the screen takes keys; `--once` does not.
    pub(crate) has_keys: bool,
}

/// Draws a frame. Stores the number of rows, and of those that fit, in the state.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    scene: Scene<'_>,
    view: Option<&View>,
    state: &mut State,
) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return too_small(frame, area);
    }
    let Some(view) = view else {
        let line = Line::raw(format!("Reading {} …", safe_text(scene.name)));
        return frame.render_widget(line, area);
    };
    if state.is_helping {
        return draw_help::draw(frame, area, scene.theme, view);
    }
    let losses = losses(scene, view, area);
    let [head, missing, ranks, devices, past, headline, tabs, rows, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::try_from(losses.len()).unwrap_or(1)),
        Constraint::Length(draw_ranks::height(view, area)),
        Constraint::Length(draw_devices::height(view, area)),
        Constraint::Length(draw_past::height(area)),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(scene.has_keys.into()),
    ])
    .areas(area);
    frame.render_widget(heading(scene, view, state, head.width), head);
    for (line, row) in losses.into_iter().zip(missing.rows()) {
        frame.render_widget(line, row);
    }
    draw_ranks::draw_ranks(frame, ranks, scene.theme, view);
    draw_devices::draw_devices(frame, devices, scene.theme, view);
    draw_past::draw(frame, past, scene.theme, view, state);
    let sentence = cut_end(&safe_text(&view.headline), usize::from(headline.width));
    frame.render_widget(Line::styled(sentence, Theme::title()), headline);
    frame.render_widget(tab_line(state, tabs.width), tabs);
    let full = draw_rows::draw(frame, rows, scene.theme, view, state);
    frame.render_widget(foot_line(view, state, full, foot.width), foot);
}

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = LEAST;
    let lines = [
        "floodmark top".to_owned(),
        format!("needs {width}×{height},"),
        format!("has {}×{}", area.width, area.height),
    ];
    for (line, row) in lines.into_iter().zip(area.rows()) {
        frame.render_widget(Line::raw(line), row);
    }
}

fn heading(scene: Scene<'_>, view: &View, state: &State, width: u16) -> Line<'static> {
    let theme = scene.theme;
    let (word, style) = match view.stage {
        _ if state.is_paused => ("paused", theme.alarm()),
        Stage::Recording => ("● recording", theme.good()),
        Stage::Finished => ("finished", Theme::title()),
        Stage::StoppedEarly => ("stopped early", theme.alarm()),
        Stage::Unfinished => ("not finished", theme.alarm()),
    };
    let summary = &view.summary;
    let mut facts = vec![seconds(summary.seconds)];
    if summary.steps > 0 {
        facts.push(plural(summary.steps.into(), "step"));
    }
    facts.push(plural(summary.events as u64, "event"));
    let of_now = if view.stage == Stage::Recording { "" } else { " at the end" };
    facts.push(format!("{}/s{of_now}", rate(view.events_per_second)));
    let rank = view.rank.map_or_else(String::new, |rank| format!(" rank {rank}"));
    let name = format!("{}{rank}  ", safe_text(scene.name));
    // If not everything fits, drop the last facts, then shorten the name.
    let room = |facts: &[String]| {
        let taken = facts.join(", ").width() + word.width() + 2;
        usize::from(width).saturating_sub(taken)
    };
    while facts.len() > 1 && room(&facts) < name.width().min(LEAST_NAME) {
        facts.pop();
    }
    let name = cut_location(&name, room(&facts));
    let facts = facts.join(", ");
    Line::from(vec![
        Span::styled(name, Theme::title()),
        Span::styled(word, style),
        Span::raw("  "),
        Span::raw(facts),
    ])
}

/// The shortest name while there are facts to drop.
const LEAST_NAME: usize = 16;

/// A time, with fewer decimals the longer it is.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.3} s") } else { format!("{seconds:.1} s") }
}

/// `1,234`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative"
)]
fn rate(per_second: f64) -> String {
    plural(per_second.round() as u64, "").trim_end_matches('s').trim_end().to_owned()
}

/// The losses above the rows: as many lines as fit.
fn losses(scene: Scene<'_>, view: &View, area: Rect) -> Vec<Line<'static>> {
    let most = match area.height {
        ..20 => 1,
        20..30 => 2,
        30.. => 4,
    };
    let style = scene.theme.alarm();
    let read_error = scene.read_error.map(|read_error| format!("! {}", safe_text(read_error)));
    let losses = view.losses.iter().map(|loss| format!("! {}", safe_text(loss)));
    let mut texts: Vec<String> = read_error.into_iter().chain(losses).collect();
    if texts.len() > most {
        let more = texts.len() - most + 1;
        texts.truncate(most - 1);
        texts.push(format!(
            "! {} missing from the recording (`?` lists them)",
            plural(more as u64, "thing")
        ));
    }
    let width = usize::from(area.width);
    texts.iter().map(|text| Line::styled(cut_end(text, width), style)).collect()
}

fn tab_line(state: &State, width: u16) -> Line<'static> {
    let is_narrow = width < 56;
    let mut spans = Vec::new();
    for (at, (_, name)) in TABS.iter().enumerate() {
        let number = at + 1;
        spans.push(if at == state.tab {
            Span::styled(format!("[{number} {name}]"), Theme::title())
        } else if is_narrow {
            Span::styled(format!(" {number} "), Theme::quiet())
        } else {
            Span::styled(format!(" {number} {name} "), Theme::quiet())
        });
    }
    Line::from(spans)
}

/// The filter while it is typed, the name under the cursor, or the keys.
fn foot_line(view: &View, state: &State, full: Option<String>, width: u16) -> Line<'static> {
    let width = usize::from(width);
    if state.is_typing {
        let text = format!("filter: {}▏  Enter keeps it, Esc clears it", safe_text(&state.filter));
        return Line::raw(cut_end(&text, width));
    }
    if let Some(full) = full {
        return Line::styled(cut_location(&full, width), Theme::quiet());
    }
    let sort = match state.sort {
        Sort::Usual => String::new(),
        Sort::Count | Sort::Name => format!(":{}", state.sort.name(state.by())),
    };
    let pause = if view.stage == Stage::Recording { "space pause  " } else { "" };
    let rank = if view.ranks.is_empty() { "" } else { "r rank  " };
    let text = format!(
        "q quit  Tab 1-5 group  {rank}s sort{sort}  / filter  d device  {pause}←→ moment  ? help"
    );
    Line::styled(cut_end(&text, width), Theme::quiet())
}
