//! The event loop: handles keys and the watcher's messages, and draws frames.

use std::io::{Stdout, stdout};
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use crossterm::event::{self, Event, KeyEventKind};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::draw::{Scene, draw};
use super::ranks::WatchedRanks;
use super::state::{KeyAction, State};
use super::terminal::{TerminalGuard, suspend};
use super::theme::Theme;
use super::view::View;
use super::watch::{ScreenMessage, Watch, WatcherMessage};
use crate::signals::Signals;
use crate::text::failure::{Problem, Result};
use crate::text::stdout_style;

/// The longest delay of a signal or an answer.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Shows a trace until the user leaves.
pub(crate) fn run(ranks: WatchedRanks, state: State, interval: Duration) -> Result<()> {
    let name = ranks.name();
    let watch = Watch::start(ranks, state.question(), interval);
    let theme = Theme { is_coloured: stdout_style::is_coloured() };
    let signals = Signals::new()?;
    let guard = TerminalGuard::enter()?;
    let mut screen = Screen { name, theme, state, watch, view: None, rate: None, read_error: None };
    let ended = screen.run(&signals);
    drop(guard);
    signals.raise_again()?;
    ended
}

/// The state of the loop.
struct Screen {
    name: String,
    theme: Theme,
    state: State,
    watch: Watch,
    view: Option<Box<View>>,
    rate: Option<f64>,
    read_error: Option<String>,
}

impl Screen {
    fn run(&mut self, signals: &Signals) -> Result<()> {
        let mut terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        let mut is_stale = true;
        let mut drawn_size = terminal.size()?;
        while signals.caught().is_none() {
            is_stale |= self.receive()?;
            // Query the size each time: SIGWINCH has no handler before the first poll, and may be blocked.
            let size = terminal.size()?;
            if is_stale || size != drawn_size {
                drawn_size = size;
                self.draw(&mut terminal)?;
            }
            is_stale = event::poll(POLL_INTERVAL)?;
            while event::poll(Duration::ZERO)? {
                match self.handle(&event::read()?)? {
                    KeyAction::Draw => {}
                    KeyAction::Quit => return Ok(()),
                    KeyAction::Suspend => {
                        suspend()?;
                        // Draw everything again: the screen has changed.
                        terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn draw(&mut self, terminal: &mut Terminal<CrosstermBackend<Stdout>>) -> Result<()> {
        if let (Some(rate), Some(view)) = (self.rate, &mut self.view) {
            view.events_per_second = rate;
        }
        let read_error = self.read_error.as_deref();
        let scene = Scene { name: &self.name, theme: self.theme, read_error, has_keys: true };
        let (view, state) = (self.view.as_deref(), &mut self.state);
        terminal.draw(|frame| draw(frame, scene, view, state))?;
        Ok(())
    }

    /// Applies the watcher's messages; returns whether there were any.
    fn receive(&mut self) -> Result<bool> {
        let mut has_received = false;
        loop {
            match self.watch.from_watcher.try_recv() {
                Ok(WatcherMessage::View(view)) => self.view = Some(view),
                Ok(WatcherMessage::Rate(rate)) => self.rate = Some(rate),
                Ok(WatcherMessage::Ranks(ranks)) => {
                    if let Some(view) = &mut self.view {
                        view.ranks = ranks;
                    }
                }
                Ok(WatcherMessage::ReadError(read_error)) => {
                    self.read_error = Some(read_error).filter(|read_error| !read_error.is_empty());
                }
                Err(TryRecvError::Empty) => return Ok(has_received),
                Err(TryRecvError::Disconnected) => {
                    return Err(Problem::ReaderEnded.into());
                }
            }
            has_received = true;
        }
    }

    fn handle(&mut self, event: &Event) -> Result<KeyAction> {
        let (asked, was_paused) = (self.state.question(), self.state.is_paused);
        let mut then = KeyAction::Draw;
        if let Event::Key(key) = event
            && key.kind != KeyEventKind::Release
        {
            then = self.state.press(*key, self.view.as_deref());
        } else if let Event::Mouse(mouse) = event {
            self.state.point(*mouse, self.view.as_deref());
        }
        if self.state.rank != asked.rank {
            self.rate = None;
        }
        if self.state.question() != asked {
            self.watch
                .to_watcher
                .send(ScreenMessage::Question(self.state.question()))
                .map_err(|_| Problem::ReaderEnded)?;
        }
        if self.state.is_paused != was_paused {
            self.watch
                .to_watcher
                .send(ScreenMessage::Pause(self.state.is_paused))
                .map_err(|_| Problem::ReaderEnded)?;
        }
        Ok(then)
    }
}
