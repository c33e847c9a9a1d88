//! `floodmark export --to html`: one file that shows traces without a server.

use crate::program::Folder;

const SCRIPT: &str = "
    alloc w cuda:0 4MiB at train.py:1
    alloc a cuda:0 2MiB at train.py:10 in layers.0
    free a
    step";

#[test]
fn several_traces_become_one_file() {
    let folder = Folder::new().with("a.flood", SCRIPT).with("ranks/rank-0003.flood", SCRIPT);
    let output = folder.command("export a.flood ranks --to html -o page.html").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr, "wrote 2 traces to `page.html`; open it in a browser\n");
    assert!(output.status.success() && output.stdout.is_empty());
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    assert!(page.contains("connect-src 'none'"));
    assert!(page.len() < 8_000_000);
}

#[test]
fn a_page_goes_to_stdout_if_requested() {
    let folder = Folder::new().with("a.flood", SCRIPT);
    assert!(folder.stdout("export a.flood --to html -o -").starts_with("<!doctype html>"));
    assert!(!folder.path().join("-").exists());
}

#[test]
fn a_page_is_not_replaced_without_force() {
    let folder = Folder::new().with("a.flood", SCRIPT).with_bytes("a.html", b"mine");
    let refused = folder.command("export a.flood --to html").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(refused.stderr).unwrap(), @r"
    error: Failed to write `a.html`
      Caused by: the file exists

    hint: choose another with `-o`, or replace it with `--force`
    ");
    assert_eq!(std::fs::read(folder.path().join("a.html")).unwrap(), b"mine");
    folder.command("export a.flood --to html --force").assert().success();
    assert!(std::fs::read(folder.path().join("a.html")).unwrap().starts_with(b"<!doctype html>"));
}

#[test]
fn other_formats_hold_one_trace() {
    let folder = Folder::new().with("a.flood", SCRIPT).with("b.flood", SCRIPT);
    let refused = folder.command("export a.flood b.flood --to svg").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(refused.stderr).unwrap(), @r"
    error: Failed to export `b.flood`
      Caused by: this format takes one trace only

    hint: only `--to html` shows several in one file
    ");
}
