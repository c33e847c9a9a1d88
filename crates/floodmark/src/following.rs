//! A trace that may still grow: looked at again and again, read again when there is more.
//!
//! A look at a file that did not grow costs a few system calls. Reading costs more the longer the recording is,
//! so it is done no more often than [`SHARE`] allows, however often somebody looks.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use floodmark_trace::journal::SEGMENT_HEADER_BYTES;
use floodmark_trace::{Loss, Trace};

use crate::open::{OpenError, journal_segments, open_trace};

/// Reading takes at most one part in so many of a core's time.
const SHARE: u32 = 3;
/// Nobody sees more than a few pictures a second.
const SHORTEST_REST: Duration = Duration::from_millis(200);

/// A trace on disk, and the newest state of it that was read.
#[derive(Debug)]
pub(crate) struct Following {
    path: PathBuf,
    stamp: Stamp,
    trace: Arc<Trace>,
    revision: u64,
    /// Whether somebody was there to write more when it was read.
    is_running: bool,
    /// Not before this is it read again.
    rested_at: Instant,
}

impl Following {
    /// Reads a trace for the first time.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let began = Instant::now();
        // The stamp first: what comes while the file is read is then read once more, never overlooked.
        let stamp = Stamp::of(path)?;
        let trace = Arc::new(read(path)?);
        let rested_at = rest_until(began);
        let is_running = is_running(&trace);
        Ok(Self { path: path.to_owned(), stamp, trace, revision: 1, is_running, rested_at })
    }

    /// What was read last.
    pub(crate) fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// Counts from 1; another number means that there is more.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether its end was written: it does not grow any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.trace.ending.is_some()
    }

    /// Whether there is somebody to write more, as far as can be seen from this machine.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running && !self.has_ended()
    }

    /// Looks whether there is more, and reads it. `true` when there is a new revision.
    pub(crate) fn look(&mut self) -> Result<bool, OpenError> {
        if self.has_ended() || Instant::now() < self.rested_at {
            return Ok(false);
        }
        let began = Instant::now();
        let stamp = Stamp::of(&self.path)?;
        // What a program leaves that was killed is the same file, and another story.
        let is_running = is_running(&self.trace);
        if stamp == self.stamp && is_running == self.is_running {
            return Ok(false);
        }
        let trace = read(&self.path)?;
        let is_new = trace.events.len() != self.trace.events.len()
            || trace.ending.is_some()
            || trace.header != self.trace.header
            || is_running != self.is_running;
        self.rested_at = rest_until(began);
        self.stamp = stamp;
        self.is_running = is_running;
        if is_new {
            self.trace = Arc::new(trace);
            self.revision += 1;
        }
        Ok(is_new)
    }
}

fn rest_until(began: Instant) -> Instant {
    let now = Instant::now();
    now + ((now - began) * (SHARE - 1)).max(SHORTEST_REST)
}

/// Reads a trace. What is not written yet is not lost, as long as there is somebody to write it.
fn read(path: &Path) -> Result<Trace, OpenError> {
    let mut trace = open_trace(path)?;
    if trace.ending.is_none() && is_running(&trace) {
        trace.losses.0.retain(|loss| {
            !matches!(loss, Loss::Salvaged { .. } | Loss::Unfinished | Loss::InFlight(_))
        });
    }
    Ok(trace)
}

/// Whether the traced process runs on this machine.
fn is_running(trace: &Trace) -> bool {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let process = format!("/proc/{}", trace.header.pid);
    trace.header.pid != 0 && host.trim_end() == trace.header.host && Path::new(&process).exists()
}

/// What changes when a trace grows: the file, and the headers of its journal's segments, which count their
/// records. The segments themselves are mapped at their full length from the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    segments: Vec<(PathBuf, Vec<u8>)>,
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, OpenError> {
        let file = fs::metadata(path)?;
        let mut segments = Vec::new();
        for segment in journal_segments(path)? {
            if let Some(header) = header_of(&segment)? {
                segments.push((segment, header));
            }
        }
        Ok(Self { bytes: file.len(), modified: file.modified().ok(), segments })
    }
}

