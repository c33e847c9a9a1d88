//! The address space under other allocator settings.
//!
//! The requests up to the moment are carried out by the simulator, so its last layout is that of the moment.

use floodmark_allocator::AllocatorConfig;
use floodmark_trace::{Bytes, Device, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocator::fragmentation::largest_request;
use crate::allocator::simulation::{
    FailedRequest, SimulatedProgram, SimulationError, failed_request,
};
use crate::index::TraceIndex;
use crate::index::moment_index::MomentIndex;
use crate::moment::at::At;
use crate::segments::{SegmentTotals, Segments, segments_of};

/// The address space under other settings.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SimulatedSegments {
    /// `PYTORCH_CUDA_ALLOC_CONF`.
    pub alloc_conf: String,
    /// The first allocation that would have failed; the simulation ends there.
    pub oom: Option<FailedRequest>,
    /// How the blocks would lie.
    pub segments: Segments,
}

/// The address space at a moment, had the program run with `alloc_conf`. Both indexes must be of this trace.
pub fn simulated_segments(
    trace: &Trace,
    index: &TraceIndex,
    moments: &MomentIndex,
    device: Device,
    alloc_conf: &str,
    at: At,
) -> Result<SimulatedSegments, SimulationError> {
    let mut at = moments.moment(trace, &index.context, at)?;
    let simulated = SimulatedProgram::new(trace, Some(device), None)?;
    let config = AllocatorConfig::parse(alloc_conf, simulated.version)?;
    let alloc_conf = config.text().to_owned();
    let limit = simulated.limit(&config, simulated.program.limit)?;
    let mut program = simulated.program.clone();
    program.requests.retain(|(event, _)| *event < at.after);
    let run = simulated.run(&program, config, limit);
    let oom = run.failed_again.first().copied().or(run.oom);
    let current = |bytes: u64| Some(Bytes(bytes));
    at.reserved = current(run.stats.reserved_bytes.all.current);
    let totals = SegmentTotals {
        allocated: Bytes(run.stats.allocated_bytes.all.current),
        active: current(run.stats.active_bytes.all.current),
        reserved: at.reserved,
        requested: current(run.stats.requested_bytes.all.current),
    };
    let largest = largest_request(trace, simulated.device);
    let segments = segments_of(trace, index, at, totals, &run.layout, largest);
    let oom = oom.map(|oom| failed_request(trace, &index.context, oom));
    Ok(SimulatedSegments { alloc_conf, oom, segments })
}
