//! Runs the program in a folder of its own.

use std::path::Path;

use assert_cmd::Command;
use floodmark_trace::TraceWriter;
use floodmark_trace::journal::state::{STATE_FILE, new_state};
use floodmark_trace::journal::{JournalWriter, LEDGER_NAME};
use tempfile::TempDir;

/// A folder with traces in it.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Puts the recording of a script into the folder.
    pub(crate) fn with(self, name: &str, script: &str) -> Self {
        self.with_bytes(name, &floodmark_testing::script::file(script))
    }

    /// Puts what a program leaves that was killed before it wrote more than the header.
    pub(crate) fn with_killed(self, name: &str, script: &str) -> Self {
        let entries = floodmark_testing::script::entries(script);
        let mut journal = JournalWriter::new(1);
        for entry in &entries {
            journal.push(0, entry);
        }
        let files = journal.files();
        let mut file = Vec::new();
        TraceWriter::new(&mut file, &floodmark_testing::script::header()).unwrap();
        self.with_bytes(name, &file)
            .with_bytes(&format!("{name}.journal/{LEDGER_NAME}"), &files[0])
            .with_bytes(&format!("{name}.journal/00000000.chunk"), &files[1])
            .with_bytes(&format!("{name}.journal/{STATE_FILE}"), &new_state(1, 42, true))
    }

    pub(crate) fn with_bytes(self, name: &str, bytes: &[u8]) -> Self {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }

    /// Puts a recording of a GPU into the folder: a path below `fixtures/recordings`.
    pub(crate) fn with_recording(self, name: &str, recording: &str) -> Self {
        let recordings = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings");
        self.with_bytes(name, &std::fs::read(Path::new(recordings).join(recording)).unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// stdout alone, of a command that must succeed.
    pub(crate) fn stdout(&self, line: &str) -> String {
        let output = self.command(line).assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The exit status, then stdout, then stderr.
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut shown = format!("exit {}\n", output.status.code().unwrap());
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !bytes.is_empty() {
                shown += &format!("--- {name}\n{}", text(bytes));
            }
        }
        shown
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
        command.current_dir(self.path()).args(line.split_whitespace());
        command
    }
}
