//! Single allocations over time: a ribbon each, the older below the newer, falling when one below goes.
//!
//! A tile shows what is there at one moment of each of its columns, the one at which most was allocated: the
//! same as in the [timeline](crate::TimelineIndex), so the top of the picture is the same. Drawn are the
//! largest, by the room that they take in the picture; the rest is one height for each column, below them.

use std::cmp::Reverse;

use floodmark_trace::{AllocationId, Bytes, Category, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::category::category_names;
use crate::allocation::use_times::freed;
use crate::index::TraceIndex;
use crate::index::moment_index::{MomentIndex, allocations_before};
use crate::question_error::QuestionError;
use crate::timeline::TimelineIndex;
use crate::timeline::tile_grid::COLUMNS;

/// How many ribbons a tile has at most.
const MOST_SHAPES: usize = 2000;

/// How many points they have together at most: one for each column that they are in.
const MOST_POINTS: usize = 100_000;

/// One allocation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Ribbon {
    /// Which.
    pub id: u32,
    /// Its category: a place in the tile's `categories`.
    pub category: usize,
    /// Its height.
    pub bytes: Bytes,
    /// The times at which it moves to each of `ys`, in seconds; the last is its end.
    pub xs: Vec<f64>,
    /// Where its lower edge is: one fewer than `xs`.
    pub ys: Vec<Bytes>,
}

/// A part of the picture.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AllocationTile {
    /// Its level: there are 2^level tiles on it.
    pub level: u32,
    /// Which it is.
    pub tile: u64,
    /// When it begins, in seconds.
    pub from: f64,
    /// When it ends.
    pub to: f64,
    /// The largest allocations, in the order in which they were allocated: the first lies lowest.
    pub shapes: Vec<Ribbon>,
    /// The names of the categories.
    pub categories: Vec<&'static str>,
    /// For each column the height of all others, below the ribbons.
    pub rest: Vec<Bytes>,
}

/// Single allocations over time. All three indexes must be of this trace, and the last two of one device.
pub fn allocation_tile(
    trace: &Trace,
    index: &TraceIndex,
    moments: &MomentIndex,
    timeline: &TimelineIndex,
    level: u32,
    tile: u64,
) -> Result<AllocationTile, QuestionError> {
    let (grid_tile, columns) = timeline.highest(trace, level, tile)?;
    let mut spans = spans(trace, moments, &columns);
    choose(trace, &mut spans);
    let mut rest: Vec<u64> = columns.iter().map(|&(_, allocated)| allocated).collect();
    for span in &spans {
        for height in &mut rest[span.from..span.to] {
            *height = height.saturating_sub(span.bytes);
        }
    }
    let mut tops = rest.clone();
    let seconds = |column: usize| round(grid_tile.seconds(column));
    let shapes = spans.iter().map(|span| {
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        for (column, top) in (span.from..).zip(&mut tops[span.from..span.to]) {
            if ys.last() != Some(&Bytes(*top)) {
                xs.push(seconds(column));
                ys.push(Bytes(*top));
            }
            *top = top.saturating_add(span.bytes);
        }
        xs.push(seconds(span.to));
        let category = index.category(AllocationId(span.id));
        let category = Category::ALL.iter().position(|&one| one == category).unwrap_or(0);
        Ribbon { id: span.id, category, bytes: Bytes(span.bytes), xs, ys }
    });
    let shapes = shapes.collect();
    Ok(AllocationTile {
        level,
        tile,
        from: grid_tile.seconds(0),
        to: grid_tile.seconds(COLUMNS),
        shapes,
        categories: category_names(),
        rest: rest.into_iter().map(Bytes).collect(),
    })
}

/// A tenth of a microsecond is finer than any column.
fn round(seconds: f64) -> f64 {
    (seconds * 1e7).round() / 1e7
}

/// An allocation and the columns in which it is there.
#[derive(Debug, Clone, Copy)]
struct Span {
    id: u32,
    bytes: u64,
    from: usize,
    to: usize,
}

/// Everything that is there in some column, in the order in which it was allocated.
fn spans(trace: &Trace, moments: &MomentIndex, columns: &[(u32, u64)]) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut made = 0;
    for (from, &(after, _)) in columns.iter().enumerate() {
        let all = allocations_before(trace, after);
        for id in moments.made_and_live(trace, made, all, after) {
            let allocation = &trace.allocations[id.index()];
            let last = freed(allocation).unwrap_or(u32::MAX);
            let to = columns.partition_point(|&(after, _)| after <= last);
            spans.push(Span { id: id.0, bytes: allocation.rounded.0, from, to });
        }
        made = made.max(all);
    }
    spans
}

/// Keeps the largest in the picture, as many as can be drawn.
fn choose(trace: &Trace, spans: &mut Vec<Span>) {
    let area = |span: &Span| u128::from(span.bytes) * (span.to - span.from) as u128;
    spans.retain(|span| span.bytes > 0);
    if spans.len() > MOST_SHAPES {
        spans.select_nth_unstable_by_key(MOST_SHAPES, |span| (Reverse(area(span)), span.id));
        spans.truncate(MOST_SHAPES);
    }
    spans.sort_by_key(|span| (Reverse(area(span)), span.id));
    let mut points = 0;
    spans.retain(|span| {
        points += 1 + span.to - span.from;
        points <= MOST_POINTS
    });
    spans.sort_by_key(|span| (trace.allocations[span.id as usize].made_at, span.id));
}
