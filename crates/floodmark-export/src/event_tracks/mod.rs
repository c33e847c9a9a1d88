//! A recording as tracks: counters, slices, and instants with arrows between them, for tools that draw time.
//!
//! Perfetto and Chrome's JSON show the same things, so [`follow`] walks the events once, in the order of time, and adds to a
//! [`Tracks`]:
//!
//! - for each device: allocated, active and reserved bytes, and the bytes of each category, whenever they change;
//! - steps, training phases (forward, backward, optimizer), phases and marks that the user named;
//! - the modules whose `forward` allocated, for each thread: a slice lasts from the first allocation
//!   inside to the first one outside;
//! - the [`LARGEST`](largest::LARGEST) largest allocations: a slice for each while it was live, with an arrow from where it was allocated
//!   and one to where it was freed. Lifetimes overlap, so the slices lie in as many lanes as they need.
//!
//! Only open slices are kept in memory, so a trace of any length can be written.

mod devices;
mod largest;
mod program;
mod threads;

use std::io;

use floodmark_analysis::Context;
use floodmark_trace::{Device, Event, Trace};

use crate::options::{ExportError, Options, chosen_devices};
use devices::DeviceTracks;
use largest::Largest;
use program::ProgramTracks;
use threads::ThreadTracks;

/// The number of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TrackId(pub(crate) u64);

/// The kind of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrackKind {
    /// The whole program; all other tracks are below it.
    Process { pid: u32 },
    /// A group of tracks.
    Group,
    /// Bytes over time.
    Counter,
    /// Slices and instants.
    Slices,
}

/// The declaration of a track.
#[derive(Debug)]
pub(crate) struct Track<'a> {
    pub(crate) id: TrackId,
    pub(crate) parent: Option<TrackId>,
    pub(crate) name: &'a str,
    pub(crate) kind: TrackKind,
    /// Its order among its siblings.
    pub(crate) order: u32,
}

/// A note of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Note<'a> {
    Number(u64),
    Text(&'a str),
}

/// Notes, each with its name.
pub(crate) type Notes<'a> = [(&'static str, Note<'a>)];

/// An arrow that a slice begins, continues or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    None,
    Begins(u64),
    Passes(u64),
    Ends(u64),
}

/// Writes tracks in one format. Times are microseconds since the start of the recording, and never decrease.
pub(crate) trait Tracks {
    fn track(&mut self, track: &Track<'_>) -> io::Result<()>;
    fn counter(&mut self, track: TrackId, micros: u64, value: u64) -> io::Result<()>;
    fn begin(
        &mut self,
        track: TrackId,
        micros: u64,
        name: &str,
        flow: Flow,
        notes: &Notes<'_>,
    ) -> io::Result<()>;
    fn end(&mut self, track: TrackId, micros: u64) -> io::Result<()>;
    fn instant(
        &mut self,
        track: TrackId,
        micros: u64,
        name: &str,
        flow: Flow,
        notes: &Notes<'_>,
    ) -> io::Result<()>;
}

/// Gives numbers to tracks, and declares them.
struct Numbers {
    last: u64,
    root: TrackId,
}

impl Numbers {
    fn add(
        &mut self,
        tracks: &mut dyn Tracks,
        parent: TrackId,
        name: &str,
        kind: TrackKind,
    ) -> io::Result<TrackId> {
        self.last += 1;
        let id = TrackId(self.last);
        let order = u32::try_from(self.last).unwrap_or(u32::MAX);
        tracks.track(&Track { id, parent: Some(parent), name, kind, order })?;
        Ok(id)
    }
}

/// The input of all tracks.
struct TrackInput<'a> {
    trace: &'a Trace,
    context: &'a Context,
    devices: Vec<Device>,
}

/// Writes the tracks of a recording.
pub(crate) fn follow(
    trace: &Trace,
    options: &Options,
    tracks: &mut dyn Tracks,
) -> Result<(), ExportError> {
    let context = Context::new(trace);
    let devices = chosen_devices(trace, options.device)?;
    let input = TrackInput { trace, context: &context, devices };
    let root = TrackId(1);
    let name = program_name(trace);
    let kind = TrackKind::Process { pid: trace.header.pid.max(1) };
    tracks.track(&Track { id: root, parent: None, name: &name, kind, order: 0 })?;
    let mut numbers = Numbers { last: 1, root };
    let skipped =
        trace.events.len() - options.max_events.unwrap_or(usize::MAX).min(trace.events.len());
    let mut program = ProgramTracks::new(&input, &mut numbers, tracks)?;
    let mut memory = DeviceTracks::new(&input, &mut numbers, tracks)?;
    let mut threads = ThreadTracks::default();
    let mut largest = Largest::new(&input, skipped, &mut numbers, tracks)?;
    let mut now = 0;
    for (at, event) in trace.events.iter().enumerate() {
        // Each thread writes its own records, so that an event may be slightly late.
        now = event.time.0.max(now);
        let at_event = TimedEvent { number: at, micros: now, event };
        memory.apply(&at_event, at >= skipped, tracks)?;
        program.apply(&input, &at_event, tracks)?;
        if at >= skipped {
            threads.apply(&input, &at_event, &mut numbers, tracks)?;
            largest.apply(&input, &at_event, &mut threads, &mut numbers, tracks)?;
        }
    }
    let end = trace.end().0.max(now);
    memory.finish(end, tracks)?;
    program.finish(end, tracks)?;
    threads.finish(end, tracks)?;
    largest.finish(end, tracks)?;
    Ok(())
}

/// An event, with the time at which it is shown.
struct TimedEvent<'a> {
    number: usize,
    micros: u64,
    event: &'a Event,
}

/// The name of the root track: the program and its rank.
fn program_name(trace: &Trace) -> String {
    let header = &trace.header;
    let is_script = |word: &&String| !word.starts_with('-');
    let script = header.command.iter().skip(1).find(is_script).or(header.command.first());
    let name = script.map_or("torch", |word| word.rsplit('/').next().unwrap_or(word));
    match header.rank {
        Some(rank) => format!("{name}, rank {rank}"),
        None => name.to_owned(),
    }
}
