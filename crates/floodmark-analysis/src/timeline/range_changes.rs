//! The changes between two times of one trace: allocated, freed and surviving bytes.
//!
//! Only the events between the two times are read. Rows add up to the totals, and `allocated` minus `freed` is
//! the change of torch's total.

use std::collections::BTreeMap;

use floodmark_trace::{AllocatedChange, AllocationId, Bytes, Category, Device, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::location::{BEFORE_RECORDING, Frame, Line, Lines, marked};
use crate::grouping::by_step::difference;
use crate::grouping::live_groups::is_live;
use crate::index::TraceIndex;
use crate::index::moment_index::MomentIndex;
use crate::invalid_value::InvalidValue;
use crate::moment::Moment;
use crate::moment::at::At;
use crate::question_error::QuestionError;

/// The name of the row of allocations that ran in no module.
const NO_MODULE: &str = "(no module)";

/// What the rows of a range are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum RangeBy {
    /// Lines of the program.
    #[default]
    Line,
    /// The innermost modules.
    Module,
    /// Parameters, gradients, activations, ….
    Category,
}

/// The message for another text.
const EXPECTED: InvalidValue = InvalidValue("a range is by `line`, `module` or `category`");

impl std::str::FromStr for RangeBy {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "line" => Ok(Self::Line),
            "module" => Ok(Self::Module),
            "category" => Ok(Self::Category),
            _ => Err(EXPECTED),
        }
    }
}

/// Bytes, and how many allocations they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Amount {
    /// The bytes.
    pub bytes: Bytes,
    /// The number of allocations.
    pub count: u64,
}

impl Amount {
    fn add(&mut self, bytes: Bytes) {
        self.bytes += bytes;
        self.count += 1;
    }
}

/// The changes between two times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// `allocated` minus `freed`: the change of torch's total.
    pub net: i64,
    /// What was allocated.
    pub allocated: Amount,
    /// What was freed, whenever it was allocated.
    pub freed: Amount,
    /// What was allocated and is live at the later time: live there and not at the earlier time.
    pub survivors: Amount,
    /// What was live at the earlier time and is not at the later one.
    pub gone: Amount,
}

/// The changes of one line, module or category between two times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeRow {
    /// The line, module or category.
    pub location: String,
    /// The file of a line; null where there is no Python frame.
    pub file: Option<String>,
    /// The number of the line.
    pub line: Option<u32>,
    /// What happened.
    #[serde(flatten)]
    pub change: Change,
    /// The largest of what differs: of the survivors, or else of what is gone.
    pub largest: Option<u32>,
}

/// The changes between two times of one trace.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RangeChanges {
    /// The device.
    pub device: Device,
    /// The earlier time.
    pub from: Moment,
    /// The later time.
    pub to: Moment,
    /// What was allocated at the earlier time.
    pub allocated_from: Bytes,
    /// What was allocated at the later time.
    pub allocated_to: Bytes,
    /// What happened in all.
    pub change: Change,
    /// How many rows there are, those left out included.
    pub total_rows: usize,
    /// What differs most between the two times first.
    pub rows: Vec<ChangeRow>,
}

/// What changed between two times, in either order. Both indexes must be of this trace.
pub fn range_changes(
    trace: &Trace,
    index: &TraceIndex,
    moments: &MomentIndex,
    times: (f64, f64),
    by: RangeBy,
    top: usize,
) -> Result<RangeChanges, QuestionError> {
    let end = trace.end().as_seconds();
    let at =
        |seconds: f64| moments.moment(trace, index.context(), At::Seconds(seconds.clamp(0.0, end)));
    let (from, to) = (at(times.0.min(times.1))?, at(times.0.max(times.1))?);
    let mut sorter = Sorter { trace, index, by, lines: Lines::new(trace, false) };
    let mut found = RangeTotals::default();
    for event in &trace.events[from.after as usize..to.after as usize] {
        if event.device != moments.device() {
            continue;
        }
        match event.subject.allocated_change() {
            Some(AllocatedChange::Alloc(id)) => {
                let survives = is_live(&trace.allocations[id.index()], to.after);
                found.allocated(sorter.key(id), id, bytes(trace, id), survives);
            }
            Some(AllocatedChange::Free(id)) => {
                let was_live = is_live(&trace.allocations[id.index()], from.after);
                found.freed(sorter.key(id), id, bytes(trace, id), was_live);
            }
            // Only the totals show how much of it was counted.
            Some(AllocatedChange::FreeUnknown(_)) | None => {}
        }
    }
    found.freed_unseen(from.unseen.saturating_sub(to.unseen));
    let change = found.total;
    let mut rows: Vec<ChangeRow> =
        found.groups.into_iter().map(|(key, group)| sorter.row(key, &group)).collect();
    rows.sort_by(|one, other| {
        order(other).cmp(&order(one)).then(one.location.cmp(&other.location))
    });
    let total_rows = rows.len();
    rows.truncate(top);
    Ok(RangeChanges {
        device: moments.device(),
        allocated_from: from.allocated,
        allocated_to: to.allocated,
        from,
        to,
        change,
        total_rows,
        rows,
    })
}

