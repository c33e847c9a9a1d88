//! The modules that ran on each thread, as its allocations show.

use std::io;

use floodmark_trace::{ModuleId, StackId, Subject, ThreadId, Trace};

use super::{Flow, Numbers, TimedEvent, TrackId, TrackInput, TrackKind, Tracks};

/// The threads so far.
#[derive(Default)]
pub(super) struct ThreadTracks {
    threads: Vec<OneThread>,
}

struct OneThread {
    thread: ThreadId,
    track: TrackId,
    /// The open modules, outermost first.
    open: Vec<ModuleId>,
}

impl ThreadTracks {
    /// The track of a thread.
    pub(super) fn track(
        &mut self,
        thread: ThreadId,
        numbers: &mut Numbers,
        tracks: &mut dyn Tracks,
    ) -> io::Result<TrackId> {
        Ok(self.one(thread, numbers, tracks)?.track)
    }

    fn one(
        &mut self,
        thread: ThreadId,
        numbers: &mut Numbers,
        tracks: &mut dyn Tracks,
    ) -> io::Result<&mut OneThread> {
        let known = self.threads.iter().position(|one| one.thread == thread);
        if known.is_none() {
            let name = format!("modules of thread {}", thread.0);
            let track = numbers.add(tracks, numbers.root, &name, TrackKind::Slices)?;
            self.threads.push(OneThread { thread, track, open: Vec::new() });
        }
        let index = known.unwrap_or(self.threads.len() - 1);
        Ok(&mut self.threads[index])
    }

    pub(super) fn apply(
        &mut self,
        input: &TrackInput<'_>,
        at: &TimedEvent<'_>,
        numbers: &mut Numbers,
        tracks: &mut dyn Tracks,
    ) -> io::Result<()> {
        let Subject::Alloc(id) = at.event.subject else { return Ok(()) };
        let allocation = &input.trace.allocations[id.index()];
        if allocation.before_recording || !input.devices.contains(&at.event.device) {
            return Ok(());
        }
        // A backward allocation has the stack of its forward operator, whose modules do not run now.
        let running =
            if allocation.backward { Vec::new() } else { modules(input.trace, allocation.stack) };
        let one = self.one(at.event.thread, numbers, tracks)?;
        let same = one.open.iter().zip(&running).take_while(|(open, (_, module))| *open == module);
        let same = same.count();
        for _ in same..one.open.len() {
            tracks.end(one.track, at.micros)?;
        }
        one.open.truncate(same);
        for &(stack, module) in &running[same..] {
            let name = input.trace.module_path(stack).unwrap_or("(unnamed module)");
            tracks.begin(one.track, at.micros, name, Flow::None, &[])?;
            one.open.push(module);
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, end: u64, tracks: &mut dyn Tracks) -> io::Result<()> {
        for one in &mut self.threads {
            for _ in one.open.drain(..) {
                tracks.end(one.track, end)?;
            }
        }
        Ok(())
    }
}

/// The modules on a stack, outermost first, each once and with a frame of it.
fn modules(trace: &Trace, stack: StackId) -> Vec<(StackId, ModuleId)> {
    let with_module = trace.frames(stack).filter(|(_, frame)| frame.module.0 != 0);
    let mut found: Vec<_> = with_module.map(|(id, frame)| (id, frame.module)).collect();
    found.reverse();
    found.dedup_by_key(|(_, module)| *module);
    found
}
