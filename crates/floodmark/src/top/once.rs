//! One frame as text.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::draw::{LEAST, Scene, draw};
use super::ranks::WatchedRanks;
use super::state::State;
use super::theme::Theme;
use super::view::View;
use super::watch::stage;
use crate::text::stdout_style;

/// The size of a frame without a terminal.
const USUAL: (u16, u16) = (100, 30);

/// A frame as text, in the size of the terminal.
pub(crate) fn once(ranks: &WatchedRanks, mut state: State) -> String {
    let (width, height) = stdout_style::terminal_size().unwrap_or(USUAL);
    let (width, height) = (width.max(LEAST.0), height.max(LEAST.1));
    let following = &ranks.chosen(state.rank).following;
    let trace = following.trace();
    let view = View::new(trace, stage(trace, following.is_running()), state.question())
        .among(ranks.levels());
    let name = ranks.name();
    let theme = Theme { is_coloured: false };
    let scene = Scene { name: &name, theme, read_error: None, has_keys: false };
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| draw(frame, scene, Some(&view), &mut state));
    text(terminal.backend().buffer())
}

/// The text of a buffer, without trailing spaces and empty lines.
pub(crate) fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let mut text = String::new();
    for row in buffer.content.chunks(width) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}
