//! The thread that looks at the files and answers the screen.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use floodmark_trace::{Outcome, Trace};

use super::ranks::{RankLevel, WatchedRanks};
use super::view::{Ask, Stage, View};

/// A file that has grown so lately is being written, also by a process that we cannot see.
const LATELY: Duration = Duration::from_secs(10);
/// Events a second are counted over so long a time.
const RATE_SPAN: Duration = Duration::from_secs(5);

/// What the screen says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    /// What it wants to know.
    Ask(Ask),
    /// Whether the file is let alone.
    Pause(bool),
}

/// What the watcher says.
#[derive(Debug)]
pub(crate) enum News {
    /// An answer.
    View(Box<View>),
    /// Events a second, while the file grows.
    Rate(f64),
    /// How the ranks stand, where the rows are as they were.
    Ranks(Vec<RankLevel>),
    /// Why the file could not be read again; empty when it can be again.
    Trouble(String),
}

/// The two ends of the watcher that the screen holds. It ends when they are dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) orders: Sender<Order>,
    pub(crate) news: Receiver<News>,
}

impl Watch {
    pub(crate) fn start(ranks: WatchedRanks, ask: Ask, interval: Duration) -> Self {
        let (orders, orders_in) = channel();
        let (news_out, news) = channel();
        let watcher = Watcher {
            ranks,
            ask,
            interval,
            is_paused: false,
            grown_at: None,
            rate: Rate::default(),
            answered: None,
            is_in_trouble: false,
        };
        thread::spawn(move || watcher.work(&orders_in, &news_out));
        Self { orders, news }
    }
}

struct Watcher {
    ranks: WatchedRanks,
    ask: Ask,
    interval: Duration,
    is_paused: bool,
    grown_at: Option<Instant>,
    rate: Rate,
    answered: Option<(u64, Ask, Stage)>,
    is_in_trouble: bool,
}

/// The screen has ended.
struct Alone;

impl Watcher {
    fn work(mut self, orders: &Receiver<Order>, news: &Sender<News>) {
        while self.answer(news).is_ok() {
            match orders.recv_timeout(self.interval) {
                Ok(order) => {
                    self.obey(order);
                    // Who holds a key down wants the last answer, not all of them.
                    for order in orders.try_iter() {
                        self.obey(order);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !self.is_paused && self.refresh(news).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Ask(ask) => {
                if ask.rank != self.ask.rank {
                    (self.grown_at, self.rate) = (None, Rate::default());
                }
                self.ask = ask;
            }
            Order::Pause(is_paused) => self.is_paused = is_paused,
        }
    }

    fn answer(&mut self, news: &Sender<News>) -> Result<(), Alone> {
        let following = &self.ranks.chosen(self.ask.rank).following;
        let trace = following.trace();
        let has_grown_lately = self.grown_at.is_some_and(|at| at.elapsed() < LATELY);
        let stage = stage(trace, following.is_running() || has_grown_lately);
        let wanted = (following.revision(), self.ask, stage);
        if self.answered == Some(wanted) {
            return Ok(());
        }
        self.answered = Some(wanted);
        let view = View::new(trace, stage, self.ask).among(self.ranks.levels());
        news.send(News::View(Box::new(view))).map_err(|_| Alone)
    }

    fn refresh(&mut self, news: &Sender<News>) -> Result<(), Alone> {
        let trouble = self.refresh_chosen();
        if self.ranks.refresh(self.interval / 2) {
            news.send(News::Ranks(self.ranks.levels())).map_err(|_| Alone)?;
        }
        if !trouble.is_empty() || self.is_in_trouble {
            self.is_in_trouble = !trouble.is_empty();
            news.send(News::Trouble(trouble)).map_err(|_| Alone)?;
        }
        let following = &self.ranks.chosen(self.ask.rank).following;
        let has_ended = following.has_ended();
        let rate = self.rate.after(Instant::now(), following.trace().events.len());
        match rate.filter(|_| !has_ended) {
            Some(rate) => news.send(News::Rate(rate)).map_err(|_| Alone),
            None => Ok(()),
        }
    }

    /// Looks at the trace whose rows are shown; why that failed, if it did.
    fn refresh_chosen(&mut self) -> String {
        let chosen = self.ranks.chosen_mut(self.ask.rank);
        let before = chosen.following.trace().events.len();
        let was_running = chosen.following.is_running();
        if let Err(error) = chosen.refresh() {
            return format!("the file cannot be read again: {error}");
        }
        let following = &chosen.following;
        // A program that is gone has written its last, whenever that was.
        let is_gone = was_running && !following.is_running();
        if is_gone {
            self.grown_at = None;
        } else if following.trace().events.len() > before {
            self.grown_at = Some(Instant::now());
        }
        String::new()
    }
}

/// What becomes of a file.
pub(crate) fn stage(trace: &Trace, is_written: bool) -> Stage {
    match trace.outcome() {
        Outcome::Finished => Stage::Finished,
        Outcome::StoppedEarly => Stage::StoppedEarly,
        Outcome::Running => Stage::Recording,
        Outcome::Unfinished if is_written => Stage::Recording,
        Outcome::Unfinished => Stage::Unfinished,
    }
}

/// Events a second by the clock on the wall: a program that rests makes none.
#[derive(Debug, Default)]
struct Rate(VecDeque<(Instant, usize)>);

impl Rate {
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with a few digits")]
    fn after(&mut self, now: Instant, events: usize) -> Option<f64> {
        self.0.push_back((now, events));
        while self.0.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= RATE_SPAN) {
            self.0.pop_front();
        }
        let &(then, before) = self.0.front()?;
        let seconds = now.duration_since(then).as_secs_f64();
        (seconds > 0.0).then(|| events.saturating_sub(before) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        let start = Instant::now();
        let mut rate = Rate::default();
        let mut at = |seconds, events| rate.after(start + Duration::from_secs(seconds), events);
        assert_eq!(at(0, 100), None);
        assert_eq!(at(1, 300), Some(200.0));
        assert_eq!(at(5, 600), Some(100.0));
        assert_eq!(at(6, 600), Some(60.0));
        assert_eq!(at(12, 600), Some(0.0));
    }
}
