//! What the commands show.

use std::io::Read;
use std::process::Stdio;

use crate::program::Folder;

const TRAINING: &str = "
    unseen cuda:0 1MiB
    initial w cuda:0 2MiB
    label w parameter layers.0.fc.weight (512,1024) float32
    alloc batch cpu 64KiB at /data/site-packages/loader/fetch.py:3:fetch
    alloc a cuda:0 4MiB asking 3MiB at model.py:10:forward > torch/nn.py:5:linear in layers.0.fc op mm
    alloc b cuda:0 6MiB at model.py:10:forward > torch/nn.py:5:linear in layers.1.fc op mm
    alloc l cuda:0 512B at train.py:7
    backward alloc g cuda:0 2MiB at model.py:10:forward in layers.0.fc op mm
    label g gradient layers.0.fc.weight (512,1024) float32
    free a
    free b
    optimizer begin
    alloc s cuda:0 2MiB at torch/adam.py:3:step
    label s optimizer-state layers.0.fc.weight.exp_avg (512,1024) float32
    optimizer end
    alloc b2 cuda:0 3MiB at model.py:10:forward in layers.1.fc op mm
    oom cuda:0 1GiB at model.py:12:forward in layers.1.fc
    optimizer begin
    optimizer end";

fn training() -> Folder {
    Folder::new().with("x.flood", TRAINING)
}

