//! `floodmark oom`.

use crate::program::Folder;

const SPLIT: &str = "
    segment A cuda:0 20MiB
    alloc a cuda:0 8MiB on A at model.py:3:forward in layers.0.fc
    alloc b cuda:0 8MiB on A+8MiB at model.py:3:forward in layers.0.fc
    segment B cuda:0 20MiB
    alloc c cuda:0 8MiB on B at train.py:5
    oom cuda:0 16MiB at train.py:6";

fn folder() -> Folder {
    Folder::new()
        .with("split.flood", SPLIT)
        .with(
            "stream.flood",
            "segment S cuda:0 20MiB stream 7
             alloc s cuda:0 8MiB on S stream 7
             segment A cuda:0 12MiB
             alloc a cuda:0 12MiB on A
             oom cuda:0 12MiB",
        )
        .with(
            "pending.flood",
            "segment A cuda:0 12MiB
             alloc a cuda:0 12MiB on A
             free a deferred
             oom cuda:0 12MiB left 1MiB",
        )
        .with("bare.flood", "alloc a cuda:0 6MiB\nfree a\nalloc b cuda:0 2MiB\noom cuda:0 3MiB")
        .with("cpu.flood", "alloc a cpu 6MiB at train.py:2\noom cpu 3MiB at train.py:3")
        .with("fine.flood", "alloc a cuda:0 6MiB")
        .with_recording("oom.pickle.gz", "allocator/default-oom.pickle.gz")
}

#[test]
fn a_failure_is_explained_with_proof() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("oom split.flood"), @"
    exit 0
    --- stdout
    Out of memory on cuda:0: 16.00 MiB requested at train.py:6 (main), with 24.00 MiB allocated, 40.00 MiB reserved, outside forward/backward/optimizer, at 0.006 s
    Why: fragmentation. 16.00 MiB are free in the request's pool and stream, but the largest free block has 12.00 MiB; 16.00 MiB were requested

        Bytes  Memory at the failed allocation
    40.00 MiB  limit on what torch could reserve, as far as the recording shows
    40.00 MiB  reserved by torch
    24.00 MiB  allocated
    16.00 MiB  reserved and free, in 2 blocks, the largest 12.00 MiB
    16.00 MiB  of these in the request's pool and stream, in 2 blocks, the largest 12.00 MiB
          0 B  not reserved: what torch could still reserve
    16.00 MiB  segment that torch requested from the driver

    Succeeds  This request, with a change: simulated with the same requests
    yes       with expandable_segments:True
    no        with max_split_size_mb:128
    no        with garbage_collection_threshold:0.8
    yes       with 16.00 MiB more memory

        Bytes  Live allocations, by line
    16.00 MiB  model.py:3 (forward)
    8.000 MiB  train.py:5 (main)

        Bytes  Live allocations, by module
    16.00 MiB  Net
    16.00 MiB    layers
    16.00 MiB      0
    16.00 MiB        fc (Layer)
    8.000 MiB  (no module)

    Simulated up to the failed request: the recording ends there, and the rest of the run may need more
    --- stderr
    hint: find changes that make the whole run fit: `floodmark plan train.py`
    ");
    insta::assert_snapshot!(folder.run("oom oom.pickle.gz"), @"
    exit 0
    --- stdout
    Out of memory on cuda:0: 250.0 MiB requested, with 1.741 GiB allocated, 1.809 GiB reserved, in step 4, backward, at 4.923 s
    Why: capacity. Of the 1.990 GiB that torch could reserve, 1.741 GiB are allocated, 69.35 MiB free in torch's segments in blocks of at most 26.00 MiB and 186.0 MiB not reserved; 250.0 MiB were requested in one block
    The device had 137.2 GiB left: torch is limited by `set_per_process_memory_fraction`
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them

        Bytes  Memory at the failed allocation
    1.990 GiB  limit on what torch could reserve, as far as the recording shows
    137.2 GiB  free on the device
    1.809 GiB  reserved by torch
    1.741 GiB  allocated
    69.35 MiB  reserved and free, in 26 blocks, the largest 26.00 MiB
    66.00 MiB  of these in the request's pool and stream, in 20 blocks, the largest 26.00 MiB
    186.0 MiB  not reserved: what torch could still reserve
    250.0 MiB  segment that torch requested from the driver

    Succeeds  This request, with a change: simulated with the same requests
    no        with expandable_segments:True
    no        with max_split_size_mb:128
    no        with garbage_collection_threshold:0.8
    yes       with 64.00 MiB more memory

        Bytes  Live allocations, by line
    578.8 MiB  zoo/alloc_runs.py:25 (forward)
    444.6 MiB  zoo/alloc_runs.py:48 (<module>)
    282.0 MiB  no Python frame: thread 0 (backward)
    255.0 MiB  zoo/alloc_runs.py:43 (<module>)
    222.3 MiB  zoo/alloc_runs.py:26 (<module>)
    16.00 KiB  zoo/alloc_runs.py:42 (<module>)
        512 B  zoo/alloc_runs.py:43 (<module>) (backward)

        Bytes  Live allocations, by module
    1.171 GiB  (no module)
    583.8 MiB  container
    578.8 MiB    alloc_runs (container:253)
    256.0 MiB      container (alloc_runs:25)
    128.0 MiB        activation (container:253)
    128.0 MiB        linear (container:253)
    225.5 MiB      activation (alloc_runs:25)
    32.25 MiB      normalization (alloc_runs:25)
    5.000 MiB    sparse (container:253)

    Simulated up to the failed request: the recording ends there, and the rest of the run may need more
    --- stderr
    hint: find changes that make the whole run fit: `floodmark plan train.py`
    ");
}

