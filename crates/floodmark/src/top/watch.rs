//! The thread that reads the files and computes answers for the screen.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use floodmark_trace::{Outcome, Trace};

use super::ranks::{RankLevel, WatchedRanks};
use super::view::{Stage, View, ViewQuestion};

/// A file that grew within this time is being written, possibly by a process that is not visible here.
const RECENT: Duration = Duration::from_secs(10);
/// The time over which events per second are averaged.
const RATE_SPAN: Duration = Duration::from_secs(5);

/// A message of the screen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ScreenMessage {
    /// Its question.
    Question(ViewQuestion),
    /// Whether to stop reading the files.
    Pause(bool),
}

/// A message of the watcher.
#[derive(Debug)]
pub(crate) enum WatcherMessage {
    /// The answers to the question.
    View(Box<View>),
    /// Events per second, while the file grows.
    Rate(f64),
    /// New figures of the ranks, with the same rows.
    Ranks(Vec<RankLevel>),
    /// Why the file could not be read; empty once it can be read again.
    ReadError(String),
}

/// The screen's channels to the watcher. The watcher ends when they are dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) to_watcher: Sender<ScreenMessage>,
    pub(crate) from_watcher: Receiver<WatcherMessage>,
}

impl Watch {
    pub(crate) fn start(ranks: WatchedRanks, question: ViewQuestion, interval: Duration) -> Self {
        let (to_watcher, from_screen) = channel();
        let (to_screen, from_watcher) = channel();
        let watcher = Watcher {
            ranks,
            question,
            interval,
            is_paused: false,
            grown_at: None,
            rate: Rate::default(),
            answered: None,
            has_read_error: false,
        };
        thread::spawn(move || watcher.run(&from_screen, &to_screen));
        Self { to_watcher, from_watcher }
    }
}

struct Watcher {
    ranks: WatchedRanks,
    question: ViewQuestion,
    interval: Duration,
    is_paused: bool,
    grown_at: Option<Instant>,
    rate: Rate,
    answered: Option<(u64, ViewQuestion, Stage)>,
    has_read_error: bool,
}

/// The screen has ended.
struct ScreenEnded;

impl Watcher {
    fn run(mut self, from_screen: &Receiver<ScreenMessage>, to_screen: &Sender<WatcherMessage>) {
        while self.answer(to_screen).is_ok() {
            match from_screen.recv_timeout(self.interval) {
                Ok(message) => {
                    self.apply(message);
                    // A user who holds a key down needs only the last answer.
                    for message in from_screen.try_iter() {
                        self.apply(message);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !self.is_paused && self.refresh(to_screen).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn apply(&mut self, message: ScreenMessage) {
        match message {
            ScreenMessage::Question(question) => {
                if question.rank != self.question.rank {
                    (self.grown_at, self.rate) = (None, Rate::default());
                }
                self.question = question;
            }
            ScreenMessage::Pause(is_paused) => self.is_paused = is_paused,
        }
    }

    fn answer(&mut self, to_screen: &Sender<WatcherMessage>) -> Result<(), ScreenEnded> {
        let following = &self.ranks.chosen(self.question.rank).following;
        let trace = following.trace();
        let grew_recently = self.grown_at.is_some_and(|at| at.elapsed() < RECENT);
        let stage = stage(trace, following.is_running() || grew_recently);
        let wanted = (following.revision(), self.question, stage);
        if self.answered == Some(wanted) {
            return Ok(());
        }
        self.answered = Some(wanted);
        let view = View::new(trace, stage, self.question).among(self.ranks.levels());
        to_screen.send(WatcherMessage::View(Box::new(view))).map_err(|_| ScreenEnded)
    }

    fn refresh(&mut self, to_screen: &Sender<WatcherMessage>) -> Result<(), ScreenEnded> {
        let read_error = self.refresh_chosen();
        if self.ranks.refresh(self.interval / 2) {
            to_screen.send(WatcherMessage::Ranks(self.ranks.levels())).map_err(|_| ScreenEnded)?;
        }
        if !read_error.is_empty() || self.has_read_error {
            self.has_read_error = !read_error.is_empty();
            to_screen.send(WatcherMessage::ReadError(read_error)).map_err(|_| ScreenEnded)?;
        }
        let following = &self.ranks.chosen(self.question.rank).following;
        let has_ended = following.has_ended();
        let rate = self.rate.after(Instant::now(), following.trace().events.len());
        match rate.filter(|_| !has_ended) {
            Some(rate) => to_screen.send(WatcherMessage::Rate(rate)).map_err(|_| ScreenEnded),
            None => Ok(()),
        }
    }

    /// Reads what is new in the shown trace. Returns why that failed, or an empty text.
    fn refresh_chosen(&mut self) -> String {
        let chosen = self.ranks.chosen_mut(self.question.rank);
        let before = chosen.following.trace().events.len();
        let was_running = chosen.following.is_running();
        if let Err(error) = chosen.refresh() {
            return format!("the file cannot be read again: {error}");
        }
        let following = &chosen.following;
        // A program that has ended writes no more, however recently the file grew.
        let is_gone = was_running && !following.is_running();
        if is_gone {
            self.grown_at = None;
        } else if following.trace().events.len() > before {
            self.grown_at = Some(Instant::now());
        }
        String::new()
    }
}

/// The state of a recording.
pub(crate) fn stage(trace: &Trace, is_written: bool) -> Stage {
    match trace.outcome() {
        Outcome::Finished => Stage::Finished,
        Outcome::StoppedEarly => Stage::StoppedEarly,
        Outcome::Running => Stage::Recording,
        Outcome::Unfinished if is_written => Stage::Recording,
        Outcome::Unfinished => Stage::Unfinished,
    }
}

/// Events per second of real time.
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
