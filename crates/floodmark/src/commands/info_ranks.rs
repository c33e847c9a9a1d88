//! `floodmark info` of a folder: its ranks in one table, the furthest from the median first where there are many.

use std::cmp::Reverse;
use std::path::Path;

use floodmark_analysis::{Rank, Ranks, Recording, Summary, ranks};
use floodmark_text::answer_text::AnswerText;
use floodmark_text::plural::plural;
use floodmark_text::sheet::{self, Bar, Bars, Cells, Sheet, Tone};
use floodmark_text::terminal_safe::safe_text;

use crate::commands::info::facts;

/// Above this number of ranks, only some are listed.
const MOST_ROWS: usize = 16;

/// One rank of a folder.
pub(crate) struct RankInfo<'a> {
    pub(crate) rank: u32,
    pub(crate) path: &'a Path,
    pub(crate) summary: &'a Summary,
}

/// All ranks of a folder.
pub(crate) struct RanksInfo<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) ranks: &'a [RankInfo<'a>],
}

impl From<&RanksInfo<'_>> for AnswerText {
    fn from(info: &RanksInfo<'_>) -> Self {
        let names: Vec<String> =
            info.ranks.iter().map(|one| one.path.display().to_string()).collect();
        let recordings = info.ranks.iter().zip(&names).map(|(one, name)| Recording {
            name,
            rank: Some(one.rank),
            summary: one.summary,
        });
        let found = ranks(&recordings.collect::<Vec<_>>());
        let shown = rows(&found);
        let mut above = vec![summary(info, &found)];
        above.extend(failed(info));
        let mut below = left_out(&found, shown.len());
        below.extend(common_facts(info.ranks));
        Self { above, losses: losses(info.ranks), sheets: vec![sheet(&shown)], below }
    }
}

fn summary(info: &RanksInfo<'_>, found: &Ranks) -> String {
    let count = plural(info.ranks.len() as u64, "rank");
    let folder = safe_text(&info.folder.display().to_string()).into_owned();
    let lowest = found.ranks.iter().min_by_key(|rank| rank.peak);
    let highest = found.ranks.iter().rev().max_by_key(|rank| rank.peak);
    let (Some(lowest), Some(highest), Some(median)) = (lowest, highest, found.median) else {
        return format!("{folder}: {count}; nothing was allocated");
    };
    format!(
        "{folder}: {count}, allocated peaks from {} (rank {}) to {} (rank {}), median {median}",
        lowest.peak,
        lowest.rank.unwrap_or_default(),
        highest.peak,
        highest.rank.unwrap_or_default(),
    )
}

/// The ranks on which an allocation failed.
fn failed(info: &RanksInfo<'_>) -> Option<String> {
    let mut failed = info.ranks.iter().filter(|one| one.summary.failed_requests > 0);
    let first = failed.next()?.rank;
    let folder = safe_text(&info.folder.display().to_string()).into_owned();
    Some(format!(
        "An allocation failed on {}: `floodmark oom {folder} --rank {first}` explains it",
        plural(failed.count() as u64 + 1, "rank"),
    ))
}

/// Each kind of loss once, with the number of ranks that have it.
fn losses(ranks: &[RankInfo<'_>]) -> Vec<String> {
    let mut found: Vec<(String, u64)> = Vec::new();
    for loss in ranks.iter().flat_map(|one| &one.summary.losses.0) {
        let text = loss.to_string();
        match found.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => found.push((text, 1)),
        }
    }
    let all = ranks.len() as u64;
    let with_count = |(loss, count): (String, u64)| {
        if count == all { loss } else { format!("{}: {loss}", plural(count, "rank")) }
    };
    found.into_iter().map(with_count).collect()
}

/// All ranks in their order, or those furthest from the median.
fn rows(found: &Ranks) -> Vec<&Rank> {
    let mut rows: Vec<&Rank> = found.ranks.iter().collect();
    if rows.len() > MOST_ROWS {
        let median = found.median.unwrap_or_default().0;
        rows.sort_by_key(|rank| Reverse(rank.peak.0.abs_diff(median)));
        rows.truncate(MOST_ROWS);
    }
    rows
}

fn sheet(shown: &[&Rank]) -> Sheet {
    let mut columns = sheet::numbers(&["Rank", "Allocated peak", "Reserved peak", "At the end"]);
    columns.extend(sheet::words(&["Device", "Trace"]));
    let most = shown.iter().map(|rank| rank.peak).max().unwrap_or_default();
    let of = shown.iter().map(|rank| Bar::new(rank.peak, most, Tone::Usual)).collect();
    let rows = shown.iter().map(|rank| cells(rank)).collect();
    Sheet { columns, rows, bars: Some(Bars { after: 1, of }), is_prose: false }
}

fn cells(rank: &Rank) -> Cells {
    let number = rank.rank.map_or_else(String::new, |rank| rank.to_string());
    let mark = if rank.is_outlier { " (far from the median)" } else { "" };
    Cells {
        cells: vec![
            number,
            rank.peak.to_string(),
            rank.reserved_peak.map_or_else(String::new, |bytes| bytes.to_string()),
            rank.end.to_string(),
            rank.device.to_string(),
            format!("{}{mark}", rank.name),
        ],
        below: Vec::new(),
    }
}

fn left_out(found: &Ranks, shown: usize) -> Vec<String> {
    let rest = found.ranks.len() - shown;
    if rest == 0 {
        return Vec::new();
    }
    vec![format!(
        "… and {} nearer to the median; `--json` has all",
        plural(rest as u64, "more peak")
    )]
}

/// The facts that are the same in the headers of all ranks.
fn common_facts(ranks: &[RankInfo<'_>]) -> Vec<String> {
    let Some((first, others)) = ranks.split_first() else { return Vec::new() };
    let is_common =
        |fact: &(&str, String)| others.iter().all(|other| facts(other.summary).contains(fact));
    let common = facts(first.summary).into_iter().filter(is_common);
    common.map(|(name, value)| format!("  {name:<10} {}", safe_text(&value))).collect()
}
