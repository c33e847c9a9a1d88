//! For tests: a program that is still recording.

use std::fs::{self, File};
use std::path::PathBuf;

use floodmark_trace::{Assembler, Ending, Header, TraceWriter, journal};

use crate::script;

const SCRIPT: &str = "
    alloc a cuda:0 4MiB at train.py:1
    alloc b cuda:0 2MiB at train.py:2
    free a
    step";

/// A program that records: its file, and what it has written so far.
#[derive(Debug)]
pub(crate) struct Program {
    folder: tempfile::TempDir,
    writer: TraceWriter<File>,
    assembler: Assembler,
    entries: std::vec::IntoIter<journal::Entry>,
}

impl Program {
    pub(crate) fn start() -> Self {
        let folder = tempfile::TempDir::new().unwrap();
        let file = File::create(folder.path().join("x.flood")).unwrap();
        let header = Header { host: host(), ..script::header() };
        let header = Header { pid: std::process::id(), ..header };
        let writer = TraceWriter::new(file, &header).unwrap();
        let entries = script::entries(SCRIPT).into_iter();
        Self { folder, writer, assembler: Assembler::default(), entries }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("x.flood")
    }

    /// Writes so many further records into the file.
    pub(crate) fn flush(&mut self, records: usize) {
        for entry in self.entries.by_ref().take(records) {
            self.assembler.push(&entry.record, &entry.payload);
        }
        self.writer.write_batch(&self.assembler.take_batch()).unwrap();
    }

    /// Leaves so many further records in the journal.
    pub(crate) fn record(&mut self, records: usize) {
        let mut journal = journal::JournalWriter::new(1);
        for entry in self.entries.by_ref().take(records) {
            journal.push(0, &entry);
        }
        let folder = self.folder.path().join("x.flood.journal");
        fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in [journal::LEDGER_NAME, "0.seg"].iter().zip(journal.files()) {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }

    pub(crate) fn end(self) -> tempfile::TempDir {
        self.writer.finish(&Ending { reason: String::new(), at_micros: 9000 }).unwrap();
        self.folder
    }
}

fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim_end().to_owned()
}
