//! torch's own memory snapshots, in place of a `.flood` file.

use crate::program::Folder;
use crate::simulate::SPREAD;

fn folder() -> Folder {
    Folder::new()
        .with("spread.flood", SPREAD)
        .with("cpu.flood", "alloc a cpu 1MiB at train.py:3\nfree a")
        .with_bytes("list.pickle", b"\x80\x04]\x94(K\x01K\x02e.")
        .with_bytes("cut.pickle", b"\x80\x04}\x94\x8c\x08seg")
        .with_recording("oom.pickle.gz", "allocator/default-oom.pickle.gz")
        .with_recording("expandable.pickle.gz", "allocator/expandable-oom.pickle.gz")
        .with_recording("lstm.pickle.gz", "zoo/lstm.pickle.gz")
}

#[test]
fn info_says_what_a_snapshot_holds() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("info oom.pickle.gz"), @"
    exit 0
    --- stdout
    oom.pickle.gz: 4,995 events in 4.950 s, 2,572 allocations, 4 steps, 1 thread; 1 failed allocation (`--at oom`)
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them
    Peak of cuda:0: 1.741 GiB allocated, 1.809 GiB reserved, in step 4, backward, at 4.922 s
      torch      2.10 to 2.11
      allocator  native
      recorded   stacks, segments
    ");
    insta::assert_snapshot!(folder.run("info lstm.pickle.gz"), @"
    exit 0
    --- stdout
    lstm.pickle.gz: 449 events in 3.977 s, 221 allocations, 3 steps, 1 thread
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them
    Peak of cuda:0: 1.366 GiB allocated, 1.668 GiB reserved, in step 1, backward, at 3.941 s
      torch      2.10 to 2.11
      allocator  native
      recorded   stacks, segments
    ");
}

