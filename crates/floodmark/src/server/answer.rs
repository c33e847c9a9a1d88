//! Answers: each request is one call of `floodmark-analysis`, and its value as JSON. Nothing is computed here.

use std::collections::BTreeMap;
use std::sync::Arc;

use floodmark_analysis::{
    At, Question, Recording, SimulationQuestion, Summary, advise, allocation_card, default_device,
    diff, ranks, report, simulation, steps,
};
use floodmark_trace::{AllocationId, Device};
use serde::Serialize;

use super::ask::{Ask, Of};
use super::refusal::Refusal;
use super::shown::{Shown, ShownTrace, Version};

/// Which traces there are.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the traces of the traces")]
pub(crate) struct Traces<'a> {
    /// The version of floodmark that answers.
    pub(crate) floodmark: &'static str,
    /// Whether the traces are followed while they grow.
    pub(crate) follows: bool,
    /// The moments, in seconds, that can be asked about, by trace and device; none where any can.
    pub(crate) moments: Option<Moments>,
    /// The traces.
    pub(crate) traces: Vec<TraceCard<'a>>,
}

/// The moments of a saved page, by the number of the trace and the device.
pub(crate) type Moments = BTreeMap<usize, BTreeMap<String, Vec<f64>>>;

/// One of the traces.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TraceCard<'a> {
    /// Its number, from 0.
    pub(crate) id: usize,
    /// Its name.
    pub(crate) name: &'a str,
    /// Its rank, where known.
    pub(crate) rank: Option<u32>,
    /// Another number means that there is more.
    pub(crate) revision: u64,
    /// The device with the highest peak, a card before the CPU; none where nothing was allocated.
    pub(crate) default_device: Option<Device>,
    /// What it holds.
    pub(crate) summary: &'a Summary,
}

/// Answers a request.
pub(crate) fn answer(shown: &Shown<'_>, ask: &Ask) -> Result<Vec<u8>, Refusal> {
    let of = |of: &Of| Ok::<_, Refusal>((shown.trace(of.trace)?.now(), of.device));
    match ask {
        Ask::Traces => traces(shown, None),
        Ask::Report { of: which, by, at, top } => {
            let (now, device) = of(which)?;
            let top = (*top > 0).then_some(*top);
            json(&report(
                &now.trace,
                &Question { device, by: *by, at: *at, top, torch_frames: false },
            )?)
        }
        Ask::Allocation { trace, id } => {
            let now = shown.trace(*trace)?.now();
            json(&allocation_card(&now.trace, now.index().context(), AllocationId(*id))?)
        }
        Ask::Steps(which) => {
            let (now, device) = of(which)?;
            json(&steps(&now.trace, now.index().context(), device)?)
        }
        Ask::Diff { a, b, device, by, top } => {
            let (a, b) = (shown.trace(*a)?.now(), shown.trace(*b)?.now());
            let top = (*top > 0).then_some(*top);
            let question =
                Question { device: *device, by: *by, at: At::Peak, top, torch_frames: false };
            json(&diff(&a.trace, &b.trace, &question)?)
        }
        Ask::Timeline { of: which, by } => {
            let (now, device) = of(which)?;
            json(&now.timeline(device, *by, |index| Ok(index.timeline().clone()))?)
        }
        Ask::TimelineTile { of: which, by, level, tile } => {
            let (now, device) = of(which)?;
            json(&now.timeline(device, *by, |index| index.tile(&now.trace, *level, *tile))?)
        }
        Ask::Ranks => all_ranks(shown),
        Ask::Advice(which) => {
            let (now, device) = of(which)?;
            json(&advise(&now.trace, device)?)
        }
        Ask::Sweep(which) => {
            let (now, device) = of(which)?;
            let question =
                SimulationQuestion { device, sweeps: true, ..SimulationQuestion::default() };
            json(&simulation(&now.trace, &question)?)
        }
    }
}

/// Which traces there are; `moments` where not any moment can be asked about.
pub(crate) fn traces(shown: &Shown<'_>, moments: Option<Moments>) -> Result<Vec<u8>, Refusal> {
    let now = all(shown);
    let cards = now.iter().enumerate().map(|(id, (trace, now))| TraceCard {
        id,
        name: &trace.name,
        rank: trace.rank,
        revision: now.revision,
        default_device: default_device(&now.trace, At::Peak).ok(),
        summary: now.summary(),
    });
    json(&Traces {
        floodmark: env!("CARGO_PKG_VERSION"),
        follows: shown.follows,
        moments,
        traces: cards.collect(),
    })
}

fn all_ranks(shown: &Shown<'_>) -> Result<Vec<u8>, Refusal> {
    let now = all(shown);
    let recordings = now.iter().map(|(trace, now)| Recording {
        name: &trace.name,
        rank: trace.rank,
        summary: now.summary(),
    });
    json(&ranks(&recordings.collect::<Vec<_>>()))
}

fn all<'s, 't>(shown: &'s Shown<'t>) -> Vec<(&'s ShownTrace<'t>, Arc<Version<'t>>)> {
    shown.traces.iter().map(|trace| (trace, trace.now())).collect()
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    // Our values have text for keys and nothing that fails to be written.
    serde_json::to_vec(value).map_err(|_| Refusal::Bug)
}
