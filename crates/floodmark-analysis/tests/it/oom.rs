//! Why a request failed: one script for each reason.

use floodmark_analysis::{OomReason, OomReport, oom};
use floodmark_trace::{Bytes, DeviceInfo, Trace};

use crate::trace;

const MIB: u64 = 1 << 20;

fn ask(trace: &Trace) -> OomReport {
    oom(trace, None, None).unwrap()
}

/// What there was free: all, in how many blocks, the largest, and the same of what the request could use.
fn free(found: &OomReport) -> [u64; 6] {
    let usable = [found.usable_free.0 / MIB, found.usable_blocks, found.largest_usable.0 / MIB];
    let [free, blocks, largest] = usable;
    [found.free.0 / MIB, found.free_blocks, found.largest_free.0 / MIB, free, blocks, largest]
}

#[test]
fn too_much_is_a_matter_of_capacity() {
    let found = ask(&trace(
        "segment A cuda:0 12MiB
         alloc a cuda:0 12MiB on A at train.py:3 in fc
         segment B cuda:0 20MiB
         alloc b cuda:0 8MiB on B at train.py:4 in fc
         oom cuda:0 16MiB at train.py:5",
    ));
    assert_eq!(found.reason, OomReason::Capacity);
    assert_eq!((found.allocated, found.reserved), (Bytes(20 * MIB), Some(Bytes(32 * MIB))));
    assert_eq!(free(&found), [12, 1, 12, 12, 1, 12]);
    assert_eq!((found.limit, found.segment), (Some(Bytes(32 * MIB)), Some(Bytes(16 * MIB))));
    // Nothing can be freed to the driver, so the whole segment is missing.
    assert_eq!(found.needed, Some(Bytes(16 * MIB)));
    let fits: Vec<bool> = found.proofs.iter().map(|proof| proof.fits).collect();
    assert_eq!(fits, [false, false, false, true]);
    let places: Vec<&str> = found.lines.iter().map(|row| row.location.as_str()).collect();
    assert_eq!(places, ["train.py:3 (main)", "train.py:4 (main)"]);
    assert_eq!(found.modules[0].bytes, Bytes(20 * MIB));
}

#[test]
fn enough_in_pieces_is_fragmentation_and_a_setting_would_have_helped() {
    let found = ask(&trace(
        "segment A cuda:0 20MiB
         alloc a cuda:0 8MiB on A
         alloc b cuda:0 8MiB on A+8MiB
         segment B cuda:0 20MiB
         alloc c cuda:0 8MiB on B
         oom cuda:0 16MiB",
    ));
    assert_eq!(found.reason, OomReason::Fragmentation);
    assert_eq!(free(&found), [16, 2, 12, 16, 2, 12]);
    // Three blocks of 8 MiB in two pages of 20 MiB leave 16 MiB in one block.
    let expandable = &found.proofs[0];
    assert_eq!(
        (expandable.alloc_conf.as_str(), expandable.fits),
        ("expandable_segments:True", true)
    );
    assert_eq!(found.needed, Some(Bytes(16 * MIB)));
}

#[test]
fn enough_on_another_stream_or_in_another_pool_does_not_help() {
    for other in ["stream 7", "pool 1"] {
        let found = ask(&trace(&format!(
            "segment S cuda:0 20MiB {other}
             alloc s cuda:0 8MiB on S {other}
             segment A cuda:0 12MiB
             alloc a cuda:0 12MiB on A
             oom cuda:0 12MiB"
        )));
        assert_eq!(found.reason, OomReason::OtherPool, "{other}");
        assert_eq!(free(&found), [12, 1, 12, 0, 0, 0], "{other}");
    }
    // Large requests cannot use what is free for small ones.
    let found = ask(&trace(
        "segment S cuda:0 2MiB
         alloc s cuda:0 512B on S
         segment A cuda:0 12MiB
         alloc a cuda:0 12MiB on A
         oom cuda:0 1572864B",
    ));
    assert_eq!((found.reason, found.usable_free), (OomReason::OtherPool, Bytes(0)));
}

