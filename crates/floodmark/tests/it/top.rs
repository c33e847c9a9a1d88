//! `floodmark top` without a terminal. `python/tests/views/test_top.py` has one.

use crate::program::Folder;

const SCRIPT: &str =
    "alloc w cuda:0 4MiB at train.py:1:main\nalloc a cuda:0 2MiB at train.py:10:main\nfree a";

#[test]
fn one_frame_is_text() {
    let folder = Folder::new().with("a.flood", SCRIPT);
    let mut command = folder.command("top --once a.flood");
    let output = command.env("COLUMNS", "80").env("LINES", "16").assert().success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn a_killed_program_left_a_frame_too() {
    let folder = Folder::new().with_killed("a.flood", SCRIPT);
    let text = folder.stdout("top --once a.flood --by tensor");
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("a.flood  not finished"), "{text}");
    assert!(lines.next().unwrap().starts_with("! the program ended without"), "{text}");
    assert!(text.contains("[4 Tensors]"), "{text}");
}

#[test]
fn what_cannot_be_shown_is_an_error_with_a_way_out() {
    let folder = Folder::new().with("a.flood", SCRIPT).with_bytes("x.flood", b"no trace");
    let output = folder.run("top a.flood");
    assert!(
        output.starts_with("exit 1\n--- stderr\nerror: Failed to show `a.flood`\n"),
        "{output}"
    );
    assert!(output.contains("hint: `--once` writes one frame as text"), "{output}");
    assert!(folder.run("top --once b.flood").contains("there is no such file"));
    assert!(folder.run("top --once x.flood").contains("this is a text file, not a recording"));
    assert!(folder.run("top --once a.flood --rank 3").contains("leave `--rank` out"));
    assert!(folder.run("top a.flood --interval 0").contains("an interval is 0.05 to 3600 seconds"));
}

#[test]
fn a_frame_of_a_folder_has_all_ranks() {
    let folder = Folder::new()
        .with("ranks/rank-0000.flood", SCRIPT)
        .with("ranks/rank-0001.flood", &SCRIPT.replace("2MiB", "3MiB"));
    let mut command = folder.command("top --once ranks");
    let output = command.env("COLUMNS", "80").env("LINES", "18").assert().success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    insta::assert_snapshot!(text);
    let one = folder.stdout("top --once ranks --rank 0");
    assert!(one.starts_with("ranks/rank-0000.flood"), "{one}");
    assert!(!one.contains("Ranks "), "{one}");
}
