//! The loop between keys, answers and pictures.

use std::io::{Stdout, stdout};
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use crossterm::event::{self, Event, KeyEventKind};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::draw::{Scene, draw};
use super::ranks::WatchedRanks;
use super::state::{State, Then};
use super::terminal::{Taken, suspend};
use super::theme::Theme;
use super::view::View;
use super::watch::{News, Order, Watch};
use crate::signals::Signals;
use crate::text::failure::{Problem, Result};
use crate::text::stdout_style;

/// How long a key, a signal or an answer waits at most.
const BEAT: Duration = Duration::from_millis(50);

/// Shows a trace until the user leaves.
pub(crate) fn run(ranks: WatchedRanks, state: State, interval: Duration) -> Result<()> {
    let name = ranks.name();
    let watch = Watch::start(ranks, state.ask(), interval);
    let theme = Theme { is_coloured: stdout_style::is_coloured() };
    let signals = Signals::new()?;
    let taken = Taken::take()?;
    let mut show = Show { name, theme, state, watch, view: None, rate: None, trouble: None };
    let ended = show.go(&signals);
    drop(taken);
    signals.obey()?;
    ended
}

/// All that the loop holds.
struct Show {
    name: String,
    theme: Theme,
    state: State,
    watch: Watch,
    view: Option<Box<View>>,
    rate: Option<f64>,
    trouble: Option<String>,
}

impl Show {
    fn go(&mut self, signals: &Signals) -> Result<()> {
        let mut terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        let mut is_stale = true;
        let mut drawn_size = terminal.size()?;
        while signals.caught().is_none() {
            is_stale |= self.hear()?;
            // Asked for at every beat: SIGWINCH has no handler before the first poll, and may be blocked.
            let size = terminal.size()?;
            if is_stale || size != drawn_size {
                drawn_size = size;
                self.draw(&mut terminal)?;
            }
            is_stale = event::poll(BEAT)?;
            while event::poll(Duration::ZERO)? {
                match self.take(&event::read()?)? {
                    Then::Draw => {}
                    Then::Leave => return Ok(()),
                    Then::Suspend => {
                        suspend()?;
                        // What is on the screen is not what was.
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
        let trouble = self.trouble.as_deref();
        let scene = Scene { name: &self.name, theme: self.theme, trouble, has_keys: true };
        let (view, state) = (self.view.as_deref(), &mut self.state);
        terminal.draw(|frame| draw(frame, scene, view, state))?;
        Ok(())
    }

    /// Applies the watcher's messages; returns whether there were any.
    fn hear(&mut self) -> Result<bool> {
        let mut has_heard = false;
        loop {
            match self.watch.news.try_recv() {
                Ok(News::View(view)) => self.view = Some(view),
                Ok(News::Rate(rate)) => self.rate = Some(rate),
                Ok(News::Ranks(ranks)) => {
                    if let Some(view) = &mut self.view {
                        view.ranks = ranks;
                    }
                }
                Ok(News::Trouble(trouble)) => {
                    self.trouble = Some(trouble).filter(|trouble| !trouble.is_empty());
                }
                Err(TryRecvError::Empty) => return Ok(has_heard),
                Err(TryRecvError::Disconnected) => {
                    return Err(Problem::ReaderEnded.into());
                }
            }
            has_heard = true;
        }
    }

    fn take(&mut self, event: &Event) -> Result<Then> {
        let (asked, was_paused) = (self.state.ask(), self.state.is_paused);
        let mut then = Then::Draw;
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
        if self.state.ask() != asked {
            self.watch
                .orders
                .send(Order::Ask(self.state.ask()))
                .map_err(|_| Problem::ReaderEnded)?;
        }
        if self.state.is_paused != was_paused {
            self.watch
                .orders
                .send(Order::Pause(self.state.is_paused))
                .map_err(|_| Problem::ReaderEnded)?;
        }
        Ok(then)
    }
}