fn header_of(segment: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(segment) {
        Ok(file) => file,
        // A program that still runs removes what it has flushed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut header = Vec::new();
    file.take(SEGMENT_HEADER_BYTES as u64).read_to_end(&mut header)?;
    Ok(Some(header))
}

#[cfg(test)]
mod tests {
    use floodmark_trace::{Assembler, Ending, TraceWriter, journal};

    use super::*;
    use crate::script;

    const SCRIPT: &str = "
        alloc a cuda:0 4MiB at train.py:1
        alloc b cuda:0 2MiB at train.py:2
        free a
        step";

    /// A program that records: its file, and what it has written so far.
    struct Program {
        folder: tempfile::TempDir,
        writer: TraceWriter<File>,
        assembler: Assembler,
        entries: std::vec::IntoIter<journal::Entry>,
    }

    impl Program {
        fn start() -> Self {
            let folder = tempfile::TempDir::new().unwrap();
            let file = File::create(folder.path().join("x.flood")).unwrap();
            let header = floodmark_trace::Header { host: host(), ..script::header() };
            let header = floodmark_trace::Header { pid: std::process::id(), ..header };
            let writer = TraceWriter::new(file, &header).unwrap();
            let entries = script::entries(SCRIPT).into_iter();
            Self { folder, writer, assembler: Assembler::default(), entries }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("x.flood")
        }

        /// Writes so many further records into the file.
        fn flush(&mut self, records: usize) {
            for entry in self.entries.by_ref().take(records) {
                self.assembler.push(&entry);
            }
            self.writer.write_batch(&self.assembler.take_batch()).unwrap();
        }

        /// Leaves so many further records in the journal.
        fn record(&mut self, records: usize) {
            let mut segment = journal::segment_header(1, 0).to_vec();
            let mut slots = 0_u64;
            for entry in self.entries.by_ref().take(records) {
                slots += entry.record.slots() as u64;
                let end = segment.len() + entry.record.slots() * journal::SLOT_BYTES;
                segment.extend_from_slice(&entry.record.to_bytes());
                segment.extend_from_slice(&entry.payload);
                segment.resize(end, 0);
            }
            segment[journal::COMMITTED_OFFSET..][..8].copy_from_slice(&slots.to_le_bytes());
            let folder = self.folder.path().join("x.flood.journal");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("0-0.seg"), segment).unwrap();
        }

        fn end(self) -> tempfile::TempDir {
            self.writer.finish(&Ending { reason: String::new(), at_micros: 9000 }).unwrap();
            self.folder
        }
    }

    fn host() -> String {
        fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim_end().to_owned()
    }

    /// Looks until there is something new.
    fn look(following: &mut Following) -> usize {
        let patience = Instant::now() + Duration::from_secs(20);
        while !following.look().unwrap() {
            assert!(Instant::now() < patience, "nothing new came");
            std::thread::sleep(Duration::from_millis(20));
        }
        following.trace().events.len()
    }

    #[test]
    fn a_file_that_grows_is_read_again() {
        let mut program = Program::start();
        program.flush(4);
        let mut following = Following::open(&program.path()).unwrap();
        let few = following.trace().events.len();
        assert!(few < 4 && following.revision() == 1);
        std::thread::sleep(SHORTEST_REST);
        assert!(!following.look().unwrap(), "nothing grew");
        program.record(6);
        let more = look(&mut following);
        assert!(more > few && following.revision() == 2);
        assert!(following.trace().losses.is_empty(), "{:?}", following.trace().losses);
        assert!(!following.has_ended());
        let _folder = program.end();
        look(&mut following);
        assert!(following.has_ended() && following.revision() == 3);
    }

    #[test]
    fn a_look_right_after_a_read_is_put_off() {
        let mut program = Program::start();
        program.flush(4);
        let mut following = Following::open(&program.path()).unwrap();
        program.flush(6);
        assert!(!following.look().unwrap());
        assert!(look(&mut following) > 2);
    }
}
