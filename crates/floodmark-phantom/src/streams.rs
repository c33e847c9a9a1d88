//! Streams, events and captures: all work completes at once, but captures are tracked.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// An open capture: its number, and its mode for unsafe calls.
pub(crate) type CaptureId = u64;

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) device: usize,
    pub(crate) priority: i32,
    pub(crate) flags: u32,
    pub(crate) capture: Option<CaptureId>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) recorded: Option<Instant>,
    pub(crate) capture: Option<CaptureId>,
}

/// What was captured: how many pieces of work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: u64,
}

/// A graph that can be launched.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Instance {
    pub(crate) device: usize,
    pub(crate) nodes: u64,
}

/// Everything with a handle.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    by_handle: BTreeMap<u64, Stream>,
    events: HashMap<u64, Event>,
    graphs: HashMap<u64, Graph>,
    instances: HashMap<u64, Instance>,
    captures: BTreeMap<CaptureId, u64>,
    /// Captures that were invalidated by a call that a capture does not allow.
    broken: BTreeSet<CaptureId>,
}

static STREAMS: Mutex<Option<Streams>> = Mutex::new(None);
static NEXT: AtomicU64 = AtomicU64::new(1);
/// The number of open captures: launches check it first.
static CAPTURES: AtomicU64 = AtomicU64::new(0);

/// A handle that was not used before. It is not zero, and looks like an aligned address.
pub(crate) fn new_handle() -> u64 {
    0x1_0000 + NEXT.fetch_add(1, Ordering::Relaxed) * 64
}

/// Runs `f` with all streams, events and graphs.
pub(crate) fn with<T>(f: impl FnOnce(&mut Streams) -> T) -> T {
    let mut guard: MutexGuard<'_, _> = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    f(guard.get_or_insert_default())
}

/// A library submitted work to a stream that is not known here: it belongs to the open captures.
pub(crate) fn note_library_work() {
    if CAPTURES.load(Ordering::Relaxed) > 0 {
        with(|streams| streams.captures.values_mut().for_each(|nodes| *nodes += 1));
    }
}

/// Work was submitted to a stream.
pub(crate) fn note_work(stream: u64) {
    if CAPTURES.load(Ordering::Relaxed) > 0 {
        with(|streams| {
            if let Some(capture) = streams.capture_of(stream)
                && let Some(nodes) = streams.captures.get_mut(&capture)
            {
                *nodes += 1;
            }
        });
    }
}

impl Streams {
    pub(crate) fn create_stream(&mut self, device: usize, priority: i32, flags: u32) -> u64 {
        let handle = new_handle();
        self.by_handle.insert(handle, Stream { device, priority, flags, capture: None });
        handle
    }

    pub(crate) fn destroy_stream(&mut self, handle: u64) {
        self.by_handle.remove(&handle);
    }

    pub(crate) fn stream(&self, handle: u64) -> Option<&Stream> {
        self.by_handle.get(&handle)
    }

    pub(crate) fn create_event(&mut self) -> u64 {
        let handle = new_handle();
        self.events.insert(handle, Event { recorded: None, capture: None });
        handle
    }

    pub(crate) fn destroy_event(&mut self, handle: u64) {
        self.events.remove(&handle);
    }

    /// The event has happened; when the stream captures, it belongs to the capture.
    pub(crate) fn record(&mut self, event: u64, stream: u64) {
        let capture = self.capture_of(stream);
        self.events.insert(event, Event { recorded: Some(Instant::now()), capture });
    }

    pub(crate) fn event(&self, handle: u64) -> Option<Event> {
        self.events.get(&handle).copied()
    }

    /// A stream that waits for an event of a capture belongs to that capture.
    pub(crate) fn wait(&mut self, stream: u64, event: u64) {
        let capture = self.event(event).and_then(|event| event.capture);
        if let Some(capture) = capture.filter(|capture| self.captures.contains_key(capture))
            && let Some(stream) = self.by_handle.get_mut(&stream)
        {
            stream.capture = Some(capture);
        }
    }

    pub(crate) fn capture_of(&self, stream: u64) -> Option<CaptureId> {
        self.by_handle.get(&stream)?.capture
    }

    pub(crate) fn create_instance(&mut self, instance: Instance) -> u64 {
        let handle = new_handle();
        self.instances.insert(handle, instance);
        handle
    }

    pub(crate) fn destroy_instance(&mut self, handle: u64) -> Option<Instance> {
        self.instances.remove(&handle)
    }

    /// `None` when the stream is not known or captures already.
    pub(crate) fn begin_capture(&mut self, stream: u64) -> Option<CaptureId> {
        let stream = self.by_handle.get_mut(&stream).filter(|stream| stream.capture.is_none())?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        stream.capture = Some(id);
        self.captures.insert(id, 0);
        CAPTURES.fetch_add(1, Ordering::Relaxed);
        Some(id)
    }

    /// Ends the capture for every stream that joined it; returns the graph.
    pub(crate) fn end_capture(&mut self, stream: u64) -> Option<u64> {
        let capture = self.capture_of(stream)?;
        for stream in self.by_handle.values_mut().filter(|s| s.capture == Some(capture)) {
            stream.capture = None;
        }
        let nodes = self.captures.remove(&capture)?;
        CAPTURES.fetch_sub(1, Ordering::Relaxed);
        Some(self.create_graph(Graph { nodes }))
    }

    /// A wait for a stream: during a capture it is not allowed, and invalidates the capture.
    pub(crate) fn may_wait_for(&mut self, stream: u64) -> bool {
        let capture = self.capture_of(stream);
        self.broken.extend(capture);
        capture.is_none()
    }

    /// Whether the capture of a stream was broken; it is not asked about again.
    pub(crate) fn take_broken(&mut self, stream: u64) -> bool {
        self.capture_of(stream).is_some_and(|capture| self.broken.remove(&capture))
    }

    pub(crate) fn create_graph(&mut self, graph: Graph) -> u64 {
        let handle = new_handle();
        self.graphs.insert(handle, graph);
        handle
    }

    pub(crate) fn graph(&self, handle: u64) -> Option<Graph> {
        self.graphs.get(&handle).copied()
    }

    pub(crate) fn destroy_graph(&mut self, handle: u64) {
        self.graphs.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_stream_breaks_its_capture() {
        let mut streams = Streams::default();
        let (main, other) = (streams.create_stream(0, 0, 1), streams.create_stream(0, 0, 1));
        streams.begin_capture(main).expect("it does not capture yet");
        assert!(streams.may_wait_for(other) && !streams.take_broken(main));
        assert!(!streams.may_wait_for(main));
        assert!(streams.take_broken(main));
        assert!(streams.end_capture(main).is_some() && streams.may_wait_for(main));
    }

    #[test]
    fn a_stream_joins_a_capture_by_its_event_and_leaves_with_it() {
        let mut streams = Streams::default();
        let (main, side) = (streams.create_stream(0, 0, 1), streams.create_stream(0, 0, 1));
        let id = streams.begin_capture(main).expect("it does not capture yet");
        assert_eq!(streams.begin_capture(main), None);
        let event = streams.create_event();
        streams.record(event, main);
        streams.wait(side, event);
        assert_eq!(streams.capture_of(side), Some(id));
        assert!(streams.end_capture(main).is_some());
        assert_eq!((streams.capture_of(main), streams.capture_of(side)), (None, None));
        streams.wait(side, event);
        assert_eq!(streams.capture_of(side), None, "the capture is over");
    }
}
