//! The same requests under other settings of the allocator, or on another GPU.
//!
//! The requests of a program do not depend on the allocator's settings, so one recording answers for all
//! of them. The rules are checked first: under its own settings the simulation must agree with the
//! recording.

use floodmark_allocator::{
    AllocatorConfig, ConfigError, Failure, Limit, Program, Run, Settings, TorchVersion, simulate,
};
use floodmark_trace::{Bytes, Device, Losses, Subject, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::json_format::FORMAT;
use crate::moment::at::At;
use crate::moment::totals::peaks;
use crate::moment::{check_device, default_device};
use crate::question_error::QuestionError;

/// A failed allocation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FailedRequest {
    /// The number of the event.
    pub event: u32,
    /// The time, in seconds since the recording began.
    pub seconds: f64,
    /// The step, where there are steps.
    pub step: Option<u32>,
    /// The requested bytes.
    pub requested: Bytes,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RecordedRun {
    /// `PYTORCH_CUDA_ALLOC_CONF`.
    pub alloc_conf: String,
    /// The most that torch could reserve, where the recording shows it.
    pub memory: Option<Bytes>,
    /// Peak of allocated bytes.
    pub peak_allocated: Bytes,
    /// Peak of reserved bytes.
    pub peak_reserved: Bytes,
    /// How often cached memory was returned to the driver to make room.
    pub retries: u64,
    /// The first allocation that failed.
    pub oom: Option<FailedRequest>,
}

/// One simulated run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SimulatedRun {
    /// `PYTORCH_CUDA_ALLOC_CONF`.
    pub alloc_conf: String,
    /// The most that torch could reserve; null for no limit.
    pub memory: Option<Bytes>,
    /// The simulated peak of allocated bytes.
    pub peak_allocated: Bytes,
    /// The simulated peak of reserved bytes.
    pub peak_reserved: Bytes,
    /// `peak_reserved` minus `peak_allocated`.
    pub waste: Bytes,
    /// How often cached memory would have been returned to the driver to make room.
    pub retries: u64,
    /// The first allocation that would have failed; the figures end there.
    pub oom: Option<FailedRequest>,
}

/// The results of other allocator settings, or of another amount of memory.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Simulation {
    /// The version of floodmark that wrote the answer.
    pub floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    pub format: u32,
    /// The device.
    pub device: Device,
    /// The version whose rules were simulated.
    pub torch: TorchVersion,
    /// What was recorded.
    pub recorded: RecordedRun,
    /// Whether the rules reproduce the recording under its own settings.
    pub is_reproduced: bool,
    /// The simulated runs.
    pub runs: Vec<SimulatedRun>,
    /// The number of the best run: none fails, and it reserves least; null when there is one only, or all fail.
    pub best: Option<usize>,
    /// A sentence about what the runs do not show, if the recording has a failed allocation: the requests after it.
    pub scope: Option<&'static str>,
    /// What the recording misses.
    pub losses: Losses,
}

/// The question.
#[derive(Debug, Clone, Default)]
pub struct SimulationQuestion {
    /// The device.
    pub device: Option<Device>,
    /// Settings, each as `PYTORCH_CUDA_ALLOC_CONF` has them. None: those of the recording.
    pub alloc_confs: Vec<String>,
    /// How much may be reserved.
    pub memory: Option<Bytes>,
    /// The version of the rules; the recording's own version if none is named.
    pub torch: Option<TorchVersion>,
    /// Whether to try a set of settings that often help.
    pub sweeps: bool,
}

/// Settings that often help; the simplest first.
const SWEEP: [&str; 10] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:512",
    "max_split_size_mb:256",
    "max_split_size_mb:128",
    "roundup_power2_divisions:16",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:4",
    "garbage_collection_threshold:0.8",
    "expandable_segments:True,roundup_power2_divisions:16",
];

/// Simulates the requests under other settings.
pub fn simulation(
    trace: &Trace,
    question: &SimulationQuestion,
) -> Result<Simulation, SimulationError> {
    simulation_with(trace, question, |_, _| {})
}

