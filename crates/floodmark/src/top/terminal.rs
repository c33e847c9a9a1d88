//! Sets up the terminal, and restores it however the program ends: by a key, an error, a panic or a signal.

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

/// Restores the terminal when it is dropped.
pub(crate) struct TerminalGuard {
    hook: Arc<Hook>,
}

impl TerminalGuard {
    pub(crate) fn enter() -> io::Result<Self> {
        // Restore the terminal before a panic prints its message: leaving the screen would remove the message.
        let hook: Arc<Hook> = Arc::from(panic::take_hook());
        let before = Arc::clone(&hook);
        panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
        let guard = Self { hook };
        enter()?;
        Ok(guard)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore();
        // A panicking thread must not change the hook.
        if !thread::panicking() {
            let hook = Arc::clone(&self.hook);
            panic::set_hook(Box::new(move |info| hook(info)));
        }
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    // Do not query the position of the cursor: not every terminal answers.
    execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All), Hide, EnableMouseCapture)
}

fn restore() {
    // Ignore errors: the terminal may be gone.
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
}

/// Stops the process with SIGTSTP; returns when it continues.
pub(crate) fn suspend() -> io::Result<()> {
    restore();
    low_level::raise(SIGTSTP)?;
    enter()
}