#[test]
fn a_report_is_the_peak_by_line() {
    insta::assert_snapshot!(training().run("report x.flood"), @"
    exit 0
    --- stdout
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
        Bytes  Cumulative     Median  Count  Location
    10.00 MiB   10.00 MiB  6.000 MiB      2  model.py:10 (forward)
    3.000 MiB   13.00 MiB  2.000 MiB      1  before recording
    2.000 MiB   15.00 MiB  2.000 MiB      1  model.py:10 (forward) (backward)
        512 B   15.00 MiB      512 B      1  train.py:7 (main)
    ");
}

#[test]
fn groupings_of_a_report_print_as_tables() {
    let folder = training();
    insta::assert_snapshot!(folder.stdout("report x.flood --by stack"), @"
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
        Bytes  Cumulative     Median  Count  Stack, innermost frame first
    6.000 MiB   6.000 MiB  6.000 MiB      1  torch/nn.py:5 (linear)
                                               model.py:10 (forward)
                                               torch/module.py:9 (_call_impl)
    4.000 MiB   10.00 MiB  4.000 MiB      1  torch/nn.py:5 (linear)
                                               model.py:10 (forward)
                                               torch/module.py:9 (_call_impl)
    3.000 MiB   13.00 MiB  2.000 MiB      1  before recording
    2.000 MiB   15.00 MiB  2.000 MiB      1  model.py:10 (forward) (backward)
                                               torch/module.py:9 (_call_impl)
        512 B   15.00 MiB      512 B      1  train.py:7 (main)
    ");
    insta::assert_snapshot!(folder.stdout("report x.flood --by module"), @"
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
        Bytes        Own  Cumulative     Median  Count  Module
    14.00 MiB        0 B         0 B  4.000 MiB      4  Net
    14.00 MiB        0 B         0 B  4.000 MiB      4    layers
    8.000 MiB        0 B         0 B  2.000 MiB      3      0
    8.000 MiB  8.000 MiB   8.000 MiB  2.000 MiB      3        fc (Layer)
    6.000 MiB        0 B   8.000 MiB  6.000 MiB      1      1
    6.000 MiB  6.000 MiB   14.00 MiB  6.000 MiB      1        fc (Layer)
    1.000 MiB  1.000 MiB   15.00 MiB        0 B      0  before recording
        512 B      512 B   15.00 MiB      512 B      1  (no module)
    ");
    insta::assert_snapshot!(folder.stdout("report x.flood --by op"), @"
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
        Bytes  Cumulative     Median  Count  Operator
    12.00 MiB   12.00 MiB  4.000 MiB      3  mm
    3.000 MiB   15.00 MiB  2.000 MiB      1  before recording
        512 B   15.00 MiB      512 B      1  (operator not recorded)
    ");
    insta::assert_snapshot!(folder.stdout("report x.flood --by phase"), @"
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
        Bytes  Cumulative     Median  Count       Peak  Phase
    10.00 MiB   10.00 MiB  4.000 MiB      3  13.00 MiB  forward
    3.000 MiB   13.00 MiB  2.000 MiB      1             before recording
    2.000 MiB   15.00 MiB  2.000 MiB      1  15.00 MiB  backward
          0 B   15.00 MiB        0 B      0  7.000 MiB  optimizer
    ");
    insta::assert_snapshot!(folder.stdout("report x.flood --by category"), @"
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
        Bytes  Cumulative     Median  Count       Peak  Category and its largest
    10.00 MiB   10.00 MiB  4.000 MiB      3  10.00 MiB  activation
                                                          6.000 MiB model.py:10 (forward)
                                                          4.000 MiB model.py:10 (forward)
                                                              512 B train.py:7 (main)
    2.000 MiB   12.00 MiB  2.000 MiB      1  2.000 MiB  gradient
                                                          2.000 MiB layers.0.fc.weight
    2.000 MiB   14.00 MiB  2.000 MiB      1  2.000 MiB  parameter
                                                          2.000 MiB layers.0.fc.weight
    1.000 MiB   15.00 MiB        0 B      0  3.000 MiB  unknown
    ");
    insta::assert_snapshot!(folder.stdout("report x.flood --by tensor"), @"
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
        Bytes  Cumulative  Category    Shape       Dtype    Name or location
    6.000 MiB   6.000 MiB  activation                       model.py:10 (forward)
    4.000 MiB   10.00 MiB  activation                       model.py:10 (forward)
    2.000 MiB   12.00 MiB  parameter   (512,1024)  float32  layers.0.fc.weight
    2.000 MiB   14.00 MiB  gradient    (512,1024)  float32  layers.0.fc.weight
    1.000 MiB   15.00 MiB  unknown                          before recording
        512 B   15.00 MiB  activation                       train.py:7 (main)
    ");
    insta::assert_snapshot!(folder.stdout("report x.flood --by step"), @"
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
    Step                   Peak        End      Growth    Forward   Backward  Optimizer  Of this peak
    before recording                                                                        3.000 MiB
    0                 15.00 MiB  7.000 MiB              13.00 MiB  15.00 MiB  7.000 MiB     12.00 MiB
    1                 10.00 MiB  10.00 MiB  +3.000 MiB  10.00 MiB                                 0 B
    ");
}

#[test]
fn a_report_says_what_it_leaves_out() {
    insta::assert_snapshot!(training().stdout("report x.flood --top 2"), @"
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
        Bytes  Cumulative     Median  Count  Location
    10.00 MiB   10.00 MiB  6.000 MiB      2  model.py:10 (forward)
    3.000 MiB   13.00 MiB  2.000 MiB      1  before recording
    … and 2 more rows, 2.000 MiB
    ");
    insta::assert_snapshot!(training().stdout("report x.flood --by step --top 1"), @"
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
    Step       Peak        End      Growth    Forward  Of this peak
    1     10.00 MiB  10.00 MiB  +3.000 MiB  10.00 MiB           0 B
    … and 2 earlier rows, 15.00 MiB
    ");
}

#[test]
fn a_report_is_of_any_moment_and_device() {
    let folder = training();
    insta::assert_snapshot!(folder.stdout("report x.flood --at oom --top 1"), @"
    Out of memory on cuda:0: 1.000 GiB requested at model.py:12 (forward), with 10.00 MiB allocated, 16.00 MiB reserved, in step 1, forward of layers.1.fc, at 0.017 s
        Bytes  Cumulative     Median  Count  Location
    3.000 MiB   3.000 MiB  2.000 MiB      1  before recording
    … and 4 more rows, 7.000 MiB
    ");
    insta::assert_snapshot!(folder.stdout("report x.flood --at end --top 1"), @"
    End on cuda:0: 10.00 MiB allocated, 16.00 MiB reserved, in step 1, at 0.019 s
        Bytes  Cumulative     Median  Count  Location
    3.000 MiB   3.000 MiB  2.000 MiB      1  before recording
    … and 4 more rows, 7.000 MiB
    ");
    insta::assert_snapshot!(folder.stdout("report x.flood --at 0.005 --top 1"), @"
    Memory of cuda:0: 7.000 MiB allocated, 8.000 MiB reserved, in step 0, forward of layers.0.fc, at 0.005 s
        Bytes  Cumulative     Median  Count  Location
    4.000 MiB   4.000 MiB  4.000 MiB      1  model.py:10 (forward)
    … and 1 more row, 3.000 MiB
    ");
    insta::assert_snapshot!(folder.stdout("report x.flood --device cpu"), @"
    Peak of cpu: 64.00 KiB allocated, in step 0, outside forward/backward/optimizer, at 0.004 s
        Bytes  Cumulative     Median  Count  Location
    64.00 KiB   64.00 KiB  64.00 KiB      1  loader/fetch.py:3 (fetch)
    ");
}

#[test]
fn json_and_csv_have_plain_numbers() {
    let folder = training();
    insta::assert_snapshot!(folder.stdout("report x.flood --json --top 1 --at oom"), @r#"
    {
      "floodmark": "0.1.0",
      "format": 1,
      "device": "cuda:0",
      "by": "line",
      "at": {
        "what": "oom",
        "seconds": 0.017,
        "step": 1,
        "phase": "forward",
        "module": "layers.1.fc",
        "request": {
          "bytes": 1073741824,
          "location": "model.py:12 (forward)"
        }
      },
      "allocated": 10486272,
      "active": 10486272,
      "reserved": 16777216,
      "requested": null,
      "losses": [],
      "total_rows": 5,
      "rows": [
        {
          "bytes": 3145728,
          "cumulative": 3145728,
          "count": 1,
          "median": 2097152,
          "location": "before recording",
          "file": null,
          "line": null,
          "function": null,
          "module": null,
          "backward": false
        }
      ]
    }
    "#);
    let csv = folder.stdout("report x.flood --csv --by tensor --top 2").replace("\r\n", "\n");
    insta::assert_snapshot!(csv, @"
    bytes,cumulative,count,median,location,name,shape,dtype,category,module,step,phase,allocated_seconds,saved_seconds,last_use_seconds,freed_seconds
    6291456,6291456,1,6291456,model.py:10 (forward),,,,activation,layers.1.fc,0,forward,0.006,,,0.011
    4194304,10485760,1,4194304,model.py:10 (forward),,,,activation,layers.0.fc,0,forward,0.005,,,0.01
    ");
}

/// A table for a machine has as many cells in each line as in the first.
#[test]
fn csv_lines_are_as_long_as_their_header() {
    let folder = Folder::new().with("x.flood", TRAINING.replace("(512,1024)", "()").as_str());
    for by in [
        "line",
        "stack",
        "module",
        "op",
        "op-call",
        "parameter",
        "phase",
        "category",
        "tensor",
        "step",
    ] {
        let csv = folder.stdout(&format!("report x.flood --csv --by {by} --top 0"));
        let cells: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert!(cells.iter().all(|&count| count == cells[0]), "{csv}");
    }
}

#[test]
fn info_says_what_a_trace_holds() {
    insta::assert_snapshot!(training().stdout("info x.flood"), @"
    x.flood: 21 events in 0.019 s, 7 allocations, 2 steps, 1 thread; 1 failed allocation (`--at oom`)
    Peak of cpu: 64.00 KiB allocated, in step 0, outside forward/backward/optimizer, at 0.004 s
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
      by         floodmark 0.1.0
    ");
    let json: serde_json::Value =
        serde_json::from_str(&training().stdout("info x.flood --json")).unwrap();
    assert_eq!(json["devices"][1]["peak"], (15 << 20) + 512);
    assert_eq!(json["devices"][1]["at"]["phase"], "backward");
    assert_eq!(json["steps"], 2);
}

/// Its program ran on a simulated GPU with 1 TiB, so that nothing failed.
#[test]
fn the_trace_of_a_plan_has_the_memory_that_was_planned_for() {
    let plan = include_bytes!("../../../../fixtures/page/plan.flood");
    let folder = Folder::new().with_bytes("plan.flood", plan);
    let output = folder.stdout("info plan.flood");
    assert!(output.contains("(of 950.0 MiB, NVIDIA GeForce RTX 4090"), "{output}");
    let found: serde_json::Value =
        serde_json::from_str(&folder.stdout("info plan.flood --json")).unwrap();
    let header = &found["header"];
    let memory = [
        &found["devices"][1]["total"],
        &header["devices"][0]["total_bytes"],
        &header["phantom"]["devices"][0]["capacity"],
    ];
    assert_eq!(memory, [&serde_json::json!(950 << 20); 3], "{header}");
}

#[test]
fn a_folder_has_one_trace_per_rank() {
    let folder = Folder::new()
        .with("run/rank-0000.flood", "alloc a cuda:0 1KiB at a.py:1")
        .with("run/rank-0003.flood", "alloc a cuda:3 2KiB at b.py:1")
        .with_bytes("run/notes.txt", b"not a trace");
    insta::assert_snapshot!(folder.run("report run"), @"
    exit 0
    --- stdout
    Peak of cuda:3: 2.000 KiB allocated, 2.000 MiB reserved, outside forward/backward/optimizer, at 0.001 s
        Bytes  Cumulative     Median  Count  Location
    2.000 KiB   2.000 KiB  2.000 KiB      1  b.py:1 (main)
    --- stderr
    of 2 ranks, rank 3 has the highest peak; choose another with `--rank`
    ");
    insta::assert_snapshot!(folder.run("report run --rank 0"), @"
    exit 0
    --- stdout
    Peak of cuda:0: 1.000 KiB allocated, 2.000 MiB reserved, outside forward/backward/optimizer, at 0.001 s
        Bytes  Cumulative     Median  Count  Location
    1.000 KiB   1.000 KiB  1.000 KiB      1  a.py:1 (main)
    ");
    insta::assert_snapshot!(folder.run("report run --rank 1"), @"
    exit 1
    --- stderr
    error: Failed to read `run`
      Caused by: the folder has no rank 1; it has 0, 3
    ");
    insta::assert_snapshot!(folder.stdout("info run"), @"
    run: 2 ranks, allocated peaks from 1.000 KiB (rank 0) to 2.000 KiB (rank 3), median 1.500 KiB
    Rank  Allocated peak  Reserved peak  At the end  Device  Trace
       0       1.000 KiB      2.000 MiB   1.000 KiB  cuda:0  run/rank-0000.flood
       3       2.000 KiB      2.000 MiB   2.000 KiB  cuda:3  run/rank-0003.flood
      by         floodmark 0.1.0
    ");
}

/// A block of lines for each of 512 ranks would be read by no one.
#[test]
fn many_ranks_are_one_table_with_the_furthest_from_the_median() {
    let folder = (0..40).fold(Folder::new(), |folder, rank| {
        let size = if rank == 7 { 9 } else { 4 };
        let script = format!("alloc a cuda:0 {size}KiB at a.py:1");
        folder.with(&format!("run/rank-{rank:04}.flood"), &script)
    });
    let shown = folder.stdout("info run");
    assert_eq!(shown.lines().count(), 20, "{shown}");
    let first: Vec<&str> = shown.lines().take(3).collect();
    insta::assert_snapshot!(first.join("\n"), @"
    run: 40 ranks, allocated peaks from 4.000 KiB (rank 0) to 9.000 KiB (rank 7), median 4.000 KiB
    Rank  Allocated peak  Reserved peak  At the end  Device  Trace
       7       9.000 KiB      2.000 MiB   9.000 KiB  cuda:0  run/rank-0007.flood (far from the median)
    ");
    assert!(
        shown.contains("… and 24 more peaks nearer to the median; `--json` has all"),
        "{shown}"
    );
}

#[test]
fn what_a_killed_program_left_is_read_from_its_journal() {
    let folder = Folder::new().with_killed("x.flood", TRAINING);
    insta::assert_snapshot!(folder.stdout("report x.flood --top 1"), @"
    Peak of cuda:0: 15.00 MiB allocated, 16.00 MiB reserved, in step 0, backward of layers.0.fc, at 0.008 s
    ! the program ended without ending the recording: it was killed, crashed, or called `os._exit`; its last 41 records were read from the journal
        Bytes  Cumulative     Median  Count  Location
    10.00 MiB   10.00 MiB  6.000 MiB      2  model.py:10 (forward)
    … and 3 more rows, 5.000 MiB
    ");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let lines = (0..5000).map(|n| format!("alloc n{n} cpu 1KiB at a.py:{n}"));
    let script = lines.collect::<Vec<_>>().join("\n");
    let folder = Folder::new().with("x.flood", &script);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_floodmark"))
        .current_dir(folder.path())
        .args(["report", "x.flood", "--top", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
}

#[test]
fn a_step_and_a_phase_of_it_are_moments() {
    let script = "alloc w cuda:0 4MiB at train.py:1
                  alloc a cuda:0 2MiB at model.py:3:forward in fc
                  backward alloc g cuda:0 8MiB at model.py:3:forward in fc
                  free g
                  free a
                  step
                  alloc b cuda:0 1MiB at model.py:3:forward in fc
                  backward alloc h cuda:0 2MiB at model.py:3:forward in fc
                  free h
                  free b
                  step";
    let folder = Folder::new().with("x.flood", script);
    let first = |line: &str| folder.stdout(line).lines().next().unwrap().to_owned();
    let begins = |line: &str, text: &str| {
        let shown = first(line);
        assert!(shown.starts_with(text), "{line}: {shown}");
    };
    begins(
        "report x.flood --at step:1",
        "Peak of step 1 on cuda:0: 7.000 MiB allocated, 14.00 MiB reserved, in step 1, backward of fc, at ",
    );
    begins(
        "report x.flood --at step:1:forward",
        "Peak of step 1, forward, on cuda:0: 5.000 MiB allocated, 14.00 MiB reserved, in step 1, forward of fc, at ",
    );
    begins(
        "report x.flood --at step:0:backward",
        "Peak of step 0, backward, on cuda:0: 14.00 MiB allocated, 14.00 MiB reserved, in step 0, ",
    );
    let spaced = folder.command("report x.flood --at").arg("step 1 backward").output().unwrap();
    assert!(String::from_utf8(spaced.stdout).unwrap().starts_with("Peak of step 1, backward, on"));
    let json: serde_json::Value =
        serde_json::from_str(&folder.stdout("report x.flood --at step:1 --json")).unwrap();
    assert_eq!((&json["at"]["what"], &json["at"]["step"]), (&"step".into(), &1.into()));
    insta::assert_snapshot!(folder.run("report x.flood --at step:7"), @"
    exit 1
    --- stderr
    error: Failed to report on `x.flood`
      Caused by: there is no step 7: finished steps in this trace: 2, counted from 0

    hint: `floodmark report --by step` shows the steps and their phases
    ");
    insta::assert_snapshot!(folder.run("report x.flood --at step:0:optimizer"), @"
    exit 1
    --- stderr
    error: Failed to report on `x.flood`
      Caused by: nothing was allocated in optimizer of step 0

    hint: `floodmark report --by step` shows the steps and their phases
    ");
}

#[test]
fn a_category_has_its_own_peak_beside_its_bytes() {
    let script = "alloc a cuda:0 2MiB at model.py:3
                  label a parameter fc.weight (4,4) float32
                  alloc b cuda:0 2MiB at model.py:3
                  label b parameter fc.bias (4) float32
                  free b
                  alloc c cuda:0 1MiB at model.py:3
                  label c parameter head.weight (4) float32";
    let folder = Folder::new().with("x.flood", script);
    let json: serde_json::Value =
        serde_json::from_str(&folder.stdout("report x.flood --by category --at end --json"))
            .unwrap();
    assert_eq!(
        (&json["rows"][0]["bytes"], &json["rows"][0]["peak"]),
        (&(3 << 20).into(), &(4 << 20).into())
    );
    let shown = folder.stdout("report x.flood --by category --at end");
    assert!(shown.contains("Count       Peak  Category and its largest"), "{shown}");
    assert!(shown.contains("4.000 MiB"), "{shown}");
}
