//! Hostile files: only the checksums are right.

use std::sync::Arc;

use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use floodmark_trace::frame::{FrameKind, append_frame, prelude};
use floodmark_trace::journal::{CHUNK_HEADER_BYTES, JournalWriter, Record, record_kind};
use floodmark_trace::{
    Batch, CodeRow, Device, EventKind, Header, Micros, ModuleRow, ReadError, Row, StackId,
    StackRow, TextId, TextKind, TextRow, Trace, TraceWriter, read_trace,
};

use crate::recording::SESSION;

/// The most that reading any file of this module may add to the process.
const MOST_MEMORY_KIB: u64 = 1 << 20;

fn header() -> Header {
    Header { session: format!("{SESSION:x}"), ..Header::default() }
}

/// A file of these frames, numbered and checksummed as they should be.
fn file(frames: &[(FrameKind, &[u8])]) -> Vec<u8> {
    let mut file = prelude().to_vec();
    let json = serde_json::to_vec(&header()).unwrap();
    append_frame(&mut file, FrameKind::Header, 0, &json);
    for (number, (kind, payload)) in (1..).zip(frames) {
        append_frame(&mut file, *kind, number, payload);
    }
    append_frame(&mut file, FrameKind::Ending, u16::try_from(frames.len() + 1).unwrap(), b"{}");
    file
}

fn file_of(batch: &Batch) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    writer.write_batch(batch).unwrap();
    writer.finish(&floodmark_trace::Ending::default()).unwrap()
}

/// The trace of a file that must be readable with losses.
fn read_incomplete(file: &[u8]) -> Trace {
    let trace = read_trace(file, &[]).unwrap();
    assert!(!trace.losses.is_empty());
    trace
}

fn checkpoint(rows: u32, first_allocation: u32, totals: u32) -> Vec<u8> {
    let mut payload = vec![0; 48];
    payload[32..36].copy_from_slice(&first_allocation.to_le_bytes());
    payload[36..40].copy_from_slice(&rows.to_le_bytes());
    payload[40..44].copy_from_slice(&totals.to_le_bytes());
    payload
}

fn messages(columns: Vec<(&str, ArrayRef)>) -> (Vec<u8>, Vec<u8>) {
    let columns = columns.into_iter().map(|(name, column)| (name, column, false));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let options =
        IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    let schema = batch.schema();
    let mut stream = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    let schema = std::mem::take(stream.get_mut());
    stream.write(&batch).unwrap();
    (schema, std::mem::take(stream.get_mut()))
}

fn u8s(values: &[u8]) -> ArrayRef {
    Arc::new(PrimitiveArray::<UInt8Type>::from_iter_values(values.iter().copied()))
}
fn u16s(values: &[u16]) -> ArrayRef {
    Arc::new(PrimitiveArray::<UInt16Type>::from_iter_values(values.iter().copied()))
}
fn u32s(values: &[u32]) -> ArrayRef {
    Arc::new(PrimitiveArray::<UInt32Type>::from_iter_values(values.iter().copied()))
}
fn u64s(values: &[u64]) -> ArrayRef {
    Arc::new(PrimitiveArray::<UInt64Type>::from_iter_values(values.iter().copied()))
}

/// The messages of an events table of `rows` allocations of one byte.
fn event_messages(rows: usize) -> (Vec<u8>, Vec<u8>) {
    let (zero16, zero32, zero64) = (vec![0; rows], vec![0; rows], vec![0; rows]);
    messages(vec![
        ("kind", u8s(&vec![1; rows])),
        ("device", u16s(&zero16)),
        ("thread", u16s(&zero16)),
        ("micros_later", u64s(&zero64)),
        ("addr", u64s(&zero64)),
        ("bytes", u64s(&vec![1; rows])),
        ("slack", u64s(&zero64)),
        ("stack", u32s(&zero32)),
        ("allocations_ago", u32s(&zero32)),
        ("op", u32s(&zero32)),
        ("phase", u32s(&zero32)),
        ("stream", u16s(&zero16)),
        ("pool", u16s(&zero16)),
        ("flags", u8s(&vec![0; rows])),
    ])
}

