//! Commands without a trace: the newest in the folder.

use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::program::Folder;

/// Two recordings, of which `old.flood` comes last by name and was written first.
fn folder() -> Folder {
    let folder = Folder::new()
        .with("old.flood", "alloc a cuda:0 2MiB at train.py:3")
        .with("new.flood", "alloc a cuda:0 8MiB at train.py:4")
        .with_bytes("notes.txt", b"not a trace");
    let earlier = SystemTime::now() - Duration::from_secs(60);
    let old = File::options().write(true).open(folder.path().join("old.flood")).unwrap();
    old.set_modified(earlier).unwrap();
    folder
}

#[test]
fn the_newest_trace_of_the_folder_is_asked_and_named_on_stderr() {
    let folder = folder();
    for command in ["report", "info", "advise", "top --once", "report --json"] {
        let shown = folder.run(command);
        assert!(
            shown.contains("--- stderr\n`new.flood` is the newest trace in this folder\n"),
            "{shown}"
        );
        assert!(shown.contains("8.000 MiB") || shown.contains("8388608"), "{shown}");
    }
    assert!(!folder.run("report old.flood").contains("newest"));
}

#[test]
fn a_folder_without_a_trace_says_so() {
    insta::assert_snapshot!(Folder::new().run("report"), @"
    exit 1
    --- stderr
    error: no trace is given, and this folder has none (`*.flood`)

    hint: record one with `floodmark run train.py`, or name a trace
    ");
}
