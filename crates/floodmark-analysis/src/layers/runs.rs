//! Follows the runs of layers through the events of a device: the work behind [`layers`](fn@crate::layers).

use std::collections::VecDeque;

use floodmark_trace::{
    AllocatedChange, Allocation, Bytes, Device, Event, ProgramEvent, StackId, Subject, ThreadId,
    Trace,
};
use hashbrown::HashMap;

use crate::layers::{Layer, LayerEvent, LayerEventKind, LayerSource, Layers};
use crate::moment::is_initial;
use crate::moment::levels::Levels;
use crate::moment::totals::Totals;

/// A run that has not ended.
#[derive(Debug, Clone, Copy)]
struct Run {
    layer: u32,
    /// The node of what it makes.
    node: u32,
    began: f64,
}

/// A layer inside those around it: a node of a tree.
#[derive(Debug, Clone, Copy)]
struct LayerNode {
    parent: u32,
    layer: u32,
    /// Whether no node around it is the same layer, which calls itself.
    is_first: bool,
}

/// The root: outside of all layers.
const NO_LAYER: u32 = 0;

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    ratios: f64,
    events: u64,
}

/// Where in a trace the runs are followed: the event, and the levels before and after it.
struct Now<'a> {
    trace: &'a Trace,
    before: &'a Levels,
    after: &'a Levels,
}

/// The runs of layers, as far as the events were followed. A trace that grows is followed on from there.
#[derive(Debug, Clone)]
pub(crate) struct Runs {
    followed: Followed,
    events: VecDeque<LayerEvent>,
}

/// All but what grows with the events.
#[derive(Debug, Clone)]
struct Followed {
    device: Device,
    source: LayerSource,
    totals: Totals,
    /// How many events were followed, and the levels after them.
    read: usize,
    now: Levels,
    /// How many events lie before the recording; none while there are no others.
    initial_events: Option<usize>,
    layers: Vec<Layer>,
    sums: Vec<Sums>,
    by_name: HashMap<String, u32>,
    nodes: Vec<LayerNode>,
    inside: HashMap<(u32, u32), u32>,
    /// Per thread: the open runs, outermost first. A phase that is no layer is none.
    open: Vec<Vec<Option<Run>>>,
    peaks: (Bytes, Bytes),
    allocated_bytes: Bytes,
    /// What happened, since it was last taken.
    noted: Vec<LayerEvent>,
}

impl Runs {
    /// Before the first event.
    pub(crate) fn at_start(trace: &Trace, device: Device, source: &LayerSource) -> Self {
        let totals = Totals::at_start(trace, device);
        let followed = Followed {
            device,
            source: source.clone(),
            totals,
            read: 0,
            now: totals.levels(0.0),
            initial_events: None,
            layers: Vec::new(),
            sums: Vec::new(),
            by_name: HashMap::new(),
            nodes: vec![LayerNode { parent: NO_LAYER, layer: 0, is_first: false }],
            inside: HashMap::new(),
            open: Vec::new(),
            peaks: (Bytes(0), Bytes(0)),
            allocated_bytes: Bytes(0),
            noted: Vec::new(),
        };
        Self { followed, events: VecDeque::new() }
    }

    /// Follows the events that are new, but for the last one: the event of what was reserved for a block
    /// follows it.
    /// Keeps the `most_events` latest.
    pub(crate) fn extend(&mut self, trace: &Trace, most_events: usize) {
        while self.followed.read + 1 < trace.events.len() {
            self.followed.follow(trace);
            keep(&mut self.events, &mut self.followed.noted, most_events);
        }
    }

    /// The answer, with the last event.
    pub(crate) fn layers(&self, trace: &Trace, most_events: usize) -> Layers {
        let mut followed = self.followed.clone();
        if followed.read < trace.events.len() {
            followed.follow(trace);
        }
        let mut layers = followed.end(trace);
        let last = std::mem::take(&mut layers.events);
        let older = most_events.saturating_sub(last.len()).min(self.events.len());
        layers.events.extend(self.events.range(self.events.len() - older..));
        layers.events.extend(&last[last.len().saturating_sub(most_events)..]);
        layers
    }
}

