//! `floodmark top`: shows a trace in the terminal, also while it grows.
//!
//! There are two threads. The watcher (`watch.rs`) reads the file, or those of a folder of ranks (`ranks.rs`), and
//! computes answers; the screen (`screen.rs`) draws the last answer and handles keys, so that a long trace does not
//! delay a key. A frame (`draw.rs`) depends only on the answers (`view.rs`) and on what the user chose (`state.rs`), so
//! tests draw into a buffer.
//!
//! Names come from the traced program: [`safe_text`](floodmark_text::terminal_safe::safe_text) escapes all of them.

mod draw;
mod draw_devices;
mod draw_help;
mod draw_past;
mod draw_ranks;
mod draw_rows;
mod once;
mod ranks;
mod rows;
mod screen;
mod state;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
mod theme;
mod view;
mod watch;

use std::path::Path;

use crate::args::TopArgs;
use crate::text::failure::{Context, Problem, Result};
use crate::text::stdout_style;

/// Shows a trace until the user leaves; with `--once` returns one frame as text.
pub(crate) fn top(args: &TopArgs) -> Result<String> {
    if !args.once && !stdout_style::can_draw() {
        let path = args.source.trace.as_deref().unwrap_or(Path::new("."));
        return Err(Problem::NoTerminal)
            .with_context(|| format!("Failed to show `{}`", path.display()));
    }
    let ranks = ranks::WatchedRanks::open(&args.source)?;
    let tab = state::TABS.iter().position(|(by, _)| *by == args.by).unwrap_or(0);
    let (device, rank) = (args.source.device, ranks.highest());
    let state = state::State { tab, rank, device, ..state::State::default() };
    if args.once {
        return Ok(once::once(&ranks, state));
    }
    screen::run(ranks, state, args.interval)?;
    Ok(String::new())
}