#[test]
fn the_owners_that_are_listed_are_counted() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("oom oom.pickle.gz --top 2"), @"
    exit 0
    --- stdout
    Out of memory on cuda:0: 250.0 MiB requested, with 1.741 GiB allocated, 1.809 GiB reserved, in step 4, backward, at 4.923 s
    Why: capacity. Of the 1.990 GiB that torch could reserve, 1.741 GiB are allocated, 69.35 MiB free in torch's segments in blocks of at most 26.00 MiB and 186.0 MiB not reserved; 250.0 MiB were requested in one block
    The device had 137.2 GiB left: torch is limited by `set_per_process_memory_fraction`
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them

        Bytes  Memory at the failed allocation
    1.990 GiB  limit on what torch could reserve, as far as the recording shows
    137.2 GiB  free on the device
    1.809 GiB  reserved by torch
    1.741 GiB  allocated
    69.35 MiB  reserved and free, in 26 blocks, the largest 26.00 MiB
    66.00 MiB  of these in the request's pool and stream, in 20 blocks, the largest 26.00 MiB
    186.0 MiB  not reserved: what torch could still reserve
    250.0 MiB  segment that torch requested from the driver

    Succeeds  This request, with a change: simulated with the same requests
    no        with expandable_segments:True
    no        with max_split_size_mb:128
    no        with garbage_collection_threshold:0.8
    yes       with 64.00 MiB more memory

        Bytes  Live allocations, by line
    578.8 MiB  zoo/alloc_runs.py:25 (forward)
    444.6 MiB  zoo/alloc_runs.py:48 (<module>)

        Bytes  Live allocations, by module
    1.171 GiB  (no module)
    583.8 MiB  container

    Simulated up to the failed request: the recording ends there, and the rest of the run may need more
    --- stderr
    hint: find changes that make the whole run fit: `floodmark plan train.py`
    ");
}