/// Moves events to those that are kept, the latest ones.
fn keep(events: &mut VecDeque<LayerEvent>, noted: &mut Vec<LayerEvent>, most_events: usize) {
    for event in noted.drain(..) {
        if events.len() == most_events {
            events.pop_front();
        }
        if most_events > 0 {
            events.push_back(event);
        }
    }
}

impl Followed {
    /// Follows the next event.
    fn follow(&mut self, trace: &Trace) {
        let (at, event) = (self.read, trace.events[self.read]);
        let before = self.now;
        self.totals.apply(trace, &event);
        self.read += 1;
        let mut shown = self.totals;
        if let Some(next) = trace.events.get(self.read)
            && matches!(next.subject, Subject::Reserved(_))
        {
            shown.apply(trace, next);
        }
        self.now = shown.levels(event.time.as_seconds());
        if self.initial_events.is_none() {
            if is_initial(trace, event.subject) {
                return;
            }
            self.begin(at, &before);
        }
        let after = self.now;
        self.happen(&Now { trace, before: &before, after: &after }, &event);
    }

    fn begin(&mut self, initial_events: usize, now: &Levels) {
        self.initial_events = Some(initial_events);
        self.peaks = (now.allocated, reserved(now));
        let start = Levels { seconds: 0.0, ..*now };
        self.note(LayerEventKind::Snapshot, Bytes(0), None, &start);
    }

    fn happen(&mut self, now: &Now<'_>, event: &Event) {
        let is_by_modules = self.source == LayerSource::Modules;
        match event.subject.program_event() {
            Some(ProgramEvent::PhaseBegin(text)) if !is_by_modules => {
                match self.source.name_of_phase(now.trace.text(text)) {
                    Some(name) => self.enter(event.thread, name, now.after),
                    None => self.runs(event.thread).push(None),
                }
            }
            Some(ProgramEvent::PhaseEnd(_)) if !is_by_modules => {
                self.leave(event.thread, now.after);
            }
            Some(ProgramEvent::Step(_) | ProgramEvent::OptimizerBegin) if is_by_modules => {
                self.leave_to(event.thread, 0, now.after);
            }
            Some(
                ProgramEvent::PhaseBegin(_)
                | ProgramEvent::PhaseEnd(_)
                | ProgramEvent::Step(_)
                | ProgramEvent::OptimizerBegin
                | ProgramEvent::OptimizerEnd
                | ProgramEvent::Mark(_),
            )
            | None => {}
        }
        if event.device == self.device {
            self.change(now, event);
        }
    }

    fn change(&mut self, now: &Now<'_>, event: &Event) {
        match event.subject.allocated_change() {
            Some(AllocatedChange::Alloc(id)) => {
                let allocation = &now.trace.allocations[id.index()];
                if self.source == LayerSource::Modules {
                    // The runs that end here did not make it.
                    self.move_to(event.thread, allocation.stack, now);
                }
                let node = self.node_of_new(now.trace, event.thread, allocation);
                self.allocated_bytes += allocation.rounded;
                self.for_each_layer(node, |layer| layer.allocations += 1);
                let layer = self.layer_at(node);
                self.note(LayerEventKind::Alloc, allocation.rounded, layer, now.after);
                self.raise_around(node, now.after);
            }
            Some(AllocatedChange::Free(id)) => {
                self.free(event.thread, now.trace.allocations[id.index()].rounded, now.after);
            }
            Some(AllocatedChange::FreeUnknown(bytes)) => self.free(event.thread, bytes, now.after),
            None => self.raise(now.after),
        }
    }

