//! Properties of every program under any settings.

use std::collections::{BTreeMap, HashMap};

use floodmark_allocator::{
    AllocatorConfig, BlockState, Layout, Limit, Observer, Program, Request, Run, Settings,
    Statistics, TorchVersion, replay, simulate,
};
use floodmark_trace::journal::FLAG_DEFERRED;
use floodmark_trace::{AllocationId, Bytes, EventKind, Trace};
use proptest::prelude::*;

use crate::script::{GPU, TraceRecorder};

#[derive(Debug, Clone)]
enum Step {
    Alloc {
        bytes: u64,
        stream: u64,
        pool: u64,
    },
    /// The n-th of the live ones.
    Free(usize),
    FreeLater(usize),
    Complete(usize),
    EmptyCache,
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..4096, 1_u64..2_000_000, 1_u64..60_000_000, Just(1 << 20), Just(10 << 20)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let alloc = (sizes(), 0_u64..2, prop_oneof![9 => Just(0_u64), 1 => Just(3)])
        .prop_map(|(bytes, stream, pool)| Step::Alloc { bytes, stream, pool });
    let step = prop_oneof![
        6 => alloc,
        4 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::FreeLater),
        1 => any::<usize>().prop_map(Step::Complete),
        1 => Just(Step::EmptyCache),
    ];
    proptest::collection::vec(step, 1..120)
}

fn all_settings() -> impl Strategy<Value = Settings> {
    let conf = prop_oneof![
        Just(""),
        Just("expandable_segments:True"),
        Just("max_split_size_mb:32"),
        Just("roundup_power2_divisions:4"),
        Just("garbage_collection_threshold:0.6"),
        Just("expandable_segments:True,max_split_size_mb:32"),
    ];
    let version = prop_oneof![Just(4), Just(9), Just(11), Just(12), Just(13)];
    let limit = proptest::option::of(50_u64..400);
    (conf, version, limit).prop_map(|(conf, minor, limit)| {
        let version = TorchVersion::new(2, minor);
        Settings {
            config: AllocatorConfig::parse(conf, version).expect("valid"),
            limit: limit.map(|mib| Limit { bytes: Bytes(mib << 20), is_fraction: true }),
            uses_recorded_addresses: false,
        }
    })
}

fn trace_of(steps: &[Step]) -> Trace {
    let mut trace = TraceRecorder::new();
    let (mut live, mut pending): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for (at, step) in steps.iter().enumerate() {
        match *step {
            Step::Alloc { bytes, stream, pool } => {
                trace.alloc(&at.to_string(), bytes, stream, pool);
                live.push(at);
            }
            Step::Free(n) if !live.is_empty() => {
                let name = live.swap_remove(n % live.len());
                trace.about(EventKind::Free, &name.to_string(), 0);
            }
            Step::FreeLater(n) if !live.is_empty() => {
                let name = live.swap_remove(n % live.len());
                trace.about(EventKind::Free, &name.to_string(), FLAG_DEFERRED);
                pending.push(name);
            }
            Step::Complete(n) if !pending.is_empty() => {
                let name = pending.swap_remove(n % pending.len());
                trace.about(EventKind::FreeCompleted, &name.to_string(), 0);
            }
            Step::EmptyCache => trace.empty_cache(),
            Step::Free(_) | Step::FreeLater(_) | Step::Complete(_) => {}
        }
    }
    trace.finish().0
}

fn run(steps: &[Step], settings: &Settings) -> Run {
    simulate(&Program::new(&trace_of(steps), GPU), settings, &mut ())
}

fn sum(layout: &Layout, state: BlockState) -> u64 {
    let blocks = layout.segments.iter().flat_map(|segment| &segment.blocks);
    blocks.filter(|block| block.state == state).map(|block| block.bytes.0).sum()
}

/// Checks the figures after every request.
#[derive(Default)]
struct Watch {
    limit: Option<u64>,
    is_expandable: bool,
    wrong: Option<String>,
}

impl Observer for Watch {
    fn after(&mut self, event: u32, stats: &Statistics) {
        let [allocated, active, reserved] =
            [stats.allocated_bytes, stats.active_bytes, stats.reserved_bytes]
                .map(|s| s.all.current);
        if allocated > active || active > reserved {
            self.wrong = Some(format!("{allocated} {active} {reserved} after {event}"));
        }
        // An expandable segment may grow by less than the request, and by up to a page beyond the limit.
        if !self.is_expandable && self.limit.is_some_and(|limit| reserved > limit) {
            self.wrong = Some(format!("{reserved} reserved after {event}"));
        }
    }
}

