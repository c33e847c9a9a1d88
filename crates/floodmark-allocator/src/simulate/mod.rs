//! What would have happened: the requests of a program under other settings.
//!
//! One file per part of the allocator, in the order of `malloc` in `CUDACachingAllocator.cpp`:
//!
//! - [`search`]: a free block that fits (`get_free_block`).
//! - [`malloc`]: from a request to a block (`malloc`), with a new segment if needed (`alloc_block`).
//! - [`expandable`]: segments that grow (`try_allocate_expandable_block`, `map_block`, `unmap_block`).
//! - [`online`]: one request at a time, for a program that runs.
//! - [`release`]: segments freed to the driver (`release_cached_blocks`, `garbage_collect_cached_blocks`, …).
//!
//! The simulation decides. The heap splits, merges and counts blocks.

mod driver;
mod expandable;
mod free_set;
mod malloc;
mod online;
mod pools;
mod release;
mod search;

use std::collections::VecDeque;

use floodmark_trace::Bytes;

use crate::config::AllocatorConfig;
use crate::heap::{Block, BlockId, BlockState, Heap};
use crate::layout::Layout;
use crate::program::{Limit, Program, Request};
use crate::sizes;
use crate::stats::Statistics;
use driver::Driver;
use pools::Pools;

pub use online::{Online, Placed};

/// The settings of a simulation.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The allocator's settings.
    pub config: AllocatorConfig,
    /// The limit on reserved bytes; `None` for no limit.
    pub limit: Option<Limit>,
    /// Whether segments get the recorded addresses, as long as the same segments are requested. Otherwise
    /// `floodmark-cuda-model` places them.
    pub uses_recorded_addresses: bool,
}

/// A failed allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The event of the request.
    pub event: u32,
    /// The requested bytes.
    pub requested: Bytes,
    /// The segment that the allocator requested from the driver.
    pub segment: Bytes,
}

/// The result of a simulation.
#[derive(Debug, Clone)]
pub struct Run {
    /// The figures of `memory_stats()` at the end.
    pub stats: Statistics,
    /// The request that fails. The simulation ends there.
    pub oom: Option<Failure>,
    /// Requests that failed in the recording and fail in the simulation. The program continued after them.
    pub failed_again: Vec<Failure>,
    /// The events of requests that failed in the recording and succeed in the simulation.
    pub met: Vec<u32>,
    /// The segments and blocks at the end.
    pub layout: Layout,
}

/// Receives the steps of a simulation.
pub trait Observer {
    /// A block was allocated.
    fn placed(&mut self, _owner: u32, _addr: u64, _bytes: u64) {}
    /// A pending free was completed.
    fn completed(&mut self, _owner: u32) {}
    /// A segment was allocated from the driver, or pages of an expandable segment were mapped (`maps`).
    fn segment_allocated(&mut self, _addr: u64, _bytes: u64, _maps: bool) {}
    /// A segment was freed to the driver, or pages were unmapped.
    fn segment_freed(&mut self, _addr: u64, _bytes: u64, _maps: bool) {}
    /// A request failed.
    fn failed(&mut self, _failure: Failure) {}
    /// A request is done; `stats` are the figures after it.
    fn after(&mut self, _event: u32, _stats: &Statistics) {}
}

impl Observer for () {}

impl<O: Observer> Observer for &mut O {
    fn placed(&mut self, owner: u32, addr: u64, bytes: u64) {
        (**self).placed(owner, addr, bytes);
    }
    fn completed(&mut self, owner: u32) {
        (**self).completed(owner);
    }
    fn segment_allocated(&mut self, addr: u64, bytes: u64, maps: bool) {
        (**self).segment_allocated(addr, bytes, maps);
    }
    fn segment_freed(&mut self, addr: u64, bytes: u64, maps: bool) {
        (**self).segment_freed(addr, bytes, maps);
    }
    fn failed(&mut self, failure: Failure) {
        (**self).failed(failure);
    }
    fn after(&mut self, event: u32, stats: &Statistics) {
        (**self).after(event, stats);
    }
}

/// Simulates the requests of a program.
pub fn simulate<O: Observer>(program: &Program, settings: &Settings, observer: &mut O) -> Run {
    let mut simulator = Simulator::new(program, settings, observer);
    simulator.place_initial_blocks(program);
    for &(event, request) in &program.requests {
        if !simulator.carry_out(event, request) {
            break;
        }
        simulator.observer.after(event, &simulator.heap.stats);
    }
    simulator.finish(program)
}

#[derive(Debug)]
struct Simulator<O> {
    config: AllocatorConfig,
    limit: Option<Limit>,
    heap: Heap<Pools>,
    driver: Driver,
    /// The block of each allocation.
    blocks: Vec<BlockId>,
    /// Allocations whose free is pending, oldest first.
    pending: VecDeque<u32>,
    /// `total_allocated_memory`.
    reserved: u64,
    next_age: u32,
    oom: Option<Failure>,
    failed_again: Vec<Failure>,
    met: Vec<u32>,
    observer: O,
}

