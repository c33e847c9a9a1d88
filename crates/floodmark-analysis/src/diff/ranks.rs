//! The peaks of several recordings side by side, and which of them stand out.
//!
//! A rank stands out when its peak is further from the middle one than three times the usual distance, and by at
//! least a twentieth of it: ranks of one program differ by a few blocks, and that is no news.

use floodmark_trace::{Bytes, Device};
use schemars::JsonSchema;
use serde::Serialize;

use crate::moment::summary::{DeviceSummary, Summary};

/// Fewer than this have no middle from which one could stand out.
const FEWEST: usize = 3;

/// A recording that is compared with others.
#[derive(Debug, Clone, Copy)]
pub struct Recording<'a> {
    /// Its name, to be shown.
    pub name: &'a str,
    /// Its rank, where known.
    pub rank: Option<u32>,
    /// What it holds.
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
    Ranks { ranks, median: median.map(Bytes) }
}

fn rank(trace: usize, recording: &Recording<'_>, device: &DeviceSummary) -> Rank {
    Rank {
        trace,
        rank: recording.rank,
        name: recording.name.to_owned(),
        device: device.device,
        peak: device.peak,
        reserved_peak: device.reserved_peak,
        end: device.end,
        is_outlier: false,
    }
}

/// The median; of an even count the mean of the two in the middle.
fn middle(mut numbers: Vec<u64>) -> Option<u64> {
    numbers.sort_unstable();
    let upper = *numbers.get(numbers.len() / 2)?;
    if numbers.len() % 2 == 1 {
        return Some(upper);
    }
    Some(numbers[numbers.len() / 2 - 1].midpoint(upper))
}
