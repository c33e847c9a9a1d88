//! The peaks of several recordings side by side, and which of them stand out.
//!
//! A rank stands out when its peak is further from the middle one than three times the usual distance, and by at
//! least a twentieth of it: ranks of one program usually differ by a few blocks.

use std::cmp::Reverse;

use floodmark_trace::{Bytes, Device};
use schemars::JsonSchema;
use serde::Serialize;

use crate::moment::summary::{DeviceSummary, Summary};

/// With fewer ranks, none stands out from the middle.
const FEWEST: usize = 3;

/// A recording that is compared with others.
#[derive(Debug, Clone, Copy)]
pub struct Recording<'a> {
    /// Its name, to be shown.
    pub name: &'a str,
    /// Its rank, where known.
    pub rank: Option<u32>,
    /// Its trace.
    pub summary: &'a Summary,
}

/// One device of one recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rank {
    /// Which recording, counted from 0.
    pub trace: usize,
    /// Its rank, where known.
    pub rank: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its node, by its index in `nodes`; null where the launcher did not say which rank of its node it is.
    pub node: Option<usize>,
    /// Its rank on its node, where known.
    pub local_rank: Option<u32>,
    /// The device.
    pub device: Device,
    /// Peak of allocated bytes.
    pub peak: Bytes,
    /// The peak of reserved bytes; null for the CPU.
    pub reserved_peak: Option<Bytes>,
    /// What was allocated at the end.
    pub end: Bytes,
    /// Whether its peak stands out among the others.
    pub is_outlier: bool,
}

/// The peaks of all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ranks {
    /// Every device of every recording; the CPU only where nothing else was used.
    pub ranks: Vec<Rank>,
    /// The median of the peaks; null where there is nothing.
    pub median: Option<Bytes>,
    /// The rank whose peak is nearest to the median, by its index in `ranks`: the one to compare others with.
    pub nearest: Option<usize>,
    /// The ranks that stand out, by their index in `ranks`, the furthest from the median first.
    pub outliers: Vec<usize>,
    /// The names of the nodes, in the order of their ranks; empty where a rank's node is unknown.
    pub nodes: Vec<String>,
}

/// Compares recordings by their peaks.
pub fn ranks(recordings: &[Recording<'_>]) -> Ranks {
    let mut ranks: Vec<Rank> = Vec::new();
    for (trace, recording) in recordings.iter().enumerate() {
        let devices = &recording.summary.devices;
        let has_card = devices.iter().any(|device| !device.device.is_cpu());
        let compared = devices.iter().filter(|device| device.device.is_cpu() != has_card);
        ranks.extend(compared.map(|device| rank(trace, recording, device)));
    }
    let peaks: Vec<u64> = ranks.iter().map(|rank| rank.peak.0).collect();
    let median = middle(peaks.clone());
    if let Some(median) = median
        && ranks.len() >= FEWEST
    {
        let usual = middle(peaks.iter().map(|peak| peak.abs_diff(median)).collect()).unwrap_or(0);
        let far = usual.saturating_mul(3).max(median / 20);
        for rank in &mut ranks {
            rank.is_outlier = rank.peak.0.abs_diff(median) > far;
        }
    }
    let nodes = assign_nodes(&mut ranks, recordings);
    let distance = |at: &usize| ranks[*at].peak.0.abs_diff(median.unwrap_or(0));
    let nearest = (0..ranks.len()).min_by_key(distance);
    let mut outliers: Vec<usize> = (0..ranks.len()).filter(|&at| ranks[at].is_outlier).collect();
    outliers.sort_by_key(|at| Reverse(distance(at)));
    Ranks { nearest, outliers, nodes, ranks, median: median.map(Bytes) }
}

/// Gives every rank its node, and returns their names. Launchers number the ranks of a node one after the other, so
/// `rank - local_rank` is the same for all ranks of a node.
fn assign_nodes(ranks: &mut [Rank], recordings: &[Recording<'_>]) -> Vec<String> {
    let mut first_ranks = Vec::new();
    for rank in ranks.iter() {
        let first =
            rank.rank.zip(rank.local_rank).and_then(|(rank, local)| rank.checked_sub(local));
        let Some(first) = first else { return Vec::new() };
        first_ranks.push(first);
    }
    let mut nodes = first_ranks.clone();
    nodes.sort_unstable();
    nodes.dedup();
    let mut names = vec![String::new(); nodes.len()];
    for (rank, first) in ranks.iter_mut().zip(first_ranks) {
        let node = nodes.partition_point(|&other| other < first);
        rank.node = Some(node);
        names[node].clone_from(&recordings[rank.trace].summary.header.host);
    }
    let is_clear = {
        let mut sorted: Vec<&String> = names.iter().filter(|name| !name.is_empty()).collect();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.len() == names.len()
    };
    if is_clear { names } else { (0..names.len()).map(|node| format!("node {node}")).collect() }
}

fn rank(trace: usize, recording: &Recording<'_>, device: &DeviceSummary) -> Rank {
    Rank {
        trace,
        rank: recording.rank,
        name: recording.name.to_owned(),
        node: None,
        local_rank: recording.summary.header.local_rank,
        device: device.device,
        peak: device.peak,
        reserved_peak: device.reserved_peak,
        end: device.end,
        is_outlier: false,
    }
}

/// The median; of an even count the mean of the two in the middle.
pub(crate) fn middle(mut numbers: Vec<u64>) -> Option<u64> {
    numbers.sort_unstable();
    let upper = *numbers.get(numbers.len() / 2)?;
    if numbers.len() % 2 == 1 {
        return Some(upper);
    }
    Some(numbers[numbers.len() / 2 - 1].midpoint(upper))
}