/// `AllocParams`: a request with its rounded size and its segment.
#[derive(Debug, Clone, Copy)]
struct AllocParams {
    requested: u64,
    size: u64,
    segment: u64,
    stream: u16,
    pool: u16,
    is_small: bool,
}

impl<O: Observer> Simulator<O> {
    fn new(program: &Program, settings: &Settings, observer: O) -> Self {
        let config = settings.config.clone();
        let pools = Pools::new(program.pools, program.streams.len(), config.version);
        let recorded =
            if settings.uses_recorded_addresses { &program.recorded_segments[..] } else { &[] };
        Self {
            limit: settings.limit,
            heap: Heap::new(pools, config.max_split),
            config,
            driver: Driver::new(recorded.iter().copied()),
            blocks: vec![BlockId::NONE; program.owners as usize],
            pending: VecDeque::new(),
            reserved: 0,
            next_age: 0,
            oom: None,
            failed_again: Vec::new(),
            met: Vec::new(),
            observer,
        }
    }

    /// Requests the blocks that were live before the first request, in the order of addresses.
    fn place_initial_blocks(&mut self, program: &Program) {
        let mut blocks = program.initial_blocks.clone();
        blocks.sort_by_key(|block| block.addr);
        for block in blocks {
            let params = self.alloc_params(block.requested.max(1), block.stream, block.pool);
            if let Some(id) = self.malloc(&params, block.owner) {
                self.blocks[block.owner as usize] = id;
            }
        }
    }

    /// Simulates one request. Returns whether the program continues.
    fn carry_out(&mut self, event: u32, request: Request) -> bool {
        match request {
            Request::Alloc { owner, bytes, stream, pool } => {
                // A request of 0 bytes gets no block.
                if bytes == 0 {
                    return true;
                }
                let params = self.alloc_params(bytes, stream, pool);
                let Some(id) = self.malloc(&params, owner) else {
                    self.oom = Some(self.fail(event, &params));
                    return false;
                };
                self.blocks[owner as usize] = id;
                let block = self.heap.block(id);
                self.observer.placed(owner, block.addr, block.size);
            }
            Request::Free { owner } => {
                if let Some(id) = self.take_block(owner) {
                    self.heap.request_free(id);
                    self.heap.complete(id);
                }
            }
            Request::FreeLater { owner } => {
                if let Some(id) = self.blocks[owner as usize].some() {
                    self.heap.request_free(id);
                    self.pending.push_back(owner);
                }
            }
            Request::Complete { owner } => {
                if self.pending.contains(&owner) {
                    self.pending.retain(|&other| other != owner);
                    self.complete(owner);
                }
            }
            Request::EmptyCache => self.release_cached_blocks(),
            Request::Failed { bytes, stream, pool } => {
                let params = self.alloc_params(bytes, stream, pool);
                if let Some(id) = self.malloc(&params, u32::MAX) {
                    // What the program does with the block is unknown.
                    self.met.push(event);
                    self.heap.request_free(id);
                    self.heap.complete(id);
                } else {
                    let failure = self.fail(event, &params);
                    self.failed_again.push(failure);
                }
            }
        }
        true
    }

    fn alloc_params(&self, requested: u64, stream: u16, pool: u16) -> AllocParams {
        let size = sizes::round(requested.min(sizes::ABSURD), &self.config);
        let segment = sizes::segment_for(size, &self.config);
        AllocParams { requested, size, segment, stream, pool, is_small: sizes::is_small(size) }
    }

    fn fail(&mut self, event: u32, params: &AllocParams) -> Failure {
        let (requested, segment) = (Bytes(params.requested), Bytes(params.segment));
        let failure = Failure { event, requested, segment };
        self.observer.failed(failure);
        failure
    }

    fn take_block(&mut self, owner: u32) -> Option<BlockId> {
        std::mem::replace(&mut self.blocks[owner as usize], BlockId::NONE).some()
    }

    fn complete(&mut self, owner: u32) {
        if let Some(id) = self.take_block(owner) {
            self.heap.complete(id);
            self.observer.completed(owner);
        }
    }

    /// The age of a new block or segment.
    fn new_age(&mut self) -> u32 {
        self.next_age += 1;
        self.next_age - 1
    }

    fn finish(self, program: &Program) -> Run {
        let is_mapped = |block: &Block| block.state != BlockState::Unmapped;
        let layout = Layout::from_heap(&self.heap, &program.streams, is_mapped);
        Run {
            stats: self.heap.stats,
            oom: self.oom,
            failed_again: self.failed_again,
            met: self.met,
            layout,
        }
    }
}
