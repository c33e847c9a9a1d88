//! Answers a request: calls one function of `floodmark-analysis`, and converts its answer to JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use floodmark_analysis::{
    At, Question, Ranks, Recording, SimulationQuestion, Summary, TimelineBy, advise,
    allocation_card, allocation_tile, bands, default_device, diff_between, diff_curves, diff_tree,
    fragmentation_curve, hit, hit_allocation, icicle, lifetimes, lines_of_rank, oom, range_changes,
    rank_lines, ranks, report_with, sandwich, segments, simulated_segments, simulation,
    source_files, steps,
};
use floodmark_trace::{AllocationId, Device, Loss, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use super::api_request::{ApiRequest, DeviceRequest, DiffRequest};
use super::refusal::Refusal;
use super::shown::{ShownTrace, ShownTraces, Version};
use super::source::annotated_file;
use crate::in_parallel::on_all_processors;
use crate::plan::Plan;

/// The list of traces.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the traces of the traces")]
pub(crate) struct Traces<'a> {
    /// The version of floodmark that wrote the answer.
    pub(crate) floodmark: &'static str,
    /// Whether the server follows the traces while they grow.
    pub(crate) follows: bool,
    /// The times, in seconds, for which a saved page has answers, by trace and device; null if every time has one.
    pub(crate) moments: Option<Moments>,
    /// The traces.
    pub(crate) traces: Vec<TraceCard<'a>>,
}

/// The times of a saved page, by the number of the trace and the device.
pub(crate) type Moments = BTreeMap<usize, BTreeMap<String, Vec<f64>>>;

/// A trace in the list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct TraceCard<'a> {
    /// Its number, from 0.
    pub(crate) id: usize,
    /// Its name.
    pub(crate) name: &'a str,
    /// Its rank, if known.
    pub(crate) rank: Option<u32>,
    /// Changes when the trace grows.
    pub(crate) revision: u64,
    /// The device with the highest peak, GPUs first; null if nothing was allocated.
    pub(crate) default_device: Option<Device>,
    /// The device of the last failed allocation; null if none failed.
    pub(crate) failed_device: Option<Device>,
    /// Whether it has the answer of `floodmark plan`.
    pub(crate) has_plan: bool,
    /// The entries of `summary.losses` that miss no event: facts that were derived, not recorded.
    pub(crate) derived: Vec<String>,
    /// Its summary.
    pub(crate) summary: &'a Summary,
}

/// Answers a request.
pub(crate) fn answer(shown: &ShownTraces<'_>, request: &ApiRequest) -> Result<Vec<u8>, Refusal> {
    match *request {
        ApiRequest::Traces => traces(shown, None),
        ApiRequest::Ranks => json(&ranks_of(&all(shown))),
        ApiRequest::RankLines { top } => {
            let now = all(shown);
            let found = ranks_of(&now);
            let lines = on_all_processors(&found.ranks, |rank| {
                let now = &now[rank.trace].1;
                lines_of_rank(&now.trace, now.summary(), rank)
            });
            json(&rank_lines(&lines, top))
        }
        ApiRequest::Diff { ref of, what } => {
            let (a, b) = (shown.trace(of.a)?.now(), shown.trace(of.b)?.now());
            match what {
                DiffRequest::Rows { by, top, frames } => {
                    let top = (top > 0).then_some(top);
                    let question = Question { by, top, frames, ..Question::default() };
                    json(&diff_between(&a.trace, &b.trace, &of.sides, &question)?)
                }
                DiffRequest::Curves => json(&diff_curves(&a.trace, &b.trace, &of.sides)?),
                DiffRequest::Tree { by, frames } => {
                    json(&diff_tree(&a.trace, &b.trace, &of.sides, by, frames)?)
                }
            }
        }
        ApiRequest::Plan { trace } => {
            let now = shown.trace(trace)?.now();
            json(&Plan::stored_in(&now.trace).ok_or(Refusal::NoPlan)?)
        }
        ApiRequest::Allocation { trace, id } => {
            let now = shown.trace(trace)?.now();
            json(&allocation_card(&now.trace, now.index().context(), AllocationId(id))?)
        }
        ApiRequest::Report { of, by, at, top, frames } => {
            let now = shown.trace(of.trace)?.now();
            let device = now.device(of.device, at)?;
            let top = (top > 0).then_some(top);
            let question = Question { device: Some(device), by, at, top, frames };
            json(&report_with(&now.trace, now.index(), &*now.moments(device)?, &question)?)
        }
        ApiRequest::Device { of, ref what } => {
            let now = shown.trace(of.trace)?.now();
            of_device(&now, now.device(of.device, At::Peak)?, what)
        }
    }
}

