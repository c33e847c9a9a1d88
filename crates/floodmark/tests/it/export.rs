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
fn a_device_that_is_not_there_is_said() {
    insta::assert_snapshot!(folder().run("export x.flood --to torch-snapshot --device cuda:3"), @"
    exit 1
    --- stderr
    error: Failed to export `x.flood`
      Caused by: nothing was recorded on cuda:3; the trace has cpu, cuda:0

    hint: choose one of them with `--device`
    ");
}
