//! What happened up to any moment, without following all that was before it.
//!
//! The heap is kept from time to time. A heap is copied once for many times as many events as it has blocks,
//! so all copies together stay small beside the trace.

use floodmark_trace::{Device, Trace};

use crate::config::AllocatorConfig;
use crate::program::Program;

use super::{Follower, Memory, Replay, Sizes};

/// No two copies are nearer than this number of events.
const EVERY: u32 = 1 << 17;
/// Nor than this number for each block.
const EVENTS_A_BLOCK: usize = 16;

/// The memory of a device at some moments.
#[derive(Debug, Clone)]
pub struct ReplayIndex {
    device: Device,
    config: AllocatorConfig,
    streams: Vec<u64>,
    /// After how many events, and the memory then.
    known: Vec<(u32, Memory)>,
}

impl ReplayIndex {
    /// Follows all events of a device once.
    pub fn new(trace: &Trace, device: Device, config: AllocatorConfig) -> Self {
        Self::with_interval(trace, device, config, EVERY)
    }

    /// The same, with copies at least this number of events apart: fewer make it larger, and answers quicker.
    pub fn with_interval(
        trace: &Trace,
        device: Device,
        config: AllocatorConfig,
        events: u32,
    ) -> Self {
        let mut follower = Follower::new(trace, device, &config, Sizes::Recorded);
        let all = u32::try_from(trace.events.len()).unwrap_or(u32::MAX);
        let mut known = vec![(0, follower.memory.clone())];
        let mut done = 0;
        while done < all {
            let blocks = follower.memory.heap.room().saturating_mul(EVENTS_A_BLOCK);
            let wait = u32::try_from(blocks).unwrap_or(u32::MAX).max(events.max(1));
            let next = done.saturating_add(wait).min(all);
            follower.follow(done, next, |_, _| {});
            done = next;
            known.push((done, follower.memory.clone()));
        }
        let streams = Program::streams_of(trace, device);
        Self { device, config, streams, known }
    }

    /// The memory after the first `count` events of the trace, which must be the one of this index.
    pub fn after(&self, trace: &Trace, count: u32) -> Replay {
        let at = self.known.partition_point(|(done, _)| *done <= count).saturating_sub(1);
        let (done, memory) = &self.known[at];
        let mut follower = Follower::resume(trace, self.device, &self.config, memory.clone());
        follower.follow(*done, count, |_, _| {});
        follower.memory.into_replay(&self.streams)
    }
}
