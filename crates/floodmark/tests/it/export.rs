//! `floodmark export`.

use crate::program::Folder;

fn folder() -> Folder {
    let script = "alloc w cuda:0 8MiB at model.py:10:forward in fc
                  alloc h cuda:0 4MiB at model.py:12:forward in fc
                  free h
                  alloc x cpu 1MiB at train.py:3:main";
    Folder::new().with("x.flood", script)
}

#[test]
fn a_trace_becomes_a_snapshot_that_opens_again() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("export x.flood --to torch-snapshot --device cuda:0"), @"
    exit 0
    --- stderr
    wrote 3 allocations to `x.snapshot.pickle`; see it with `python -m torch.cuda._memory_viz trace_plot FILE`
    ");
    let before = folder.stdout("report x.flood --device cuda:0 --csv");
    let after = folder.stdout("report x.snapshot.pickle --csv");
    let figures = |csv: &str| -> Vec<String> {
        csv.lines().map(|line| line.split(',').take(5).collect::<Vec<_>>().join(",")).collect()
    };
    assert_eq!(figures(&after), figures(&before));
}

#[test]
fn what_is_there_is_not_replaced() {
    let folder = folder();
    folder.run("export x.flood --to torch-snapshot -o y.pickle");
    insta::assert_snapshot!(folder.run("export x.flood --to torch-snapshot -o y.pickle"), @"
    exit 1
    --- stderr
    error: Failed to write `y.pickle`
      Caused by: the file exists

    hint: choose another with `-o`, or replace it with `--force`
    ");
    insta::assert_snapshot!(folder.run("export x.flood --to torch-snapshot -o y.pickle --force"), @"
    exit 0
    --- stderr
    wrote 3 allocations to `y.pickle`; see it with `python -m torch.cuda._memory_viz trace_plot FILE`
    ");
}

#[test]
fn an_unknown_device_is_reported() {
    insta::assert_snapshot!(folder().run("export x.flood --to torch-snapshot --device cuda:3"), @"
    exit 1
    --- stderr
    error: Failed to export `x.flood`
      Caused by: nothing was recorded on cuda:3; the trace has cpu, cuda:0

    hint: choose one of them with `--device`
    ");
}

#[test]
fn every_format_has_a_name_of_its_own_beside_the_trace() {
    let folder = folder();
    let formats = [
        ("speedscope", "x.speedscope.json"),
        ("perfetto", "x.pftrace"),
        ("chrome", "x.chrome.json"),
        ("timeline", "x.timeline.json"),
        ("svg", "x.svg"),
        ("png", "x.png"),
        ("csv", "x.csv"),
        ("csv-steps", "x.steps.csv"),
        ("collapsed", "x.collapsed.txt"),
        ("flamegraph", "x.flamegraph.svg"),
    ];
    for (format, name) in formats {
        let output = folder.run(&format!("export x.flood --to {format}"));
        let wrote = format!("exit 0\n--- stderr\nwrote 3 allocations to `{name}`; ");
        assert!(output.starts_with(&wrote), "{output}");
        let bytes = std::fs::read(folder.path().join(name)).unwrap();
        assert!(!bytes.is_empty(), "{name}");
    }
}

#[test]
fn an_unknown_format_lists_the_known_ones() {
    insta::assert_snapshot!(folder().run("export x.flood --to pdf"), @"
    exit 1
    --- stderr
    error: invalid value 'pdf' for '--to <FORMAT>'
      [possible values: html, torch-snapshot, speedscope, perfetto, chrome, parquet, arrow, tensorboard, timeline, svg, png, csv, csv-steps, collapsed, flamegraph]

    For more information, try '--help'.
    ");
}

#[test]
fn nothing_is_left_of_a_file_that_could_not_be_written() {
    let folder = Folder::new().with("empty.flood", "step");
    insta::assert_snapshot!(folder.run("export empty.flood --to svg"), @"
    exit 1
    --- stderr
    error: Failed to write `empty.svg`
      Caused by: the trace has no allocations

    hint: did the program use torch? `floodmark info` shows what was recorded
    ");
    assert_eq!(names(&folder, ""), ["empty.flood"]);
}

/// What a folder holds.
fn names(folder: &Folder, below: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path().join(below)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn ranks() -> Folder {
    let script = "alloc w cuda:0 8MiB at model.py:10:forward in fc";
    Folder::new().with("run/rank-0000.flood", script).with("run/rank-0007.flood", script)
}

#[test]
fn stdout_is_a_file_too() {
    let folder = folder();
    let lines = folder.stdout("export x.flood --to collapsed -o - --device cuda:0");
    assert_eq!(lines.lines().count(), 2);
    insta::assert_snapshot!(folder.run("export x.flood --to parquet -o -"), @"
    exit 1
    --- stderr
    error: Failed to write to stdout
      Caused by: the format is a folder of files, which stdout cannot be

    hint: choose a folder with `-o`
    ");
    assert_eq!(names(&folder, ""), ["x.flood"]);
}

#[test]
fn tables_of_all_ranks_are_one_folder() {
    let folder = ranks();
    insta::assert_snapshot!(folder.run("export run --to parquet"), @"
    exit 0
    --- stderr
    wrote 2 ranks to `run.parquet`; DuckDB: `SELECT * FROM 'FOLDER/rank=*/allocations.parquet'`
    ");
    assert_eq!(names(&folder, ""), ["run", "run.parquet"]);
    assert_eq!(names(&folder, "run.parquet"), ["_ranks.parquet", "rank=0", "rank=7"]);
    insta::assert_snapshot!(folder.run("export run --to tensorboard -o board"), @"
    exit 0
    --- stderr
    wrote 2 ranks to `board`; see it with `tensorboard --logdir FOLDER`
    ");
    assert_eq!(names(&folder, "board"), ["rank=0", "rank=7"]);
    insta::assert_snapshot!(folder.run("export run --to arrow --rank 7 -o one"), @"
    exit 0
    --- stderr
    wrote 1 allocation to `one`; pyarrow and Polars read it
    ");
    assert_eq!(names(&folder, "one"), ["_ranks.arrow", "rank=7"]);
}

#[test]
fn a_rank_without_events_is_left_out_and_reported() {
    let folder = ranks().with("run/rank-0003.flood", "step");
    insta::assert_snapshot!(folder.run("export run --to parquet"), @"
    exit 0
    --- stderr
    left out rank 3: the trace has no allocations
    wrote 2 ranks to `run.parquet`; DuckDB: `SELECT * FROM 'FOLDER/rank=*/allocations.parquet'`
    ");
    assert_eq!(names(&folder, "run.parquet"), ["_ranks.parquet", "rank=0", "rank=7"]);
}

#[test]
fn two_files_of_one_rank_are_an_error() {
    let folder = ranks().with("run/a.flood", "step");
    insta::assert_snapshot!(folder.run("export run --to parquet"), @"
    exit 1
    --- stderr
    error: two files are rank 0: `a.flood` and `rank-0000.flood`

    hint: name them `rank-0000.flood`, `rank-0001.flood`, …
    ");
    assert_eq!(names(&folder, ""), ["run"]);
}

#[test]
fn a_folder_is_replaced_only_when_an_export_wrote_all_of_it() {
    let folder = ranks();
    folder.run("export run --to parquet -o out");
    insta::assert_snapshot!(folder.run("export run --to parquet -o out"), @"
    exit 1
    --- stderr
    error: Failed to write `out`
      Caused by: the folder exists

    hint: choose another with `-o`, or replace it with `--force`
    ");
    insta::assert_snapshot!(folder.run("export run --to parquet -o out --rank 0 --force"), @"
    exit 0
    --- stderr
    wrote 1 allocation to `out`; DuckDB: `SELECT * FROM 'FOLDER/rank=*/allocations.parquet'`
    ");
    assert_eq!(names(&folder, "out"), ["_ranks.parquet", "rank=0"]);
    let folder = folder.with_bytes("out/thesis.tex", b"mine");
    insta::assert_snapshot!(folder.run("export run --to parquet -o out --force"), @"
    exit 1
    --- stderr
    error: Failed to write `out`
      Caused by: the folder has `thesis.tex`, which is not part of an export

    hint: choose a folder with `-o`
    ");
    assert_eq!(names(&folder, "out"), ["_ranks.parquet", "rank=0", "thesis.tex"]);
    assert_eq!(names(&folder, ""), ["out", "run"]);
}
