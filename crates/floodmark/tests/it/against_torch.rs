//! Recordings of a GPU (`fixtures/recordings`): what we compute of them is what torch itself counted.
//!
//! Three ways: the totals of the opened trace, a replay of its events, and a simulation that sees the
//! requests alone and must come to everything else by itself.

use std::collections::HashMap;
use std::path::PathBuf;

use floodmark_allocator::{
    AllocatorConfig, BlockState, Failure, Limit, Observer, Program, Run, Settings, Statistics,
    TorchVersion, replay, simulate,
};
use floodmark_trace::{Bytes, Device, Subject, Trace};
use serde_json::Value;

const GPU: Device = Device::cuda(0);
const MIB: u64 = 1 << 20;
/// One program under several settings, and with too little memory.
const ALLOCATOR: [&str; 10] = [
    "default-emptycache",
    "default-graph",
    "default-oom",
    "default-streams",
    "default-tight",
    "default-varlen",
    "expandable-oom",
    "expandable-varlen",
    "expandable_pow2-varlen",
    "split64-varlen",
];
/// Models.
const ZOO: [&str; 10] = [
    "bert_amp",
    "gpt2_small_fp32",
    "llama1b_bf16",
    "llama1b_ckpt",
    "llama1b_infer",
    "lstm",
    "neumf",
    "resnet18_fp32",
    "resnet50_amp_cl",
    "t5_small",
];

/// A snapshot, and the figures of torch for the same run.
struct Recording {
    name: String,
    trace: Trace,
    truth: Value,
}

impl Recording {
    fn open(name: &str) -> Self {
        let trace =
            floodmark_files::traces::open_trace(&file(&format!("{name}.pickle.gz"))).unwrap();
        Self { name: name.to_owned(), trace, truth: truth(name) }
    }

    fn conf(&self) -> &str {
        self.truth["conf"].as_str().unwrap_or("")
    }

    fn config(&self) -> AllocatorConfig {
        config(self.conf())
    }
}

fn file(name: &str) -> PathBuf {
    let recordings = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings");
    PathBuf::from(recordings).join(name)
}

fn truth(name: &str) -> Value {
    let text = std::fs::read_to_string(file(&format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What `set_per_process_memory_fraction` left in a recording.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "PyTorch computes the limit in floating point too"
)]
fn limit(truth: &Value) -> u64 {
    (truth["fraction"].as_f64().unwrap() * truth["total"].as_u64().unwrap() as f64) as u64
}

fn config(conf: &str) -> AllocatorConfig {
    AllocatorConfig::parse(conf, TorchVersion::CHECKED).expect(conf)
}

fn allocator() -> impl Iterator<Item = Recording> {
    ALLOCATOR.iter().map(|name| Recording::open(&format!("allocator/{name}")))
}

fn zoo() -> impl Iterator<Item = Recording> {
    ZOO.iter().map(|name| Recording::open(&format!("zoo/{name}")))
}

fn peaks(trace: &Trace) -> (u64, u64) {
    let device = floodmark_analysis::summary(trace);
    let device = device.devices.iter().find(|device| device.device == GPU).unwrap();
    (device.peak.0, device.reserved_peak.unwrap().0)
}

/// The totals at the end, as the trace tells them.
fn at_end(trace: &Trace) -> (u64, u64) {
    let context = floodmark_analysis::Context::new(trace);
    let end = floodmark_analysis::moment(trace, &context, GPU, floodmark_analysis::At::End);
    let end = end.unwrap();
    (end.allocated.0, end.reserved.unwrap().0)
}

#[test]
fn the_totals_of_a_snapshot_are_those_of_memory_stats() {
    for Recording { name, trace, truth } in allocator() {
        let stat = |name: &str| truth["stats"][name].as_u64().unwrap();
        let pair = |which: &str| {
            (
                stat(&format!("allocated_bytes.all.{which}")),
                stat(&format!("reserved_bytes.all.{which}")),
            )
        };
        assert_eq!(peaks(&trace), pair("peak"), "{name}");
        assert_eq!(at_end(&trace), pair("current"), "{name}");
    }
}

#[test]
fn the_peaks_of_a_model_are_those_of_its_phases() {
    for Recording { name, trace, truth } in zoo() {
        let steps = truth["steps"].as_array().unwrap();
        let most = |which: &str| {
            let phases = steps.iter().flat_map(|step| step.as_object().unwrap().values());
            phases.filter_map(|phase| phase.get(which)?.as_u64()).max().unwrap()
        };
        assert_eq!(peaks(&trace), (most("peak"), most("peak_reserved")), "{name}");
        let last = |which: &str| truth[which].as_u64().unwrap();
        assert_eq!(at_end(&trace), (last("allocated"), last("reserved")), "{name}");
    }
}

#[test]
fn a_replay_ends_with_the_blocks_that_torch_had() {
    for recording in allocator().chain(zoo()) {
        let Recording { name, trace, .. } = &recording;
        let replayed = replay(trace, GPU, &recording.config(), u32::MAX, |_, _| {});
        assert_eq!(replayed.unplaced, 0, "{name}");
        let mut found = Vec::new();
        for segment in &replayed.layout.segments {
            let kind = if segment.is_small { "small" } else { "large" };
            let (addr, bytes, stream) = (segment.addr, segment.bytes.0, segment.stream);
            found.push(format!("segment {addr:x} {bytes} {stream:x} {kind}"));
            for block in &segment.blocks {
                let state = match block.state {
                    BlockState::Allocated => 'a',
                    BlockState::Pending => 'p',
                    BlockState::Free => 'f',
                    BlockState::Unmapped => '?',
                };
                found.push(format!("{:x} {} {state}", block.addr, block.bytes.0));
            }
        }
        let torch = std::fs::read_to_string(file(&format!("{name}.blocks"))).unwrap();
        assert_same(name, &found, &torch.lines().collect::<Vec<_>>());
    }
}

/// One thing that the allocator did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Did {
    Take { addr: u64, bytes: u64, maps: bool },
    GiveBack { addr: u64, bytes: u64, maps: bool },
    Place { owner: u32, addr: u64, bytes: u64 },
    Complete { owner: u32 },
    Fail { bytes: u64 },
}

