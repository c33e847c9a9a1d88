//! The terminal, taken and given back, however the program ends: by a key, an error, a panic or a signal.

use std::io::{self, stdout};
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::{SigId, flag, low_level};

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

/// The terminal is ours while this lives.
pub(crate) struct Taken {
    hook: Arc<Hook>,
}

impl Taken {
    pub(crate) fn take() -> io::Result<Self> {
        // A panic is reported after the terminal is restored: its message would go with our screen.
        let hook: Arc<Hook> = Arc::from(panic::take_hook());
        let before = Arc::clone(&hook);
        panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        let taken = Self { hook };
        enter()?;
        Ok(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
        // A thread that panics may not change the hook, and has no more use for it.
        if !thread::panicking() {
            let hook = Arc::clone(&self.hook);
            panic::set_hook(Box::new(move |info| hook(info)));
        }
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    // The cursor's place is not asked for: not every terminal answers.
    execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All), Hide, EnableMouseCapture)
}

fn give_back() {
    // A failure here has no place to be reported: the terminal may be gone.
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
}

/// Lets the shell have the terminal until we are called back.
pub(crate) fn suspend() -> io::Result<()> {
    give_back();
    low_level::raise(SIGTSTP)?;
    enter()
}

/// The signals that end us, noted instead of obeyed until the terminal is given back.
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

    /// The last that came.
    pub(crate) fn caught(&self) -> Option<i32> {
        let number = self.caught.load(Ordering::Relaxed);
        i32::try_from(number).ok().filter(|&number| number > 0)
    }

    /// Does what the signal would have done: its sender sees what ended the program.
    pub(crate) fn obey(self) -> io::Result<()> {
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
