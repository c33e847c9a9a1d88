//! The memory at any time, without a replay from the start.
//!
//! The index has copies of the heap. The events between two copies are many times more than the blocks of a copy, so that
//! all copies together are small compared with the trace.

use floodmark_trace::{Device, Trace};

use crate::config::AllocatorConfig;
use crate::program::Program;

use super::{Memory, Replay, Replayer, Sizes};

/// The least number of events between two copies.
const EVERY: u32 = 1 << 17;
/// The least number of events between two copies, for each block.
const EVENTS_PER_BLOCK: usize = 16;

/// The memory of a device at several times.
#[derive(Debug, Clone)]
pub struct ReplayIndex {
    device: Device,
    config: AllocatorConfig,
    streams: Vec<u64>,
    /// Copies, each with the number of events before it.
    copies: Vec<(u32, Memory)>,
}

impl ReplayIndex {
    /// Replays all events of a device once.
    pub fn new(trace: &Trace, device: Device, config: AllocatorConfig) -> Self {
        Self::with_interval(trace, device, config, EVERY)
    }

    /// The same, with copies that are at least `events` apart. Fewer events make the index larger and answers faster.
    pub fn with_interval(
        trace: &Trace,
        device: Device,
        config: AllocatorConfig,
        events: u32,
    ) -> Self {
        let mut replayer = Replayer::new(trace, device, &config, Sizes::Recorded);
        let all = u32::try_from(trace.events.len()).unwrap_or(u32::MAX);
        let mut copies = vec![(0, replayer.memory.clone())];
        let mut done = 0;
        while done < all {
            let blocks = replayer.memory.heap.capacity().saturating_mul(EVENTS_PER_BLOCK);
            let wait = u32::try_from(blocks).unwrap_or(u32::MAX).max(events.max(1));
            let next = done.saturating_add(wait).min(all);
            replayer.apply_events(done, next, |_, _| {});
            done = next;
            copies.push((done, replayer.memory.clone()));
        }
        let streams = Program::streams_of(trace, device);
        Self { device, config, streams, copies }
    }

    /// The memory after the first `count` events of the trace of this index.
    pub fn after(&self, trace: &Trace, count: u32) -> Replay {
        let at = self.copies.partition_point(|(done, _)| *done <= count).saturating_sub(1);
        let (done, memory) = &self.copies[at];
        let mut replayer = Replayer::resume(trace, self.device, &self.config, memory.clone());
        replayer.apply_events(*done, count, |_, _| {});
        replayer.memory.into_replay(&self.streams)
    }
}
