//! What each device holds of each category, as the events go by.

use floodmark_trace::{Bytes, Category, Device, Event, Subject, Trace};

use crate::allocation::category::category;
use crate::allocation::context::Context;

/// The totals of all devices after some number of events. Those of a device add up to what is allocated on it.
#[derive(Debug, Clone)]
pub struct CategoryLevels<'a> {
    trace: &'a Trace,
    context: &'a Context,
    /// In the order of [`Category::ALL`].
    devices: Vec<(Device, Vec<u64>)>,
}

impl<'a> CategoryLevels<'a> {
    /// Before the first event: what belongs to no recorded block is `unknown`.
    pub fn at_start(trace: &'a Trace, context: &'a Context) -> Self {
        let devices = trace.devices().into_iter().map(|device| {
            let mut levels = vec![0; Category::ALL.len()];
            levels[place(Category::Unknown)] = trace.unseen_at_start(device).0;
            (device, levels)
        });
        Self { trace, context, devices: devices.collect() }
    }

    /// What a device holds of a category.
    pub fn level(&self, device: Device, category: Category) -> Bytes {
        let found = self.devices.iter().find(|(found, _)| *found == device);
        Bytes(found.map_or(0, |(_, levels)| levels[place(category)]))
    }

    /// Takes one more event into account: the category whose level it changed, and the new level.
    pub fn apply(&mut self, event: &Event) -> Option<(Category, Bytes)> {
        let (of, change, grows) = match event.subject {
            Subject::Alloc(id) | Subject::Free { allocation: id, .. } => {
                let bytes = self.trace.allocations[id.index()].rounded.0;
                let grows = matches!(event.subject, Subject::Alloc(_));
                (category(self.trace, self.context, id), bytes, grows)
            }
            Subject::FreeUnknown(bytes) => (Category::Unknown, Bytes::from(bytes).0, false),
            Subject::FreeCompleted(_)
            | Subject::SegmentAlloc(_)
            | Subject::SegmentFree(_)
            | Subject::SegmentMap(_)
            | Subject::SegmentUnmap(_)
            | Subject::BaseSegment(_)
            | Subject::Oom(_)
            | Subject::Reserved(_)
            | Subject::Label { .. }
            | Subject::Saved(_)
            | Subject::Unpacked(_)
            | Subject::Step(_)
            | Subject::Mark(_)
            | Subject::PhaseBegin(_)
            | Subject::PhaseEnd(_)
            | Subject::OptimizerBegin
            | Subject::OptimizerEnd => return None,
        };
        let (_, levels) = self.devices.iter_mut().find(|(device, _)| *device == event.device)?;
        let level = &mut levels[place(of)];
        *level = if grows { level.saturating_add(change) } else { level.saturating_sub(change) };
        Some((of, Bytes(*level)))
    }
}

/// Where a category is in [`Category::ALL`].
fn place(category: Category) -> usize {
    Category::ALL.iter().position(|&one| one == category).unwrap_or(0)
}
