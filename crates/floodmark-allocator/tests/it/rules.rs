//! The rules of the caching allocator, in the order of `malloc`, each with the function that it follows.
//!
//! A script has the requests of a program; after `=>` are the blocks at the end. `_` is free memory.

use floodmark_allocator::TorchVersion;

use crate::script::{bytes, run};

const V: TorchVersion = TorchVersion::CHECKED;

fn check(rule: &str, conf: &str, script: &str, expected: &str) {
    check_in(rule, V, conf, None, script, expected);
}

fn check_in(
    rule: &str,
    version: TorchVersion,
    conf: &str,
    limit: Option<&str>,
    script: &str,
    expected: &str,
) {
    let (_, shown) = run(script, conf, version, limit.map(bytes));
    assert_eq!(shown, expected, "{rule}: `{script}` under `{conf}`");
}

#[test]
fn round_size() {
    let small = "the unit is 512 bytes";
    check(small, "", "a=1 b=512 c=513", "+2M => a:512 b:512 c:1024 _:1M+1046528");
    let rule = "powers of two are divided, from 512 × divisions on";
    check(rule, "roundup_power2_divisions:4", "a=2049", "+2M => a:2560 _:1M+1046016");
    check(rule, "roundup_power2_divisions:4", "a=2048", "+2M => a:2048 _:1M+1046528");
    check(rule, "roundup_power2_divisions:4", "a=900K", "+2M => a:1M _:1M");
    let one = "one division is none";
    check(one, "roundup_power2_divisions:1", "a=1025", "+2M => a:1536 _:1M+1047040");
    check_in(
        one,
        TorchVersion::new(2, 3),
        "roundup_power2_divisions:1",
        None,
        "a=1025",
        "+2M => a:1025 _:1M+1047551",
    );
}

#[test]
fn get_allocation_size() {
    check("up to 1 MiB from 2 MiB", "", "a=1M", "+2M => a:1M _:1M");
    check("above, below 10 MiB, from 20 MiB", "", "a=1048577", "+20M => a:1M+512 _:18M+1048064");
    check("from 10 MiB on, rounded to 2 MiB", "", "a=10M b=11M", "+10M +12M => a:10M | b:12M");
    check("large segments can be set", "large_segment_size_mb:32", "a=3M", "+32M => a:3M _:29M");
}

#[test]
fn get_free_block() {
    let fit = "the smallest block that fits";
    check(
        fit,
        "",
        "a=1000K b=100K c=100K -a d=600K e=300K",
        "+2M => e:307200 _:716800 b:102400 c:102400 d:614400 _:253952",
    );
    let streams = "streams do not share";
    check(streams, "", "a=512 -a b=512@7", "+2M +2M => _:2M | b:512 _:1M+1048064");
    let pools = "pools do not share";
    check(pools, "", "a=512 -a b=512/3", "+2M +2M => _:2M | b:512 _:1M+1048064");
    let oversize = "a block not below max_split_size is not for smaller requests";
    check(oversize, "max_split_size_mb:32", "a=40M -a b=16M", "+40M +16M => _:40M | b:16M");
    let reuse = "an oversize request takes a block that is not much larger";
    check(reuse, "max_split_size_mb:32", "a=50M -a b=40M", "+50M => b:50M");
    check(reuse, "max_split_size_mb:32", "a=60M -a b=40M", "+60M +40M => _:60M | b:40M");
}

#[test]
fn equal_blocks() {
    // Three segments, the first and the last free. The driver puts the first two into one range, and the
    // third below it.
    let script = "a=12M b=12M c=12M -a -c d=12M";
    check("the lowest address up to 2.11", "", script, "+12M +12M +12M => _:12M | b:12M | d:12M");
    let (old, _) = run(script, "", V, None);
    let (new, _) = run(script, "", TorchVersion::new(2, 13), None);
    let place = |run: &floodmark_allocator::Run| {
        let is_taken =
            |segment: &&floodmark_allocator::SegmentView| segment.blocks[0].owner == Some(3);
        run.layout.segments.iter().position(|segment| is_taken(&segment)).expect("d")
    };
    // In the order of addresses: the oldest segment is the highest.
    assert_eq!((place(&old), place(&new)), (0, 1), "the oldest segment from 2.13 on");
}

#[test]
fn should_split() {
    let large = "a large block is cut while more than 1 MiB is left";
    check(large, "", "a=12M -a b=11M", "+12M => b:12M");
    check(large, "", "a=12M -a b=11534335", "+12M => b:12M");
    check(large, "", "a=12M -a b=11533312", "+12M => b:10M+1047552 _:1M+1024");
    let small = "a small one while 512 bytes are left";
    check(small, "", "a=1M -a b=1048064", "+2M => b:1048064 _:1M+512");
    let never = "an oversize request is not cut";
    check(never, "max_split_size_mb:32", "a=48M -a b=33M", "+48M => b:48M");
    let expandable = "expandable ones while 512 bytes are left";
    check(expandable, "expandable_segments:True", "a=3M b=3M", "map 20M => a:3M b:3M _:14M");
}