/// The same, and reports progress: finished settings, and all.
pub fn simulation_with(
    trace: &Trace,
    question: &SimulationQuestion,
    mut tell: impl FnMut(usize, usize),
) -> Result<Simulation, SimulationError> {
    let simulated = SimulatedProgram::new(trace, question.device, question.torch)?;
    let context = Context::new(trace);
    let recorded = simulated.recorded(trace, &context);
    let mut confs = question.alloc_confs.clone();
    if question.sweeps {
        confs.extend(
            SWEEP
                .map(str::to_owned)
                .into_iter()
                .filter(|conf| !question.alloc_confs.contains(conf)),
        );
    }
    let mut configs = Vec::new();
    for conf in &confs {
        configs.push(AllocatorConfig::parse(conf, simulated.version)?);
    }
    if configs.is_empty() {
        configs.push(simulated.config());
    }
    let limit = question.memory.map(|bytes| Limit { bytes, is_fraction: false });
    let limit = limit.or(simulated.program.limit);
    let mut runs = Vec::new();
    let all = configs.len();
    for (done, config) in configs.into_iter().enumerate() {
        tell(done, all);
        // The recording shows the limit itself, not the value that a fraction applies to.
        let is_own = config == simulated.config() && question.memory.is_none();
        let limit = if is_own { limit } else { simulated.limit(&config, limit)? };
        let conf = config.text().to_owned();
        let run = simulated.run(&simulated.program, config, limit);
        runs.push(simulated_run(trace, &context, conf, limit, &run));
    }
    let best = (runs.len() > 1).then(|| best_of(&runs)).flatten();
    Ok(Simulation {
        floodmark: env!("CARGO_PKG_VERSION"),
        format: FORMAT,
        device: simulated.device,
        torch: simulated.version,
        is_reproduced: simulated.reproduces(&recorded),
        scope: recorded
            .oom
            .as_ref()
            .map(|oom| scope(is_last_request(trace, simulated.device, oom.event))),
        recorded,
        runs,
        best,
        losses: trace.losses.clone(),
    })
}

fn simulated_run(
    trace: &Trace,
    context: &Context,
    alloc_conf: String,
    limit: Option<Limit>,
    run: &Run,
) -> SimulatedRun {
    let allocated = Bytes(run.stats.allocated_bytes.all.peak);
    let reserved = Bytes(run.stats.reserved_bytes.all.peak);
    let failure = run.failed_again.first().copied().or(run.oom);
    SimulatedRun {
        alloc_conf,
        memory: limit.map(|limit| limit.bytes),
        peak_allocated: allocated,
        peak_reserved: reserved,
        waste: reserved.saturating_sub(allocated),
        retries: run.stats.num_alloc_retries,
        oom: failure.map(|failure| failed_request(trace, context, failure)),
    }
}

pub(crate) fn failed_request(trace: &Trace, context: &Context, failure: Failure) -> FailedRequest {
    FailedRequest {
        event: failure.event,
        step: context.step(failure.event),
        seconds: trace.events[failure.event as usize].time.as_seconds(),
        requested: failure.requested,
    }
}

/// Whether nothing is allocated on a device after a failed allocation: the recording ends there.
pub(crate) fn is_last_request(trace: &Trace, device: Device, failed: u32) -> bool {
    let mut later = trace.events.iter().skip(failed as usize);
    !later.any(|event| event.device == device && matches!(event.subject, Subject::Alloc(_)))
}

/// What is unknown if a change lets the failed request succeed.
pub(crate) fn scope(is_last: bool) -> &'static str {
    if is_last {
        "Simulated up to the failed request: the recording ends there, and the rest of the run may need more"
    } else {
        "Simulated up to the failed request: what the program would have requested next was not recorded, and may need more"
    }
}

fn best_of(runs: &[SimulatedRun]) -> Option<usize> {
    let lives = runs.iter().enumerate().filter(|(_, run)| run.oom.is_none());
    // `min_by_key` takes the first of equals: the simplest.
    lives.min_by_key(|(_, run)| (run.peak_reserved, run.retries)).map(|(at, _)| at)
}

/// Why nothing can be simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The question itself.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// The settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The device has no caching allocator.
    #[error("the memory of {0} is not managed by torch's caching allocator")]
    NoAllocator(Device),
    /// The recording has blocks but no segments.
    #[error("the trace has no segments: its allocator does not report them")]
    NoSegments,
    /// A fraction of nothing.
    #[error("`per_process_memory_fraction` needs the memory of the GPU")]
    FractionOfNothing,
}

