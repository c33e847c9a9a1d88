//! The keys by which allocations are sorted before bands are chosen, with their peaks.

use floodmark_trace::{AllocatedChange, AllocationId, Bytes, Category, Device, Trace};
use hashbrown::HashMap;

use crate::allocation::context::Phase;
use crate::allocation::location::{BEFORE_RECORDING, Line, Lines, marked};
use crate::grouping::by_module::Tree;
use crate::index::TraceIndex;
use crate::timeline::band_groups::TimelineBy;

/// A key for every allocation of a device.
pub(crate) struct Keys {
    /// Per allocation.
    pub(crate) of: Vec<u32>,
    pub(crate) names: Vec<String>,
    /// The key of the bytes of no recorded allocation.
    pub(crate) unseen: u32,
    /// The key around each, where keys are a tree.
    pub(crate) parents: Vec<Option<u32>>,
}

impl Keys {
    pub(crate) fn for_device(
        trace: &Trace,
        index: &TraceIndex,
        device: Device,
        by: TimelineBy,
    ) -> Self {
        match by {
            TimelineBy::Category => Self::of_categories(trace, index, device),
            TimelineBy::Phase => {
                let name = |phase: Option<Phase>| {
                    phase.map_or(BEFORE_RECORDING, |phase| phase.name(trace)).to_owned()
                };
                Self::numbered(trace, device, None, |id| index.context.phase(trace, id), name)
            }
            TimelineBy::Line => Self::of_lines(trace, device),
            TimelineBy::Module => Self::of_modules(trace, device),
        }
    }

    fn of_categories(trace: &Trace, index: &TraceIndex, device: Device) -> Self {
        let key = |id| index.category(id);
        Self::numbered(trace, device, Category::Unknown, key, |one| one.name().to_owned())
    }

    fn of_lines(trace: &Trace, device: Device) -> Self {
        let mut lines = Lines::new(trace, false);
        let mut of = Vec::with_capacity(trace.allocations.len());
        let mut numbers = Numbers::from(Line::BeforeRecording);
        for allocation in &trace.allocations {
            let is_here = allocation.device == device;
            of.push(if is_here { numbers.number_of(lines.line_of(allocation)) } else { 0 });
        }
        let name = |line: &Line| match lines.frame(*line) {
            Some(frame) => marked(frame.to_string(), line.is_backward()),
            None => line.location(trace),
        };
        let names = numbers.order.iter().map(name).collect();
        Self { of, names, unseen: 0, parents: Vec::new() }
    }

    fn of_modules(trace: &Trace, device: Device) -> Self {
        let mut modules = Tree::new(trace);
        let unseen = modules.before_recording();
        let key = |node: usize| u32::try_from(node).unwrap_or(u32::MAX);
        let of = trace.allocations.iter().map(|allocation| {
            let is_here = allocation.device == device;
            if is_here { key(modules.node_of(allocation)) } else { 0 }
        });
        let of = of.collect();
        let parents = modules.parents().map(|parent| parent.map(key)).collect();
        let names = modules.paths().map(str::to_owned).collect();
        Self { of, names, unseen: key(unseen), parents }
    }

    fn numbered<K: Copy + Eq + std::hash::Hash>(
        trace: &Trace,
        device: Device,
        unseen: K,
        key: impl Fn(AllocationId) -> K,
        name: impl Fn(K) -> String,
    ) -> Self {
        let mut numbers = Numbers::from(unseen);
        let allocations = (0_u32..).map(AllocationId).zip(&trace.allocations);
        let of = allocations.map(|(id, allocation)| {
            if allocation.device == device { numbers.number_of(key(id)) } else { 0 }
        });
        let of = of.collect();
        let names = numbers.order.into_iter().map(name).collect();
        Self { of, names, unseen: 0, parents: Vec::new() }
    }

    /// The peak of each key; in a tree, with all that is inside it.
    pub(crate) fn peaks(&self, trace: &Trace, device: Device) -> Vec<u64> {
        let key = |id: AllocationId| self.of.get(id.index()).map_or(0, |&key| key as usize);
        peaks(trace, device, self.names.len(), self.unseen as usize, key, &self.parents)
    }
}

/// Keys in the order in which they were first seen. Most are the one before.
struct Numbers<K> {
    known: HashMap<K, u32>,
    order: Vec<K>,
    last: (K, u32),
}

impl<K: Copy + Eq + std::hash::Hash> Numbers<K> {
    fn from(first: K) -> Self {
        Self { known: HashMap::from_iter([(first, 0)]), order: vec![first], last: (first, 0) }
    }

    fn number_of(&mut self, key: K) -> u32 {
        if self.last.0 != key {
            let next = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
            let number = *self.known.entry(key).or_insert_with(|| {
                self.order.push(key);
                next
            });
            self.last = (key, number);
        }
        self.last.1
    }
}

/// The peak of each of `count` keys, by one pass over the events.
pub(crate) fn peaks(
    trace: &Trace,
    device: Device,
    count: usize,
    unseen: usize,
    key: impl Fn(AllocationId) -> usize,
    parents: &[Option<u32>],
) -> Vec<u64> {
    let mut now = vec![0_u64; count];
    let unseen_bytes = trace.unseen_at_start(device).0;
    for_each_around(unseen, parents, |key| now[key] = unseen_bytes);
    let mut peaks = now.clone();
    for event in trace.events.iter().filter(|event| event.device == device) {
        match event.subject.allocated_change() {
            Some(AllocatedChange::Alloc(id)) => {
                let bytes = trace.allocations[id.index()].rounded.0;
                for_each_around(key(id), parents, |key| {
                    now[key] = now[key].saturating_add(bytes);
                    peaks[key] = peaks[key].max(now[key]);
                });
            }
            Some(AllocatedChange::Free(id)) => {
                let bytes = trace.allocations[id.index()].rounded.0;
                for_each_around(key(id), parents, |key| now[key] = now[key].saturating_sub(bytes));
            }
            Some(AllocatedChange::FreeUnknown(Bytes(bytes))) => {
                for_each_around(unseen, parents, |key| now[key] = now[key].saturating_sub(bytes));
            }
            None => {}
        }
    }
    peaks
}

/// A key and all that are around it.
pub(crate) fn for_each_around(key: usize, parents: &[Option<u32>], mut act: impl FnMut(usize)) {
    let mut next = Some(key);
    while let Some(key) = next {
        act(key);
        next = parents.get(key).copied().flatten().map(|parent| parent as usize);
    }
}
