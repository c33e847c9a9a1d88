//! Catches the signals that end the program, for commands that must clean up first.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::{SigId, flag, low_level};

/// Catches SIGHUP, SIGINT, SIGQUIT and SIGTERM until it is dropped.
#[derive(Debug)]
pub(crate) struct Signals {
    caught: Arc<AtomicUsize>,
    ids: Vec<SigId>,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let mut signals = Self { caught: Arc::default(), ids: Vec::new() };
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            let number = usize::try_from(signal).unwrap_or(0);
            let id = flag::register_usize(signal, Arc::clone(&signals.caught), number)?;
            signals.ids.push(id);
        }
        Ok(signals)
    }

    /// The last signal that was caught.
    pub(crate) fn caught(&self) -> Option<i32> {
        let number = self.caught.load(Ordering::Relaxed);
        i32::try_from(number).ok().filter(|&number| number > 0)
    }

    /// Ends the process by the caught signal, so that its parent sees that signal.
    pub(crate) fn raise_again(self) -> io::Result<()> {
        match self.caught() {
            Some(signal) => low_level::emulate_default_handler(signal),
            None => Ok(()),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            low_level::unregister(id);
        }
    }
}
