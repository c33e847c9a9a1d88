//! The journal: events in shared file mappings, which survive the process.
//!
//! From the bottom up: `bus_error` keeps the program alive when a file is truncated; `mapping` maps a file; [`chunks`]
//! creates and recycles the parts that threads write; `position` is where a thread writes; [`merge`] reads the chunks of
//! all threads in the order of time.

pub(crate) mod bus_error;
pub(crate) mod chunks;
mod mapping;
pub(crate) mod merge;
mod position;

use floodmark_trace::journal::Seed;
use parking_lot::Mutex;

pub(crate) use position::Position;

use crate::clock::Clock;
use chunks::Chunks;

/// The journal of one recorder.
#[derive(Debug)]
pub(crate) struct Journal {
    /// The id of the recorder.
    pub(crate) id: u64,
    /// Where the checksums of its records start.
    pub(crate) seed: Seed,
    clock: Clock,
    pub(crate) chunks: Chunks,
    /// The chunk of threads without one of their own.
    pub(crate) shared: Mutex<Position>,
}

impl Journal {
    /// A journal whose time starts now.
    pub(crate) fn new(id: u64, chunks: Chunks) -> Self {
        let seed = Seed::of_session(id);
        Self { id, seed, clock: Clock::start(), chunks, shared: Mutex::default() }
    }

    /// Nanoseconds since the recorder started.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        self.clock.nanos()
    }

    /// A time of the system's clock, as nanoseconds since the recorder started.
    pub(crate) fn nanos_of(&self, monotonic_nanos: u64) -> u64 {
        self.clock.nanos_of(monotonic_nanos)
    }
}
