//! `_ranks`: a row for each rank and device, with its most important figures.

use floodmark_analysis::{DeviceSummary, summary};
use floodmark_trace::{Allocation, Bytes};

use super::sheet::{Cell, Column, ColumnType, int, maybe_int, maybe_text, text};
use super::{Out, TableInput};
use crate::options::ExportError;

const COLUMNS: &[Column] = &[
    ("rank", ColumnType::Int),
    ("device", ColumnType::Text),
    ("device_name", ColumnType::Text),
    ("device_bytes", ColumnType::Int),
    ("host", ColumnType::Text),
    ("started_unix_micros", ColumnType::Int),
    ("seconds", ColumnType::Real),
    ("events", ColumnType::Int),
    ("allocations", ColumnType::Int),
    ("steps", ColumnType::Int),
    ("failed_requests", ColumnType::Int),
    ("peak", ColumnType::Int),
    ("peak_event", ColumnType::Int),
    ("peak_seconds", ColumnType::Real),
    ("peak_step", ColumnType::Int),
    ("peak_phase", ColumnType::Text),
    ("peak_module", ColumnType::Text),
    ("peak_unattributed", ColumnType::Int),
    ("reserved_at_peak", ColumnType::Int),
    ("reserved_peak", ColumnType::Int),
    ("end", ColumnType::Int),
    ("losses", ColumnType::Text),
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
pub(super) fn rows(input: &TableInput<'_>, rank: u32) -> Vec<RankRow> {
    let all = summary(input.trace);
    let losses: Vec<String> = all.losses.0.iter().map(ToString::to_string).collect();
    let losses = losses.join("; ");
    let found = all.devices.into_iter().filter(|found| input.has(found.device));
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
