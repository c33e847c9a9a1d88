//! Memory over time in stacked bands, at any enlargement: tiles of [`COLUMNS`] columns.
//!
//! A picture has a few hundred columns, not ten million. A column stands for the levels of its span,
//! the one that it began with included: its bands are those of the time at which most was allocated,
//! so that no peak is lost, however little the picture is enlarged.
//!
//! Events are summed up in chunks of [`CHUNK_EVENTS`], once. A column sums up the chunks that lie in it as a
//! whole, and of the events of the two that do not: a tile costs at most as many chunks as it has columns,
//! on every level, and nothing is kept for each event but one byte for each allocation.

pub(crate) mod allocation_tile;
pub(crate) mod background;
pub(crate) mod band_groups;
mod band_keys;
pub(crate) mod curve;
pub(crate) mod hit;
pub(crate) mod lifetimes;
pub(crate) mod range_changes;
pub(crate) mod tile_grid;

use floodmark_trace::{AllocatedChange, AllocationId, Bytes, Device, Event, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::index::TraceIndex;
use crate::moment::at::At;
use crate::moment::levels::Levels;
use crate::moment::totals::Totals;
use crate::moment::{events_until, initial_events, moment};
use crate::question_error::QuestionError;
use crate::time_axis::{Axis, AxisBy, AxisMap, is_shown};
use crate::timeline::band_groups::{Groups, MOST_GROUPS, TimelineBy, TimelineGroup};
use crate::timeline::tile_grid::{COLUMNS, Grid, Tile};

/// How many events are summed up in one.
const CHUNK_EVENTS: usize = 256;

/// What a picture over time shows: the same for all its tiles.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Timeline {
    /// The device.
    pub device: Device,
    /// What the bands are.
    pub by: TimelineBy,
    /// How long the recording is.
    pub seconds: f64,
    /// Where in the picture a time lies; the bounds of tiles are positions on it.
    pub axis: Axis,
    /// The last level: there a column is a few microseconds.
    pub deepest_level: u32,
    /// How many columns a tile has.
    pub columns: usize,
    /// The bands from the bottom up: the highest peak first, or of categories those that stay, such as parameters; `other` is the
    /// last where there are more.
    pub groups: Vec<TimelineGroup>,
    /// The highest point.
    pub peak: Levels,
    /// The memory of the device, where known.
    pub total: Option<Bytes>,
}

/// A part of the picture. Every list has a number for each column.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimelineTile {
    /// Its level: there are 2^level tiles on it.
    pub level: u32,
    /// Which it is.
    pub tile: u64,
    /// Where it begins on the axis: in seconds where that is time.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// For each band its bytes when most was allocated; they add up to `allocated`.
    pub groups: Vec<Vec<Bytes>>,
    /// Peak of allocated bytes.
    pub allocated: Vec<Bytes>,
    /// The peak of active bytes; null for the CPU.
    pub active: Option<Vec<Bytes>>,
    /// The peak of reserved bytes, 0 until the trace has it; null if it never does.
    pub reserved: Option<Vec<Bytes>>,
    /// The least that was allocated.
    pub lowest: Vec<Bytes>,
    /// How many allocations, frees and failed allocations there are.
    pub events: Vec<u32>,
}

/// The data for a device's tiles: about 1.3 bytes per event, and one per allocation.
#[derive(Debug, Clone)]
pub struct TimelineIndex {
    timeline: Timeline,
    groups: Groups,
    axis: AxisMap,
    grid: Grid,
    has_reserved: bool,
    /// The events before the first chunk: those of what was live before the recording.
    initial_events: usize,
    /// The last has no events: it is what comes after them.
    chunks: Vec<Chunk>,
}

impl TimelineIndex {
    /// Chooses the bands, and sums up the events of a device. The axis is time as it passed.
    pub fn new(
        trace: &Trace,
        index: &TraceIndex,
        device: Device,
        by: TimelineBy,
    ) -> Result<Self, QuestionError> {
        Self::with_axis(trace, index, device, by, None)
    }