    /// Where a new allocation belongs: to the innermost run of its thread. In the backward pass none is open, and
    /// the modules of the forward line that caused it are the layers.
    fn node_of_new(&mut self, trace: &Trace, thread: ThreadId, allocation: &Allocation) -> u32 {
        if let Some(run) = self.runs(thread).iter().rev().flatten().next() {
            return run.node;
        }
        let mut node = NO_LAYER;
        if allocation.backward {
            for name in modules_on(trace, allocation.stack) {
                if let Some(&layer) = self.by_name.get(name) {
                    node = self.node(node, layer);
                }
            }
        }
        node
    }

    fn free(&mut self, thread: ThreadId, bytes: Bytes, now: &Levels) {
        let innermost = self.runs(thread).iter().rev().flatten().next();
        let node = innermost.map_or(NO_LAYER, |run| run.node);
        self.for_each_layer(node, |layer| layer.frees += 1);
        let layer = self.innermost(thread);
        self.note(LayerEventKind::Free, bytes, layer, now);
    }

    /// A layer and those around it, each once.
    fn for_each_layer(&mut self, node: u32, mut tell: impl FnMut(&mut Layer)) {
        let mut node = node;
        while node != NO_LAYER {
            let LayerNode { parent, layer, is_first } = self.nodes[node as usize];
            if is_first {
                tell(&mut self.layers[layer as usize]);
            }
            node = parent;
        }
    }

    fn layer_at(&self, node: u32) -> Option<u32> {
        (node != NO_LAYER).then(|| self.nodes[node as usize].layer)
    }

    fn innermost(&mut self, thread: ThreadId) -> Option<u32> {
        self.runs(thread).iter().rev().flatten().next().map(|run| run.layer)
    }

    fn runs(&mut self, thread: ThreadId) -> &mut Vec<Option<Run>> {
        let at = thread.index();
        if at >= self.open.len() {
            self.open.resize_with(at + 1, Vec::new);
        }
        &mut self.open[at]
    }

    fn enter(&mut self, thread: ThreadId, name: &str, now: &Levels) {
        let layer = self.number(name);
        let around = self.runs(thread).iter().rev().flatten().next();
        let around = around.map_or(NO_LAYER, |run| run.node);
        let node = self.node(around, layer);
        self.runs(thread).push(Some(Run { layer, node, began: now.seconds }));
        self.note(LayerEventKind::LayerEnter, Bytes(0), Some(layer), now);
    }

    fn leave(&mut self, thread: ThreadId, now: &Levels) {
        let Some(&Some(Run { layer, node, began })) = self.runs(thread).last() else {
            self.runs(thread).pop();
            return;
        };
        self.note(LayerEventKind::LayerExit, Bytes(0), Some(layer), now);
        self.runs(thread).pop();
        // The time of a layer that calls itself is that of the outer one.
        if self.nodes[node as usize].is_first {
            self.layers[layer as usize].seconds += now.seconds - began;
        }
    }

    fn leave_to(&mut self, thread: ThreadId, depth: usize, now: &Levels) {
        while self.runs(thread).len() > depth {
            self.leave(thread, now);
        }
    }

    /// Ends and begins runs so that those of a stack are open.
    fn move_to(&mut self, thread: ThreadId, stack: StackId, now: &Now<'_>) {
        let names = modules_on(now.trace, stack);
        let open = &self.open;
        let runs = open.get(thread.index()).map_or(&[][..], Vec::as_slice);
        let is_same = |(run, name): &(&Option<Run>, &&str)| {
            run.as_ref().is_some_and(|run| self.layers[run.layer as usize].name == **name)
        };
        let common = runs.iter().zip(&names).take_while(is_same).count();
        let then = Levels { seconds: now.after.seconds, ..*now.before };
        self.leave_to(thread, common, &then);
        for name in &names[common..] {
            self.enter(thread, name, &then);
        }
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.by_name.get(name) {
            return known;
        }
        let next = u32::try_from(self.layers.len()).unwrap_or(u32::MAX);
        self.layers.push(Layer { name: name.to_owned(), ..Layer::default() });
        self.sums.push(Sums::default());
        self.by_name.insert(name.to_owned(), next);
        next
    }

