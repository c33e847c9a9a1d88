//! Answers: each request is one call of `floodmark-analysis`, and its value as JSON. Nothing is computed here.

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

use super::ask::{Ask, OfDevice, OfDiff};
use super::refusal::Refusal;
use super::shown::{Shown, ShownTrace, Version};
use super::source::annotated_file;
use crate::in_parallel::on_all_processors;
use crate::plan::Plan;

/// Which traces there are.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the traces of the traces")]
pub(crate) struct Traces<'a> {
    /// The version of floodmark that wrote the answer.
    pub(crate) floodmark: &'static str,
    /// Whether the traces are followed while they grow.
    pub(crate) follows: bool,
    /// The moments, in seconds, that can be asked about, by trace and device; null where any can.
    pub(crate) moments: Option<Moments>,
    /// The traces.
    pub(crate) traces: Vec<TraceCard<'a>>,
}

/// The moments of a saved page, by the number of the trace and the device.
pub(crate) type Moments = BTreeMap<usize, BTreeMap<String, Vec<f64>>>;

/// One of the traces.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct TraceCard<'a> {
    /// Its number, from 0.
    pub(crate) id: usize,
    /// Its name.
    pub(crate) name: &'a str,
    /// Its rank, where known.
    pub(crate) rank: Option<u32>,
    /// Another number means that there is more.
    pub(crate) revision: u64,
    /// The device with the highest peak, a GPU before the CPU; null where nothing was allocated.
    pub(crate) default_device: Option<Device>,
    /// The device of the last failed allocation; null where none failed.
    pub(crate) failed_device: Option<Device>,
    /// Whether it has the answer of `floodmark plan`.
    pub(crate) has_plan: bool,
    /// What is derived, not recorded: of the losses of the summary, those that lose nothing.
    pub(crate) derived: Vec<String>,
    /// What it holds.
    pub(crate) summary: &'a Summary,
}

/// Answers a request.
pub(crate) fn answer(shown: &Shown<'_>, ask: &Ask) -> Result<Vec<u8>, Refusal> {
    match *ask {
        Ask::Traces => traces(shown, None),
        Ask::Ranks => json(&ranks_of(&all(shown))),
        Ask::RankLines { top } => {
            let now = all(shown);
            let found = ranks_of(&now);
            let lines = on_all_processors(&found.ranks, |rank| {
                let now = &now[rank.trace].1;
                lines_of_rank(&now.trace, now.summary(), rank)
            });
            json(&rank_lines(&lines, top))
        }
        Ask::Diff { ref of, what } => {
            let (a, b) = (shown.trace(of.a)?.now(), shown.trace(of.b)?.now());
            match what {
                OfDiff::Rows { by, top, frames } => {
                    let top = (top > 0).then_some(top);
                    let question = Question { by, top, frames, ..Question::default() };
                    json(&diff_between(&a.trace, &b.trace, &of.sides, &question)?)
                }
                OfDiff::Curves => json(&diff_curves(&a.trace, &b.trace, &of.sides)?),
                OfDiff::Tree { by, frames } => {
                    json(&diff_tree(&a.trace, &b.trace, &of.sides, by, frames)?)
                }
            }
        }
        Ask::Plan { trace } => {
            let now = shown.trace(trace)?.now();
            json(&Plan::stored_in(&now.trace).ok_or(Refusal::NoPlan)?)
        }
        Ask::Allocation { trace, id } => {
            let now = shown.trace(trace)?.now();
            json(&allocation_card(&now.trace, now.index().context(), AllocationId(id))?)
        }
        Ask::Report { of, by, at, top, frames } => {
            let now = shown.trace(of.trace)?.now();
            let device = now.device(of.device, at)?;
            let top = (top > 0).then_some(top);
            let question = Question { device: Some(device), by, at, top, frames };
            json(&report_with(&now.trace, now.index(), &*now.moments(device)?, &question)?)
        }
        Ask::OfDevice { of, ref what } => {
            let now = shown.trace(of.trace)?.now();
            of_device(&now, now.device(of.device, At::Peak)?, what)
        }
    }
}

