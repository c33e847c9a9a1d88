//! Copies of source files in a trace.

use floodmark_trace::frame::FrameKind;
use floodmark_trace::{
    Batch, Ending, Header, SourceFile, TraceWriter, frame::append_frame, frame::prelude, read_trace,
};

fn source(file: &str, text: &str) -> SourceFile {
    SourceFile { file: file.to_owned(), text: text.to_owned() }
}

#[test]
fn source_files_come_back_by_their_paths() {
    let mut writer = TraceWriter::new(Vec::new(), &Header::default()).unwrap();
    for sources in [vec![source("a.py", "x = 1\n"), source("b.py", "")], vec![source("c.py", "c")]]
    {
        writer.write_batch(&Batch { sources, ..Batch::default() }).unwrap();
    }
    let file = writer.finish(&Ending::default()).unwrap();
    let trace = read_trace(&file, &[]).unwrap();
    let found = ["a.py", "b.py", "c.py", "d.py"].map(|file| trace.source(file));
    assert_eq!(found, [Some("x = 1\n"), Some(""), Some("c"), None]);
    assert!(trace.losses.0.is_empty(), "{:?}", trace.losses);
}

#[test]
fn a_damaged_source_is_a_missing_frame_and_no_more() {
    let mut file = prelude().to_vec();
    append_frame(&mut file, FrameKind::Header, 0, b"{}");
    append_frame(&mut file, FrameKind::Source, 1, b"\x04\0\0\0a.py\xff\xff\xff\xff");
    append_frame(&mut file, FrameKind::Ending, 2, b"{}");
    let trace = read_trace(&file, &[]).unwrap();
    assert_eq!(trace.source("a.py"), None);
    assert_eq!(trace.losses.0.len(), 1);
}