fn bytes(trace: &Trace, id: AllocationId) -> Bytes {
    trace.allocations[id.index()].rounded
}

/// The differences between the two times, then allocations that were live only in between.
fn order(row: &ChangeRow) -> (Bytes, Bytes) {
    let Change { survivors, gone, allocated, .. } = row.change;
    (survivors.bytes + gone.bytes, allocated.bytes)
}

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Line(Line),
    Module(&'a str),
    Category(Category),
    Unseen,
}

/// Sums of a row, and the largest survivor and the largest of what is gone.
#[derive(Debug, Default)]
struct Group {
    change: Change,
    largest: Option<(Bytes, AllocationId)>,
    largest_gone: Option<(Bytes, AllocationId)>,
}

/// The changes in the range, in all and by row.
#[derive(Debug, Default)]
struct RangeTotals<'a> {
    total: Change,
    groups: BTreeMap<Key<'a>, Group>,
}

impl<'a> RangeTotals<'a> {
    fn allocated(&mut self, key: Key<'a>, id: AllocationId, bytes: Bytes, survives: bool) {
        let group = self.groups.entry(key).or_default();
        for change in [&mut self.total, &mut group.change] {
            change.allocated.add(bytes);
            if survives {
                change.survivors.add(bytes);
            }
            change.settle();
        }
        if survives {
            group.largest = group.largest.max(Some((bytes, id)));
        }
    }

    fn freed(&mut self, key: Key<'a>, id: AllocationId, bytes: Bytes, was_live: bool) {
        let group = self.groups.entry(key).or_default();
        for change in [&mut self.total, &mut group.change] {
            change.freed.add(bytes);
            if was_live {
                change.gone.add(bytes);
            }
            change.settle();
        }
        if was_live {
            group.largest_gone = group.largest_gone.max(Some((bytes, id)));
        }
    }

    /// Bytes from before the recording of no recorded allocation: their number is unknown.
    fn freed_unseen(&mut self, bytes: Bytes) {
        if bytes == Bytes(0) {
            return;
        }
        let group = self.groups.entry(Key::Unseen).or_default();
        for change in [&mut self.total, &mut group.change] {
            change.freed.bytes += bytes;
            change.gone.bytes += bytes;
            change.settle();
        }
    }
}

impl Change {
    fn settle(&mut self) {
        self.net = difference(self.allocated.bytes, self.freed.bytes);
    }
}

struct Sorter<'a, 'i> {
    trace: &'a Trace,
    index: &'i TraceIndex,
    by: RangeBy,
    lines: Lines<'a>,
}

impl<'a> Sorter<'a, '_> {
    fn key(&mut self, id: AllocationId) -> Key<'a> {
        let allocation = &self.trace.allocations[id.index()];
        if allocation.before_recording && self.by != RangeBy::Category {
            return Key::Unseen;
        }
        match self.by {
            RangeBy::Line => Key::Line(self.lines.line_of(allocation)),
            RangeBy::Module => {
                Key::Module(self.trace.module_path(allocation.stack).unwrap_or(NO_MODULE))
            }
            RangeBy::Category => Key::Category(self.index.category(id)),
        }
    }

    fn row(&self, key: Key<'a>, group: &Group) -> ChangeRow {
        let (location, frame) = self.name(key);
        ChangeRow {
            location,
            file: frame.as_ref().map(|frame| frame.file.clone()),
            line: frame.map(|frame| frame.line),
            change: group.change,
            largest: group.largest.or(group.largest_gone).map(|(_, id)| id.0),
        }
    }

    fn name(&self, key: Key<'a>) -> (String, Option<Frame>) {
        match key {
            Key::Line(line) => match self.lines.frame(line) {
                Some(frame) => (marked(frame.to_string(), line.is_backward()), Some(frame)),
                None => (line.location(self.trace), None),
            },
            Key::Module(path) => (path.to_owned(), None),
            Key::Category(category) => (category.name().to_owned(), None),
            Key::Unseen => (BEFORE_RECORDING.to_owned(), None),
        }
    }
}