fn of_device(now: &Version<'_>, device: Device, what: &OfDevice) -> Result<Vec<u8>, Refusal> {
    let trace: &Trace = &now.trace;
    match *what {
        OfDevice::Timeline { by, axis } => json(now.timeline(device, by, axis)?.timeline()),
        OfDevice::TimelineTile { by, axis, level, tile } => {
            json(&now.timeline(device, by, axis)?.tile(trace, level, tile)?)
        }
        OfDevice::Bands => json(&bands(trace, now.index(), device)?),
        OfDevice::AllocationTile { axis, level, tile } => {
            let (moments, timeline) =
                (now.moments(device)?, now.timeline(device, TimelineBy::Category, axis)?);
            json(&allocation_tile(trace, now.index(), &moments, &timeline, level, tile)?)
        }
        OfDevice::Hit { by, point } => {
            let (moments, timeline) =
                (now.moments(device)?, now.timeline(device, by.unwrap_or_default(), None)?);
            json(&match by {
                Some(_) => hit(trace, &timeline, &moments, point)?,
                None => hit_allocation(trace, &timeline, &moments, point)?,
            })
        }
        OfDevice::Icicle { by, frames, at } => {
            json(&icicle(trace, now.index(), &*now.moments(device)?, by, frames, at)?)
        }
        OfDevice::Sandwich { frames, at, ref function } => {
            let function = function.as_ref().map(|(name, file)| (name.as_str(), file.as_str()));
            json(&sandwich(trace, now.index(), &*now.moments(device)?, frames, at, function)?)
        }
        OfDevice::Segments { at } => {
            let (moments, heaps) = (now.moments(device)?, now.heaps(device)?);
            json(&segments(trace, now.index(), &moments, &heaps, at)?)
        }
        OfDevice::SimulatedSegments { at, ref alloc_conf } => {
            let moments = now.moments(device)?;
            json(&simulated_segments(trace, now.index(), &moments, device, alloc_conf, at)?)
        }
        OfDevice::Fragmentation => json(&fragmentation_curve(trace, device)?),
        OfDevice::Lifetimes { from, to, top } => {
            let moments = now.moments(device)?;
            json(&lifetimes(trace, now.index(), &moments, from, to, top)?)
        }
        OfDevice::Range { from, to, by, top } => {
            let (moments, top) = (now.moments(device)?, if top > 0 { top } else { usize::MAX });
            json(&range_changes(trace, now.index(), &moments, (from, to), by, top)?)
        }
        OfDevice::Steps => json(&steps(trace, now.index().context(), Some(device))?),
        OfDevice::Oom { top } => json(&oom(trace, Some(device), (top > 0).then_some(top))?),
        OfDevice::SourceFiles { at } => {
            json(&source_files(trace, now.index(), &*now.moments(device)?, at)?)
        }
        OfDevice::Source { at, ref file, reads_disk } => {
            json(&annotated_file(now, device, at, file, reads_disk)?)
        }
        OfDevice::Advice => json(&advise(trace, Some(device))?),
        OfDevice::Sweep => {
            let device = Some(device);
            let question =
                SimulationQuestion { device, sweeps: true, ..SimulationQuestion::default() };
            json(&simulation(trace, &question)?)
        }
    }
}

/// Which traces there are; `moments` where not any moment can be asked about.
pub(crate) fn traces(shown: &Shown<'_>, moments: Option<Moments>) -> Result<Vec<u8>, Refusal> {
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

/// All traces, each with its summary computed.
fn all<'s, 't>(shown: &'s Shown<'t>) -> Vec<(&'s ShownTrace<'t>, Arc<Version<'t>>)> {
    let all: Vec<_> = shown.traces.iter().map(|trace| (trace, trace.now())).collect();
    on_all_processors(&all, |(_, now)| {
        now.summary();
    });
    all
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    // Our values have text for keys and nothing that fails to be written.
    serde_json::to_vec(value).map_err(|_| Refusal::Bug)
}