#[derive(Default)]
struct Log(Vec<Did>);

impl Observer for Log {
    fn placed(&mut self, owner: u32, addr: u64, bytes: u64) {
        self.0.push(Did::Place { owner, addr, bytes });
    }
    fn completed(&mut self, owner: u32) {
        self.0.push(Did::Complete { owner });
    }
    fn segment_allocated(&mut self, addr: u64, bytes: u64, maps: bool) {
        self.0.push(Did::Take { addr, bytes, maps });
    }
    fn segment_freed(&mut self, addr: u64, bytes: u64, maps: bool) {
        self.0.push(Did::GiveBack { addr, bytes, maps });
    }
    fn failed(&mut self, failure: Failure) {
        self.0.push(Did::Fail { bytes: failure.requested.0 });
    }
}

/// What the recording says that the allocator did.
fn recorded(trace: &Trace) -> Vec<Did> {
    let segment = |at: u32| {
        let segment = &trace.segments[at as usize];
        (segment.addr.0, segment.bytes.0)
    };
    let take = |at: u32, maps: bool| {
        let (addr, bytes) = segment(at);
        Some(Did::Take { addr, bytes, maps })
    };
    let free_segment = |at: u32, maps: bool| {
        let (addr, bytes) = segment(at);
        Some(Did::GiveBack { addr, bytes, maps })
    };
    let did =
        trace.events.iter().filter(|event| event.device == GPU).filter_map(|event| {
            match event.subject {
                Subject::Alloc(id) => {
                    let made = &trace.allocations[id.index()];
                    Some(Did::Place { owner: id.0, addr: made.addr.0, bytes: made.rounded.0 })
                }
                Subject::FreeCompleted(id) => Some(Did::Complete { owner: id.0 }),
                Subject::SegmentAlloc(at) => take(at, false),
                Subject::SegmentMap(at) => take(at, true),
                Subject::SegmentFree(at) => free_segment(at, false),
                Subject::SegmentUnmap(at) => free_segment(at, true),
                Subject::Oom(at) => Some(Did::Fail { bytes: trace.ooms[at as usize].requested.0 }),
                Subject::Free { .. }
                | Subject::FreeUnknown(_)
                | Subject::InitialSegment(_)
                | Subject::Reserved(_)
                | Subject::Label { .. }
                | Subject::Saved(_)
                | Subject::Unpacked(_)
                | Subject::Step(_)
                | Subject::Mark(_)
                | Subject::PhaseBegin(_)
                | Subject::PhaseEnd(_)
                | Subject::OptimizerBegin
                | Subject::OptimizerEnd => None,
            }
        });
    did.collect()
}