#[test]
fn free_block() {
    let merge = "free neighbours are merged";
    check(merge, "", "a=512 b=512 c=512 -a -c -b", "+2M => _:2M");
    let pending = "a block that a stream uses is not";
    check(pending, "", "a=512 b=512 ~a -b", "+2M => ~:512 _:1M+1048064");
    check(pending, "", "a=512 b=512 ~a -b !a", "+2M => _:2M");
}

#[test]
fn alloc_block() {
    let limit = "what may be reserved is asked with the size of the segment";
    let (run, shown) = run("a=12M b=12M", "", V, Some(24 << 20));
    assert_eq!(shown, "+12M +12M => a:12M | b:12M", "{limit}");
    assert_eq!(run.oom, None);
    let (run, shown) = crate::script::run("a=12M b=3M", "", V, Some(24 << 20));
    assert_eq!(shown, "+12M => a:12M", "{limit}");
    let oom = run.oom.expect("20 MiB more are too many");
    assert_eq!((oom.event, oom.requested.0, oom.segment.0), (1, 3 << 20, 20 << 20));
    assert_eq!((run.stats.num_ooms, run.stats.num_alloc_retries), (1, 1));
}

#[test]
fn release_cached_blocks() {
    let retry = "what is free as a whole goes back before a request fails";
    check_in(
        retry,
        V,
        "",
        Some("24M"),
        "a=12M b=512 -a c=20M",
        "+12M +2M -12M +20M => b:512 _:1M+1048064 | c:20M",
    );
    let order = "large ones first";
    check(order, "", "a=512 b=12M -a -b empty", "+2M +12M -12M -2M => ");
    let kept = "what is partly used stays";
    check(kept, "", "a=512 b=512 -a empty", "+2M => _:512 b:512 _:1M+1047552");
    let waits = "streams are waited for";
    check(waits, "", "a=12M ~a empty", "+12M -12M => ");
    let private = "private pools keep theirs";
    check(private, "", "a=12M/3 -a empty", "+12M => _:12M");
}

#[test]
fn release_available_cached_blocks() {
    let conf = "max_split_size_mb:32";
    let one = "an oversize block that is large enough goes back first";
    let script = "a=90M b=3M -a d=61M";
    check_in(one, V, conf, Some("160M"), script, "+90M +20M -90M +62M => b:3M _:17M | d:62M");
    let several = "or several, the largest first, and nothing else";
    let script = "a=60M b=3M c=33M e=18M -a -c -e d=61M";
    let expected = "+60M +20M +34M +18M -60M -34M +62M => _:18M | b:3M _:17M | d:62M";
    check_in(several, V, conf, Some("140M"), script, expected);
}

#[test]
fn garbage_collect_cached_blocks() {
    let rule = "above the threshold, old segments go back before new ones are taken";
    check_in(
        rule,
        V,
        "garbage_collection_threshold:0.5",
        Some("100M"),
        "a=40M b=20M -a c=512 d=64K e=50M",
        "+40M +20M -40M +2M +50M => b:20M | c:512 d:65536 _:1M+982528 | e:50M",
    );
}

#[test]
fn expandable_segments() {
    let grow = "they grow by what is missing, in whole pages";
    check(
        grow,
        "expandable_segments:True",
        "a=15M b=15M c=12M",
        "map 20M map 20M map 20M => a:15M b:15M c:12M _:18M",
    );
    let back = "whole free pages go back";
    check(
        back,
        "expandable_segments:True",
        "a=25M b=2M -a empty",
        "map 40M unmap 20M => _:5M b:2M _:13M",
    );
    let again = "the lowest gap is filled first";
    check(
        again,
        "expandable_segments:True",
        "a=25M b=2M -a empty c=22M",
        "map 40M unmap 20M map 20M => c:22M _:3M b:2M _:13M",
    );
    let hole = "a hole is preferred to the growing end";
    check(
        hole,
        "expandable_segments:True",
        "a=4M b=2M c=1100K -a d=3M",
        "map 20M => d:3M _:1M b:2M c:1M+77824 _:12M+970752",
    );
    let alone = "one for small blocks, one for large ones";
    check(
        alone,
        "expandable_segments:True",
        "a=512 b=2M",
        "map 2M map 20M => a:512 _:1M+1048064 | b:2M _:18M",
    );
}
