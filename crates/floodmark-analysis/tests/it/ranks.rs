//! Recordings side by side, and which of them stand out.

use floodmark_analysis::{
    RankLines, Ranks, Recording, Summary, lines_of_rank, rank_lines, ranks as ask, summary,
};
use floodmark_trace::{Bytes, Trace};

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
fn where_all_differ_no_rank_stands_out() {
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
fn the_cpu_counts_if_there_is_no_gpu() {
    let found = ranks(&[
        "alloc a cpu 1MiB".to_owned(),
        "alloc a cuda:0 2MiB\nalloc b cuda:1 2MiB\nalloc c cpu 9MiB".to_owned(),
    ]);
    let devices: Vec<String> = found.ranks.iter().map(|rank| rank.device.to_string()).collect();
    assert_eq!(devices, ["cpu", "cuda:0", "cuda:1"]);
}

#[test]
fn outliers_come_by_their_distance_and_the_nearest_is_compared_with() {
    let found = of_peaks(&[100, 101, 100, 140, 99, 30, 102]);
    assert_eq!(found.outliers, [5, 3]);
    assert_eq!(found.nearest, Some(0));
}

/// Ranks of two nodes, with two ranks each, on these hosts.
fn on_hosts(hosts: [&str; 4], local_ranks: [Option<u32>; 4]) -> Ranks {
    let mut summaries: Vec<Summary> =
        (0..4).map(|_| summary(&trace("alloc a cuda:0 1MiB"))).collect();
    for (summary, (host, local)) in summaries.iter_mut().zip(hosts.into_iter().zip(local_ranks)) {
        host.clone_into(&mut summary.header.host);
        summary.header.local_rank = local;
    }
    let recordings = (0..).zip(&summaries);
    let recordings =
        recordings.map(|(rank, summary)| Recording { name: "x", rank: Some(rank), summary });
    ask(&recordings.collect::<Vec<_>>())
}

#[test]
fn ranks_are_on_the_node_of_their_local_rank() {
    let nodes = |found: &Ranks| found.ranks.iter().map(|rank| rank.node).collect::<Vec<_>>();
    let known = [Some(0), Some(1), Some(0), Some(1)];
    let found = on_hosts(["a", "a", "b", "b"], known);
    assert_eq!(found.nodes, ["a", "b"]);
    assert_eq!(nodes(&found), [Some(0), Some(0), Some(1), Some(1)]);
    assert_eq!(on_hosts(["a", "a", "a", "a"], known).nodes, ["node 0", "node 1"]);
    let unknown = on_hosts(["a", "a", "b", "b"], [Some(0), Some(1), None, Some(1)]);
    assert!(unknown.nodes.is_empty());
    assert_eq!(nodes(&unknown), [None; 4]);
}

fn lines(scripts: &[&str]) -> RankLines {
    let traces: Vec<Trace> = scripts.iter().map(|script| trace(script)).collect();
    let summaries: Vec<Summary> = traces.iter().map(summary).collect();
    let recordings = (0..).zip(&summaries);
    let recordings =
        recordings.map(|(rank, summary)| Recording { name: "x", rank: Some(rank), summary });
    let found = ask(&recordings.collect::<Vec<_>>());
    let rows = found
        .ranks
        .iter()
        .map(|rank| lines_of_rank(&traces[rank.trace], &summaries[rank.trace], rank));
    rank_lines(&rows.collect::<Vec<_>>(), 1)
}

#[test]
fn the_line_that_differs_most_comes_first() {
    let usual = "alloc a cuda:0 8MiB at m.py:1\nalloc b cuda:0 2MiB at m.py:2";
    let more = "alloc a cuda:0 8MiB at m.py:1\nalloc b cuda:0 5MiB at m.py:2\nalloc c cuda:0 1MiB at m.py:3";
    let found = lines(&[usual, usual, more]);
    assert_eq!((found.same, found.total, found.lines.len()), (1, 2, 1));
    let line = &found.lines[0];
    assert_eq!((line.file.as_deref(), line.line), (Some("m.py"), Some(2)));
    assert_eq!(line.bytes, [2, 2, 5].map(|mebibytes| Bytes(mebibytes << 20)));
    assert_eq!((line.lowest.0 >> 20, line.median.0 >> 20, line.highest.0 >> 20), (2, 2, 5));
    assert_eq!(line.furthest, 2);
}