/// Expandable segments lie where the driver gives them address space, which a recording does not tell:
/// each stretch of a simulation stands for the recorded one that its first piece lies in.
#[derive(Default)]
struct Renaming(HashMap<u64, u64>);

impl Renaming {
    /// The distance between the invented stretches is a power of two.
    const STRETCH: u32 = 42;

    fn rename(&mut self, did: Did, like: Did) -> Did {
        let place = |did: Did| match did {
            Did::Take { addr, .. } | Did::GiveBack { addr, .. } | Did::Place { addr, .. } => addr,
            Did::Complete { .. } | Did::Fail { .. } => 0,
        };
        let shift = place(like).wrapping_sub(place(did));
        let shift = *self.0.entry(place(did) >> Self::STRETCH).or_insert(shift);
        let moved = |addr: u64| addr.wrapping_add(shift);
        match did {
            Did::Take { addr, bytes, maps } => Did::Take { addr: moved(addr), bytes, maps },
            Did::GiveBack { addr, bytes, maps } => Did::GiveBack { addr: moved(addr), bytes, maps },
            Did::Place { owner, addr, bytes } => Did::Place { owner, addr: moved(addr), bytes },
            Did::Complete { .. } | Did::Fail { .. } => did,
        }
    }
}

fn as_recorded(recording: &Recording) -> (Run, Vec<Did>) {
    let program = Program::new(&recording.trace, GPU);
    let config = recording.config();
    let settings = Settings { config, limit: program.limit, uses_recorded_addresses: true };
    let mut log = Log::default();
    let run = simulate(&program, &settings, &mut log);
    (run, log.0)
}

#[test]
fn a_simulation_under_the_recorded_settings_is_the_recording() {
    for recording in allocator().chain(zoo()) {
        let (run, mut did) = as_recorded(&recording);
        let torch = recorded(&recording.trace);
        if recording.conf().contains("expandable_segments:True") {
            let mut renaming = Renaming::default();
            let pairs = did.iter().zip(&torch);
            did = pairs.map(|(&did, &like)| renaming.rename(did, like)).collect();
            assert!(renaming.0.len() < 8, "few segments, each moved as a whole");
        }
        assert_same(&recording.name, &did, &torch);
        assert_eq!(run.oom, None, "{}", recording.name);
        assert!(run.met.is_empty(), "{}", recording.name);
    }
}

#[test]
fn a_simulation_counts_what_memory_stats_counts() {
    for recording in allocator() {
        let (run, _) = as_recorded(&recording);
        let name = &recording.name;
        let retries = Program::new(&recording.trace, GPU).retries;
        assert_eq!(u64::from(retries), run.stats.num_alloc_retries, "{name}: as the events show");
        let flat: HashMap<String, u64> = run.stats.flat().into_iter().collect();
        let stats = recording.truth["stats"].as_object().unwrap();
        assert_eq!(stats.len(), 41, "{name}");
        for (stat, torch) in stats {
            assert_eq!(flat.get(stat).copied(), torch.as_u64(), "{stat} of {name}");
        }
    }
    for recording in zoo() {
        let (Run { stats, .. }, _) = as_recorded(&recording);
        let truth = |which: &str| recording.truth[which].as_u64().unwrap();
        let Statistics { reserved_bytes, allocated_bytes, segment, num_alloc_retries, .. } = stats;
        let found = [
            reserved_bytes.all.current,
            allocated_bytes.all.current,
            segment.all.current,
            num_alloc_retries,
        ];
        let torch = ["reserved", "allocated", "segments", "retries"].map(truth);
        assert_eq!(found, torch, "{}", recording.name);
    }
}