#[test]
fn the_step_that_failed_is_not_finished() {
    insta::assert_snapshot!(folder().run("report oom.pickle.gz --by step --top 2"), @"
    exit 0
    --- stdout
    Peak of cuda:0: 1.741 GiB allocated, 1.809 GiB reserved, in step 4, backward, at 4.922 s
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them
    Step                  Peak        End      Growth    Forward   Backward  Optimizer  Outside phases  Of this peak
    3                1.355 GiB  955.2 MiB         0 B  1.232 GiB  1.355 GiB  1.154 GiB       731.9 MiB           0 B
    4, not finished  1.741 GiB  1.497 GiB  +577.5 MiB  1.741 GiB  1.741 GiB                  731.9 MiB     1.026 GiB
    … and 3 earlier rows, 731.9 MiB
    ");
}

#[test]
fn every_reason_has_its_words() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("oom stream.flood --top 1"), @"
    exit 0
    --- stdout
    Out of memory on cuda:0: 12.00 MiB requested, with 20.00 MiB allocated, 32.00 MiB reserved, at 0.005 s
    Why: other pool. 12.00 MiB are free, but none of them in the request's pool and stream

        Bytes  Memory at the failed allocation
    32.00 MiB  limit on what torch could reserve, as far as the recording shows
    32.00 MiB  reserved by torch
    20.00 MiB  allocated
    12.00 MiB  reserved and free, in 1 block
          0 B  of these in the request's pool and stream
          0 B  not reserved: what torch could still reserve
    12.00 MiB  segment that torch requested from the driver

    Succeeds  This request, with a change: simulated with the same requests
    no        with expandable_segments:True
    no        with max_split_size_mb:128
    no        with garbage_collection_threshold:0.8
    yes       with 12.00 MiB more memory

        Bytes  Live allocations, by line
    20.00 MiB  no Python frame: thread 0

        Bytes  Live allocations, by module
    20.00 MiB  (no module)

    Simulated up to the failed request: the recording ends there, and the rest of the run may need more
    --- stderr
    hint: find changes that make the whole run fit: `floodmark plan train.py`
    ");
    insta::assert_snapshot!(folder.run("oom pending.flood --top 1"), @"
    exit 0
    --- stdout
    Out of memory on cuda:0: 12.00 MiB requested, with 0 B allocated, 12.00 MiB reserved, at 0.004 s
    Why: pending frees. The program freed 12.00 MiB that a stream still uses

        Bytes  Memory at the failed allocation
    13.00 MiB  limit on what torch could reserve, as far as the recording shows
    1.000 MiB  free on the device
    12.00 MiB  reserved by torch
          0 B  allocated
    12.00 MiB  pending free: freed, still used by a stream
          0 B  reserved and free
          0 B  of these in the request's pool and stream
    1.000 MiB  not reserved: what torch could still reserve
    12.00 MiB  segment that torch requested from the driver

    Succeeds  This request, with a change: simulated with the same requests
    no        with expandable_segments:True
    yes       with max_split_size_mb:128
    yes       with garbage_collection_threshold:0.8
    yes       with 2.000 MiB more memory

    Simulated up to the failed request: the recording ends there, and the rest of the run may need more
    --- stderr
    hint: find changes that make the whole run fit: `floodmark plan train.py`
    ");
    insta::assert_snapshot!(folder.run("oom bare.flood --top 1"), @"
    exit 0
    --- stdout
    Out of memory on cuda:0: 3.000 MiB requested, with 2.000 MiB allocated, 6.000 MiB reserved, at 0.004 s
    Why: fragmentation. 4.000 MiB are reserved and free, but no free block has the requested 3.000 MiB
    ! the trace does not say where blocks lie in their segments

        Bytes  Memory at the failed allocation
    6.000 MiB  reserved by torch
    2.000 MiB  allocated
    20.00 MiB  segment that torch requested from the driver

        Bytes  Live allocations, by line
    2.000 MiB  no Python frame: thread 0

        Bytes  Live allocations, by module
    2.000 MiB  (no module)
    --- stderr
    hint: find changes that make the whole run fit: `floodmark plan train.py`
    ");
    insta::assert_snapshot!(folder.run("oom cpu.flood --top 1"), @"
    exit 0
    --- stdout
    Out of memory on cpu: 3.000 MiB requested at train.py:3 (main), with 6.000 MiB allocated, outside forward/backward/optimizer, at 0.002 s
    Why: capacity. 6.000 MiB are allocated; the system refused 3.000 MiB more

        Bytes  Memory at the failed allocation
    6.000 MiB  allocated

        Bytes  Live allocations, by line
    6.000 MiB  train.py:2 (main)

        Bytes  Live allocations, by module
    6.000 MiB  (no module)
    ");
}

#[test]
fn the_json_of_an_explanation_is_the_contract() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("oom split.flood --top 1 --json"), @r#"
    exit 0
    --- stdout
    {
      "floodmark": "0.1.0",
      "format": 1,
      "device": "cuda:0",
      "at": {
        "what": "oom",
        "seconds": 0.006,
        "step": null,
        "phase": "outside",
        "module": null,
        "request": {
          "bytes": 16777216,
          "location": "train.py:6 (main)"
        }
      },
      "reason": "fragmentation",
      "why": "fragmentation. 16.00 MiB are free in the request's pool and stream, but the largest free block has 12.00 MiB; 16.00 MiB were requested",
      "segment": 16777216,
      "limit": 41943040,
      "is_own_limit": false,
      "total": null,
      "device_free": null,
      "outside_torch": null,
      "reserved": 41943040,
      "unreserved": 0,
      "allocated": 25165824,
      "is_replayed": true,
      "pending_free": 0,
      "free": 16777216,
      "free_blocks": 2,
      "largest_free": 12582912,
      "usable_free": 16777216,
      "usable_blocks": 2,
      "largest_usable": 12582912,
      "needed": 16777216,
      "proofs": [
        {
          "alloc_conf": "expandable_segments:True",
          "extra_memory": 0,
          "fits": true
        },
        {
          "alloc_conf": "max_split_size_mb:128",
          "extra_memory": 0,
          "fits": false
        },
        {
          "alloc_conf": "garbage_collection_threshold:0.8",
          "extra_memory": 0,
          "fits": false
        },
        {
          "alloc_conf": "",
          "extra_memory": 16777216,
          "fits": true
        }
      ],
      "is_last": true,
      "scope": "Simulated up to the failed request: the recording ends there, and the rest of the run may need more",
      "lines": [
        {
          "bytes": 16777216,
          "cumulative": 16777216,
          "count": 2,
          "median": 8388608,
          "location": "model.py:3 (forward)",
          "file": "model.py",
          "line": 3,
          "function": "forward",
          "module": "layers.0.fc",
          "backward": false
        }
      ],
      "modules": [
        {
          "bytes": 16777216,
          "cumulative": 0,
          "count": 2,
          "median": 8388608,
          "location": "Net",
          "own": 0,
          "depth": 0,
          "class_name": null
        }
      ],
      "losses": []
    }
    "#);
}

#[test]
fn where_nothing_failed_there_is_nothing_to_explain() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("oom fine.flood"), @"
    exit 1
    --- stderr
    error: Failed to explain `fine.flood`
      Caused by: no allocation failed in this trace

    hint: `floodmark report --at peak` shows the peak
    ");
    insta::assert_snapshot!(folder.run("oom split.flood --device cpu"), @"
    exit 1
    --- stderr
    error: Failed to explain `split.flood`
      Caused by: no allocation failed on cpu; one failed on cuda:0

    hint: choose that one with `--device`
    ");
}

#[test]
fn a_change_that_helps_promises_this_request_alone() {
    let folder = folder();
    let ends = "Simulated up to the failed request: the recording ends there, and the rest of the run may need more";
    for line in ["oom split.flood", "simulate split.flood --memory 64MiB"] {
        let shown = folder.run(line);
        assert!(shown.contains(ends) && !shown.contains("Fits"), "{shown}");
    }
    let goes_on =
        Folder::new().with("x.flood", &format!("{SPLIT}\n alloc d cuda:0 1MiB on B+8MiB"));
    let shown = goes_on.run("oom x.flood");
    assert!(
        shown.contains("what the program would have requested next was not recorded"),
        "{shown}"
    );
    let advice = folder.run("advise split.flood");
    assert!(advice.contains("the rest of the run may need more"), "{advice}");
    assert!(!advice.contains("no allocation fails"), "{advice}");
    assert!(
        folder
            .run("oom split.flood")
            .contains("hint: find changes that make the whole run fit: `floodmark plan ")
    );
    assert!(advice.contains("hint: find changes that make the whole run fit: `floodmark plan "));
}

#[test]
fn the_failed_request_is_the_largest_one() {
    let shown = folder().run("report split.flood --by segment --at oom");
    assert!(
        shown.contains("16.00 MiB free in blocks below the largest request (16.00 MiB)"),
        "{shown}"
    );
}
