//! Follows a trace that may still grow, and reads what is new.
//!
//! A refresh costs a few system calls if the file did not grow. Otherwise only the new part is decoded, but the trace is
//! copied, which takes longer the longer the trace is. So reading takes at most one part in [`SHARE`] of a core's time, however
//! often [`Following::refresh`] is called.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use floodmark_trace::{GrowingReader, Loss, Trace};

use crate::traces::journal_files::{is_running, journal_counters};
use crate::traces::open::{OpenError, decompression_limit, open_growing, open_trace};
use crate::traces::regular_file::open_regular;

/// Reading takes at most one part in this many of a core's time.
const SHARE: u32 = 3;
/// The shortest time between two reads.
const SHORTEST_REST: Duration = Duration::from_millis(200);

/// The bytes of the prelude and of the beginning of the header, which has the session.
const BEGINNING_BYTES: u64 = 128;

/// A trace on disk, with what was read of it.
#[derive(Debug)]
pub struct Following {
    path: PathBuf,
    stamp: Stamp,
    trace: Arc<Trace>,
    revision: u64,
    /// Whether the program held the journal's lock when the trace was read.
    is_running: bool,
    /// The time of the next read, at the earliest.
    rested_at: Instant,
    /// The reader, since the file first grew. Without it, a file that does not grow is in memory once.
    reader: Option<GrowingReader>,
}