#[test]
fn blocks_in_use_by_a_stream_are_pending() {
    let script = "segment A cuda:0 12MiB
         segment B cuda:0 12MiB
         alloc a cuda:0 12MiB on A
         alloc b cuda:0 12MiB on B
         free a deferred
         {}
         oom cuda:0 12MiB";
    let found = ask(&trace(&script.replace("{}", "")));
    assert_eq!((found.reason, found.pending_free), (OomReason::PendingFrees, Bytes(12 * MIB)));
    assert_eq!(found.allocated, Bytes(12 * MIB));
    let found = ask(&trace(&script.replace("{}", "complete a")));
    assert_eq!((found.reason, found.pending_free), (OomReason::Fragmentation, Bytes(0)));
}

#[test]
fn memory_of_others_counts_if_the_request_fits_without_it() {
    let script = "segment A cuda:0 12MiB
         alloc a cuda:0 12MiB on A
         oom cuda:0 2GiB left 1GiB";
    for (total, reason) in [(24 << 30, OomReason::OutsideTorch), (3 << 30, OomReason::Capacity)] {
        let mut trace = trace(script);
        let device = "cuda:0".to_owned();
        trace.header.devices =
            vec![DeviceInfo { device, total_bytes: total, ..DeviceInfo::default() }];
        let found = ask(&trace);
        assert_eq!(found.reason, reason);
        assert_eq!(found.outside_torch, Some(Bytes(total - 12 * MIB - (1 << 30))));
        assert!(!found.is_own_limit, "the device had less than was requested");
    }
    let found = ask(&trace(&script.replace("left 1GiB", "left 4GiB")));
    assert!(found.is_own_limit, "the device had more than was requested");
    assert_eq!(found.reason, OomReason::Capacity);
}

#[test]
fn the_parts_of_the_capacity_add_up_to_what_torch_could_reserve() {
    let mut recorded = trace(
        "segment A cuda:0 20MiB
         alloc a cuda:0 8MiB on A
         segment B cuda:0 20MiB
         alloc b cuda:0 16MiB on B
         oom cuda:0 64MiB left 24MiB",
    );
    let device = "cuda:0".to_owned();
    let info = DeviceInfo { device, total_bytes: 100 * MIB, ..DeviceInfo::default() };
    recorded.header.devices = vec![info];
    let found = ask(&recorded);
    let unreserved = found.unreserved.unwrap();
    assert_eq!(unreserved, Bytes(24 * MIB));
    let parts = found.allocated + found.pending_free + found.free + unreserved;
    assert_eq!(Some(parts), found.limit);
    assert_eq!(Some(parts + found.outside_torch.unwrap()), found.total);
    assert_eq!(
        found.why,
        "capacity. Of the 64.00 MiB that torch could reserve, 24.00 MiB are allocated, 16.00 MiB free in torch's \
         segments in blocks of at most 12.00 MiB and 24.00 MiB not reserved; 36.00 MiB are used outside torch; \
         64.00 MiB were requested"
    );
    // What the recording does not show is left out.
    let bare = ask(&trace("alloc a cuda:0 2MiB\noom cuda:0 3MiB"));
    assert_eq!((bare.unreserved, bare.limit), (None, None));
    assert_eq!(bare.why, "capacity. 2.000 MiB are allocated; 3.000 MiB were requested");
}

#[test]
fn without_segments_the_totals_decide() {
    let found = ask(&trace("alloc a cuda:0 6MiB\nfree a\nalloc b cuda:0 2MiB\noom cuda:0 3MiB"));
    assert_eq!((found.reason, found.is_replayed), (OomReason::Fragmentation, false));
    assert_eq!((found.free, found.free_blocks), (Bytes(4 * MIB), 0));
    let found = ask(&trace("alloc a cpu 6MiB\noom cpu 3MiB"));
    assert_eq!((found.reason, found.reserved, found.segment), (OomReason::Capacity, None, None));
    assert!(found.proofs.is_empty());
}
