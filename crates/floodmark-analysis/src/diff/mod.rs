//! The changes between two traces.
//!
//! Rows are aligned by their subject ([`align`] defines when two locations are the same), never by
//! address. A row that is only in one trace has 0 bytes in the other. By module, a row is what the module
//! made itself, so that the changes of all rows add up to the change of the total.

pub(crate) mod align;
pub(crate) mod curves;
pub(crate) mod first_difference;
pub(crate) mod rank_lines;
pub(crate) mod ranks;
mod rows;
pub(crate) mod tree;

use std::collections::BTreeMap;

use floodmark_trace::{Bytes, Category, Device, Hint, Losses, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::Context;
use crate::allocation::location::Frame;
use crate::diff::align::{Aligner, Side};
use crate::diff::rows::{Key, Part, parts};
use crate::grouping::by::{By, Question};
use crate::grouping::by_step::difference;
use crate::grouping::live_groups::Live;
use crate::json_format::FORMAT;
use crate::moment::at::At;
use crate::moment::totals::peaks;
use crate::moment::{Moment, default_device, moment};
use crate::question_error::QuestionError;

/// The same of both traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "{T}OfBoth")]
pub struct Both<T> {
    /// In the first trace.
    pub a: T,
    /// In the second one.
    pub b: T,
}

/// A number of bytes in both traces.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Total {
    /// In the first trace.
    pub a: Bytes,
    /// In the second one.
    pub b: Bytes,
    /// `b` minus `a`.
    pub change: i64,
    /// The same in percent of `a`; null where `a` is 0.
    pub percent: Option<f64>,
}

impl Total {
    #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
    fn new(a: Bytes, b: Bytes) -> Self {
        let change = difference(b, a);
        let percent = (a.0 > 0).then(|| 100.0 * change as f64 / a.0 as f64);
        Self { a, b, change, percent }
    }

    fn where_known(a: Option<Bytes>, b: Option<Bytes>) -> Option<Self> {
        Some(Self::new(a?, b?))
    }

    /// Whether it grew by more than a limit. Growth from 0 exceeds any percentage.
    pub fn is_above(&self, limit: Limit) -> bool {
        self.change > 0
            && match limit {
                Limit::Percent(percent) => self.percent.is_none_or(|grown| grown > percent),
                Limit::Bytes(bytes) => self.change.unsigned_abs() > bytes.0,
            }
    }
}

/// How much something may grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// In percent of what it was.
    Percent(f64),
    /// In bytes.
    Bytes(Bytes),
}

/// The highest totals of both recordings, each at its own time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Peaks {
    /// Peak of allocated bytes.
    pub allocated: Total,
    /// The peak of reserved bytes; null for the CPU.
    pub reserved: Option<Total>,
}

impl Peaks {
    /// Whether one of them grew by more than a limit.
    pub fn are_above(&self, limit: Limit) -> bool {
        let both = [Some(self.allocated), self.reserved];
        both.into_iter().flatten().any(|total| total.is_above(limit))
    }
}

/// The other fields of a row: from the second trace, or from the first if the second lacks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DiffDetail {
    /// A line of the program.
    Line {
        /// The file; null for blocks without a Python frame.
        file: Option<String>,
        /// The line.
        line: Option<u32>,
        /// The function.
        function: Option<String>,
        /// Whether the backward pass of this line allocated them.
        backward: bool,
    },
    /// A call stack.
    Stack {
        /// Its frames, innermost first.
        frames: Vec<Frame>,
        /// Whether the backward pass of this stack allocated them.
        backward: bool,
    },
    /// Tensors with one name, or without a name from one line.
    Tensor {
        /// The qualified name.
        name: Option<String>,
        /// The shape, as Python prints it.
        shape: Option<String>,
        /// The dtype.
        dtype: Option<String>,
        /// Their category.
        #[schemars(with = "Category")]
        category: &'static str,
    },
    /// A module, an operator, a phase, a category or a step: `where` is its name.
    Named {},
}

