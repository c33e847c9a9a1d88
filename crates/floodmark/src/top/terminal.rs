//! The terminal, taken and given back, however the program ends: by a key, an error, a panic or a signal.

use std::io::{self, stdout};
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::thread;

use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use signal_hook::consts::SIGTSTP;
use signal_hook::low_level;

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
            restore();
            before(info);
        }));
        let taken = Self { hook };
        enter()?;
        Ok(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        restore();
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

fn restore() {
    // A failure here has no place to be reported: the terminal may be gone.
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
}

/// Lets the shell have the terminal until we are called back.
pub(crate) fn suspend() -> io::Result<()> {
    restore();
    low_level::raise(SIGTSTP)?;
    enter()
}
