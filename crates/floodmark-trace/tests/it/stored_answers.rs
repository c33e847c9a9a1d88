//! Answers of commands in a trace.

use floodmark_trace::frame::{FrameKind, append_frame};
use floodmark_trace::{
    Batch, DeviceInfo, Ending, GrowingReader, Header, Phantom, PhantomDevice, SourceFile,
    StoreError, Trace, TraceWriter, append_answer, read_trace,
};

/// A finished trace with one source file in it.
fn finished() -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Header::default()).unwrap();
    let sources = vec![SourceFile { file: "a.py".to_owned(), text: "x = 1\n".to_owned() }];
    writer.write_batch(&Batch { sources, ..Batch::default() }).unwrap();
    writer.finish(&Ending::default()).unwrap()
}

#[test]
fn an_answer_after_the_ending_is_read_and_nothing_is_lost() {
    let mut file = finished();
    append_answer(&mut file, "plan", r#"{"gpu": "Grüße"}"#).unwrap();
    let trace = read_trace(&file, &[]).unwrap();
    assert_eq!(trace.answer("plan"), Some(r#"{"gpu": "Grüße"}"#));
    assert_eq!(trace.answer("fit"), None);
    assert_eq!(trace.source("a.py"), Some("x = 1\n"));
    assert!(trace.ending.is_some());
    assert!(trace.losses.0.is_empty(), "{:?}", trace.losses);
}

#[test]
fn of_two_answers_the_last_counts() {
    let mut file = finished();
    for json in ["1", "2"] {
        append_answer(&mut file, "plan", json).unwrap();
    }
    let trace = read_trace(&file, &[]).unwrap();
    assert_eq!(trace.answer("plan"), Some("2"));
    assert!(trace.losses.0.is_empty(), "{:?}", trace.losses);
}

#[test]
fn a_file_that_is_followed_gets_an_answer_too() {
    let mut file = finished();
    let mut reader = GrowingReader::default();
    reader.take(&file).unwrap();
    let taken = usize::try_from(reader.taken()).unwrap();
    assert_eq!(reader.trace(&[]).unwrap().answer("plan"), None);
    append_answer(&mut file, "plan", "{}").unwrap();
    reader.take(&file[taken..]).unwrap();
    assert_eq!(reader.trace(&[]).unwrap().answer("plan"), Some("{}"));
}

/// The memory of the GPU, by the device and by what simulated it.
fn capacities(trace: &Trace) -> (u64, Option<u64>) {
    let simulated = trace.header.phantom.as_ref().map(|phantom| phantom.devices[0].capacity);
    (trace.header.devices[0].total_bytes, simulated)
}

#[test]
fn the_simulated_gpu_of_a_plan_has_the_memory_that_was_planned_for() {
    let large = 1 << 40;
    let devices = vec![DeviceInfo { total_bytes: large, ..DeviceInfo::default() }];
    let simulated = vec![PhantomDevice { capacity: large, ..PhantomDevice::default() }];
    let phantom = Some(Phantom { devices: simulated, ..Phantom::default() });
    let header = Header { devices, phantom, ..Header::default() };
    for (command, json, expected) in [
        ("plan", r#"{"capacity": 24, "tries": []}"#, 24),
        ("plan", r#"{"capacity": 0}"#, large),
        ("plan", "{}", large),
        ("fit", r#"{"capacity": 24}"#, large),
    ] {
        let file = TraceWriter::new(Vec::new(), &header).unwrap();
        let mut file = file.finish(&Ending::default()).unwrap();
        append_answer(&mut file, command, json).unwrap();
        let trace = read_trace(&file, &[]).unwrap();
        assert_eq!(capacities(&trace), (expected, Some(expected)), "{command} {json}");
    }
    let real = Header { phantom: None, ..header };
    let mut file = TraceWriter::new(Vec::new(), &real).unwrap().finish(&Ending::default()).unwrap();
    append_answer(&mut file, "plan", r#"{"capacity": 24}"#).unwrap();
    assert_eq!(capacities(&read_trace(&file, &[]).unwrap()), (large, None));
}

#[test]
fn files_from_before_there_were_answers_are_read() {
    let old = include_bytes!("../../../../fixtures/recordings/gallery/leak.flood");
    let trace = read_trace(old, &[]).unwrap();
    assert_eq!(trace.answer("plan"), None);
    assert!(trace.losses.0.is_empty(), "{:?}", trace.losses);
}

#[test]
fn a_damaged_answer_is_a_missing_frame_and_no_more() {
    let mut file = finished();
    let frames = read_trace(&file, &[]).unwrap().losses.0.len();
    // Header, source, checkpoint, ending: the next frame is number 4.
    append_frame(&mut file, FrameKind::Answer, 4, b"\x04\0\0\0plan\xff\xff\xff\xff");
    let trace = read_trace(&file, &[]).unwrap();
    assert_eq!(trace.answer("plan"), None);
    assert_eq!(trace.losses.0.len(), frames + 1);
}

#[test]
fn other_files_and_too_long_answers_are_refused() {
    let mut other = b"PK\x03\x04".to_vec();
    assert!(matches!(append_answer(&mut other, "plan", "{}"), Err(StoreError::Read(_))));
    let mut file = finished();
    let long = "x".repeat((16 << 20) + 1);
    assert!(matches!(append_answer(&mut file, "plan", &long), Err(StoreError::TooLong { .. })));
}
