//! The address space at a moment, against the report by segment and the replay of all events.

use floodmark_allocator::{AllocatorConfig, ReplayIndex, TorchVersion, replay};
use floodmark_analysis::{
    At, By, Detail, MomentIndex, Question, QuestionError, SegmentBlockState, Segments,
    SegmentsIndex, SimulatedSegments, TraceIndex, fragmentation_curve, report, segments,
    simulated_segments,
};
use floodmark_trace::{Bytes, Device, Trace};

use crate::trace;

const GPU: Device = Device::cuda(0);

fn ask(trace: &Trace, at: At) -> Segments {
    let (index, moments) = (TraceIndex::new(trace), MomentIndex::new(trace, GPU).unwrap());
    let heaps = SegmentsIndex::new(trace, GPU).unwrap();
    segments(trace, &index, &moments, &heaps, at).unwrap()
}

/// Two segments whose blocks come and go.
fn busy() -> String {
    let mut script = String::from("segment A cuda:0 20MiB\nsegment B cuda:0 2MiB stream 7\n");
    for round in 0..40 {
        for at in 0..4 {
            let lines = [
                format!("alloc a{round}.{at} cuda:0 4MiB asking 3MiB on A+{}MiB in fc\n", at * 4),
                format!("alloc b{round}.{at} cuda:0 512KiB on B+{}KiB stream 7\n", at * 512),
            ];
            script += &lines.concat();
        }
        for at in [2, 0, 3, 1] {
            let how = if at == 3 { " deferred" } else { "" };
            script += &format!("free a{round}.{at}{how}\nfree b{round}.{at}\n");
        }
        script += &format!("complete a{round}.3\n");
    }
    script
}

#[test]
fn every_reserved_byte_is_in_one_block() {
    let trace = trace(&busy());
    let end = trace.end().as_seconds();
    for part in 0..=20 {
        let at = At::Seconds(end * f64::from(part) / 20.0);
        let found = ask(&trace, at);
        let sum: Bytes = found.segments.iter().map(|segment| segment.bytes).sum();
        assert_eq!(Some(sum), found.totals.reserved.or(Some(Bytes(0))));
        let mut live = Bytes(0);
        for segment in &found.segments {
            let mut offset = 0;
            for block in &segment.blocks {
                assert_eq!(block.offset, offset);
                offset += block.bytes.0;
                if block.state == SegmentBlockState::Live {
                    live += block.bytes;
                    let id = block.allocation.unwrap();
                    assert_eq!(trace.allocations[id as usize].rounded, block.bytes);
                }
                assert_eq!(block.allocation.is_some(), block.category.is_some());
            }
            assert_eq!(offset, segment.bytes.0);
        }
        assert_eq!(live, found.totals.allocated);
        let question = Question { by: By::Segment, at, ..Question::default() };
        let actual = report(&trace, &question).unwrap();
        assert_eq!(actual.rows.len(), found.segments.len());
        assert_eq!(actual.fragmentation.unwrap().at, found.fragmentation);
        for row in actual.rows {
            let Detail::Segment { address, segment, .. } = row.detail else { panic!("no segment") };
            let same = found.segments.iter().find(|one| one.address == format!("0x{address:x}"));
            assert_eq!(same.unwrap().bytes, segment);
        }
    }
}

#[test]
fn a_continued_replay_equals_the_whole_replay() {
    let trace = trace(&busy());
    let config = AllocatorConfig::default_of(TorchVersion::CHECKED);
    let index = ReplayIndex::with_interval(&trace, GPU, config.clone(), 50);
    for count in (0..u32::try_from(trace.events.len()).unwrap() + 9).step_by(13) {
        let whole = replay(&trace, GPU, &config, count, |_, _| {});
        let found = index.after(&trace, count);
        assert_eq!(found.layout, whole.layout, "after {count}");
        assert_eq!(found.stats, whole.stats);
        assert_eq!(found.unplaced, whole.unplaced);
    }
}

