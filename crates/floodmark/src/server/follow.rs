//! Sends the growth of traces as Server-Sent Events: `grown` a few times a second at most, `ended` once all have ended.
//!
//! A client gets the newest state, not every change: a slow one skips states, and one that reconnects gets the current
//! one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

use super::Server;

/// How often to read the files.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A trace has grown.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Grown {
    /// Its number, from 0.
    pub(crate) trace: usize,
    /// Its revision, as in `traces`.
    pub(crate) revision: u64,
    /// The number of its events.
    pub(crate) events: usize,
    /// Its length.
    pub(crate) seconds: f64,
    /// Whether its end was written.
    pub(crate) is_finished: bool,
}

/// All traces have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Ended {
    /// The number of traces.
    pub(crate) traces: usize,
}

/// Reads the files until the server is dropped, with at most a third of a core.
pub(crate) fn watch_files(server: &Arc<Server>) {
    let server = Arc::downgrade(server);
    std::thread::spawn(move || {
        let mut pause = POLL_INTERVAL;
        loop {
            std::thread::sleep(pause);
            let Some(server) = server.upgrade() else { return };
            let began = Instant::now();
            let mut is_new = false;
            for trace in &server.shown.traces {
                is_new |= trace.refresh();
            }
            if is_new {
                server.news.send_modify(|number| *number += 1);
            }
            pause = POLL_INTERVAL.max(began.elapsed() * 2);
        }
    });
}

/// The stream of events: first the current state, then each change.
pub(crate) fn stream(server: Arc<Server>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let client = Client {
        news: server.news.subscribe(),
        revisions: vec![0; server.shown.traces.len()],
        is_end_sent: false,
        waiting: VecDeque::new(),
        server,
    };
    let stream = futures_util::stream::unfold(client, |mut client| async move {
        let event = client.next().await?;
        Some((Ok(event), client))
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}

struct Client {
    server: Arc<Server>,
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
                // The stream ends with the server.
                self.news.changed().await.ok()?;
            }
        }
    }

    fn find_news(&mut self) {
        let traces = &self.server.shown.traces;
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
