//! The style of stdout: bars, colours and a width on a terminal, plain text elsewhere.
//!
//! Pipes and files get plain text, which does not depend on the terminal. `NO_COLOR` and `TERM=dumb` switch colours
//! off; `CLICOLOR_FORCE` switches them on, also for a pipe.

use std::io::{IsTerminal, stdout};

use anstream::{AutoStream, ColorChoice};
use floodmark_text::answer_text::AnswerText;
use floodmark_text::output_style::OutputStyle;
use floodmark_text::text_table::render_as;

/// The width without a terminal.
const USUAL_WIDTH: u16 = 100;

/// The style in which to render answers on stdout.
pub(crate) fn of_stdout() -> OutputStyle {
    let is_coloured = is_coloured();
    if !can_draw() && !is_coloured {
        return OutputStyle::Plain;
    }
    let width = terminal_size().map_or(USUAL_WIDTH, |(width, _)| width);
    OutputStyle::Drawn { width: width.into(), is_coloured }
}

/// The text of an answer, rendered for stdout.
pub(crate) fn show(answer: impl Into<AnswerText>) -> String {
    render_as(&answer.into(), of_stdout())
}

/// Whether stdout gets colours.
pub(crate) fn is_coloured() -> bool {
    AutoStream::choice(&stdout()) != ColorChoice::Never
}

/// Whether stdout is a terminal that can move the cursor.
pub(crate) fn can_draw() -> bool {
    stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Columns and lines of the terminal, or `COLUMNS` and `LINES` if there is none.
pub(crate) fn terminal_size() -> Option<(u16, u16)> {
    let size = if stdout().is_terminal() {
        crossterm::terminal::size().ok()
    } else {
        variable("COLUMNS").map(|columns| (columns, variable("LINES").unwrap_or(30)))
    };
    // A terminal of unknown size reports 0.
    size.map(|(width, height)| match (width, height) {
        (0, _) | (_, 0) => (80, 24),
        known => known,
    })
}

fn variable(name: &str) -> Option<u16> {
    std::env::var(name).ok()?.parse().ok()
}
