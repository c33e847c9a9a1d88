//! The largest allocations: slices of the time they were live, and arrows from where they were allocated to where they were freed.

use std::collections::BTreeSet;
use std::io;

use floodmark_analysis::{AllocationLines, category};
use floodmark_trace::{AllocatedChange, AllocationId};
use hashbrown::{HashMap, HashSet};

use super::threads::ThreadTracks;
use super::{Flow, Note, Numbers, TimedEvent, TrackId, TrackInput, TrackKind, Tracks};

/// The highest number of shown allocations. The others are only in the counters.
pub(super) const LARGEST: usize = 2000;

pub(super) struct Largest<'a> {
    chosen: HashSet<AllocationId>,
    lines: AllocationLines<'a>,
    group: TrackId,
    /// Tracks with the same name, which viewers draw as one.
    lanes: Vec<TrackId>,
    free_lanes: BTreeSet<usize>,
    open: HashMap<AllocationId, usize>,
    name: String,
}

impl<'a> Largest<'a> {
    pub(super) fn new(
        input: &TrackInput<'a>,
        skipped: usize,
        numbers: &mut Numbers,
        tracks: &mut dyn Tracks,
    ) -> io::Result<Self> {
        let all = (0_u32..).map(AllocationId).zip(&input.trace.allocations);
        let mut sizes: Vec<(u64, AllocationId)> = all
            .filter(|(_, one)| input.devices.contains(&one.device) && one.rounded.0 > 0)
            .filter(|(_, one)| one.made_at as usize >= skipped)
            .map(|(id, one)| (one.rounded.0, id))
            .collect();
        let count = sizes.len();
        if count > LARGEST {
            sizes.select_nth_unstable_by_key(LARGEST - 1, |&(bytes, id)| {
                (std::cmp::Reverse(bytes), id)
            });
            sizes.truncate(LARGEST);
        }
        let name = if count > LARGEST {
            format!("the {LARGEST} largest of {count} allocations")
        } else {
            "allocations".to_owned()
        };
        Ok(Self {
            chosen: sizes.into_iter().map(|(_, id)| id).collect(),
            lines: AllocationLines::new(input.trace),
            group: numbers.add(tracks, numbers.root, &name, TrackKind::Group)?,
            lanes: Vec::new(),
            free_lanes: BTreeSet::new(),
            open: HashMap::new(),
            name,
        })
    }

    pub(super) fn apply(
        &mut self,
        input: &TrackInput<'_>,
        at: &TimedEvent<'_>,
        threads: &mut ThreadTracks,
        numbers: &mut Numbers,
        tracks: &mut dyn Tracks,
    ) -> io::Result<()> {
        match at.event.subject.allocated_change() {
            Some(AllocatedChange::Alloc(id)) if self.chosen.contains(&id) => {
                let arrow = u64::from(id.0) + 1;
                let mut flow = Flow::Begins(arrow);
                if !input.trace.allocations[id.index()].before_recording {
                    let thread = threads.track(at.event.thread, numbers, tracks)?;
                    tracks.instant(thread, at.micros, "alloc", flow, &[])?;
                    flow = Flow::Passes(arrow);
                }
                let lane = self.lane(numbers, tracks)?;
                self.open.insert(id, lane);
                self.begin(input, at, id, self.lanes[lane], flow, tracks)
            }
            Some(AllocatedChange::Free(id)) => {
                let Some(lane) = self.open.remove(&id) else { return Ok(()) };
                self.free_lanes.insert(lane);
                tracks.end(self.lanes[lane], at.micros)?;
                let thread = threads.track(at.event.thread, numbers, tracks)?;
                let flow = Flow::Ends(u64::from(id.0) + 1);
                tracks.instant(thread, at.micros, "free", flow, &[])
            }
            Some(AllocatedChange::Alloc(_) | AllocatedChange::FreeUnknown(_)) | None => Ok(()),
        }
    }

    /// A lane without an open slice.
    fn lane(&mut self, numbers: &mut Numbers, tracks: &mut dyn Tracks) -> io::Result<usize> {
        if let Some(lane) = self.free_lanes.pop_first() {
            return Ok(lane);
        }
        self.lanes.push(numbers.add(tracks, self.group, &self.name, TrackKind::Slices)?);
        Ok(self.lanes.len() - 1)
    }

    fn begin(
        &mut self,
        input: &TrackInput<'_>,
        at: &TimedEvent<'_>,
        id: AllocationId,
        lane: TrackId,
        flow: Flow,
        tracks: &mut dyn Tracks,
    ) -> io::Result<()> {
        let TrackInput { trace, context, .. } = input;
        let allocation = &trace.allocations[id.index()];
        let location = self.lines.line_of(allocation).location.as_str();
        let label = trace.label(allocation.label).filter(|label| !label.name.is_empty());
        let name = label.map_or(location, |label| label.name.as_str());
        let device = allocation.device.to_string();
        let mut notes = vec![
            ("bytes", Note::Number(allocation.rounded.0)),
            ("requested", Note::Number(allocation.requested.0)),
            ("device", Note::Text(&device)),
            ("category", Note::Text(category(trace, context, id).name())),
            ("location", Note::Text(location)),
        ];
        let phase = context.phase(trace, id).map(|phase| phase.name(trace));
        let texts = [
            ("phase", phase),
            ("module", trace.module_path(allocation.stack)),
            ("operator", trace.text(allocation.op)),
        ];
        notes.extend(texts.iter().filter_map(|&(name, text)| Some((name, Note::Text(text?)))));
        if let Some(step) = context.step(allocation.made_at).filter(|_| phase.is_some()) {
            notes.push(("step", Note::Number(step.into())));
        }
        tracks.begin(lane, at.micros, name, flow, &notes)
    }

    pub(super) fn finish(&mut self, end: u64, tracks: &mut dyn Tracks) -> io::Result<()> {
        let mut open: Vec<usize> = self.open.drain().map(|(_, lane)| lane).collect();
        open.sort_unstable();
        for lane in open {
            tracks.end(self.lanes[lane], end)?;
        }
        Ok(())
    }
}
