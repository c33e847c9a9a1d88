//! Recordings side by side, and which of them stand out.

use floodmark_analysis::{Ranks, Recording, Summary, ranks as ask, summary};
use floodmark_trace::Bytes;

use crate::trace;

fn ranks(scripts: &[String]) -> Ranks {
    let summaries: Vec<Summary> = scripts.iter().map(|script| summary(&trace(script))).collect();
    let recordings = (0..).zip(&summaries);
    let recordings =
        recordings.map(|(rank, summary)| Recording { name: "x", rank: Some(rank), summary });
    ask(&recordings.collect::<Vec<_>>())
}

fn of_peaks(mebibytes: &[u64]) -> Ranks {
    let script = |peak: &u64| format!("alloc h cpu 1GiB\nalloc a cuda:0 {peak}MiB\nfree a");
    ranks(&mebibytes.iter().map(script).collect::<Vec<_>>())
}

fn outliers(found: &Ranks) -> Vec<u32> {
    found.ranks.iter().filter(|rank| rank.is_outlier).filter_map(|rank| rank.rank).collect()
}

#[test]
fn a_rank_far_from_the_middle_stands_out() {
    let found = of_peaks(&[100, 101, 100, 140, 99, 60]);
    assert_eq!(found.median, Some(Bytes(100 << 20)));
    assert_eq!(outliers(&found), [3, 5]);
    assert_eq!(found.ranks[3].end, Bytes(0));
}

#[test]
fn a_few_blocks_more_are_no_news() {
    assert_eq!(outliers(&of_peaks(&[100, 100, 100, 104])), [] as [u32; 0]);
}

#[test]
fn where_all_differ_nobody_stands_out() {
    assert_eq!(outliers(&of_peaks(&[100, 120, 140, 160, 180])), [] as [u32; 0]);
}

#[test]
fn two_have_no_middle() {
    assert_eq!(outliers(&of_peaks(&[1, 100])), [] as [u32; 0]);
    assert_eq!(ranks(&[]).median, None);
}

#[test]
fn the_median_of_an_even_count_is_the_mean_of_the_two_in_the_middle() {
    assert_eq!(of_peaks(&[10, 40, 20, 90]).median, Some(Bytes(30 << 20)));
}

#[test]
fn the_cpu_counts_where_there_is_no_card() {
    let found = ranks(&[
        "alloc a cpu 1MiB".to_owned(),
        "alloc a cuda:0 2MiB\nalloc b cuda:1 2MiB\nalloc c cpu 9MiB".to_owned(),
    ]);
    let devices: Vec<String> = found.ranks.iter().map(|rank| rank.device.to_string()).collect();
    assert_eq!(devices, ["cpu", "cuda:0", "cuda:1"]);
}
