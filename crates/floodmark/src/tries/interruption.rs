//! What is left behind by `fit` and `plan` when a signal ends them, such as that of Ctrl-C: nothing but what was tried.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::signals::Signals;
use crate::text::output;

/// How soon a signal is obeyed.
const PATIENCE: Duration = Duration::from_millis(20);

/// How often the folder is removed, where tries still write into it.
const ATTEMPTS: usize = 25;

/// Watches for signals until it is dropped.
#[derive(Debug)]
pub(super) struct Interruption {
    is_over: Arc<AtomicBool>,
    watching: Option<JoinHandle<()>>,
}

impl Interruption {
    /// When a signal ends this process, `folder` is removed; `keeps` says whether tries are remembered.
    pub(super) fn watch(folder: PathBuf, keeps: bool) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let is_over_now = Arc::clone(&is_over);
        let watching = Signals::new().ok().map(|signals| {
            thread::spawn(move || {
                while !is_over_now.load(Ordering::Relaxed) {
                    if signals.caught().is_some() {
                        leave(&folder, keeps);
                        let _ = signals.raise_again();
                        return;
                    }
                    thread::sleep(PATIENCE);
                }
            })
        });
        Self { is_over, watching }
    }
}

fn leave(folder: &PathBuf, keeps: bool) {
    // Tries that still run may write into it; they end with this process.
    for _ in 0..ATTEMPTS {
        if std::fs::remove_dir_all(folder).is_ok() {
            break;
        }
        thread::sleep(PATIENCE);
    }
    // Where a bar was drawn, its line is cleared.
    let clear = if stderr().is_terminal() { "\r\x1b[2K" } else { "" };
    let kept = if keeps {
        "; what was tried is kept, and the same command goes on from there"
    } else {
        ""
    };
    output::styled(&format!("{clear}Interrupted{kept}\n"));
}

impl Drop for Interruption {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(watching) = self.watching.take() {
            let _ = watching.join();
        }
    }
}