    /// The same on another axis; without one, time as it passed.
    pub fn with_axis(
        trace: &Trace,
        index: &TraceIndex,
        device: Device,
        by: TimelineBy,
        axis: Option<AxisBy>,
    ) -> Result<Self, QuestionError> {
        let device = device.canonical();
        let peak = moment(trace, &index.context, device, At::Peak)?;
        let groups = Groups::new(trace, index, device, by);
        let axis = match axis {
            Some(by) => AxisMap::new(trace, &index.context, device, by),
            None => AxisMap::plain(trace),
        };
        let grid = Grid::for_axis(&axis);
        let initial_events = initial_events(trace);
        let mut state = State::at_start(trace, device, &groups);
        for event in &trace.events[..initial_events] {
            state.apply(trace, &groups, event);
        }
        let mut chunks =
            Vec::with_capacity((trace.events.len() - initial_events).div_ceil(CHUNK_EVENTS) + 1);
        for (chunk, events) in trace.events[initial_events..].chunks(CHUNK_EVENTS).enumerate() {
            let first = initial_events + chunk * CHUNK_EVENTS;
            let before = state;
            state.apply(trace, &groups, &events[0]);
            let mut column = Column::at(&state, first + 1);
            column.count(&events[0], &state);
            for (after, event) in (first + 2..).zip(&events[1..]) {
                state.apply(trace, &groups, event);
                column.see(&state, event, after);
            }
            chunks.push(Chunk { before, events: column });
        }
        chunks.push(Chunk { before: state, events: Column::at(&state, trace.events.len()) });
        let shown = device.to_string();
        let info = trace.header.devices.iter().find(|info| info.device == shown);
        let timeline = Timeline {
            device,
            by,
            seconds: trace.end().as_seconds(),
            axis: axis.answer(),
            deepest_level: grid.deepest_level(),
            columns: COLUMNS,
            groups: groups.shown.clone(),
            peak: Levels {
                seconds: peak.seconds,
                allocated: peak.allocated,
                active: peak.active,
                reserved: peak.reserved,
            },
            total: info.map(|info| Bytes(info.total_bytes)).filter(|total| total.0 > 0),
        };
        let has_reserved = state.totals.reserved().is_some();
        Ok(Self { timeline, groups, axis, grid, has_reserved, initial_events, chunks })
    }

    /// What all tiles have in common.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// A part of the picture. The trace must be the one that the index was made of.
    pub fn tile(
        &self,
        trace: &Trace,
        level: u32,
        tile: u64,
    ) -> Result<TimelineTile, QuestionError> {
        let grid_tile = self.grid.tile(level, tile)?;
        let columns = self.columns(trace, grid_tile);
        let list = |of: &dyn Fn(&Column) -> u64| columns.iter().map(|one| Bytes(of(one))).collect();
        let groups = 0..self.groups.shown.len();
        Ok(TimelineTile {
            level,
            tile,
            from: grid_tile.seconds(0),
            to: grid_tile.seconds(COLUMNS),
            groups: groups.map(|group| list(&|column| column.groups[group])).collect(),
            allocated: list(&|column| column.allocated),
            active: (!self.timeline.device.is_cpu()).then(|| list(&|column| column.active)),
            reserved: self.has_reserved.then(|| list(&|column| column.reserved)),
            lowest: list(&|column| column.lowest),
            events: columns.iter().map(|column| column.events).collect(),
        })
    }

    /// The bytes of every band after this number of events.
    pub(crate) fn groups_after(&self, trace: &Trace, after: u32) -> Vec<Bytes> {
        let state = self.state(trace, (after as usize).max(self.initial_events));
        state.groups[..self.groups.shown.len()].iter().map(|&bytes| Bytes(bytes)).collect()
    }

    /// The bytes of every band at a time; they add up to what is allocated.
    pub fn groups_at(&self, trace: &Trace, seconds: f64) -> Vec<Bytes> {
        self.groups_after(trace, events_until(trace, seconds))
    }

    /// For each column of a tile after how many events most was allocated, and how much that was.
    pub(crate) fn highest(
        &self,
        trace: &Trace,
        level: u32,
        tile: u64,
    ) -> Result<(Tile, Vec<(u32, u64)>), QuestionError> {
        let grid_tile = self.grid.tile(level, tile)?;
        let columns = self.columns(trace, grid_tile);
        Ok((grid_tile, columns.iter().map(|column| (column.after, column.allocated)).collect()))
    }

    /// The band of an allocation.
    pub(crate) fn group_of(&self, id: AllocationId) -> usize {
        self.groups.group_of(id)
    }

    /// The band of the bytes of no recorded allocation, which lie at its bottom.
    pub(crate) fn group_of_unseen(&self) -> usize {
        self.groups.unseen
    }

    /// After how many events most was allocated in the column around a time.
    pub(crate) fn highest_around(
        &self,
        trace: &Trace,
        level: u32,
        seconds: f64,
    ) -> Result<u32, QuestionError> {
        let (tile, column) = self.grid.at(&self.axis, level, seconds)?;
        let bounds = [
            tile.bound(&self.axis, trace, column, self.initial_events),
            tile.bound(&self.axis, trace, column + 1, self.initial_events),
        ];
        Ok(self.columns_between(trace, &bounds)[0].after)
    }

    fn columns(&self, trace: &Trace, tile: Tile) -> Vec<Column> {
        self.columns_between(trace, &tile.bounds(&self.axis, trace, self.initial_events))
    }