/// A row of a diff: these fields, and those of its grouping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DiffRow {
    /// `b` minus `a`.
    pub change: i64,
    /// What is allocated in the first trace.
    pub a: Bytes,
    /// What is allocated in the second one.
    pub b: Bytes,
    /// How many allocations in the first trace.
    pub count_a: u64,
    /// How many in the second one.
    pub count_b: u64,
    /// The row's line, module, operator, category or other name.
    pub location: String,
    /// The fields of this grouping.
    #[serde(flatten)]
    pub detail: DiffDetail,
}

/// The changes between two traces.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Diff {
    /// The version of floodmark that wrote the answer.
    pub floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    pub format: u32,
    /// The device of the first trace.
    pub device: Device,
    /// The device of the second trace.
    pub device_b: Device,
    /// What the rows are.
    pub by: By,
    /// The times.
    pub at: Both<Moment>,
    /// torch's totals of allocated bytes at these times.
    pub allocated: Total,
    /// torch's totals of active bytes; null for the CPU.
    pub active: Option<Total>,
    /// torch's totals of reserved bytes; null for the CPU.
    pub reserved: Option<Total>,
    /// The peaks, independent of the times.
    pub peaks: Peaks,
    /// What the recording misses.
    pub losses: Both<Losses>,
    /// How many rows are the same in both, in bytes and in count. They are not among the rows.
    pub unchanged_rows: usize,
    /// How many rows changed, those left out included.
    pub total_rows: usize,
    /// The rows that changed, the largest change first.
    pub rows: Vec<DiffRow>,
}

impl Diff {
    /// How many changed rows were left out, and what they changed.
    pub fn left_out(&self) -> (usize, i64) {
        let shown = self.rows.iter().map(|row| row.change).fold(0, i64::wrapping_add);
        let rest = self.allocated.change.wrapping_sub(shown);
        (self.total_rows.saturating_sub(self.rows.len()), rest)
    }
}

/// Why two traces cannot be compared: one of them has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the {} trace has no answer", match side { Side::A => "first", Side::B => "second" })]
pub struct DiffError {
    /// Which one.
    pub side: Side,
    /// Why.
    pub source: QuestionError,
}

impl Hint for DiffError {
    fn hint(&self) -> Option<&'static str> {
        self.source.hint()
    }
}

pub(crate) fn in_a(source: QuestionError) -> DiffError {
    DiffError { side: Side::A, source }
}

pub(crate) fn in_b(source: QuestionError) -> DiffError {
    DiffError { side: Side::B, source }
}

/// Which parts of two traces are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct DiffSides {
    /// The device of each. Where none is named, that of `a` is the one that [`default_device`] finds, and that of `b` the
    /// same one where it has it: ranks of one machine each have a device of their own.
    pub device: Both<Option<Device>>,
    /// The time of each.
    pub at: Both<At>,
    /// Files that were renamed: the path in `a`, or its end, and that in `b`.
    pub renamed: Vec<(String, String)>,
}

impl DiffSides {
    /// The same device and time of both.
    pub fn new(device: Option<Device>, at: At) -> Self {
        Self {
            device: Both { a: device, b: device },
            at: Both { a: at, b: at },
            renamed: Vec::new(),
        }
    }

    pub(crate) fn devices(&self, a: &Trace, b: &Trace) -> Result<Both<Device>, DiffError> {
        let in_first = match self.device.a {
            Some(device) => device.canonical(),
            None => default_device(a, self.at.a).map_err(in_a)?,
        };
        let in_second = self.device.b.map(Device::canonical);
        let in_second = in_second.unwrap_or_else(|| device_like(b, in_first, self.at.b));
        Ok(Both { a: in_first, b: in_second })
    }
}

/// Answers the same question for both traces, and returns the changes from `a` to `b`.
pub fn diff(a: &Trace, b: &Trace, question: &Question) -> Result<Diff, DiffError> {
    diff_between(a, b, &DiffSides::new(question.device, question.at), question)
}

