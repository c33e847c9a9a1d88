//! News of traces that grow, as Server-Sent Events: `grown` a few times a second at most, `ended` once
//! all of them have.
//!
//! A client gets the newest state, not every change: one that is slow misses numbers in between and
//! nothing else, and one that comes back after a pause gets the current state.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

use super::Site;

/// The time between two looks at the files.
const REST: Duration = Duration::from_millis(250);

/// There is more of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Grown {
    /// Which, from 0.
    pub(crate) trace: usize,
    /// Its revision, as `traces` has it.
    pub(crate) revision: u64,
    /// How many events it has.
    pub(crate) events: usize,
    /// How long it is.
    pub(crate) seconds: f64,
    /// Whether its end was written: it grows no more.
    pub(crate) is_finished: bool,
}

/// No trace grows any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Ended {
    /// How many there are.
    pub(crate) traces: usize,
}

/// Looks at the files until the site is dropped. All together are read in a third of a core's time.
pub(crate) fn watch_files(site: &Arc<Site>) {
    let site = Arc::downgrade(site);
    std::thread::spawn(move || {
        let mut rest = REST;
        loop {
            std::thread::sleep(rest);
            let Some(site) = site.upgrade() else { return };
            let began = Instant::now();
            let mut is_new = false;
            for trace in &site.shown.traces {
                is_new |= trace.refresh();
            }
            if is_new {
                site.news.send_modify(|number| *number += 1);
            }
            rest = REST.max(began.elapsed() * 2);
        }
    });
}

/// The news, from now on, with how things stand at first.
pub(crate) fn stream(site: Arc<Site>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let client = Client {
        news: site.news.subscribe(),
        revisions: vec![0; site.shown.traces.len()],
        is_end_sent: false,
        waiting: VecDeque::new(),
        site,
    };
    let stream = futures_util::stream::unfold(client, |mut client| async move {
        let event = client.next().await?;
        Some((Ok(event), client))
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}

struct Client {
    site: Arc<Site>,
    news: watch::Receiver<u64>,
    /// The revision of each trace that was sent last.
    revisions: Vec<u64>,
    is_end_sent: bool,
    waiting: VecDeque<Event>,
}

impl Client {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            self.news.mark_unchanged();
            self.find_news();
            if self.waiting.is_empty() {
                // It ends when the site does.
                self.news.changed().await.ok()?;
            }
        }
    }

    fn find_news(&mut self) {
        let traces = &self.site.shown.traces;
        let mut have_ended = true;
        for (trace, (shown, sent)) in traces.iter().zip(&mut self.revisions).enumerate() {
            let now = shown.now();
            let is_finished = now.trace.ending.is_some();
            have_ended &= is_finished;
            if *sent != now.revision {
                *sent = now.revision;
                let grown = Grown {
                    trace,
                    revision: now.revision,
                    events: now.trace.events.len(),
                    seconds: now.trace.end().as_seconds(),
                    is_finished,
                };
                self.waiting.extend(event("grown", &grown));
            }
        }
        if have_ended && !self.is_end_sent {
            self.is_end_sent = true;
            self.waiting.extend(event("ended", &Ended { traces: traces.len() }));
        }
    }
}

fn event(name: &str, data: &impl Serialize) -> Option<Event> {
    Some(Event::default().event(name).data(serde_json::to_string(data).ok()?))
}
