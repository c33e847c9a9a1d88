//! The pools of a device: free blocks by size, and unmapped ones by address, for each stream.

use std::collections::BTreeMap;

use super::free_set::{FreeSet, Key};
use crate::heap::{Block, BlockId, BlockState, Index};
use crate::version::TorchVersion;

/// `BlockPool`: each memory pool has one of small and one of large blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    /// Free blocks, by stream.
    pub(super) free: Vec<FreeSet>,
    /// Unmapped address space of expandable segments, by stream.
    pub(super) unmapped: Vec<BTreeMap<u64, BlockId>>,
    /// `get_free_blocks_call_count`.
    pub(super) searches: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Pools {
    /// Two for each memory pool: large blocks, then small ones.
    all: Vec<Pool>,
    /// Whether blocks of one size are ordered by age: from 2.12 on.
    by_age: bool,
    /// Whether blocks of one size and age are ordered by address: not in 2.12.
    by_address: bool,
}

impl Pools {
    pub(super) fn new(count: u16, streams: usize, version: TorchVersion) -> Self {
        let pool = Pool {
            free: vec![FreeSet::default(); streams],
            unmapped: vec![BTreeMap::new(); streams],
            searches: 0,
        };
        Self {
            all: vec![pool; usize::from(count.max(1)) * 2],
            by_age: version.is_at_least(2, 12),
            by_address: version != TorchVersion::new(2, 12),
        }
    }

    pub(super) fn pool(&self, pool: u16, is_small: bool) -> &Pool {
        &self.all[usize::from(pool) * 2 + usize::from(is_small)]
    }

    pub(super) fn pool_mut(&mut self, pool: u16, is_small: bool) -> &mut Pool {
        &mut self.all[usize::from(pool) * 2 + usize::from(is_small)]
    }

    /// The order of `BlockComparatorSize`.
    fn key(&self, id: BlockId, block: &Block) -> Key {
        Key {
            size: block.size,
            age: if self.by_age { block.age } else { 0 },
            addr: if self.by_address { block.addr } else { 0 },
            block: id,
        }
    }
}

impl Index for Pools {
    fn insert(&mut self, id: BlockId, block: &Block) {
        let key = self.key(id, block);
        let stream = usize::from(block.stream);
        let pool = self.pool_mut(block.pool, block.is_small);
        if block.state == BlockState::Unmapped {
            pool.unmapped[stream].insert(block.addr, id);
        } else {
            pool.free[stream].insert(key);
        }
    }

    fn remove(&mut self, id: BlockId, block: &Block) {
        let key = self.key(id, block);
        let stream = usize::from(block.stream);
        let pool = self.pool_mut(block.pool, block.is_small);
        if block.state == BlockState::Unmapped {
            pool.unmapped[stream].remove(&block.addr);
        } else {
            pool.free[stream].remove(&key);
        }
    }

    fn searches(&self, block: &Block) -> u64 {
        self.pool(block.pool, block.is_small).searches
    }
}