#[test]
fn a_block_says_whose_it_is() {
    let trace = trace(
        "segment S cuda:0 2MiB stream 7
         alloc w cuda:0 512KiB on S stream 7
         label w parameter fc.weight
         alloc x cuda:0 1MiB on S+512KiB stream 7
         free x deferred",
    );
    let found = ask(&trace, At::End);
    let actual = serde_json::to_value(&found.segments).unwrap();
    assert_eq!(actual[0]["stream"], "0x7");
    assert_eq!(actual[0]["kind"], "small");
    let states: Vec<&str> = actual[0]["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["live", "pending_free", "free"]);
    let category = found.segments[0].blocks[0].category.unwrap();
    assert_eq!(found.categories[category], "parameter");
    assert_eq!(found.skipped, 0);
}

#[test]
fn the_cpu_has_no_segments() {
    let trace = trace("alloc a cpu 1MiB\nsegment S cuda:0 2MiB");
    let error = SegmentsIndex::new(&trace, Device::CPU).unwrap_err();
    assert_eq!(error, QuestionError::NoSegments);
}

#[test]
fn every_block_in_use_has_an_owner() {
    let script = "
        segment A cuda:0 20MiB
        alloc w cuda:0 8MiB on A at train.py:3
        label w parameter fc.weight (2,2) float32
        alloc a cuda:0 4MiB on A+8MiB at train.py:9
        alloc b cuda:0 2MiB on A+12MiB at train.py:9
        alloc c cuda:0 2MiB on A+14MiB at train.py:9
        free b";
    let found = ask(&trace(script), At::End);
    let owners: Vec<(&str, Option<&str>, u64, u64)> = found
        .owners
        .iter()
        .map(|one| (&*one.location, one.name.as_deref(), one.blocks, one.bytes.0 >> 20))
        .collect();
    let expected =
        [("train.py:3 (main)", Some("fc.weight"), 1, 8), ("train.py:9 (main)", None, 2, 6)];
    assert_eq!(owners, expected);
    let of_blocks: Vec<Option<usize>> =
        found.segments[0].blocks.iter().map(|block| block.owner).collect();
    assert_eq!(of_blocks, [Some(0), Some(1), None, Some(1), None]);
}

fn simulated(trace: &Trace, alloc_conf: &str, at: At) -> SimulatedSegments {
    let (index, moments) = (TraceIndex::new(trace), MomentIndex::new(trace, GPU).unwrap());
    simulated_segments(trace, &index, &moments, GPU, alloc_conf, at).unwrap()
}

#[test]
fn another_setting_has_the_same_blocks_in_other_segments() {
    let script = "
        segment A cuda:0 12MiB
        alloc a cuda:0 12MiB on A at train.py:1
        segment B cuda:0 14MiB
        alloc b cuda:0 14MiB on B at train.py:2
        free a
        segment C cuda:0 16MiB
        alloc c cuda:0 16MiB on C at train.py:3";
    let trace = trace(script);
    let found = simulated(&trace, "", At::End);
    assert_eq!((found.alloc_conf.as_str(), found.oom), ("", None));
    assert_eq!(found.segments.totals.reserved, ask(&trace, At::End).totals.reserved);
    let other = simulated(&trace, "expandable_segments:True", At::End).segments;
    assert_eq!(other.totals.allocated, Bytes(30 << 20));
    // An expandable segment grows by pages of 20 MiB.
    assert_eq!(other.totals.reserved, Some(Bytes(60 << 20)));
    assert!(other.segments.iter().all(|segment| segment.kind.ends_with("expandable")));
    let owners: Vec<&str> = other.owners.iter().map(|owner| &*owner.location).collect();
    assert!(owners.contains(&"train.py:3 (main)"), "{owners:?}");
    // Before the last request, its memory is not reserved.
    let before = simulated(&trace, "", At::Seconds(0.0055)).segments;
    assert_eq!(before.totals.allocated, Bytes(14 << 20));
}

#[test]
fn wasted_memory_over_time_ends_as_the_segments_do() {
    let trace = trace(&busy());
    let found = fragmentation_curve(&trace, GPU).unwrap();
    assert!(found.points.len() > 100, "{}", found.points.len());
    assert!(found.points.is_sorted_by(|one, other| one.seconds < other.seconds));
    assert_eq!(found.largest_request, Bytes(3 << 20));
    let last = found.points.last().unwrap();
    assert_eq!(last.now, ask(&trace, At::End).fragmentation);
    assert_eq!(
        fragmentation_curve(&trace, Device::cuda(3)).unwrap_err(),
        QuestionError::NoSuchDevice { device: Device::cuda(3), recorded: vec![GPU] }
    );
}