#[test]
fn a_report_by_segment_shows_how_blocks_lie() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("report --by segment spread.flood"), @"
    exit 0
    --- stdout
    Peak of cuda:0: 40.00 MiB allocated, 56.00 MiB reserved, outside forward/backward/optimizer, at 0.007 s
    Reserved: 28.6 % are not allocated; 16.00 MiB free in 2 blocks, the largest 12.00 MiB
    Wasted: 0 B by rounding inside blocks, 16.00 MiB free in split segments, 16.00 MiB free in blocks below the largest request (16.00 MiB)
      Segment  Allocated       Free  Largest free  Blocks  █ allocated ▒ pending · free      Address
    20.00 MiB  16.00 MiB  4.000 MiB     4.000 MiB       2  ██████████████████████████······  0x10000000000 large
    20.00 MiB  8.000 MiB  12.00 MiB     12.00 MiB       1  █████████████···················  0x20000000000 large
    16.00 MiB  16.00 MiB        0 B           0 B       1  ████████████████████████████████  0x30000000000 large
    ");
    insta::assert_snapshot!(folder.run("report --by segment oom.pickle.gz --top 4"), @"
    exit 0
    --- stdout
    Peak of cuda:0: 1.741 GiB allocated, 1.809 GiB reserved, in step 4, backward, at 4.922 s
    Reserved: 3.7 % are not allocated; 69.35 MiB free in 25 blocks, the largest 26.00 MiB
    Wasted: 5.001 MiB by rounding inside blocks, 69.35 MiB free in split segments, 69.35 MiB free in blocks below the largest request (250.0 MiB)
    Over time, at 4 moments: 295.8 MiB to 832.8 MiB free, the most in blocks below the largest request at the end of step 3: 832.8 MiB
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them
      Segment  Allocated       Free  Largest free  Blocks  █ allocated ▒ pending · free      Address
    250.0 MiB  250.0 MiB        0 B           0 B       1  ████████████████████████████████  0x7fb8ce000000 large
    250.0 MiB  250.0 MiB        0 B           0 B       1  ████████████████████████████████  0x7fb8de000000 large
    126.0 MiB  96.00 MiB  30.00 MiB     26.00 MiB      10  ███████████████████████·█·······  0x7fb8f8000000 large
    64.00 MiB  60.00 MiB  4.000 MiB     4.000 MiB       7  ██████████████████████████████··  0x7fb912000000 large
    … and 49 more rows, 1.100 GiB
    ");
    insta::assert_snapshot!(folder.run("report --by segment expandable.pickle.gz --at end"), @"
    exit 0
    --- stdout
    End on cuda:0: 1.492 GiB allocated, 1.775 GiB reserved, in step 4, at 4.357 s
    Reserved: 16.0 % are not allocated; 290.4 MiB free in 16 blocks, the largest 250.0 MiB
    Wasted: 508 B by rounding inside blocks, 0 B free in split segments, 40.35 MiB free in blocks below the largest request (250.0 MiB)
    Over time, at 4 moments: 245.8 MiB to 481.8 MiB free, the most in blocks below the largest request at the end of step 1: 261.8 MiB
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them
      Segment  Allocated       Free  Largest free  Blocks  █ allocated ▒ pending · free      Address
    1.738 GiB  1.466 GiB  279.0 MiB     250.0 MiB     154  ███████████████████████····█████  0x302000000 large, expandable
    28.00 MiB  24.13 MiB  3.874 MiB     2.000 MiB     134  ████████████████████··████████··  0x2a56000000 small, expandable
    10.00 MiB  2.521 MiB  7.479 MiB     3.357 MiB      80  ·····██···········███···████····  0x2a58a00000 small, expandable
    ");
    insta::assert_snapshot!(folder.run("report --by segment spread.flood --csv"), @"
    exit 0
    --- stdout
    bytes,cumulative,count,median,location,address,segment,pending_free,free,largest_free,picture
    16777216,16777216,2,8388608,0x10000000000 large,1099511627776,20971520,0,4194304,4194304,██████████████████████████······
    8388608,25165824,1,8388608,0x20000000000 large,2199023255552,20971520,0,12582912,12582912,█████████████···················
    16777216,41943040,1,16777216,0x30000000000 large,3298534883328,16777216,0,0,0,████████████████████████████████
    ");
    insta::assert_snapshot!(folder.run("report --by segment spread.flood --top 1 --json"), @r#"
    exit 0
    --- stdout
    {
      "floodmark": "0.1.0",
      "format": 1,
      "device": "cuda:0",
      "by": "segment",
      "at": {
        "what": "peak",
        "seconds": 0.007,
        "step": null,
        "phase": "outside",
        "module": null
      },
      "allocated": 41943040,
      "active": 41943040,
      "reserved": 58720256,
      "requested": 41943040,
      "losses": [],
      "fragmentation": {
        "largest_request": 16777216,
        "at": {
          "rounding": 0,
          "split": 16777216,
          "unusable": 16777216,
          "free": 16777216,
          "free_blocks": 2,
          "largest_free": 12582912,
          "reserved": 58720256,
          "ratio": 0.2857142857142857
        },
        "over_time": []
      },
      "total_rows": 3,
      "rows": [
        {
          "bytes": 16777216,
          "cumulative": 16777216,
          "count": 2,
          "median": 8388608,
          "location": "0x10000000000 large",
          "address": 1099511627776,
          "segment": 20971520,
          "pending_free": 0,
          "free": 4194304,
          "largest_free": 4194304,
          "picture": "██████████████████████████······"
        }
      ]
    }
    "#);
}

#[test]
fn a_report_by_line_of_a_snapshot_is_as_any_other() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("report lstm.pickle.gz --top 3"), @"
    exit 0
    --- stdout
    Peak of cuda:0: 1.366 GiB allocated, 1.668 GiB reserved, in step 1, backward, at 3.941 s
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them
        Bytes  Cumulative     Median  Count  Location
    657.0 MiB   657.0 MiB  312.5 MiB      3  no Python frame: thread 0 (backward)
    312.5 MiB   969.5 MiB  312.5 MiB      2  zoo/zoo.py:131 (step)
    262.9 MiB   1.204 GiB  16.00 MiB      8  zoo/zoo.py:124 (forward)
    … and 4 more rows, 166.4 MiB
    ");
}

#[test]
fn the_cpu_has_no_segments() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("report --by segment cpu.flood"), @"
    exit 1
    --- stderr
    error: Failed to report on `cpu.flood`
      Caused by: the trace has no segments: its allocator does not report them

    hint: the CPU has no segments; choose a CUDA device with `--device`
    ");
    insta::assert_snapshot!(folder.run("diff --by segment spread.flood spread.flood"), @"
    exit 1
    --- stderr
    error: Failed to compare `spread.flood` with `spread.flood`
      Caused by: `spread.flood` has no answer
      Caused by: two traces cannot be compared by segment: their addresses differ

    hint: compare by `line`, `module` or `category`
    ");
}

#[test]
fn what_is_no_snapshot_is_refused() {
    let folder = folder();
    for name in ["list.pickle", "cut.pickle"] {
        let shown = folder.run(&format!("info {name}"));
        let expected = format!("exit 1\n--- stderr\nerror: Failed to read `{name}`\n  Caused by: ");
        assert!(shown.starts_with(&expected), "{shown}");
        assert!(shown.contains("\nhint: "), "{shown}");
    }
}