    fn node(&mut self, parent: u32, layer: u32) -> u32 {
        if let Some(&known) = self.inside.get(&(parent, layer)) {
            return known;
        }
        let mut around = parent;
        let mut is_first = true;
        while around != NO_LAYER {
            is_first &= self.nodes[around as usize].layer != layer;
            around = self.nodes[around as usize].parent;
        }
        let next = u32::try_from(self.nodes.len()).unwrap_or(NO_LAYER);
        self.nodes.push(LayerNode { parent, layer, is_first });
        self.inside.insert((parent, layer), next);
        next
    }

    fn note(&mut self, kind: LayerEventKind, bytes: Bytes, layer: Option<u32>, now: &Levels) {
        let (allocated, seconds) = (now.allocated, now.seconds);
        let event = LayerEvent { seconds, kind, bytes, layer, allocated, reserved: reserved(now) };
        let ratio = event.fragmentation();
        self.raise(now);
        for run in self.open.iter().flatten().flatten() {
            let sums = &mut self.sums[run.layer as usize];
            sums.ratios += ratio;
            sums.events += 1;
        }
        self.noted.push(event);
    }

    /// Raises the peak of all open runs to this level.
    fn raise(&mut self, now: &Levels) {
        let (allocated, reserved) = (now.allocated, reserved(now));
        self.peaks = (self.peaks.0.max(allocated), self.peaks.1.max(reserved));
        for run in self.open.iter().flatten().flatten() {
            let layer = &mut self.layers[run.layer as usize];
            layer.peak_allocated = layer.peak_allocated.max(allocated);
            layer.peak_reserved = layer.peak_reserved.max(reserved);
        }
    }

    /// Raises the peak of a layer and of those around it to this level, whether they run or not.
    fn raise_around(&mut self, node: u32, now: &Levels) {
        let (allocated, reserved) = (now.allocated, reserved(now));
        self.for_each_layer(node, |layer| {
            layer.peak_allocated = layer.peak_allocated.max(allocated);
            layer.peak_reserved = layer.peak_reserved.max(reserved);
        });
    }

    #[expect(clippy::cast_precision_loss, reason = "averages")]
    fn end(mut self, trace: &Trace) -> Layers {
        let now = self.now;
        if self.initial_events.is_none() {
            self.begin(trace.events.len(), &now);
        }
        let now = &Levels { seconds: trace.end().as_seconds().max(now.seconds), ..now };
        for thread in (0..self.open.len()).filter_map(|thread| u16::try_from(thread).ok()) {
            self.leave_to(ThreadId(thread), 0, now);
        }
        self.note(LayerEventKind::Snapshot, Bytes(0), None, now);
        for (layer, sums) in self.layers.iter_mut().zip(&self.sums) {
            layer.fragmentation =
                if sums.events > 0 { sums.ratios / sums.events as f64 } else { 0.0 };
        }
        let initial_events = self.initial_events.unwrap_or_default();
        let at_start =
            Totals::after(trace, self.device, u32::try_from(initial_events).unwrap_or(u32::MAX));
        Layers {
            device: self.device,
            losses: trace.losses.clone(),
            peak_allocated: self.peaks.0,
            peak_reserved: self.peaks.1,
            at_start: at_start.allocated(),
            allocated_bytes: self.allocated_bytes,
            layers: self.layers,
            events: self.noted,
        }
    }
}

/// The modules on a stack, the outermost first.
fn modules_on(trace: &Trace, stack: StackId) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (node, frame) in trace.frames(stack) {
        if frame.module.0 != 0
            && let Some(name) = trace.module_path(node)
            && names.last() != Some(&name)
        {
            names.push(name);
        }
    }
    names.reverse();
    names
}

/// The CPU reserves nothing.
fn reserved(levels: &Levels) -> Bytes {
    levels.reserved.unwrap_or(levels.allocated)
}
