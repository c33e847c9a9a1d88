//! Which lines of a program differ from rank to rank.
//!
//! Ranks run one program, so a line of one rank is the line with the same file, number and function of another. Each
//! rank is examined at its own peak.

use std::collections::BTreeMap;

use floodmark_trace::{Bytes, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::diff::ranks::{Rank, middle};
use crate::grouping::by_line;
use crate::grouping::live_groups::Live;
use crate::grouping::row::{Detail, Row};
use crate::moment::summary::Summary;

/// What one line of the program has allocated on each rank at its peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RankLine {
    /// The line, or a description if there is none.
    pub location: String,
    /// The file; null for blocks without a Python frame.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The fewest bytes on a rank.
    pub lowest: Bytes,
    /// The median of all ranks.
    pub median: Bytes,
    /// The most bytes on a rank.
    pub highest: Bytes,
    /// The rank that is furthest from the median, by its index in the ranks.
    pub furthest: usize,
    /// The bytes of each rank, in the order of the ranks.
    pub bytes: Vec<Bytes>,
}

/// The lines that differ from rank to rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RankLines {
    /// How many lines have the same bytes on every rank. They are not among the lines.
    pub same: usize,
    /// How many lines differ, those left out included.
    pub total: usize,
    /// The lines that differ, the largest distance between two ranks first.
    pub lines: Vec<RankLine>,
}

/// The lines of one rank at its peak.
pub fn lines_of_rank(trace: &Trace, summary: &Summary, rank: &Rank) -> Vec<Row> {
    let device = summary.devices.iter().find(|device| device.device == rank.device);
    device.map_or_else(Vec::new, |device| by_line::rows(&Live::at(trace, &device.at), false))
}

/// Compares the lines of all ranks, each as [`lines_of_rank`] has them, and keeps those that differ most.
pub fn rank_lines(ranks: &[Vec<Row>], top: usize) -> RankLines {
    let mut found: BTreeMap<&str, (&Row, Vec<Bytes>)> = BTreeMap::new();
    for (at, rows) in ranks.iter().enumerate() {
        for row in rows {
            let (_, bytes) =
                found.entry(&row.location).or_insert_with(|| (row, vec![Bytes(0); ranks.len()]));
            bytes[at] += row.bytes;
        }
    }
    let all = found.len();
    let mut lines: Vec<RankLine> =
        found.into_values().map(|(row, bytes)| rank_line(row, bytes)).collect();
    lines.retain(|line| line.lowest != line.highest);
    let total = lines.len();
    lines.sort_by_key(|line| std::cmp::Reverse(line.highest.0 - line.lowest.0));
    lines.truncate(top);
    RankLines { same: all - total, total, lines }
}

fn rank_line(row: &Row, bytes: Vec<Bytes>) -> RankLine {
    let (file, line) = if let Detail::Line { file, line, .. } = &row.detail {
        (file.clone(), *line)
    } else {
        (None, None)
    };
    let median = middle(bytes.iter().map(|bytes| bytes.0).collect()).unwrap_or(0);
    let furthest = (0..bytes.len()).rev().max_by_key(|&at| bytes[at].0.abs_diff(median));
    RankLine {
        location: row.location.clone(),
        file,
        line,
        lowest: bytes.iter().copied().min().unwrap_or_default(),
        median: Bytes(median),
        highest: bytes.iter().copied().max().unwrap_or_default(),
        furthest: furthest.unwrap_or(0),
        bytes,
    }
}
