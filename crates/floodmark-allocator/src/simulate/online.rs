//! One request at a time: the allocator of a program that runs.

use crate::heap::BlockId;
use crate::program::{Limit, Program};
use crate::stats::Statistics;

use super::{Failure, Observer, Settings, Simulator};

/// A block that was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The number with which it is freed.
    pub owner: u32,
    /// Its address.
    pub addr: u64,
    /// Its size: the requested bytes, rounded up.
    pub bytes: u64,
}

/// The allocator of one device, with one stream and no pools but the default one.
#[derive(Debug)]
pub struct Online<O> {
    simulator: Simulator<O>,
    /// Numbers of freed blocks, which are reused.
    free: Vec<u32>,
    requests: u32,
}

impl<O: Observer> Online<O> {
    /// An allocator without blocks.
    pub fn new(settings: &Settings, observer: O) -> Self {
        let program = Program { streams: vec![0], pools: 1, ..Program::default() };
        let simulator = Simulator::new(&program, settings, observer);
        Self { simulator, free: Vec::new(), requests: 0 }
    }

    /// Allocates a block.
    pub fn alloc(&mut self, bytes: u64) -> Result<Placed, Failure> {
        self.requests = self.requests.wrapping_add(1);
        let params = self.simulator.alloc_params(bytes.max(1), 0, 0);
        let owner = self.free.pop().unwrap_or_else(|| {
            self.simulator.blocks.push(BlockId::NONE);
            u32::try_from(self.simulator.blocks.len() - 1).unwrap_or(u32::MAX)
        });
        let Some(id) = self.simulator.malloc(&params, owner) else {
            self.free.push(owner);
            return Err(self.simulator.fail(self.requests, &params));
        };
        self.simulator.blocks[owner as usize] = id;
        let block = self.simulator.heap.block(id);
        Ok(Placed { owner, addr: block.addr, bytes: block.size })
    }

    /// Frees a block.
    pub fn free(&mut self, owner: u32) {
        if let Some(id) = self.simulator.take_block(owner) {
            self.simulator.heap.request_free(id);
            self.simulator.heap.complete(id);
            self.free.push(owner);
        }
    }

    /// Limits the reserved bytes from now on; cached segments stay.
    pub fn set_limit(&mut self, limit: Limit) {
        self.simulator.limit = Some(limit);
    }

    /// `torch.cuda.empty_cache()`.
    pub fn empty_cache(&mut self) {
        self.simulator.release_cached_blocks();
    }

    /// The figures of `memory_stats()`.
    pub fn stats(&self) -> &Statistics {
        &self.simulator.heap.stats
    }

    /// `torch.cuda.reset_peak_memory_stats()`, for the figures of this allocator.
    pub fn reset_peaks(&mut self) {
        let stats = &mut self.simulator.heap.stats;
        stats.allocated_bytes.reset_peaks();
        stats.reserved_bytes.reset_peaks();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AllocatorConfig;
    use crate::version::TorchVersion;
    use floodmark_trace::Bytes;

    fn settings(limit: Option<u64>) -> Settings {
        let limit = limit.map(|bytes| Limit { bytes: Bytes(bytes), is_fraction: false });
        Settings {
            config: AllocatorConfig::default_of(TorchVersion::new(2, 11)),
            limit,
            uses_recorded_addresses: false,
        }
    }

    #[test]
    fn a_freed_block_is_allocated_again() {
        let mut allocator = Online::new(&settings(None), ());
        let first = allocator.alloc(1000).unwrap();
        assert_eq!(first.bytes, 1024);
        allocator.free(first.owner);
        let again = allocator.alloc(900).unwrap();
        assert_eq!((again.addr, again.owner), (first.addr, first.owner));
        assert_eq!(allocator.stats().reserved_bytes.all.current, 2 << 20);
    }

    #[test]
    fn a_failed_request_changes_nothing() {
        let mut allocator = Online::new(&settings(Some(64 << 20)), ());
        let first = allocator.alloc(40 << 20).unwrap();
        let failure = allocator.alloc(40 << 20).unwrap_err();
        assert_eq!(failure.requested, Bytes(40 << 20));
        allocator.free(first.owner);
        assert!(allocator.alloc(40 << 20).is_ok());
    }

    #[test]
    fn a_request_beyond_the_address_space_fails() {
        for expandable_segments in [false, true] {
            let mut settings = settings(None);
            settings.config.expandable_segments = expandable_segments;
            let mut allocator = Online::new(&settings, ());
            assert!(allocator.alloc(1 << 50).is_err());
            assert!(allocator.alloc(1 << 20).is_ok());
        }
    }
}
