//! A progress bar on stderr, shown on a terminal after one second.

use std::time::Duration;

use floodmark_text::terminal_safe::safe_text;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The time after which the bar appears.
const BAR_DELAY: Duration = Duration::from_secs(1);

/// A progress bar.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar for work of `total` parts.
    pub(crate) fn new(what: &str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg} {bar:32} {percent:>3} %, {elapsed}");
        Self(
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
                .with_message(safe_text(what).into_owned()),
        )
    }

    /// A bar for work of unknown length, which counts bytes.
    pub(crate) fn counting(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg} {binary_bytes}, {elapsed}");
        Self(
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
                .with_message(safe_text(what).into_owned()),
        )
    }

    /// Sets how much is done.
    pub(crate) fn at(&self, done: u64) {
        if self.0.is_hidden() && self.0.elapsed() >= BAR_DELAY {
            // Draws nothing if stderr is not a terminal.
            self.0.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.0.set_position(done);
    }
}

impl floodmark_files::progress::Progress for Progress {
    fn at(&self, done: u64, total: Option<u64>) {
        if let Some(total) = total {
            self.0.set_length(total);
        }
        Self::at(self, done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