/// Replaces these eight bytes everywhere in `message`.
fn replace(message: &[u8], old: i64, new: i64) -> Vec<u8> {
    let mut changed = message.to_vec();
    let mut found = 0;
    for at in 0..message.len() - 7 {
        if message[at..at + 8] == old.to_le_bytes() {
            changed[at..at + 8].copy_from_slice(&new.to_le_bytes());
            found += 1;
        }
    }
    assert!(found > 0, "{old} is not in the message");
    changed
}

fn alloc() -> Row {
    Row { bytes: 1, ..Row::new(EventKind::Alloc, Device::CPU, 0, Micros(0)) }
}

#[test]
fn the_messages_of_these_tests_are_good_before_they_are_spoiled() {
    let (schema, rows) = event_messages(1000);
    let good = file(&[
        (FrameKind::Events, &schema),
        (FrameKind::Events, &rows),
        (FrameKind::Checkpoint, &checkpoint(1000, 0, 0)),
    ]);
    let trace = read_trace(&good, &[]).unwrap();
    assert_eq!((trace.events.len(), trace.losses.is_empty()), (1000, true));
}

#[test]
fn an_absurd_first_allocation_is_not_believed() {
    for first_allocation in [u32::MAX, u32::MAX - 1, 1 << 31] {
        let trace = read_incomplete(&file_of(&Batch {
            rows: vec![alloc()],
            first_allocation,
            ..Batch::default()
        }));
        assert!(trace.allocations.is_empty());
    }
}

/// Each flush alone needs little; all of them together would fill the memory.
#[test]
fn many_small_holes_are_one_large_hole() {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    for flush in 1..2000 {
        let first_allocation = flush << 20;
        let row = |id| StackRow { id, parent: 0, code: 0, line: 0, module: 0, flags: 0 };
        let stacks = vec![row(flush << 20)];
        let batch = Batch { rows: vec![alloc()], stacks, first_allocation, ..Batch::default() };
        writer.write_batch(&batch).unwrap();
    }
    let trace = read_incomplete(&writer.finish(&floodmark_trace::Ending::default()).unwrap());
    assert!(trace.allocations.len() + trace.stack_count() < 1 << 23);
    assert_memory_is_bounded();
}

#[test]
fn huge_ids_define_nothing() {
    let code = |id| CodeRow { id, first_line: 1, file: "f".to_owned(), name: "n".to_owned() };
    let text = |id| TextRow { id, kind: TextKind::Op, text: "t".to_owned() };
    let ids = [0, 1, u32::MAX, u32::MAX - 1, 1 << 31, 2];
    let batch =
        Batch { codes: ids.map(code).to_vec(), texts: ids.map(text).to_vec(), ..Batch::default() };
    let trace = read_trace(&file_of(&batch), &[]).unwrap();
    assert_eq!([1, 2].map(|id| trace.text(TextId(id))), [Some("t"), Some("t")]);
    assert_eq!(trace.text(TextId(u32::MAX)), None);
    assert_memory_is_bounded();
}

#[test]
fn stacks_that_call_each_other_in_a_circle_end() {
    let row = |id, parent| StackRow { id, parent, code: 1, line: 1, module: 1, flags: 0 };
    let stacks = vec![row(1, 3), row(2, 1), row(3, 2), row(4, 4), row(2, 3)];
    let trace = read_trace(&file_of(&Batch { stacks, ..Batch::default() }), &[]).unwrap();
    for id in 0..5 {
        assert!(trace.frames(StackId(id)).count() < 5);
    }
}

/// Modules without names take the names of the modules around them: at depth n, a name of n parts.
#[test]
fn names_of_modules_do_not_grow_with_the_square_of_the_depth() {
    let class = "C".repeat(60_000);
    let modules = vec![ModuleRow { id: 1, root: 0, class, name: String::new() }];
    let row = |id| StackRow { id, parent: id - 1, code: 1, line: 1, module: 1, flags: 0 };
    let stacks = (1..200_000).map(row).collect();
    let trace = read_trace(&file_of(&Batch { modules, stacks, ..Batch::default() }), &[]).unwrap();
    assert!(trace.module_path(StackId(1000)).is_some_and(|path| path.len() <= 1024));
    assert_memory_is_bounded();
}

