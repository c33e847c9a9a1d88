//! The help screen: keys, and all losses of the recording.

use floodmark_text::terminal_safe::safe_text;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use super::theme::Theme;
use super::view::View;

const KEYS: [(&str, &str); 17] = [
    ("q, Esc", "quit"),
    ("Tab, 1-5", "lines, modules, categories, tensors, steps"),
    ("s", "sort: by bytes, count, name"),
    ("/", "show only rows that contain a text; Enter keeps it, Esc clears it"),
    ("d", "next device"),
    ("r R", "next rank of a folder, and the one before"),
    ("space", "pause and continue"),
    ("← →", "earlier and later time; ten times as far with Shift"),
    ("p o e", "peak, failed allocation, end"),
    ("n", "back to now, or to the peak of a finished recording"),
    ("w", "picture of the last two minutes, or of all"),
    ("↑ ↓ PgUp PgDn", "move through the rows"),
    ("Home End", "first and last row"),
    ("click, wheel", "choose a row, or a time in the graph; move through the rows"),
    ("Shift and drag", "select text, as most terminals have it"),
    ("▲ +1.000 MiB", "a line that holds so much more after each step: a leak"),
    ("█ ░ │", "allocated, reserved beyond it, peak"),
];

pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, theme: Theme, view: &View) {
    let mut lines: Vec<Line<'_>> = vec![Line::styled("Keys (any key closes this)", Theme::title())];
    lines.extend(KEYS.iter().map(|(key, what)| Line::raw(format!("{key:<15}{what}"))));
    if !view.losses.is_empty() {
        lines.push(Line::styled("Missing from the recording", Theme::title()));
        lines.extend(
            view.losses
                .iter()
                .map(|loss| Line::styled(format!("! {}", safe_text(loss)), theme.alarm())),
        );
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}
