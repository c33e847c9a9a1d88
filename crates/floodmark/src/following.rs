//! A trace that may still grow: looked at again and again, read again when there is more.
//!
//! A look at a file that did not grow costs a few system calls. Of one that grew only what is new is decoded; but the
//! trace is copied, which costs more the longer it is, so it is done no more often than [`SHARE`] allows, however
//! often somebody looks.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use floodmark_trace::journal::{LEDGER_LINE_BYTES, LEDGER_NAME};
use floodmark_trace::{GrowingReader, Loss, Trace};

use crate::open::{
    OpenError, decompression_limit, journal_segments, open_growing, open_segment, open_trace,
};
use crate::regular_file::open_regular;

/// Reading takes at most one part in so many of a core's time.
const SHARE: u32 = 3;
/// Nobody sees more than a few pictures a second.
const SHORTEST_REST: Duration = Duration::from_millis(200);

/// Prelude and the beginning of the header, which has the session in it.
const BEGINNING_BYTES: u64 = 128;

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
    /// What reads on, from when the file first grew: one that does not grow is held in memory once.
    reader: Option<GrowingReader>,
}

impl Following {
    /// Reads a trace for the first time.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let began = Instant::now();
        // The stamp first: what comes while the file is read is then read once more, never overlooked.
        let stamp = Stamp::of(path)?;
        let trace = Arc::new(as_known(open_trace(path)?));
        let rested_at = rest_until(began);
        let is_running = is_running(&trace);
        let path = path.to_owned();
        let reader = None;
        Ok(Self { path, stamp, trace, revision: 1, is_running, rested_at, reader })
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
        let trace = as_known(self.read(&stamp)?);
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

    /// Reads on, or all of it where it is not the file that it was.
    fn read(&mut self, stamp: &Stamp) -> Result<Trace, OpenError> {
        let is_same = stamp.begins == self.stamp.begins;
        let kept = self.reader.take().filter(|kept| is_same && stamp.bytes >= kept.taken());
        let mut reader = match kept {
            Some(reader) => reader,
            None => GrowingReader::new(decompression_limit()?),
        };
        match open_growing(&self.path, &mut reader)? {
            Some(trace) => {
                // Nothing comes after an end.
                self.reader = trace.ending.is_none().then_some(reader);
                Ok(trace)
            }
            None => open_trace(&self.path),
        }
    }
}

fn rest_until(began: Instant) -> Instant {
    let now = Instant::now();
    now + ((now - began) * (SHARE - 1)).max(SHORTEST_REST)
}

/// What is not written yet is not lost, as long as there is somebody to write it.
fn as_known(mut trace: Trace) -> Trace {
    if trace.ending.is_none() && is_running(&trace) {
        trace.losses.0.retain(|loss| {
            !matches!(
                loss,
                Loss::Salvaged { .. }
                    | Loss::Unfinished
                    | Loss::LostInJournal(_)
                    | Loss::LedgerDamaged
            )
        });
    }
    trace
}

/// Whether the traced process runs on this machine.
fn is_running(trace: &Trace) -> bool {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let process = format!("/proc/{}", trace.header.pid);
    trace.header.pid != 0 && host.trim_end() == trace.header.host && Path::new(&process).exists()
}

/// What changes when a trace grows: the file, and the ledger of its journal, which counts the records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stamp {
    /// The first frames, by which another file of the same name is told apart.
    begins: Vec<u8>,
    bytes: u64,
    modified: Option<SystemTime>,
    ledger: Vec<u8>,
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, OpenError> {
        let mut file = open_regular(path)?;
        let begins = first_bytes(&mut file, BEGINNING_BYTES)?;
        let file = file.metadata()?;
        let ledger = ledger_of(path)?;
        Ok(Self { begins, bytes: file.len(), modified: file.modified().ok(), ledger })
    }
}

/// The lines of the ledger that are in use; empty where there is no journal.
fn ledger_of(path: &Path) -> Result<Vec<u8>, OpenError> {
    let files = journal_segments(path)?;
    let Some(ledger) = files.iter().find(|file| file.ends_with(LEDGER_NAME)) else {
        return Ok(Vec::new());
    };
    // A program that ends removes its journal.
    let Some(mut file) = open_segment(ledger)? else { return Ok(Vec::new()) };
    Ok(first_bytes(&mut file, (files.len() * LEDGER_LINE_BYTES) as u64)?)
}

fn first_bytes(file: &mut File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growing::Program;

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

    /// Somebody started the program again, under the same name.
    #[test]
    fn another_file_of_the_same_name_is_read_from_its_beginning() {
        let (mut first, mut second) = (Program::start(), Program::start());
        first.flush(4);
        let mut following = Following::open(&first.path()).unwrap();
        first.flush(6);
        let many = look(&mut following);
        second.flush(4);
        fs::copy(second.path(), first.path()).unwrap();
        assert!(look(&mut following) < many);
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