#[test]
fn a_checkpoint_with_two_thousand_million_totals_is_not_believed() {
    let (schema, rows) = event_messages(3);
    for totals in [1, 1 << 31, u32::MAX] {
        let trace = read_incomplete(&file(&[
            (FrameKind::Events, &schema),
            (FrameKind::Events, &rows),
            (FrameKind::Checkpoint, &checkpoint(3, 0, totals)),
        ]));
        assert!(trace.events.is_empty() && trace.totals.is_empty());
    }
}

#[test]
fn a_checkpoint_with_other_counts_is_refused() {
    let (schema, rows) = event_messages(3);
    for claimed in [0, 2, 4, u32::MAX] {
        let trace = read_incomplete(&file(&[
            (FrameKind::Events, &schema),
            (FrameKind::Events, &rows),
            (FrameKind::Checkpoint, &checkpoint(claimed, 0, 0)),
        ]));
        assert!(trace.events.is_empty());
    }
}

#[test]
fn events_about_blocks_that_are_not_theirs_are_counted() {
    let free = |allocation| Row {
        allocation: floodmark_trace::AllocationId(allocation),
        ..Row::new(EventKind::Free, Device::CPU, 0, Micros(0))
    };
    let on_gpu = Row { device: Device::cuda(0), ..free(0) };
    let completed = Row { kind: EventKind::FreeCompleted, ..free(0) };
    let rows = vec![alloc(), on_gpu, completed, free(7), free(0), free(0)];
    let trace = read_incomplete(&file_of(&Batch { rows, ..Batch::default() }));
    assert_eq!(trace.events.len(), 2);
    assert_eq!(trace.losses.0.last().unwrap().to_string().split(' ').next(), Some("4"));
}

#[test]
fn a_text_that_is_not_utf8_is_refused() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["abcdefgh"]));
    let (schema, rows) = messages(vec![("id", u32s(&[1])), ("kind", u8s(&[1])), ("text", text)]);
    let spoiled = replace(&rows, i64::from_le_bytes(*b"abcdefgh"), -2);
    let trace =
        read_incomplete(&file(&[(FrameKind::Texts, &schema), (FrameKind::Texts, &spoiled)]));
    assert_eq!(trace.text(TextId(1)), None);
}

#[test]
fn rows_of_another_schema_are_refused() {
    let (schema, rows) = messages(vec![("id", u32s(&[1])), ("kind", u32s(&[1]))]);
    let (_, events) = event_messages(1);
    let frames: [(FrameKind, &[u8]); 4] = [
        (FrameKind::Events, &schema),
        (FrameKind::Events, &rows),
        // Valid rows after a schema of another layout.
        (FrameKind::Events, &events),
        (FrameKind::Checkpoint, &checkpoint(1, 0, 0)),
    ];
    assert!(read_incomplete(&file(&frames)).events.is_empty());
}