impl Following {
    /// Reads a trace for the first time.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let began = Instant::now();
        // The stamp is read first: what is written meanwhile is then read again, not missed.
        let stamp = Stamp::read(path)?;
        let trace = Arc::new(without_running_loss(open_trace(path)?));
        let rested_at = rest_until(began);
        let is_running = trace.is_running();
        let path = path.to_owned();
        let reader = None;
        Ok(Self { path, stamp, trace, revision: 1, is_running, rested_at, reader })
    }

    /// The trace, as it was read last.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// The number of the revision, from 1. It increases when the trace has more.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether the recording has ended, and the trace no longer grows.
    pub fn has_ended(&self) -> bool {
        self.trace.ending.is_some()
    }

    /// Whether the program still records.
    pub fn is_running(&self) -> bool {
        self.is_running && !self.has_ended()
    }

    /// Reads what is new in the file. Returns whether there is a new revision.
    pub fn refresh(&mut self) -> Result<bool, OpenError> {
        self.refresh_at(Instant::now())
    }

    fn refresh_at(&mut self, began: Instant) -> Result<bool, OpenError> {
        if self.has_ended() || began < self.rested_at {
            return Ok(false);
        }
        let stamp = Stamp::read(&self.path)?;
        // A program that ends without ending the recording leaves the bytes as they are and releases the lock.
        let is_running = is_running(&self.path, &self.trace);
        if stamp == self.stamp && is_running == self.is_running {
            return Ok(false);
        }
        let trace = without_running_loss(self.read(&stamp)?);
        let is_new = trace.events.len() != self.trace.events.len()
            || trace.ending.is_some()
            || trace.header != self.trace.header
            || trace.outcome() != self.trace.outcome()
            || trace.is_running() != self.is_running;
        self.rested_at = rest_until(began);
        self.stamp = stamp;
        self.is_running = trace.is_running();
        if is_new {
            self.trace = Arc::new(trace);
            self.revision += 1;
        }
        Ok(is_new)
    }

    /// Reads what is new, or the whole file if it is another one.
    fn read(&mut self, stamp: &Stamp) -> Result<Trace, OpenError> {
        let is_same = stamp.begins == self.stamp.begins;
        let kept = self.reader.take().filter(|kept| is_same && stamp.bytes >= kept.taken());
        let mut reader = match kept {
            Some(reader) => reader,
            None => GrowingReader::new(decompression_limit()?),
        };
        match open_growing(&self.path, &mut reader)? {
            Some(trace) => {
                // After its end, a recording does not grow.
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

/// The trace without the loss that the program still records, which is expected of a trace that is followed.
fn without_running_loss(mut trace: Trace) -> Trace {
    trace.losses.0.retain(|loss| !matches!(loss, Loss::StillRunning { .. }));
    trace
}

/// What changes when a trace grows: its file, the ledger of its journal, which counts the records, and the journal's state,
/// which has the reason why recording stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stamp {
    /// The first bytes, which differ in another file of the same name.
    begins: Vec<u8>,
    bytes: u64,
    modified: Option<SystemTime>,
    journal: Vec<u8>,
}

impl Stamp {
    fn read(path: &Path) -> Result<Self, OpenError> {
        let mut file = open_regular(path)?;
        let begins = first_bytes(&mut file, BEGINNING_BYTES)?;
        let file = file.metadata()?;
        let journal = journal_counters(path)?;
        Ok(Self { begins, bytes: file.len(), modified: file.modified().ok(), journal })
    }
}

fn first_bytes(file: &mut File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use floodmark_testing::program::Program;
    use floodmark_trace::Outcome;

    use super::*;

    /// Refreshes until there is a new revision.
    fn refresh_until_new(following: &mut Following) -> usize {
        let patience = Instant::now() + Duration::from_secs(600);
        while !following.refresh().unwrap() {
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
        assert!(!following.refresh().unwrap(), "nothing grew");
        program.record(6);
        let more = refresh_until_new(&mut following);
        assert!(more > few && following.revision() == 2);
        assert!(following.trace().losses.is_empty(), "{:?}", following.trace().losses);
        assert!(!following.has_ended());
        let _folder = program.end();
        refresh_until_new(&mut following);
        assert!(following.has_ended() && following.revision() == 3);
    }

    /// The program was started again with the same output.
    #[test]
    fn another_file_of_the_same_name_is_read_from_its_beginning() {
        let (mut first, mut second) = (Program::start(), Program::start());
        first.flush(4);
        let mut following = Following::open(&first.path()).unwrap();
        first.flush(6);
        let many = refresh_until_new(&mut following);
        second.flush(4);
        fs::copy(second.path(), first.path()).unwrap();
        assert!(refresh_until_new(&mut following) < many);
    }

    #[test]
    fn a_refresh_right_after_a_read_reads_nothing() {
        let mut program = Program::start();
        program.flush(4);
        let mut following = Following::open(&program.path()).unwrap();
        program.flush(6);
        let soon = following.rested_at.checked_sub(Duration::from_nanos(1)).unwrap();
        assert!(!following.refresh_at(soon).unwrap());
        assert!(refresh_until_new(&mut following) > 2);
    }

    fn losses(following: &Following) -> Vec<String> {
        following.trace().losses.0.iter().map(ToString::to_string).collect()
    }

    /// The lock decides, not a process with the same id.
    #[test]
    fn a_killed_program_is_recognized_by_its_lock() {
        let mut program = Program::start();
        program.flush(4);
        let mut following = Following::open(&program.path()).unwrap();
        assert!(following.is_running() && losses(&following).is_empty());
        let read = open_trace(&program.path()).unwrap().losses;
        assert!(matches!(read.0[..], [Loss::StillRunning { .. }]), "{read:?}");
        program.kill();
        refresh_until_new(&mut following);
        assert!(!following.is_running());
        assert_eq!(following.trace().outcome(), Outcome::Unfinished);
        assert_eq!(
            losses(&following),
            [
                "the program ended without ending the recording: it was killed, crashed, or called `os._exit`; \
              every record is in the file"
            ]
        );
    }

    #[test]
    fn a_recording_that_stopped_early_has_the_reason_while_the_program_runs() {
        let mut program = Program::start();
        program.flush(4);
        let mut following = Following::open(&program.path()).unwrap();
        program.stop_early("no space left on device", 3_200_000);
        refresh_until_new(&mut following);
        assert_eq!(following.trace().outcome(), Outcome::StoppedEarly);
        let message = "recording stopped at 3.2 s: no space left on device; \
                    the peak after that is unknown: the program continued";
        assert_eq!(losses(&following), [message]);
        program.kill();
        assert_eq!(losses(&Following::open(&program.path()).unwrap()), [message]);
    }
}