proptest! {
    #[test]
    fn blocks_tile_segments(steps in steps(), settings in all_settings()) {
        for segment in run(&steps, &settings).layout.segments {
            let mut at = segment.addr;
            for block in &segment.blocks {
                prop_assert_eq!(block.addr, at);
                at += block.bytes.0;
            }
            prop_assert_eq!(at, segment.addr + segment.bytes.0);
        }
    }

    /// Otherwise the simulation would cause fragmentation of its own.
    #[test]
    fn free_neighbours_are_merged(steps in steps(), settings in all_settings()) {
        for segment in run(&steps, &settings).layout.segments {
            for pair in segment.blocks.windows(2) {
                prop_assert!(pair.iter().any(|block| block.state != BlockState::Free));
            }
        }
    }

    #[test]
    fn segments_do_not_overlap(steps in steps(), settings in all_settings()) {
        let segments = run(&steps, &settings).layout.segments;
        for pair in segments.windows(2) {
            prop_assert!(pair[0].addr + pair[0].bytes.0 <= pair[1].addr);
        }
    }

    #[test]
    fn the_figures_are_those_of_the_blocks(steps in steps(), settings in all_settings()) {
        let run = run(&steps, &settings);
        let allocated = sum(&run.layout, BlockState::Allocated);
        let pending = sum(&run.layout, BlockState::Pending);
        let reserved: u64 = run.layout.segments.iter().map(|segment| segment.bytes.0).sum();
        prop_assert_eq!(run.stats.allocated_bytes.all.current, allocated);
        prop_assert_eq!(run.stats.active_bytes.all.current, allocated + pending);
        prop_assert_eq!(run.stats.reserved_bytes.all.current, reserved);
        for (name, stat) in [("allocated", run.stats.allocated_bytes), ("split", run.stats.inactive_split_bytes)] {
            let parts = stat.small_pool.current + stat.large_pool.current;
            prop_assert_eq!(stat.all.current, parts, "{}", name);
            prop_assert_eq!(stat.all.allocated - stat.all.freed, stat.all.current, "{}", name);
        }
    }

    #[test]
    fn reserved_is_at_least_active_and_at_most_the_limit(steps in steps(), settings in all_settings()) {
        let mut watch = Watch {
            limit: settings.limit.map(|limit| limit.bytes.0),
            is_expandable: settings.config.expandable_segments,
            wrong: None,
        };
        simulate(&Program::new(&trace_of(&steps), GPU), &settings, &mut watch);
        prop_assert_eq!(watch.wrong, None);
    }

    /// The replay of a recorded simulation has the same blocks as the simulation.
    #[test]
    fn replay_of_a_simulation_is_the_simulation(steps in steps(), settings in all_settings()) {
        let program = Program::new(&trace_of(&steps), GPU);
        let mut recorder = Recorder::new(&program);
        let run = simulate(&program, &settings, &mut recorder);
        let trace = recorder.finish();
        let replayed = replay(&trace, GPU, &settings.config, u32::MAX, |_, _| {});
        prop_assert_eq!(replayed.unplaced, 0);
        let (ours, theirs) = (&replayed.stats, &run.stats);
        prop_assert_eq!(ours.allocated_bytes.all, theirs.allocated_bytes.all);
        prop_assert_eq!(ours.active_bytes.all, theirs.active_bytes.all);
        prop_assert_eq!(ours.reserved_bytes.all, theirs.reserved_bytes.all);
        prop_assert_eq!(ours.inactive_split_bytes.all, theirs.inactive_split_bytes.all);
        prop_assert_eq!(blocks(&replayed.layout), blocks(&run.layout));
    }
}

fn blocks(layout: &Layout) -> BTreeMap<u64, (u64, bool)> {
    let blocks = layout.segments.iter().flat_map(|segment| &segment.blocks);
    blocks.map(|block| (block.addr, (block.bytes.0, block.state == BlockState::Free))).collect()
}

/// Records a simulation.
struct Recorder {
    trace: TraceRecorder,
    requests: HashMap<u32, Request>,
    requested: HashMap<u32, u64>,
    ids: HashMap<u32, AllocationId>,
}

impl Recorder {
    fn new(program: &Program) -> Self {
        let requested = program.requests.iter().filter_map(|(_, request)| match *request {
            Request::Alloc { owner, bytes, .. } => Some((owner, bytes)),
            Request::Free { .. }
            | Request::FreeLater { .. }
            | Request::Complete { .. }
            | Request::EmptyCache
            | Request::Failed { .. } => None,
        });
        Self {
            trace: TraceRecorder::new(),
            requests: program.requests.iter().copied().collect(),
            requested: requested.collect(),
            ids: HashMap::new(),
        }
    }

    fn segment(&mut self, kind: EventKind, addr: u64, bytes: u64) {
        let mut row = self.trace.row(kind);
        (row.addr, row.bytes) = (addr, bytes);
        self.trace.push(&row);
    }

    fn about(&mut self, kind: EventKind, owner: u32, flags: u8) {
        let Some(&id) = self.ids.get(&owner) else { return };
        let mut row = self.trace.row(kind);
        (row.allocation, row.flags) = (id, flags);
        self.trace.push(&row);
    }

    fn finish(self) -> Trace {
        self.trace.finish().0
    }
}

impl Observer for Recorder {
    fn placed(&mut self, owner: u32, addr: u64, bytes: u64) {
        let mut row = self.trace.row(EventKind::Alloc);
        (row.addr, row.bytes, row.slack) = (addr, bytes, bytes - self.requested[&owner]);
        let id = self.trace.push(&row).expect("an allocation");
        self.ids.insert(owner, id);
    }

    fn completed(&mut self, owner: u32) {
        self.about(EventKind::FreeCompleted, owner, 0);
    }

    fn segment_allocated(&mut self, addr: u64, bytes: u64, maps: bool) {
        let kind = if maps { EventKind::SegmentMap } else { EventKind::SegmentAlloc };
        self.segment(kind, addr, bytes);
    }

    fn segment_freed(&mut self, addr: u64, bytes: u64, maps: bool) {
        let kind = if maps { EventKind::SegmentUnmap } else { EventKind::SegmentFree };
        self.segment(kind, addr, bytes);
    }

    fn after(&mut self, event: u32, _: &Statistics) {
        match self.requests[&event] {
            Request::Free { owner } => self.about(EventKind::Free, owner, 0),
            Request::FreeLater { owner } => self.about(EventKind::Free, owner, FLAG_DEFERRED),
            Request::Alloc { .. }
            | Request::Complete { .. }
            | Request::EmptyCache
            | Request::Failed { .. } => {}
        }
    }
}