    fn columns_between(&self, trace: &Trace, bounds: &[usize]) -> Vec<Column> {
        let mut state = self.state(trace, bounds[0]);
        let mut columns = Vec::with_capacity(COLUMNS);
        for column in bounds.windows(2) {
            let (mut at, end) = (column[0], column[1]);
            let mut seen = Column::at(&state, at);
            while at < end {
                let (chunk, whole) =
                    ((at - self.initial_events) / CHUNK_EVENTS, (end - at) / CHUNK_EVENTS);
                if (at - self.initial_events).is_multiple_of(CHUNK_EVENTS) && whole > 0 {
                    for chunk in &self.chunks[chunk..chunk + whole] {
                        seen.add(&chunk.events);
                    }
                    state = self.chunks[chunk + whole].before;
                    at += whole * CHUNK_EVENTS;
                } else {
                    let event = &trace.events[at];
                    state.apply(trace, &self.groups, event);
                    at += 1;
                    seen.see(&state, event, at);
                }
            }
            columns.push(seen);
        }
        columns
    }

    /// A number of events, at least those before the first chunk.
    fn state(&self, trace: &Trace, after: usize) -> State {
        let chunk = (after - self.initial_events) / CHUNK_EVENTS;
        let mut state = self.chunks[chunk].before;
        let events = &trace.events[self.initial_events + chunk * CHUNK_EVENTS..after];
        for event in events {
            state.apply(trace, &self.groups, event);
        }
        state
    }
}

/// Some events in a row.
#[derive(Debug, Clone)]
struct Chunk {
    before: State,
    events: Column,
}

/// The totals after some number of events, and how they are made up.
#[derive(Debug, Clone, Copy)]
struct State {
    totals: Totals,
    groups: [u64; MOST_GROUPS],
}

impl State {
    fn at_start(trace: &Trace, device: Device, groups: &Groups) -> Self {
        let totals = Totals::at_start(trace, device);
        let mut state = Self { totals, groups: [0; MOST_GROUPS] };
        state.groups[groups.unseen] = totals.unseen().0;
        state
    }

    fn apply(&mut self, trace: &Trace, groups: &Groups, event: &Event) {
        if event.device != self.totals.device() {
            return;
        }
        let unseen = self.totals.unseen().0;
        self.totals.apply(trace, event);
        match event.subject.allocated_change() {
            Some(AllocatedChange::Alloc(id)) => {
                let sum = &mut self.groups[groups.group_of(id)];
                *sum = sum.saturating_add(trace.allocations[id.index()].rounded.0);
            }
            Some(AllocatedChange::Free(id)) => {
                let sum = &mut self.groups[groups.group_of(id)];
                *sum = sum.saturating_sub(trace.allocations[id.index()].rounded.0);
            }
            Some(AllocatedChange::FreeUnknown(_)) => {
                let gone = unseen - self.totals.unseen().0;
                let sum = &mut self.groups[groups.unseen];
                *sum = sum.saturating_sub(gone);
            }
            None => {}
        }
    }
}

/// The levels of a span.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// When most was allocated.
    groups: [u64; MOST_GROUPS],
    allocated: u64,
    lowest: u64,
    active: u64,
    reserved: u64,
    events: u32,
    /// After how many events most was allocated.
    after: u32,
}

impl Column {
    /// A span without events, after this number of events.
    fn at(state: &State, after: usize) -> Self {
        let allocated = state.totals.allocated().0;
        Self {
            groups: state.groups,
            allocated,
            lowest: allocated,
            active: state.totals.active().unwrap_or_default().0,
            reserved: state.totals.reserved().unwrap_or_default().0,
            events: 0,
            after: u32::try_from(after).unwrap_or(u32::MAX),
        }
    }

    /// Applies the levels after an event.
    fn see(&mut self, state: &State, event: &Event, after: usize) {
        if event.device != state.totals.device() {
            return;
        }
        let allocated = state.totals.allocated().0;
        if allocated > self.allocated {
            self.allocated = allocated;
            self.groups = state.groups;
            self.after = u32::try_from(after).unwrap_or(u32::MAX);
        }
        self.lowest = self.lowest.min(allocated);
        self.active = self.active.max(state.totals.active().unwrap_or_default().0);
        self.reserved = self.reserved.max(state.totals.reserved().unwrap_or_default().0);
        self.count(event, state);
    }

    fn count(&mut self, event: &Event, state: &State) {
        let is_here = event.device == state.totals.device();
        self.events += u32::from(is_here && is_shown(event.subject));
    }

    /// Applies a later span.
    fn add(&mut self, later: &Self) {
        if later.allocated > self.allocated {
            self.allocated = later.allocated;
            self.groups = later.groups;
            self.after = later.after;
        }
        self.lowest = self.lowest.min(later.lowest);
        self.active = self.active.max(later.active);
        self.reserved = self.reserved.max(later.reserved);
        self.events += later.events;
    }
}
