//! `_ranks`: a row for each rank and device, with what most questions begin with.

use floodmark_analysis::{DeviceSummary, summary};
use floodmark_trace::{Allocation, Bytes};

use super::sheet::{Cell, Column, Kind, int, maybe_int, maybe_text, text};
use super::{Out, Source};
use crate::options::ExportError;

const COLUMNS: &[Column] = &[
    ("rank", Kind::Int),
    ("device", Kind::Text),
    ("device_name", Kind::Text),
    ("device_bytes", Kind::Int),
    ("host", Kind::Text),
    ("started_unix_micros", Kind::Int),
    ("seconds", Kind::Real),
    ("events", Kind::Int),
    ("allocations", Kind::Int),
    ("steps", Kind::Int),
    ("failed_requests", Kind::Int),
    ("peak", Kind::Int),
    ("peak_event", Kind::Int),
    ("peak_seconds", Kind::Real),
    ("peak_step", Kind::Int),
    ("peak_phase", Kind::Text),
    ("peak_module", Kind::Text),
    ("peak_unattributed", Kind::Int),
    ("reserved_at_peak", Kind::Int),
    ("reserved_peak", Kind::Int),
    ("end", Kind::Int),
    ("losses", Kind::Text),
];

/// The summary of one device of one rank.
#[derive(Debug, Clone)]
pub struct RankRow {
    rank: u32,
    /// Its name.
    pub(super) device: String,
    host: String,
    started_unix_micros: u64,
    seconds: f64,
    events: usize,
    steps: u32,
    failed_requests: usize,
    found: DeviceSummary,
    losses: String,
}

impl RankRow {
    /// Whether an allocation of this device was live at its peak.
    pub(super) fn is_live_at_peak(&self, allocation: &Allocation) -> bool {
        let last = self.found.at.after.checked_sub(1);
        last.is_some_and(|last| allocation.is_live_after(last))
    }
}

/// A row for each device of a rank, in the order of the devices.
pub(super) fn rows(source: &Source<'_>, rank: u32) -> Vec<RankRow> {
    let all = summary(source.trace);
    let losses: Vec<String> = all.losses.0.iter().map(ToString::to_string).collect();
    let losses = losses.join("; ");
    let found = all.devices.into_iter().filter(|found| source.has(found.device));
    let rows = found.map(|found| RankRow {
        rank,
        device: found.device.to_string(),
        host: all.header.host.clone(),
        started_unix_micros: all.header.started_unix_micros,
        seconds: all.seconds,
        events: all.events,
        steps: all.steps,
        failed_requests: all.failed_requests,
        found,
        losses: losses.clone(),
    });
    rows.collect()
}

pub(super) fn write(rows: &[RankRow], out: &mut Out<'_>) -> Result<(), ExportError> {
    let mut sheet = out.table("_ranks", COLUMNS)?;
    for row in rows {
        let found = &row.found;
        let bytes = |bytes: Option<Bytes>| maybe_int(bytes.map(|bytes| bytes.0));
        sheet.row(&[
            int(row.rank.into()),
            text(&row.device),
            text(&found.name),
            bytes(found.total),
            text(&row.host),
            int(row.started_unix_micros),
            Cell::Real(Some(row.seconds)),
            int(row.events as u64),
            int(found.allocations),
            int(row.steps.into()),
            int(row.failed_requests as u64),
            int(found.peak.0),
            // -1: before the first event.
            Cell::Int(Some(i64::from(found.at.after) - 1)),
            Cell::Real(Some(found.at.seconds)),
            maybe_int(found.at.step.map(Into::into)),
            maybe_text(found.at.phase.as_deref()),
            maybe_text(found.at.module.as_deref()),
            int(found.at.unseen.0),
            bytes(found.reserved),
            bytes(found.reserved_peak),
            int(found.end.0),
            text(&row.losses),
        ])?;
    }
    sheet.finish()
}
