//! Writes the seed files of fuzzing: small files with a few rows of each kind.
//!
//! ```text
//! cargo run -p floodmark-trace --example fuzz_seeds -- fuzz/seeds
//! ```

use std::error::Error;
use std::path::PathBuf;

use floodmark_trace::journal::{
    Entry, FLAG_DEFERRED, JournalWriter, Record, pack_strings, record_kind,
};
use floodmark_trace::{
    Assembler, Batch, Device, Ending, EventKind, GpuMemory, GpuProcess, Header, TraceWriter,
};

/// The separator between files in the input of `read_trace`, in the fuzz crate.
const BOUNDARY: &[u8] = b"--JRNL--";

fn records() -> Vec<Entry> {
    let mut entries = Vec::new();
    let gpu = Device::cuda(0);
    for kind in record_kind::CODE..=record_kind::TEXT {
        let mut record = Record::block(EventKind::Alloc, Device::CPU, 1, 1);
        record.kind = kind;
        record.set_requested(7);
        record.set_totals(1, 0);
        let payload = pack_strings(&["train.py", "forward", "float32"]);
        entries.push((record, payload));
    }
    let event = |kind: EventKind, addr: u64, bytes: u64, allocated: u64| {
        let mut record = Record::block(kind, gpu, addr, bytes);
        record.set_stack(1);
        record.set_totals(allocated, 2 << 20);
        (record, Vec::new())
    };
    entries.push(event(EventKind::InitialBlock, 0x1000, 512, 0));
    entries.push(event(EventKind::Alloc, 0x2000, 1024, 1536));
    entries.push(event(EventKind::Label, 0x2004, 0, 0));
    let mut deferred = event(EventKind::Free, 0x1000, 512, 1024);
    deferred.0.flags = FLAG_DEFERRED;
    entries.push(deferred);
    entries.push(event(EventKind::FreeCompleted, 0x1000, 512, 0));
    for &kind in EventKind::ALL.iter().filter(|&&kind| kind > EventKind::FreeCompleted) {
        entries.push(event(kind, 0x4000, 4096, 0));
    }
    entries.push(event(EventKind::Free, 0x2000, 1024, 0));
    entries.push(event(EventKind::Free, 0x9000, 64, 0));
    let mut numbered = Vec::new();
    for (number, (mut record, payload)) in (1..).zip(entries) {
        record.time_nanos = number * 1000;
        numbered.push(Entry { record, payload: payload.into() });
    }
    numbered
}

fn gpu_memory() -> GpuMemory {
    let process = |pid, bytes| GpuProcess { pid, bytes, name: bytes.map(|_| "python".to_owned()) };
    GpuMemory {
        device: Device::cuda(0),
        asked_micros: 3,
        answered_micros: 4,
        total: 80 << 30,
        used: 1 << 30,
        driver: Some(600 << 20),
        processes: Some(vec![process(7, Some(1 << 29)), process(8, None)]),
    }
}

fn file(entries: &[Entry], is_finished: bool) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut file = Vec::new();
    let header = Header { session: "1".to_owned(), ..Header::default() };
    let mut writer = TraceWriter::new(&mut file, &header)?;
    let mut assembler = Assembler::default();
    for flush in entries.chunks(15) {
        for entry in flush {
            assembler.push(&entry.record, &entry.payload);
        }
        let gpu_memory = vec![gpu_memory()];
        writer.write_batch(&Batch { gpu_memory, ..assembler.take_batch() })?;
    }
    if is_finished {
        writer.finish(&Ending::default())?;
    }
    Ok(file)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("where to?")?);
    let entries = records();
    let half = entries.len() / 2;
    std::fs::write(folder.join("finished"), file(&entries, true)?)?;
    std::fs::write(folder.join("header_only"), file(&[], true)?)?;
    let mut journal = JournalWriter::new(1);
    for entry in &entries[half..] {
        journal.push(0, entry);
    }
    let mut killed = file(&entries[..half], false)?;
    for part in journal.files() {
        killed.extend_from_slice(BOUNDARY);
        killed.extend_from_slice(&part);
    }
    std::fs::write(folder.join("killed"), killed)?;
    Ok(())
}