fn of_device(now: &Version<'_>, device: Device, what: &DeviceRequest) -> Result<Vec<u8>, Refusal> {
    let trace: &Trace = &now.trace;
    match *what {
        DeviceRequest::Timeline { by, axis } => json(now.timeline(device, by, axis)?.timeline()),
        DeviceRequest::TimelineTile { by, axis, level, tile } => {
            json(&now.timeline(device, by, axis)?.tile(trace, level, tile)?)
        }
        DeviceRequest::Bands => json(&bands(trace, now.index(), device)?),
        DeviceRequest::AllocationTile { axis, level, tile } => {
            let (moments, timeline) =
                (now.moments(device)?, now.timeline(device, TimelineBy::Category, axis)?);
            json(&allocation_tile(trace, now.index(), &moments, &timeline, level, tile)?)
        }
        DeviceRequest::Hit { by, point } => {
            let (moments, timeline) =
                (now.moments(device)?, now.timeline(device, by.unwrap_or_default(), None)?);
            json(&match by {
                Some(_) => hit(trace, &timeline, &moments, point)?,
                None => hit_allocation(trace, &timeline, &moments, point)?,
            })
        }
        DeviceRequest::Icicle { by, frames, at } => {
            json(&icicle(trace, now.index(), &*now.moments(device)?, by, frames, at)?)
        }
        DeviceRequest::Sandwich { frames, at, ref function } => {
            let function = function.as_ref().map(|(name, file)| (name.as_str(), file.as_str()));
            json(&sandwich(trace, now.index(), &*now.moments(device)?, frames, at, function)?)
        }
        DeviceRequest::Segments { at } => {
            let (moments, heaps) = (now.moments(device)?, now.heaps(device)?);
            json(&segments(trace, now.index(), &moments, &heaps, at)?)
        }
        DeviceRequest::SimulatedSegments { at, ref alloc_conf } => {
            let moments = now.moments(device)?;
            json(&simulated_segments(trace, now.index(), &moments, device, alloc_conf, at)?)
        }
        DeviceRequest::Fragmentation => json(&fragmentation_curve(trace, device)?),
        DeviceRequest::Lifetimes { from, to, top } => {
            let moments = now.moments(device)?;
            json(&lifetimes(trace, now.index(), &moments, from, to, top)?)
        }
        DeviceRequest::Range { from, to, by, top } => {
            let (moments, top) = (now.moments(device)?, if top > 0 { top } else { usize::MAX });
            json(&range_changes(trace, now.index(), &moments, (from, to), by, top)?)
        }
        DeviceRequest::Steps => json(&steps(trace, now.index().context(), Some(device))?),
        DeviceRequest::Oom { top } => json(&oom(trace, Some(device), (top > 0).then_some(top))?),
        DeviceRequest::SourceFiles { at } => {
            json(&source_files(trace, now.index(), &*now.moments(device)?, at)?)
        }
        DeviceRequest::Source { at, ref file, reads_disk } => {
            json(&annotated_file(now, device, at, file, reads_disk)?)
        }
        DeviceRequest::Advice => json(&advise(trace, Some(device))?),
        DeviceRequest::Sweep => {
            let device = Some(device);
            let question =
                SimulationQuestion { device, sweeps: true, ..SimulationQuestion::default() };
            json(&simulation(trace, &question)?)
        }
    }
}

/// The list of traces; a saved page has answers only for `moments`.
pub(crate) fn traces(
    shown: &ShownTraces<'_>,
    moments: Option<Moments>,
) -> Result<Vec<u8>, Refusal> {
    let now = all(shown);
    let numbered: Vec<_> = now.iter().enumerate().collect();
    let traces = on_all_processors(&numbered, |&(id, (trace, now))| TraceCard {
        id,
        name: &trace.name,
        rank: trace.rank,
        revision: now.revision,
        default_device: default_device(&now.trace, At::Peak).ok(),
        failed_device: default_device(&now.trace, At::Oom).ok(),
        has_plan: Plan::stored_in(&now.trace).is_some(),
        derived: derived(&now.trace),
        summary: now.summary(),
    });
    json(&Traces { floodmark: env!("CARGO_PKG_VERSION"), follows: shown.follows, moments, traces })
}

fn derived(trace: &Trace) -> Vec<String> {
    let losses = trace.losses.0.iter().filter(|loss| matches!(loss, Loss::Derived(_)));
    losses.map(ToString::to_string).collect()
}

fn ranks_of(now: &[(&ShownTrace<'_>, Arc<Version<'_>>)]) -> Ranks {
    let recordings = now.iter().map(|(trace, now)| Recording {
        name: &trace.name,
        rank: trace.rank,
        summary: now.summary(),
    });
    ranks(&recordings.collect::<Vec<_>>())
}

/// All traces, with their summaries computed.
fn all<'s, 't>(shown: &'s ShownTraces<'t>) -> Vec<(&'s ShownTrace<'t>, Arc<Version<'t>>)> {
    let all: Vec<_> = shown.traces.iter().map(|trace| (trace, trace.now())).collect();
    on_all_processors(&all, |(_, now)| {
        now.summary();
    });
    all
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    // Answers always serialize: their keys are text.
    serde_json::to_vec(value).map_err(|_| Refusal::Bug)
}
