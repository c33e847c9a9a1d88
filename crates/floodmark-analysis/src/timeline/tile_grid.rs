//! The division of time into tiles and columns.
//!
//! Level 0 is the whole recording in one tile of [`COLUMNS`] columns; every level has twice as many tiles as
//! the one above it, so a column is exactly two columns of the next level. Bounds are whole microseconds, as
//! times of events are: no event falls between two columns, whatever the level.

use floodmark_trace::Trace;

use crate::moment::micros;
use crate::question_error::QuestionError;
use crate::time_axis::AxisMap;

/// How many columns a tile has.
pub const COLUMNS: usize = 512;

/// No picture is enlarged further, however long the recording is.
const MOST_LEVELS: u32 = 30;

/// The tiles of a recording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    /// The units of the end of the axis: microseconds, unless it is another axis than time; at least one.
    end: u64,
    /// The units of the narrowest column.
    finest: u64,
}

impl Grid {
    pub(crate) fn for_axis(axis: &AxisMap) -> Self {
        Self { end: axis.length(), finest: axis.finest() }
    }

    /// The last level on which a column is not shorter than the microsecond, the unit of times, or a small part of an event.
    pub(crate) fn deepest_level(self) -> u32 {
        (self.end / (COLUMNS as u64 * self.finest)).checked_ilog2().unwrap_or(0).min(MOST_LEVELS)
    }

    pub(crate) fn tile(self, level: u32, tile: u64) -> Result<Tile, QuestionError> {
        let deepest = self.deepest_level();
        if level > deepest || tile >= 1 << level {
            return Err(QuestionError::NoSuchTile { level, tile, deepest });
        }
        Ok(Tile { grid: self, level, first: tile * COLUMNS as u64 })
    }

    /// The tile and the column of it in which a time is.
    pub(crate) fn at(
        self,
        axis: &AxisMap,
        level: u32,
        seconds: f64,
    ) -> Result<(Tile, usize), QuestionError> {
        self.tile(level, 0)?;
        let all = (COLUMNS as u64) << level;
        let units = u128::from(axis.units_at(micros(seconds))).min(self.end.into());
        let column = u64::try_from(units * u128::from(all) / u128::from(self.end)).unwrap_or(0);
        let column = column.min(all - 1);
        let tile = self.tile(level, column / COLUMNS as u64)?;
        Ok((tile, usize::try_from(column % COLUMNS as u64).unwrap_or(0)))
    }
}

/// One tile: its columns are numbered from 0 to [`COLUMNS`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile {
    grid: Grid,
    level: u32,
    /// Its first column, counted from the beginning of the recording.
    first: u64,
}

impl Tile {
    /// The first unit of a column; of the one behind the last, that of the next tile.
    fn start(self, column: usize) -> u64 {
        let all = u128::from(COLUMNS as u64) << self.level;
        let at = u128::from(self.first + column as u64);
        u64::try_from((at * u128::from(self.grid.end)).div_ceil(all)).unwrap_or(u64::MAX)
    }

    /// The same in seconds, or what the axis has, not rounded: where the column begins in a picture.
    #[expect(clippy::cast_precision_loss, reason = "the place of a line in a picture")]
    pub(crate) fn seconds(self, column: usize) -> f64 {
        let all = (COLUMNS as u64) << self.level;
        let share = (self.first + column as u64) as f64 / all as f64;
        share * (self.grid.end as f64 / 1e6)
    }

    /// Whether nothing comes after it: what happens when the recording ends is in its last column.
    pub(crate) fn is_last(self) -> bool {
        self.first + COLUMNS as u64 == (COLUMNS as u64) << self.level
    }

    /// For each column the events before it, and at the end those before the next tile; events have times
    /// that do not fall, and `first` of them are before all columns.
    pub(crate) fn bounds(self, axis: &AxisMap, trace: &Trace, first: usize) -> Vec<usize> {
        (0..=COLUMNS).map(|column| self.bound(axis, trace, column, first)).collect()
    }

    /// The events before a column.
    pub(crate) fn bound(self, axis: &AxisMap, trace: &Trace, column: usize, first: usize) -> usize {
        if self.first == 0 && column == 0 {
            return first;
        }
        if column == COLUMNS && self.is_last() {
            return trace.events.len();
        }
        let start = axis.micros_at(self.start(column));
        trace.events.partition_point(|event| event.time.0 < start).max(first)
    }
}
