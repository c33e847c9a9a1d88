//! `floodmark annotate`.

use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::program::Folder;

const MODEL: &str = "\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        y = self.fc(x)

        return torch.relu(y)


net = Net()
a = 1
b = 2
c = 3
loss = net(torch.ones(3))
";

/// A folder with a recording of `src/model.py`, older than the recording.
fn folder() -> Folder {
    let folder = Folder::new()
        .with_bytes("src/model.py", MODEL.as_bytes())
        .with_bytes("src/other.py", b"x = 1\n")
        .with(
            "x.flood",
            "alloc a cuda:0 8MiB at src/model.py:9:forward:8
             alloc b cuda:0 2MiB at src/model.py:11:forward:8
             backward alloc c cuda:0 2MiB at src/model.py:11:forward:8
             alloc d cuda:0 1MiB at src/model.py:18:<module>:1
             alloc e cuda:0 3MiB at lib/data.py:7:load
             alloc f cuda:0 512KiB
             free a
             alloc g cuda:0 1KiB at src/model.py:9:forward:8",
        );
    let file = File::options().append(true).open(folder.path().join("src/model.py")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    folder
}

#[test]
fn hot_functions_are_shown_with_their_bytes() {
    insta::assert_snapshot!(folder().run("annotate x.flood src/model.py"), @"
    exit 0
    --- stdout
    Peak of cuda:0: 16.50 MiB allocated, 18.00 MiB reserved, outside forward/backward/optimizer, at 0.006 s
    src/model.py: 13.00 MiB in 3 lines, 78.8 % of what is allocated; 3.000 MiB in other files; 512.0 KiB without a line
        Bytes  Count  Category  Line  Source
                                   8       def forward(self, x):
    8.000 MiB      1  unknown      9           y = self.fc(x)
                                  10
    4.000 MiB      2  unknown     11           return torch.relu(y)
                                       …
                                  15   a = 1
                                  16   b = 2
                                  17   c = 3
    1.000 MiB      1  unknown     18   loss = net(torch.ones(3))
    ");
}

#[test]
fn the_whole_file_is_shown_at_any_time() {
    let shown = folder().stdout("annotate x.flood model.py --all --at end");
    assert_eq!(shown.lines().count(), 3 + MODEL.lines().count(), "{shown}");
    assert!(shown.contains("1.000 KiB      1"), "{shown}");
}

#[test]
fn a_file_that_is_not_in_the_trace_names_those_that_are() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("annotate x.flood src/other.py"), @"
    exit 1
    --- stderr
    error: Failed to annotate `src/other.py` with `x.flood`
      Caused by: no allocation comes from this file; the trace has `src/model.py`, `lib/data.py`

    hint: `floodmark report` shows the lines that allocate
    ");
    insta::assert_snapshot!(folder.run("annotate x.flood data.py"), @"
    exit 1
    --- stderr
    error: Failed to read `lib/data.py`
      Caused by: the source file does not exist on this machine

    hint: name the path of a copy, or use `--json`
    ");
    let two = Folder::new().with(
        "x.flood",
        "alloc a cuda:0 8MiB at one/model.py:9:forward\nalloc b cuda:0 2MiB at two/model.py:1:forward",
    );
    insta::assert_snapshot!(two.run("annotate x.flood model.py"), @"
    exit 1
    --- stderr
    error: Failed to annotate `model.py` with `x.flood`
      Caused by: several files of the trace have this name: `one/model.py`, `two/model.py`

    hint: name more of its path
    ");
}

#[test]
fn a_source_that_changed_since_is_noted() {
    let folder = folder();
    let path = folder.path().join("src/model.py");
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
    let shown = folder.stdout("annotate x.flood src/model.py");
    let note = "! the source is newer than the recording: bytes may be beside the wrong lines\n";
    assert!(shown.contains(note), "{shown}");
    assert!(folder.stdout("annotate x.flood src/model.py --json").contains("the source is newer"));
}

#[test]
fn without_a_file_the_script_of_the_program_is_annotated() {
    let script = "alloc a cuda:0 8MiB at train.py:2:<module> > lib.py:1:load
                  alloc b cuda:0 2MiB at train.py:3:<module>";
    let folder = Folder::new()
        .with("x.flood", script)
        .with_bytes("train.py", b"import lib\nlib.load()\nx = 1\n")
        .with_bytes("lib.py", b"def load(): ...\n");
    let named = folder.stdout("annotate x.flood train.py");
    assert!(named.contains("2.000 MiB"), "{named}");
    for line in ["annotate x.flood", "annotate", "annotate train.py"] {
        assert_eq!(folder.stdout(line), named, "{line}");
    }
    assert!(folder.stdout("annotate lib.py").contains("8.000 MiB"));
}
