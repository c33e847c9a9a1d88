//! The totals of a device as they change, event by event, and thinned for a picture.

use floodmark_trace::{Bytes, Device, Subject, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::moment::totals::Totals;

/// The totals of a device right after an event.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Levels {
    /// Since the recording began.
    pub seconds: f64,
    /// torch's total of allocated bytes.
    pub allocated: Bytes,
    /// torch's total of active bytes; null for the CPU.
    pub active: Option<Bytes>,
    /// torch's total of reserved bytes; null for the CPU, and until the trace has it.
    pub reserved: Option<Bytes>,
}

impl Levels {
    /// Allocated, active and reserved bytes; a figure that a device lacks equals the allocated
    /// bytes.
    pub fn or_allocated(&self) -> (u64, u64, u64) {
        let Self { allocated, active, reserved, .. } = *self;
        (allocated.0, active.unwrap_or(allocated).0, reserved.unwrap_or(allocated).0)
    }
}

/// The levels of a device after every event, of whichever device: the number of the event, and the totals.
pub fn levels(trace: &Trace, device: Device) -> impl Iterator<Item = (usize, Levels)> {
    let mut totals = Totals::at_start(trace, device);
    trace.events.iter().enumerate().map(move |(at, event)| {
        totals.apply(trace, event);
        let mut shown = totals;
        // The reserved bytes for a block are reported right after it, and belong to it.
        if let Some(next) = trace.events.get(at + 1)
            && matches!(next.subject, Subject::Reserved(_))
        {
            shown.apply(trace, next);
        }
        (at, shown.levels(event.time.as_seconds()))
    })
}

/// The levels of a device at the start, and whenever something changed them.
pub(crate) fn points(trace: &Trace, device: Device) -> impl Iterator<Item = Levels> {
    let start = Totals::at_start(trace, device).levels(0.0);
    let changes = levels(trace, device).filter(move |&(at, _)| {
        let event = &trace.events[at];
        event.device == device && !is_remark(event.subject)
    });
    std::iter::once(start).chain(changes.map(|(_, levels)| levels))
}

/// Keeps the first, lowest, highest and last of the points in each piece of an axis.
pub(crate) struct Thinned {
    end: f64,
    pieces: usize,
    piece: usize,
    open: Vec<Levels>,
    kept: Vec<Levels>,
}

impl Thinned {
    pub(crate) fn new(end: f64, most: usize) -> Self {
        Self { end, pieces: (most / 4).max(1), piece: 0, open: Vec::new(), kept: Vec::new() }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a piece is a number of points in a picture"
    )]
    pub(crate) fn push(&mut self, position: f64, point: Levels) {
        let share = if self.end > 0.0 { position / self.end } else { 0.0 };
        let piece = (share * self.pieces as f64) as usize;
        if piece != self.piece {
            self.close();
            self.piece = piece;
        }
        self.open.push(point);
    }

    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        let Some(last) = open.len().checked_sub(1) else { return };
        let lowest = (0..=last).min_by_key(|&at| open[at].allocated).unwrap_or(0);
        // The first of the highest: that is where the peak is.
        let highest = (0..=last).rev().max_by_key(|&at| open[at].allocated).unwrap_or(0);
        let mut keep = [0, lowest, highest, last];
        keep.sort_unstable();
        let mut before = None;
        for at in keep {
            if before != Some(at) {
                self.kept.push(open[at]);
            }
            before = Some(at);
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Levels> {
        self.close();
        self.kept
    }
}

/// Whether an event annotates an allocation and changes no total.
fn is_remark(subject: Subject) -> bool {
    matches!(subject, Subject::Label { .. } | Subject::Saved(_) | Subject::Unpacked(_))
}