/// The requests of a recording under other settings; the driver's addresses are invented.
fn instead(recording: &Recording, conf: &str, limit: Option<u64>) -> Run {
    let program = Program::new(&recording.trace, GPU);
    let limit = limit.map(|bytes| Limit { bytes: Bytes(bytes), is_fraction: true });
    let settings = Settings { config: config(conf), limit, uses_recorded_addresses: false };
    simulate(&program, &settings, &mut ())
}

/// Peak reserved bytes, in MiB: by torch's own count where that configuration was recorded.
#[test]
fn one_recording_tells_what_other_settings_reserve() {
    let varlen = Recording::open("allocator/default-varlen");
    for (conf, mib, counted) in [
        ("", 6290, Some("default-varlen")),
        ("expandable_segments:True", 5282, Some("expandable-varlen")),
        ("max_split_size_mb:512", 8960, None),
        ("max_split_size_mb:64", 15494, Some("split64-varlen")),
        ("roundup_power2_divisions:8", 6572, None),
        ("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", 7502, None),
        ("garbage_collection_threshold:0.8", 6290, None),
        (
            "expandable_segments:True,roundup_power2_divisions:4",
            5528,
            Some("expandable_pow2-varlen"),
        ),
    ] {
        let run = instead(&varlen, conf, None);
        assert_eq!(run.stats.reserved_bytes.all.peak, mib * MIB, "{conf}");
        assert_eq!((run.oom, run.stats.num_alloc_retries), (None, 0), "{conf}");
        if let Some(name) = counted {
            let truth = truth(&format!("allocator/{name}"));
            assert_eq!(truth["conf"], conf);
            assert_eq!(truth["stats"]["reserved_bytes.all.peak"], mib * MIB, "{conf}");
        }
    }
}

#[test]
fn a_recording_shows_when_a_smaller_gpu_runs_out_of_memory() {
    let varlen = Recording::open("allocator/default-varlen");
    let tight = truth("allocator/default-tight");
    let limit = limit(&tight);
    assert_eq!(limit, 3_455_767_028);
    assert_eq!(tight["stats"]["reserved_bytes.all.peak"], 3184 * MIB);
    assert_eq!(tight["stats"]["num_alloc_retries"], 1);
    for (conf, mib) in [
        ("", 3184),
        ("expandable_segments:True", 3056),
        ("garbage_collection_threshold:0.8", 3184),
        ("max_split_size_mb:64", 3292),
    ] {
        let run = instead(&varlen, conf, Some(limit));
        assert_eq!(run.stats.reserved_bytes.all.peak, mib * MIB, "{conf}");
        let failed = run.oom.map(|failure| failure.requested);
        assert_eq!(failed, Some(Bytes(560_128_000)), "{conf}");
        assert_eq!(run.stats.num_alloc_retries, 1, "{conf}");
    }
}

#[test]
fn either_recording_of_a_failure_tells_of_the_other_settings() {
    for (driven_by, settings) in [("expandable", "default"), ("default", "expandable")] {
        let recording = Recording::open(&format!("allocator/{driven_by}-oom"));
        let truth = truth(&format!("allocator/{settings}-oom"));
        let run = instead(&recording, truth["conf"].as_str().unwrap(), Some(limit(&truth)));
        let stats = &truth["stats"];
        assert_eq!(
            run.stats.reserved_bytes.all.peak, stats["reserved_bytes.all.peak"],
            "{settings}"
        );
        assert_eq!(run.stats.num_alloc_retries, stats["num_alloc_retries"], "{settings}");
        assert_eq!(run.failed_again.len(), 1, "{settings}");
    }
}

/// Names the first difference, not thousands of lines.
fn assert_same<A, B>(name: &str, found: &[A], torch: &[B])
where
    A: PartialEq<B> + std::fmt::Debug,
    B: std::fmt::Debug,
{
    assert!(torch.len() > 50, "{name}: torch did something");
    let pairs = found.iter().zip(torch).enumerate();
    for (at, (found, torch)) in pairs {
        assert!(found == torch, "{name}, {at}: {found:?}, where torch has {torch:?}");
    }
    assert_eq!(found.len(), torch.len(), "{name}: one goes on where the other ends");
}