#[test]
fn a_message_with_a_wrong_length_is_refused() {
    let (schema, rows) = event_messages(1000);
    let huge = 1_i64 << 60;
    let metadata = u32::from_le_bytes(rows[4..8].try_into().unwrap()) as usize;
    let body = i64::try_from(rows.len() - 8 - metadata).unwrap();
    let mut long_metadata = rows.clone();
    long_metadata[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let spoiled = [
        long_metadata,
        replace(&rows, body, huge),
        // How many rows there are.
        replace(&rows, 1000, huge),
        replace(&rows, 1000, -1),
        // What a column of 8,000 bytes decompresses to.
        replace(&rows, 8000, huge),
        replace(&rows, 8000, 8),
        replace(&rows, 8000, i64::MIN),
        rows[..rows.len() / 2].to_vec(),
        rows[..9].to_vec(),
        Vec::new(),
        [&rows[..], &rows[..]].concat(),
        [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0].to_vec(),
    ];
    for (case, message) in spoiled.iter().enumerate() {
        let trace = read_incomplete(&file(&[
            (FrameKind::Events, &schema),
            (FrameKind::Events, message),
            (FrameKind::Checkpoint, &checkpoint(1000, 0, 0)),
        ]));
        assert!(trace.events.is_empty(), "case {case}");
    }
    assert_memory_is_bounded();
}

/// A million rows in a few hundred bytes, repeated.
#[test]
fn a_file_that_decompresses_to_more_than_the_machine_has_is_refused() {
    let rows_per_flush = 1_u32 << 20;
    let (schema, rows) = event_messages(rows_per_flush as usize);
    assert!(rows.len() < 64 << 10, "{} bytes", rows.len());
    let mut frames: Vec<(FrameKind, &[u8])> = vec![(FrameKind::Events, &schema)];
    let checkpoints: Vec<Vec<u8>> =
        (0..50).map(|flush| checkpoint(rows_per_flush, flush * rows_per_flush, 0)).collect();
    for checkpoint in &checkpoints {
        frames.push((FrameKind::Events, &rows));
        frames.push((FrameKind::Checkpoint, checkpoint));
    }
    let error = read_trace(&file(&frames), &[]).unwrap_err();
    assert!(matches!(error, ReadError::TooLarge { .. }), "{error}");
    assert_memory_is_bounded();
}

/// Frame beginnings that all claim the rest of the file, so that its checksum would be computed for
/// each.
#[test]
fn looking_for_the_next_frame_takes_linear_time() {
    let mut file = file(&[]);
    let mut start = Vec::new();
    append_frame(&mut start, FrameKind::Events, 0, b"");
    let length = 4_u32 << 20;
    while file.len() < length as usize {
        let rest = length - u32::try_from(file.len()).unwrap();
        start[4..8].copy_from_slice(&(rest - rest / 4).to_le_bytes());
        file.extend_from_slice(&start);
    }
    let began = std::time::Instant::now();
    read_incomplete(&file);
    assert!(began.elapsed().as_secs() < 20);
}

#[test]
fn a_hostile_journal_does_no_harm() {
    let mut unfinished = prelude().to_vec();
    let json = serde_json::to_vec(&header()).unwrap();
    append_frame(&mut unfinished, FrameKind::Header, 0, &json);
    let mut journal = JournalWriter::new(SESSION);
    let kinds = (0..=u8::MAX).chain([record_kind::STACK; 64]).chain([EventKind::Alloc as u8; 64]);
    for (number, kind) in (u64::MAX - 500..).zip(kinds) {
        let device = Device { kind: -1, index: i8::MIN };
        let addr = u64::MAX - number % 3;
        let mut record = Record::block(EventKind::Alloc, device, addr, u64::MAX).at_time(u64::MAX);
        record.set_stack(u32::MAX);
        record.set_requested(u64::MAX);
        record.set_totals(u64::MAX, u64::MAX);
        (record.kind, record.flags, record.thread) = (kind, kind, u32::MAX);
        journal.push(0, &record.into());
    }
    let files = journal.files();
    let [ledger, chunk] = &files[..] else { panic!("a ledger and a chunk") };
    let mut hostile = ledger.clone();
    hostile[64..].fill(0xFF);
    hostile.resize(1 << 20, 0xFF);
    for ledger in [ledger, &hostile, &ledger[..100].to_vec(), &Vec::new()] {
        for cut in [chunk.len(), CHUNK_HEADER_BYTES + 1, 63, 8, 0] {
            let trace = read_trace(&unfinished, &[ledger, &chunk[..cut]]).unwrap();
            assert!(!trace.losses.is_empty() || trace.events.is_empty());
        }
    }
}

/// The peak memory of this process so far, where the system reports it.
fn assert_memory_is_bounded() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    assert!(peak.unwrap_or(0) < MOST_MEMORY_KIB, "the process held {peak:?} KiB");
}