/// Returns the changes from a device and a time of `a` to those of `b`; the device and the time of
/// the question are ignored.
pub fn diff_between(
    a: &Trace,
    b: &Trace,
    sides: &DiffSides,
    question: &Question,
) -> Result<Diff, DiffError> {
    if question.by == By::Segment {
        return Err(in_a(QuestionError::SegmentsDiffer));
    }
    let Both { a: device, b: device_b } = sides.devices(a, b)?;
    let contexts = [Context::new(a), Context::new(b)];
    let at = Both {
        a: moment(a, &contexts[0], device, sides.at.a).map_err(in_a)?,
        b: moment(b, &contexts[1], device_b, sides.at.b).map_err(in_b)?,
    };
    let mut aligner = Aligner::new(a, b, &sides.renamed);
    let mut rows = BTreeMap::new();
    let sides = [(Side::A, a, &at.a), (Side::B, b, &at.b)];
    for ((side, trace, at), context) in sides.into_iter().zip(&contexts) {
        let live = Live::at(trace, at);
        for (key, part) in parts(&live, context, question, side, &mut aligner) {
            add(&mut rows, side, key, part);
        }
    }
    let mut rows: Vec<DiffRow> = rows.into_values().collect();
    let aligned_rows = rows.len();
    rows.retain(|row| row.a != row.b || row.count_a != row.count_b);
    let total_rows = rows.len();
    rows.sort_by(|one, other| order(one).cmp(&order(other)));
    rows.truncate(question.top.unwrap_or(usize::MAX));
    Ok(Diff {
        floodmark: env!("CARGO_PKG_VERSION"),
        format: FORMAT,
        device,
        device_b,
        by: question.by,
        allocated: Total::new(at.a.allocated, at.b.allocated),
        active: Total::where_known(at.a.active, at.b.active),
        reserved: Total::where_known(at.a.reserved, at.b.reserved),
        peaks: both_peaks((a, device), (b, device_b)),
        at,
        losses: Both { a: a.losses.clone(), b: b.losses.clone() },
        unchanged_rows: aligned_rows - total_rows,
        total_rows,
        rows,
    })
}

/// The same device, or the default one of the same kind where the trace lacks it.
fn device_like(trace: &Trace, device: Device, at: At) -> Device {
    if trace.devices().contains(&device) {
        return device;
    }
    let other = default_device(trace, at).ok();
    other.filter(|other| other.is_cpu() == device.is_cpu()).unwrap_or(device)
}

fn order(row: &DiffRow) -> (std::cmp::Reverse<(u64, Bytes)>, &str) {
    (std::cmp::Reverse((row.change.unsigned_abs(), row.b)), &row.location)
}

/// Adds one trace's side of a row; the second trace decides the name of the row.
fn add(rows: &mut BTreeMap<Key, DiffRow>, side: Side, key: Key, part: Part) {
    let Part { bytes, count, location, detail } = part;
    let row = rows.entry(key).or_insert_with(|| DiffRow {
        change: 0,
        a: Bytes(0),
        b: Bytes(0),
        count_a: 0,
        count_b: 0,
        location: location.clone(),
        detail: detail.clone(),
    });
    match side {
        Side::A => {
            row.a += bytes;
            row.count_a += count;
        }
        Side::B => {
            row.b += bytes;
            row.count_b += count;
            row.location = location;
            row.detail = detail;
        }
    }
    row.change = difference(row.b, row.a);
}

fn both_peaks(a: (&Trace, Device), b: (&Trace, Device)) -> Peaks {
    let [a, b] = [a, b].map(|(trace, device)| {
        let peak = peaks(trace).into_iter().find(|peak| peak.device == device);
        peak.map_or((Bytes(0), None), |peak| (peak.allocated, peak.reserved))
    });
    Peaks { allocated: Total::new(a.0, b.0), reserved: Total::where_known(a.1, b.1) }
}