impl floodmark_trace::Hint for SimulationError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Question(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::NoAllocator(_) => Some("choose a CUDA device with `--device`"),
            Self::NoSegments => {
                Some("only torch's caching allocator reports segments; see `floodmark info`")
            }
            Self::FractionOfNothing => Some("state it with `--memory`"),
        }
    }
}

/// A program on a device, ready to be simulated.
pub(crate) struct SimulatedProgram {
    pub(crate) device: Device,
    pub(crate) version: TorchVersion,
    pub(crate) program: Program,
    conf: String,
    total: Option<u64>,
}

impl SimulatedProgram {
    pub(crate) fn new(
        trace: &Trace,
        device: Option<Device>,
        version: Option<TorchVersion>,
    ) -> Result<Self, SimulationError> {
        let device = match device {
            Some(device) => device.canonical(),
            None => default_device(trace, At::Peak)?,
        };
        check_device(trace, device)?;
        if device.is_cpu() {
            return Err(SimulationError::NoAllocator(device));
        }
        if trace.segments.is_empty() {
            return Err(SimulationError::NoSegments);
        }
        let recorded_by = TorchVersion::last_in(&trace.header.torch);
        let shown = device.to_string();
        let info = trace.header.devices.iter().find(|info| info.device == shown);
        Ok(Self {
            device,
            version: version.or(recorded_by).unwrap_or(TorchVersion::CHECKED),
            program: Program::new(trace, device),
            conf: trace.header.allocator_conf.clone(),
            total: info.map(|info| info.total_bytes).filter(|&total| total > 0),
        })
    }

    /// The settings of the recording, as far as they can be simulated.
    pub(crate) fn config(&self) -> AllocatorConfig {
        AllocatorConfig::of_recording(&self.conf, self.version)
    }

    /// How much may be reserved: `per_process_memory_fraction` takes its part of the limit, or of the device.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "PyTorch computes the limit in floating point too"
    )]
    pub(crate) fn limit(
        &self,
        config: &AllocatorConfig,
        limit: Option<Limit>,
    ) -> Result<Option<Limit>, SimulationError> {
        let Some(fraction) = config.fraction.filter(|&fraction| fraction < 1.0) else {
            return Ok(limit);
        };
        let known = limit.map(|limit| limit.bytes.0).or(self.total);
        let of = known.ok_or(SimulationError::FractionOfNothing)?;
        Ok(Some(Limit { bytes: Bytes((fraction * of as f64) as u64), is_fraction: true }))
    }

    pub(crate) fn run(
        &self,
        program: &Program,
        config: AllocatorConfig,
        limit: Option<Limit>,
    ) -> Run {
        // Where the settings are those of the recording, segments are put where they were.
        let uses_recorded_addresses = config == self.config();
        let settings = Settings { config, limit, uses_recorded_addresses };
        simulate(program, &settings, &mut ())
    }

    pub(crate) fn recorded(&self, trace: &Trace, context: &Context) -> RecordedRun {
        let peak = peaks(trace).into_iter().find(|peak| peak.device == self.device);
        let (allocated, reserved) =
            peak.map_or((Bytes(0), None), |peak| (peak.allocated, peak.reserved));
        let oom = (0_u32..).zip(&trace.events).find_map(|(at, event)| {
            let Subject::Oom(oom) = event.subject else { return None };
            let oom = trace.ooms.get(oom as usize)?;
            (event.device == self.device).then(|| FailedRequest {
                event: at,
                step: context.step(at),
                seconds: event.time.as_seconds(),
                requested: oom.requested,
            })
        });
        RecordedRun {
            alloc_conf: self.conf.clone(),
            memory: self.program.limit.map(|limit| limit.bytes),
            peak_allocated: allocated,
            peak_reserved: reserved.unwrap_or_default(),
            retries: u64::from(self.program.retries),
            oom,
        }
    }

    /// Whether the rules reproduce the recording.
    pub(crate) fn reproduces(&self, recorded: &RecordedRun) -> bool {
        let run = self.run(&self.program, self.config(), self.program.limit);
        let stats = &run.stats;
        run.oom.is_none()
            && run.met.is_empty()
            && stats.reserved_bytes.all.peak == recorded.peak_reserved.0
            && stats.allocated_bytes.all.peak == recorded.peak_allocated.0
    }
}
