//! A program that is still recording.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use floodmark_trace::journal::state::{
    NOTE_LENGTH_OFFSET, NOTE_OFFSET, STATE_FILE, StopNote, new_state,
};
use floodmark_trace::{Assembler, Ending, TraceWriter, journal};

use crate::script;

const SCRIPT: &str = "
    alloc a cuda:0 4MiB at train.py:1
    alloc b cuda:0 2MiB at train.py:2
    free a
    step";

/// A program that records, with its file and the records so far.
#[derive(Debug)]
pub struct Program {
    folder: tempfile::TempDir,
    writer: TraceWriter<File>,
    assembler: Assembler,
    entries: std::vec::IntoIter<journal::Entry>,
    /// The file whose lock the program holds while it runs.
    state: Option<File>,
}

impl Program {
    /// Starts a program without records.
    pub fn start() -> Self {
        let folder = tempfile::TempDir::new().unwrap();
        let file = File::create(folder.path().join("x.flood")).unwrap();
        let writer = TraceWriter::new(file, &script::header()).unwrap();
        let entries = script::entries(SCRIPT).into_iter();
        let beside = folder.path().join("x.flood.journal");
        fs::create_dir(&beside).unwrap();
        let ledger = &journal::JournalWriter::new(1).files()[0];
        fs::write(beside.join(journal::LEDGER_NAME), ledger).unwrap();
        let mut state = File::create_new(beside.join(STATE_FILE)).unwrap();
        state.write_all(&new_state(1, std::process::id(), true)).unwrap();
        state.try_lock().unwrap();
        let state = Some(state);
        Self { folder, writer, assembler: Assembler::default(), entries, state }
    }

    /// The file that it records.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("x.flood")
    }

    /// Writes `count` further records into the file.
    pub fn flush(&mut self, records: usize) {
        for entry in self.entries.by_ref().take(records) {
            self.assembler.push(&entry.record, &entry.payload);
        }
        self.writer.write_batch(&self.assembler.take_batch()).unwrap();
    }

    /// Leaves `count` further records in the journal.
    pub fn record(&mut self, records: usize) {
        let mut journal = journal::JournalWriter::new(1);
        for entry in self.entries.by_ref().take(records) {
            journal.push(0, &entry);
        }
        let folder = self.folder.path().join("x.flood.journal");
        for (name, bytes) in [journal::LEDGER_NAME, "0.chunk"].iter().zip(journal.files()) {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }

    /// Stops the recording with a reason. The program continues.
    pub fn stop_early(&mut self, reason: &str, at_micros: u64) {
        let state = self.state.as_ref().unwrap();
        let (length, note) = StopNote { reason: reason.to_owned(), at_micros }.to_bytes();
        state.write_all_at(&note, NOTE_OFFSET as u64).unwrap();
        state.write_all_at(&length.to_le_bytes(), NOTE_LENGTH_OFFSET as u64).unwrap();
    }

    /// Kills the program: its recording has no end.
    pub fn kill(&mut self) {
        self.state = None;
    }

    /// Ends the recording, as at the end of a program. The folder is removed with the returned value.
    pub fn end(self) -> tempfile::TempDir {
        self.writer.finish(&Ending { reason: String::new(), at_micros: 9000 }).unwrap();
        self.folder
    }
}
