//! Why a question has no answer, and which question has one.

use std::fmt;

use floodmark_trace::{Device, Hint, Loss, Micros, Trace};

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// The trace has no allocation at all.
    #[error("the trace has no allocations")]
    NothingAllocated,
    /// The readable part of a recording has no allocation.
    #[error("no allocation is left in the trace: {missing}")]
    NothingLeft {
        /// What is missing from the recording.
        missing: Loss,
    },
    /// The trace has no events of this device.
    #[error("nothing was recorded on {device}; the trace has {}", Listed(.recorded))]
    NoSuchDevice {
        /// The requested one.
        device: Device,
        /// Those that are there.
        recorded: Vec<Device>,
    },
    /// The allocator of the device reports no segments.
    #[error("the trace has no segments: its allocator does not report them")]
    NoSegments,
    /// Segments of two traces have nothing in common.
    #[error("two traces cannot be compared by segment: their addresses differ")]
    SegmentsDiffer,
    /// Every request succeeded.
    #[error("no allocation failed in this trace")]
    NoOom,
    /// Every request succeeded in the readable part of a recording.
    #[error("no allocation failed in what is left of the trace: {missing}")]
    NoOomLeft {
        /// What is missing from the recording.
        missing: Loss,
    },
    /// Every request on this device succeeded; one on another device failed.
    #[error("no allocation failed on {device}; one failed on {failed}")]
    NoOomOn {
        /// The requested one.
        device: Device,
        /// The one with the failed request.
        failed: Device,
    },
    /// NVML was not asked about the device.
    #[error(
        "nothing is known of {device} outside torch: NVML was not asked while the program was recorded"
    )]
    NoGpuSamples {
        /// The requested one.
        device: Device,
    },
    /// The recording is of a real device.
    #[error("the trace is not an estimate: it was recorded on real devices")]
    NoPhantom,
    /// Growth from step to step cannot be distinguished from that of the first steps.
    #[error(
        "finished steps in this trace: {finished}; at least {needed} are needed to show growth"
    )]
    TooFewSteps {
        /// Those that are there.
        finished: u32,
        /// How many there must be.
        needed: u32,
    },
    /// The trace has fewer allocations.
    #[error("there is no allocation {id}: the trace has {allocations}")]
    NoSuchAllocation {
        /// The requested one.
        id: u32,
        /// How many there are.
        allocations: usize,
    },
    /// The recording is shorter.
    #[error("{seconds} s is after the end of the recording, which is {} s long", .end.as_seconds())]
    AfterEnd {
        /// What was asked for.
        seconds: f64,
        /// When the recording ended.
        end: Micros,
    },
    /// The recording has fewer steps.
    #[error("there is no step {step}: finished steps in this trace: {finished}, counted from 0")]
    NoSuchStep {
        /// The requested one.
        step: u32,
        /// How many finished.
        finished: u32,
    },
    /// Nothing was allocated in this phase of the step.
    #[error("nothing was allocated in {phase} of step {step}")]
    NoPhaseInStep {
        /// The step.
        step: u32,
        /// The requested phase.
        phase: &'static str,
    },
    /// The picture has no such tile.
    #[error(
        "there is no tile {tile} on level {level}; level {deepest} is the last, and level n has 2^n tiles"
    )]
    NoSuchTile {
        /// The requested level.
        level: u32,
        /// The requested tile.
        tile: u64,
        /// The last level.
        deepest: u32,
    },
}

impl QuestionError {
    /// Why a trace without an allocation has no answer: the program allocated nothing, or the file is not whole.
    pub fn without_allocations(trace: &Trace) -> Self {
        match trace.losses.hiding_a_peak() {
            Some(missing) => Self::NothingLeft { missing: missing.clone() },
            None => Self::NothingAllocated,
        }
    }

    /// Why a trace without a failed allocation does not explain one.
    pub(crate) fn without_oom(trace: &Trace) -> Self {
        match trace.losses.hiding_a_peak() {
            _ if trace.devices().is_empty() => Self::without_allocations(trace),
            Some(missing) => Self::NoOomLeft { missing: missing.clone() },
            None => Self::NoOom,
        }
    }
}

impl Hint for QuestionError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NothingAllocated => {
                Some("did the program use torch? `floodmark info` shows what was recorded")
            }
            Self::NothingLeft { .. } => Some(
                "copy the file again if it is a copy, with the `.journal` beside it; otherwise record the program again",
            ),
            Self::SegmentsDiffer => Some("compare by `line`, `module` or `category`"),
            Self::NoSegments => {
                Some("the CPU has no segments; choose a CUDA device with `--device`")
            }
            Self::NoSuchDevice { .. } => Some("choose one of them with `--device`"),
            Self::NoOom | Self::NoOomLeft { .. } => {
                Some("`floodmark report --at peak` shows the peak")
            }
            Self::NoOomOn { .. } => Some("choose that one with `--device`"),
            Self::NoGpuSamples { .. } => Some(
                "NVML is asked where `libnvidia-ml.so.1` is installed and torch gives the UUID of a GPU (torch 2.5 and later)",
            ),
            Self::NoPhantom => Some("`floodmark info` shows what was recorded"),
            Self::TooFewSteps { .. } => {
                Some("record more steps; without an optimizer, call `floodmark.step()` after each")
            }
            Self::NoSuchAllocation { .. } => Some("allocations are counted from 0"),
            Self::AfterEnd { .. } => Some("`--at end` shows the end"),
            Self::NoSuchStep { .. } | Self::NoPhaseInStep { .. } => {
                Some("`floodmark report --by step` shows the steps and their phases")
            }
            Self::NoSuchTile { .. } => Some("the timeline states its deepest level"),
        }
    }
}

struct Listed<'a>(&'a [Device]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, device) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{device}")?;
        }
        Ok(())
    }
}
