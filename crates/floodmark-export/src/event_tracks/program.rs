//! The tracks of steps, marks and the phases that the program named.

use std::io;

use floodmark_trace::{ProgramEvent, Subject, ThreadId};

use super::{Flow, Note, Numbers, TimedEvent, TrackId, TrackInput, TrackKind, Tracks};

pub(super) struct ProgramTracks {
    steps: TrackId,
    marks: TrackId,
    /// The open step; `None` if the program has no steps.
    step: Option<u32>,
    /// The threads of the open phases, in the order of their beginnings.
    open: Vec<ThreadId>,
    /// A lane for each thread with phases. The phases of one thread are nested.
    lanes: Vec<(ThreadId, TrackId)>,
}

impl ProgramTracks {
    pub(super) fn new(
        input: &TrackInput<'_>,
        numbers: &mut Numbers,
        tracks: &mut dyn Tracks,
    ) -> io::Result<Self> {
        let root = numbers.root;
        let steps = numbers.add(tracks, root, "steps", TrackKind::Slices)?;
        let marks = numbers.add(tracks, root, "marks", TrackKind::Slices)?;
        let step = (input.context.finished_steps() > 0).then_some(0);
        if step.is_some() {
            tracks.begin(steps, 0, &input.context.step_name(0), Flow::None, &[])?;
        }
        let mut lanes: Vec<(ThreadId, TrackId)> = Vec::new();
        for event in &input.trace.events {
            let is_known = || lanes.iter().any(|&(thread, _)| thread == event.thread);
            if matches!(event.subject, Subject::PhaseBegin(_)) && !is_known() {
                let name = format!("phases of thread {}", event.thread.0);
                let lane = numbers.add(tracks, root, &name, TrackKind::Slices)?;
                lanes.push((event.thread, lane));
            }
        }
        Ok(Self { steps, marks, step, open: Vec::new(), lanes })
    }

    pub(super) fn apply(
        &mut self,
        input: &TrackInput<'_>,
        at: &TimedEvent<'_>,
        tracks: &mut dyn Tracks,
    ) -> io::Result<()> {
        let trace = input.trace;
        let named = |text| trace.text(text).unwrap_or("(unnamed)");
        match at.event.subject.program_event() {
            Some(ProgramEvent::Mark(text)) => {
                tracks.instant(self.marks, at.micros, named(text), Flow::None, &[])?;
            }
            Some(ProgramEvent::PhaseBegin(text)) => {
                if let Some(lane) = self.lane(at.event.thread) {
                    tracks.begin(lane, at.micros, named(text), Flow::None, &[])?;
                    self.open.push(at.event.thread);
                }
            }
            Some(ProgramEvent::PhaseEnd(_)) => {
                let last = self.open.iter().rposition(|&thread| thread == at.event.thread);
                if let (Some(last), Some(lane)) = (last, self.lane(at.event.thread)) {
                    self.open.remove(last);
                    tracks.end(lane, at.micros)?;
                }
            }
            // `step_ends` has the steps.
            Some(
                ProgramEvent::Step(_) | ProgramEvent::OptimizerBegin | ProgramEvent::OptimizerEnd,
            )
            | None => {}
        }
        if let Subject::Oom(oom) = at.event.subject
            && input.devices.contains(&at.event.device)
        {
            let requested = trace.ooms.get(oom as usize).map_or(0, |oom| oom.requested.0);
            let device = at.event.device.to_string();
            let notes = [("requested", Note::Number(requested)), ("device", Note::Text(&device))];
            tracks.instant(self.marks, at.micros, "out of memory", Flow::None, &notes)?;
        }
        let number = u32::try_from(at.number).unwrap_or(u32::MAX);
        if input.context.step_ends().binary_search(&number).is_ok() {
            self.end_step(at.micros, input, tracks)?;
        }
        Ok(())
    }

    fn lane(&self, thread: ThreadId) -> Option<TrackId> {
        self.lanes.iter().find(|(known, _)| *known == thread).map(|&(_, lane)| lane)
    }

    fn end_step(
        &mut self,
        micros: u64,
        input: &TrackInput<'_>,
        tracks: &mut dyn Tracks,
    ) -> io::Result<()> {
        let Some(step) = self.step.as_mut() else { return Ok(()) };
        *step += 1;
        tracks.end(self.steps, micros)?;
        let name = if *step < input.context.finished_steps() {
            input.context.step_name(*step)
        } else if input.context.unfinished_step(input.trace, None).is_some() {
            format!("step {step}, not finished")
        } else {
            "after the last step".to_owned()
        };
        tracks.begin(self.steps, micros, &name, Flow::None, &[])
    }

    pub(super) fn finish(&mut self, end: u64, tracks: &mut dyn Tracks) -> io::Result<()> {
        for thread in std::mem::take(&mut self.open).into_iter().rev() {
            if let Some(lane) = self.lane(thread) {
                tracks.end(lane, end)?;
            }
        }
        if self.step.is_some() {
            tracks.end(self.steps, end)?;
        }
        Ok(())
    }
}
