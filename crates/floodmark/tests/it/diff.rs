//! `floodmark diff`.

use crate::program::Folder;

const BEFORE: &str = "
    initial w cuda:0 2MiB
    label w parameter layers.0.fc.weight (512,1024) float32
    alloc a cuda:0 4MiB at /home/ada/model.py:10:forward:8 > /v1/site-packages/torch/nn.py:5:linear in layers.0.fc op mm
    alloc l cuda:0 512B at /home/ada/train.py:7
    backward alloc g cuda:0 2MiB at /home/ada/model.py:10:forward:8 in layers.0.fc op mm
    label g gradient layers.0.fc.weight (512,1024) float32
    free a
    optimizer begin
    optimizer end";

const AFTER: &str = "
    initial w cuda:0 2MiB
    label w parameter layers.0.fc.weight (512,1024) float32
    alloc a cuda:0 4MiB at /ci/model.py:14:forward:12 > /v2/site-packages/torch/nn.py:5:linear in layers.0.fc op mm
    alloc b cuda:0 6MiB at /ci/model.py:15:forward:12 in layers.1.fc op mm
    alloc l cuda:0 512B at /ci/train.py:7
    backward alloc g cuda:0 1MiB at /ci/model.py:14:forward:12 in layers.0.fc op mm
    label g gradient layers.0.fc.weight (512,512) float32
    free a
    optimizer begin
    optimizer end";

fn both() -> Folder {
    Folder::new().with("a.flood", BEFORE).with("b.flood", AFTER)
}

