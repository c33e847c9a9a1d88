//! The address space at a moment, against the report by segment and the replay of all events.

use floodmark_allocator::{AllocatorConfig, ReplayIndex, TorchVersion, replay};
use floodmark_analysis::{
    At, By, Detail, MomentIndex, Question, QuestionError, SegmentBlockState, Segments,
    SegmentsIndex, TraceIndex, report, segments,
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
        let told = report(&trace, &question).unwrap();
        assert_eq!(told.rows.len(), found.segments.len());
        assert_eq!(told.fragmentation.unwrap().at, found.fragmentation);
        for row in told.rows {
            let Detail::Segment { address, segment, .. } = row.detail else { panic!("no segment") };
            let same = found.segments.iter().find(|one| one.address == format!("0x{address:x}"));
            assert_eq!(same.unwrap().bytes, segment);
        }
    }
}

#[test]
fn a_replay_that_goes_on_is_the_whole_replay() {
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
    let told = serde_json::to_value(&found.segments).unwrap();
    assert_eq!(told[0]["stream"], "0x7");
    assert_eq!(told[0]["kind"], "small");
    let states: Vec<&str> = told[0]["blocks"]
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
