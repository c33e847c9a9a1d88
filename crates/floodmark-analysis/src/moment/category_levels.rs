//! The allocated bytes of each category on each device, event by event.

use std::collections::BTreeMap;

use floodmark_trace::{AllocatedChange, AllocationId, Bytes, Category, Device, Event, Trace};

use crate::allocation::category::category;
use crate::allocation::context::Context;
use crate::moment::totals::Totals;

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
            levels[index_of(Category::Unknown)] = trace.unseen_at_start(device).0;
            (device, levels)
        });
        Self { trace, context, devices: devices.collect() }
    }

    /// The bytes of a category on a device.
    pub fn level(&self, device: Device, category: Category) -> Bytes {
        let found = self.devices.iter().find(|(found, _)| *found == device);
        Bytes(found.map_or(0, |(_, levels)| levels[index_of(category)]))
    }

    /// Applies one event. Returns the category whose level changed, and the new level.
    pub fn apply(&mut self, event: &Event) -> Option<(Category, Bytes)> {
        let of_block = |id: AllocationId| {
            (category(self.trace, self.context, id), self.trace.allocations[id.index()].rounded.0)
        };
        let ((of, bytes), grows) = match event.subject.allocated_change()? {
            AllocatedChange::Alloc(id) => (of_block(id), true),
            AllocatedChange::Free(id) => (of_block(id), false),
            AllocatedChange::FreeUnknown(bytes) => ((Category::Unknown, bytes.0), false),
        };
        let (_, levels) = self.devices.iter_mut().find(|(device, _)| *device == event.device)?;
        let level = &mut levels[index_of(of)];
        *level = if grows { level.saturating_add(bytes) } else { level.saturating_sub(bytes) };
        Some((of, Bytes(*level)))
    }
}

/// The index of a category in [`Category::ALL`].
fn index_of(category: Category) -> usize {
    Category::ALL.iter().position(|&one| one == category).unwrap_or(0)
}

/// The allocated bytes by category after each number of events; the numbers must not fall. One pass
/// for all.
pub(crate) fn categories_after(
    trace: &Trace,
    context: &Context,
    device: Device,
    counts: &[u32],
) -> Vec<BTreeMap<&'static str, Bytes>> {
    let mut totals = Totals::at_start(trace, device);
    let mut bytes: BTreeMap<Category, u64> = BTreeMap::new();
    let mut events = trace.events.iter();
    let mut done = 0;
    let mut found = Vec::with_capacity(counts.len());
    for &count in counts {
        for event in events.by_ref().take(count.saturating_sub(done) as usize) {
            totals.apply(trace, event);
            if event.device != device {
                continue;
            }
            match event.subject.allocated_change() {
                Some(AllocatedChange::Alloc(id)) => {
                    let sum = bytes.entry(category(trace, context, id)).or_default();
                    *sum = sum.saturating_add(trace.allocations[id.index()].rounded.0);
                }
                Some(AllocatedChange::Free(id)) => {
                    let sum = bytes.entry(category(trace, context, id)).or_default();
                    *sum = sum.saturating_sub(trace.allocations[id.index()].rounded.0);
                }
                // `totals` counts these.
                Some(AllocatedChange::FreeUnknown(_)) | None => {}
            }
        }
        done = done.max(count);
        found.push(with_unseen(&bytes, totals.unseen()));
    }
    found
}

/// Categories that have something; what belongs to no recorded block is `unknown`.
fn with_unseen(bytes: &BTreeMap<Category, u64>, unseen: Bytes) -> BTreeMap<&'static str, Bytes> {
    let seen = bytes.iter().filter(|&(_, &bytes)| bytes > 0);
    let mut named: BTreeMap<_, _> =
        seen.map(|(category, &bytes)| (category.name(), Bytes(bytes))).collect();
    if unseen > Bytes(0) {
        *named.entry(Category::Unknown.name()).or_default() += unseen;
    }
    named
}