#[test]
fn a_diff_says_what_grew() {
    let folder = both();
    insta::assert_snapshot!(folder.run("diff a.flood b.flood"), @"
    exit 0
    --- stdout
    Peak of cuda:0 grew by 5.000 MiB (+62.5 %): 8.000 MiB allocated in A, 13.00 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, backward of layers.0.fc, at 0.005 s
    B: in step 0, backward of layers.0.fc, at 0.006 s
        Change          A          B  Count A  Count B  Location
    +6.000 MiB        0 B  6.000 MiB        0        1  /ci/model.py:15 (forward)
    −1.000 MiB  2.000 MiB  1.000 MiB        1        1  /ci/model.py:14 (forward) (backward)
    3 rows did not change
    ");
    insta::assert_snapshot!(folder.run("diff b.flood a.flood --top 1 --at end"), @"
    exit 0
    --- stdout
    Allocated bytes of cuda:0 at the end shrank by 5.000 MiB (−55.6 %): 9.000 MiB allocated in A, 4.000 MiB in B; reserved bytes shrank by 4.000 MiB (−28.6 %)
    A: in step 0, at 0.010 s
    B: in step 0, at 0.009 s
        Change          A    B  Count A  Count B  Location
    −6.000 MiB  6.000 MiB  0 B        1        0  /ci/model.py:15 (forward)
    … and 1 more row, +1.000 MiB
    2 rows did not change
    ");
    insta::assert_snapshot!(folder.run("diff a.flood a.flood --at 0.003"), @"
    exit 0
    --- stdout
    Allocated bytes of cuda:0 at this time did not change: 6.000 MiB allocated in A, 6.000 MiB in B; reserved bytes did not change
    A: in step 0, forward of layers.0.fc, at 0.003 s
    B: in step 0, forward of layers.0.fc, at 0.003 s
    2 rows did not change
    ");
}

#[test]
fn a_diff_has_groupings() {
    let folder = both();
    insta::assert_snapshot!(folder.stdout("diff a.flood b.flood --by stack"), @"
    Peak of cuda:0 grew by 5.000 MiB (+62.5 %): 8.000 MiB allocated in A, 13.00 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, backward of layers.0.fc, at 0.005 s
    B: in step 0, backward of layers.0.fc, at 0.006 s
        Change          A          B  Count A  Count B  Stack, innermost frame first
    +6.000 MiB        0 B  6.000 MiB        0        1  /ci/model.py:15 (forward)
                                                          torch/module.py:9 (_call_impl)
    −1.000 MiB  2.000 MiB  1.000 MiB        1        1  /ci/model.py:14 (forward) (backward)
                                                          torch/module.py:9 (_call_impl)
    3 rows did not change
    ");
    insta::assert_snapshot!(folder.stdout("diff a.flood b.flood --by module"), @"
    Peak of cuda:0 grew by 5.000 MiB (+62.5 %): 8.000 MiB allocated in A, 13.00 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, backward of layers.0.fc, at 0.005 s
    B: in step 0, backward of layers.0.fc, at 0.006 s
        Change          A          B  Count A  Count B  Module, without those inside it
    +6.000 MiB        0 B  6.000 MiB        0        1  layers.1.fc
    −1.000 MiB  8.000 MiB  7.000 MiB        3        3  layers.0.fc
    1 row did not change
    ");
    insta::assert_snapshot!(folder.stdout("diff a.flood b.flood --by op"), @"
    Peak of cuda:0 grew by 5.000 MiB (+62.5 %): 8.000 MiB allocated in A, 13.00 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, backward of layers.0.fc, at 0.005 s
    B: in step 0, backward of layers.0.fc, at 0.006 s
        Change          A          B  Count A  Count B  Operator
    +5.000 MiB  6.000 MiB  11.00 MiB        2        3  mm
    2 rows did not change
    ");
    insta::assert_snapshot!(folder.stdout("diff a.flood b.flood --by phase"), @"
    Peak of cuda:0 grew by 5.000 MiB (+62.5 %): 8.000 MiB allocated in A, 13.00 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, backward of layers.0.fc, at 0.005 s
    B: in step 0, backward of layers.0.fc, at 0.006 s
        Change          A          B  Count A  Count B  Phase
    +6.000 MiB  4.000 MiB  10.00 MiB        2        3  forward
    −1.000 MiB  2.000 MiB  1.000 MiB        1        1  backward
    1 row did not change
    ");
    insta::assert_snapshot!(folder.stdout("diff a.flood b.flood --by category"), @"
    Peak of cuda:0 grew by 5.000 MiB (+62.5 %): 8.000 MiB allocated in A, 13.00 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, backward of layers.0.fc, at 0.005 s
    B: in step 0, backward of layers.0.fc, at 0.006 s
        Change          A          B  Count A  Count B  Category
    +6.000 MiB  4.000 MiB  10.00 MiB        2        3  activation
    −1.000 MiB  2.000 MiB  1.000 MiB        1        1  gradient
    1 row did not change
    ");
    insta::assert_snapshot!(folder.stdout("diff a.flood b.flood --by tensor"), @"
    Peak of cuda:0 grew by 5.000 MiB (+62.5 %): 8.000 MiB allocated in A, 13.00 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, backward of layers.0.fc, at 0.005 s
    B: in step 0, backward of layers.0.fc, at 0.006 s
        Change          A          B  Count A  Count B  Category    Shape      Name or location
    +6.000 MiB        0 B  6.000 MiB        0        1  activation             /ci/model.py:15 (forward)
    −1.000 MiB  2.000 MiB  1.000 MiB        1        1  gradient    (512,512)  layers.0.fc.weight
    3 rows did not change
    ");
    insta::assert_snapshot!(folder.stdout("diff a.flood b.flood --by step"), @"
    Peak of cuda:0 grew by 5.000 MiB (+62.5 %): 8.000 MiB allocated in A, 13.00 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, backward of layers.0.fc, at 0.005 s
    B: in step 0, backward of layers.0.fc, at 0.006 s
        Change          A          B  Count A  Count B  Step
    +5.000 MiB  6.000 MiB  11.00 MiB        3        4  step 0
    1 row did not change
    ");
}

#[test]
fn a_limit_that_is_passed_is_an_exit_status_after_the_answer() {
    let folder = both();
    insta::assert_snapshot!(folder.run("diff a.flood b.flood --fail-above 5% --top 1"), @"
    exit 1
    --- stdout
    Peak of cuda:0 grew by 5.000 MiB (+62.5 %): 8.000 MiB allocated in A, 13.00 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, backward of layers.0.fc, at 0.005 s
    B: in step 0, backward of layers.0.fc, at 0.006 s
        Change    A          B  Count A  Count B  Location
    +6.000 MiB  0 B  6.000 MiB        0        1  /ci/model.py:15 (forward)
    … and 1 more row, −1.000 MiB
    3 rows did not change
    --- stderr
    error: the peak of cuda:0 grew by more than 5 %: allocated by 5.000 MiB (+62.5 %), reserved by 4.000 MiB (+40.0 %)
    ");
    insta::assert_snapshot!(folder.run("diff a.flood b.flood --fail-above 4MiB --at end --top 1"), @"
    exit 1
    --- stdout
    Allocated bytes of cuda:0 at the end grew by 5.000 MiB (+125.0 %): 4.000 MiB allocated in A, 9.000 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, at 0.009 s
    B: in step 0, at 0.010 s
        Change    A          B  Count A  Count B  Location
    +6.000 MiB  0 B  6.000 MiB        0        1  /ci/model.py:15 (forward)
    … and 1 more row, −1.000 MiB
    2 rows did not change
    --- stderr
    error: the peak of cuda:0 grew by more than 4.000 MiB: allocated by 5.000 MiB (+62.5 %)
    ");
    insta::assert_snapshot!(folder.run("diff a.flood b.flood --fail-above 5500KiB --top 1"), @"
    exit 0
    --- stdout
    Peak of cuda:0 grew by 5.000 MiB (+62.5 %): 8.000 MiB allocated in A, 13.00 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, backward of layers.0.fc, at 0.005 s
    B: in step 0, backward of layers.0.fc, at 0.006 s
        Change    A          B  Count A  Count B  Location
    +6.000 MiB  0 B  6.000 MiB        0        1  /ci/model.py:15 (forward)
    … and 1 more row, −1.000 MiB
    3 rows did not change
    ");
    insta::assert_snapshot!(folder.run("diff a.flood b.flood --fail-above much"), @"
    exit 1
    --- stderr
    error: invalid value 'much' for '--fail-above <LIMIT>': a limit is a percentage such as `5%` or a size such as `200MiB`

    For more information, try '--help'.
    ");
    folder.command("diff a.flood b.flood --fail-above 75%").assert().success();
    folder.command("diff a.flood b.flood --fail-above 6MiB").assert().success();
    folder.command("diff a.flood b.flood --fail-above 5% --json").assert().code(1);
    folder.command("diff b.flood a.flood --fail-above 0").assert().success();
}

#[test]
fn json_and_csv_have_plain_numbers() {
    let folder = both();
    insta::assert_snapshot!(folder.stdout("diff a.flood b.flood --json --top 1"), @r#"
    {
      "floodmark": "0.1.0",
      "format": 1,
      "device": "cuda:0",
      "device_b": "cuda:0",
      "by": "line",
      "at": {
        "a": {
          "what": "peak",
          "seconds": 0.005,
          "step": 0,
          "phase": "backward",
          "module": "layers.0.fc"
        },
        "b": {
          "what": "peak",
          "seconds": 0.006,
          "step": 0,
          "phase": "backward",
          "module": "layers.0.fc"
        }
      },
      "allocated": {
        "a": 8389120,
        "b": 13632000,
        "change": 5242880,
        "percent": 62.49618553555081
      },
      "active": {
        "a": 8389120,
        "b": 13632000,
        "change": 5242880,
        "percent": 62.49618553555081
      },
      "reserved": {
        "a": 10485760,
        "b": 14680064,
        "change": 4194304,
        "percent": 40.0
      },
      "peaks": {
        "allocated": {
          "a": 8389120,
          "b": 13632000,
          "change": 5242880,
          "percent": 62.49618553555081
        },
        "reserved": {
          "a": 10485760,
          "b": 14680064,
          "change": 4194304,
          "percent": 40.0
        }
      },
      "losses": {
        "a": [],
        "b": []
      },
      "unchanged_rows": 3,
      "total_rows": 2,
      "rows": [
        {
          "change": 6291456,
          "a": 0,
          "b": 6291456,
          "count_a": 0,
          "count_b": 1,
          "location": "/ci/model.py:15 (forward)",
          "file": "/ci/model.py",
          "line": 15,
          "function": "forward",
          "backward": false
        }
      ]
    }
    "#);
    let csv = folder.stdout("diff a.flood b.flood --csv").replace("\r\n", "\n");
    insta::assert_snapshot!(csv, @"
    change,a,b,count_a,count_b,location,file,line,function,backward
    6291456,0,6291456,0,1,/ci/model.py:15 (forward),/ci/model.py,15,forward,false
    -1048576,2097152,1048576,1,1,/ci/model.py:14 (forward) (backward),/ci/model.py,14,forward,true
    ");
    let groupings = "line stack module op op-call parameter phase category tensor step";
    for by in groupings.split(' ') {
        let csv = folder.stdout(&format!("diff a.flood b.flood --csv --by {by}"));
        let csv = csv.replace("\"(512,512)\"", "()");
        let cells: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert!(cells.len() > 1 && cells.iter().all(|&count| count == cells[0]), "{csv}");
    }
}

#[test]
fn incomparable_traces_are_an_error() {
    let folder = both().with("cpu.flood", "alloc a cpu 1KiB at a.py:1");
    insta::assert_snapshot!(folder.run("diff a.flood cpu.flood"), @"
    exit 1
    --- stderr
    error: Failed to compare `a.flood` with `cpu.flood`
      Caused by: `cpu.flood` has no answer
      Caused by: nothing was recorded on cuda:0; the trace has cpu

    hint: choose one of them with `--device`
    ");
    insta::assert_snapshot!(folder.run("diff cpu.flood b.flood --device cuda:0"), @"
    exit 1
    --- stderr
    error: Failed to compare `cpu.flood` with `b.flood`
      Caused by: `cpu.flood` has no answer
      Caused by: nothing was recorded on cuda:0; the trace has cpu

    hint: choose one of them with `--device`
    ");
    insta::assert_snapshot!(folder.run("diff a.flood b.flood --at oom"), @"
    exit 1
    --- stderr
    error: Failed to compare `a.flood` with `b.flood`
      Caused by: `a.flood` has no answer
      Caused by: no allocation failed in this trace

    hint: `floodmark report --at peak` shows the peak
    ");
    insta::assert_snapshot!(folder.run("diff a.flood c.flood"), @"
    exit 1
    --- stderr
    error: Failed to read `c.flood`
      Caused by: there is no such file

    hint: record one with `floodmark run -o FILE script.py`
    ");
    insta::assert_snapshot!(folder.run("diff a.flood"), @"
    exit 1
    --- stderr
    error: the following required arguments were not provided:
      <B>

    Usage: floodmark diff <A> <B>

    For more information, try '--help'.
    ");
}

#[test]
fn a_failed_request_is_compared_with_another() {
    let oom = |script: &str| format!("{script}\noom cuda:0 1GiB at /ci/model.py:14:forward:12");
    let folder = Folder::new().with("a.flood", &oom(BEFORE)).with("b.flood", &oom(AFTER));
    insta::assert_snapshot!(folder.stdout("diff a.flood b.flood --at oom --by category"), @"
    Allocated bytes of cuda:0 when it ran out of memory grew by 5.000 MiB (+125.0 %): 4.000 MiB allocated in A, 9.000 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: 1.000 GiB requested at /ci/model.py:14 (forward), in step 1, outside forward/backward/optimizer, at 0.010 s
    B: 1.000 GiB requested at /ci/model.py:14 (forward), in step 1, outside forward/backward/optimizer, at 0.011 s
        Change          A          B  Count A  Count B  Category
    +6.000 MiB      512 B  6.000 MiB        1        2  activation
    −1.000 MiB  2.000 MiB  1.000 MiB        1        1  gradient
    1 row did not change
    ");
}

#[test]
fn of_two_folders_the_same_rank_is_compared() {
    let folder = Folder::new()
        .with("a/rank-0000.flood", "alloc a cuda:0 1KiB at a.py:1")
        .with("a/rank-0001.flood", "alloc a cuda:0 2KiB at a.py:1")
        .with("b/rank-0000.flood", "alloc a cuda:0 9KiB at a.py:1")
        .with("b/rank-0001.flood", "alloc a cuda:0 4KiB at a.py:1");
    insta::assert_snapshot!(folder.run("diff a b"), @"
    exit 0
    --- stdout
    Peak of cuda:0 grew by 2.000 KiB (+100.0 %): 2.000 KiB allocated in A, 4.000 KiB in B; reserved bytes did not change
    A: outside forward/backward/optimizer, at 0.001 s
    B: outside forward/backward/optimizer, at 0.001 s
        Change          A          B  Count A  Count B  Location
    +2.000 KiB  2.000 KiB  4.000 KiB        1        1  a.py:1 (main)
    --- stderr
    of 2 ranks, rank 1 has the highest peak; choose another with `--rank`
    ");
    insta::assert_snapshot!(folder.run("diff a b --rank 0"), @"
    exit 0
    --- stdout
    Peak of cuda:0 grew by 8.000 KiB (+800.0 %): 1.000 KiB allocated in A, 9.000 KiB in B; reserved bytes did not change
    A: outside forward/backward/optimizer, at 0.001 s
    B: outside forward/backward/optimizer, at 0.001 s
        Change          A          B  Count A  Count B  Location
    +8.000 KiB  1.000 KiB  9.000 KiB        1        1  a.py:1 (main)
    ");
}

#[test]
fn lost_events_are_shown_for_each_trace() {
    let mut truncated = floodmark_testing::script::file(AFTER);
    truncated.truncate(truncated.len() - 3);
    let folder = Folder::new().with("a.flood", BEFORE).with_bytes("b.flood", &truncated);
    insta::assert_snapshot!(folder.stdout("diff a.flood b.flood --top 1"), @"
    Peak of cuda:0 grew by 5.000 MiB (+62.5 %): 8.000 MiB allocated in A, 13.00 MiB in B; reserved bytes grew by 4.000 MiB (+40.0 %)
    A: in step 0, backward of layers.0.fc, at 0.005 s
    B: in step 0, backward of layers.0.fc, at 0.006 s
    ! B: the recording is not finished: what came after the last flush is not in the file
        Change    A          B  Count A  Count B  Location
    +6.000 MiB  0 B  6.000 MiB        0        1  /ci/model.py:15 (forward)
    … and 1 more row, −1.000 MiB
    3 rows did not change
    ");
}

#[test]
fn a_renamed_script_is_the_same_script() {
    let before = "alloc a cuda:0 1MiB at /old/train.py:5:main:4 > /old/net.py:9:forward:8
                  alloc b cuda:0 2MiB at /old/train.py:6:main:4";
    let after = before.replace("/old/train.py", "/new/train_v2.py").replace("/old/", "/new/");
    let folder = Folder::new().with("a.flood", before).with("b.flood", &after);
    let shown = folder.stdout("diff a.flood b.flood");
    assert!(shown.contains("did not change") && shown.contains("2 rows did not change"), "{shown}");
}

#[test]
fn a_file_may_be_said_to_be_renamed() {
    let before = "alloc a cuda:0 4MiB at /p/train.py:6:main:4
                  alloc b cuda:0 1MiB at /p/train.py:5:main:4 > /p/net.py:9:forward:8";
    let after = before.replace("net.py", "model.py");
    let folder = Folder::new().with("a.flood", before).with("b.flood", &after);
    assert!(folder.stdout("diff a.flood b.flood").contains("+1.000 MiB"));
    let mapped = folder.stdout("diff a.flood b.flood --map net.py=model.py");
    assert!(mapped.contains("2 rows did not change"), "{mapped}");
    let wrong = folder.run("diff a.flood b.flood --map net.py");
    assert!(
        wrong.contains("a renamed file is two paths such as `train.py=train_v2.py`"),
        "{wrong}"
    );
}
