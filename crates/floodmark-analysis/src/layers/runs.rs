//! Follows the runs of layers through the events of a device: the work behind [`layers`](crate::layers).

use std::collections::VecDeque;

use floodmark_trace::{
    Allocation, AllocationId, Bytes, Device, Event, StackId, Subject, ThreadId, Trace,
};
use hashbrown::HashMap;

use crate::layers::{Layer, LayerEvent, LayerEventKind, LayerQuestion, LayerSource, Layers};
use crate::moment::base_events;
use crate::moment::totals::Totals;
use crate::timeline::curve::{Levels, levels};

/// A run that has not ended.
struct Run {
    layer: u32,
    /// The node of what it makes.
    node: u32,
    began: f64,
}

/// A layer inside those around it: a node of a tree.
#[derive(Clone, Copy)]
struct LayerNode {
    parent: u32,
    layer: u32,
    /// Whether no node around it is the same layer, which calls itself.
    is_first: bool,
}

/// The root: outside of all layers.
const NO_LAYER: u32 = 0;

#[derive(Default)]
struct Sums {
    ratios: f64,
    events: u64,
    live: u64,
    lived: f64,
    ended: u64,
}

pub(crate) struct Runs<'a> {
    trace: &'a Trace,
    device: Device,
    source: &'a LayerSource,
    most_events: usize,
    layers: Vec<Layer>,
    sums: Vec<Sums>,
    by_name: HashMap<&'a str, u32>,
    nodes: Vec<LayerNode>,
    inside: HashMap<(u32, u32), u32>,
    /// Per allocation: its node.
    node_of: Vec<u32>,
    /// Per thread: the open runs, outermost first. A phase that is no layer is none.
    open: Vec<Vec<Option<Run>>>,
    events: VecDeque<LayerEvent>,
    peaks: (Bytes, Bytes),
    allocated_bytes: Bytes,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(trace: &'a Trace, device: Device, question: &'a LayerQuestion) -> Self {
        Self {
            trace,
            device,
            source: &question.source,
            most_events: question.events.unwrap_or(usize::MAX),
            layers: Vec::new(),
            sums: Vec::new(),
            by_name: HashMap::new(),
            nodes: vec![LayerNode { parent: NO_LAYER, layer: 0, is_first: false }],
            inside: HashMap::new(),
            node_of: vec![NO_LAYER; trace.allocations.len()],
            open: Vec::new(),
            events: VecDeque::new(),
            peaks: (Bytes(0), Bytes(0)),
            allocated_bytes: Bytes(0),
        }
    }

    pub(crate) fn follow(mut self) -> Layers {
        let trace = self.trace;
        let base = base_events(trace);
        let mut now = Totals::at_start(trace, self.device).levels(0.0);
        for (at, next) in levels(trace, self.device) {
            if at == base {
                self.begin(&now);
            }
            let before = std::mem::replace(&mut now, next);
            if at >= base {
                self.happen(&trace.events[at], &before, &now);
            }
        }
        if trace.events.len() <= base {
            self.begin(&now);
        }
        self.end(&Levels { seconds: trace.end().as_seconds().max(now.seconds), ..now })
    }

    fn begin(&mut self, now: &Levels) {
        self.peaks = (now.allocated, reserved(now));
        self.allocated_bytes = Bytes(0);
        let start = Levels { seconds: 0.0, ..*now };
        self.note(LayerEventKind::Snapshot, Bytes(0), None, &start);
    }

    fn happen(&mut self, event: &Event, before: &Levels, now: &Levels) {
        match event.subject {
            Subject::PhaseBegin(text) => {
                if let LayerSource::Phases(prefix) = self.source {
                    let name = self.trace.text(text).and_then(|name| name.strip_prefix(&**prefix));
                    match name {
                        Some(name) => self.enter(event.thread, name, now),
                        None => self.runs(event.thread).push(None),
                    }
                }
            }
            Subject::PhaseEnd(_) if matches!(self.source, LayerSource::Phases(_)) => {
                self.leave(event.thread, now);
            }
            Subject::Step(_) | Subject::OptimizerBegin if *self.source == LayerSource::Modules => {
                self.leave_to(event.thread, 0, now);
            }
            _ => {}
        }
        if event.device == self.device {
            self.change(event, before, now);
        }
    }

    fn change(&mut self, event: &Event, before: &Levels, now: &Levels) {
        match event.subject {
            Subject::Alloc(id) => {
                let allocation = &self.trace.allocations[id.index()];
                if *self.source == LayerSource::Modules {
                    // The runs that end here did not make it.
                    self.move_to(event.thread, allocation.stack, before, now);
                }
                let node = self.node_of_new(event.thread, allocation);
                self.allocate(node, id, allocation);
                self.note(LayerEventKind::Alloc, allocation.rounded, self.layer_at(node), now);
                self.raise_around(node, now);
            }
            Subject::Free { allocation: id, .. } => {
                let allocation = &self.trace.allocations[id.index()];
                self.let_go(id, allocation, now.seconds);
                self.free(event.thread, allocation.rounded, now);
            }
            Subject::FreeUnknown(bytes) => self.free(event.thread, bytes.into(), now),
            _ => self.raise(now),
        }
    }

    /// Where a new allocation belongs: to the innermost run of its thread. In the backward pass none is open, and
    /// the modules of the forward line that caused it are the layers.
    fn node_of_new(&mut self, thread: ThreadId, allocation: &Allocation) -> u32 {
        if let Some(run) = self.runs(thread).iter().rev().flatten().next() {
            return run.node;
        }
        let mut node = NO_LAYER;
        if allocation.backward {
            for name in modules_on(self.trace, allocation.stack) {
                if let Some(&layer) = self.by_name.get(name) {
                    node = self.node(node, layer);
                }
            }
        }
        node
    }

    fn allocate(&mut self, node: u32, id: AllocationId, allocation: &Allocation) {
        self.allocated_bytes += allocation.rounded;
        self.node_of[id.index()] = node;
        let mut is_own = true;
        self.for_each_layer(node, |layer, sums| {
            layer.allocations += 1;
            layer.bytes += allocation.rounded;
            if std::mem::take(&mut is_own) {
                layer.own_bytes += allocation.rounded;
            }
            if allocation.backward {
                layer.backward_bytes += allocation.rounded;
            }
            sums.live += allocation.rounded.0;
            layer.peak_bytes = layer.peak_bytes.max(Bytes(sums.live));
        });
    }

    fn let_go(&mut self, id: AllocationId, allocation: &Allocation, seconds: f64) {
        let made = self.trace.events.get(allocation.made_at as usize);
        let made = made.map_or(seconds, |event| event.time.as_seconds());
        self.for_each_layer(self.node_of[id.index()], |_, sums| {
            sums.live = sums.live.saturating_sub(allocation.rounded.0);
            sums.lived += seconds - made;
            sums.ended += 1;
        });
    }

    fn free(&mut self, thread: ThreadId, bytes: Bytes, now: &Levels) {
        let innermost = self.runs(thread).iter().rev().flatten().next();
        let node = innermost.map_or(NO_LAYER, |run| run.node);
        self.for_each_layer(node, |layer, _| layer.frees += 1);
        let layer = self.innermost(thread);
        self.note(LayerEventKind::Free, bytes, layer, now);
    }

    /// A layer and those around it, each once.
    fn for_each_layer(&mut self, node: u32, mut tell: impl FnMut(&mut Layer, &mut Sums)) {
        let mut node = node;
        while node != NO_LAYER {
            let LayerNode { parent, layer, is_first } = self.nodes[node as usize];
            if is_first {
                tell(&mut self.layers[layer as usize], &mut self.sums[layer as usize]);
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

    fn enter(&mut self, thread: ThreadId, name: &'a str, now: &Levels) {
        let layer = self.number(name);
        let around = self.runs(thread).iter().rev().flatten().next();
        let around = around.map_or(NO_LAYER, |run| run.node);
        let node = self.node(around, layer);
        self.runs(thread).push(Some(Run { layer, node, began: now.seconds }));
        self.layers[layer as usize].runs += 1;
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
    fn move_to(&mut self, thread: ThreadId, stack: StackId, before: &Levels, now: &Levels) {
        let names = modules_on(self.trace, stack);
        let open = &self.open;
        let runs = open.get(thread.index()).map_or(&[][..], Vec::as_slice);
        let is_same = |(run, name): &(&Option<Run>, &&str)| {
            run.as_ref().is_some_and(|run| self.layers[run.layer as usize].name == **name)
        };
        let common = runs.iter().zip(&names).take_while(is_same).count();
        let then = Levels { seconds: now.seconds, ..*before };
        self.leave_to(thread, common, &then);
        for name in &names[common..] {
            self.enter(thread, name, &then);
        }
    }

    fn number(&mut self, name: &'a str) -> u32 {
        let next = u32::try_from(self.layers.len()).unwrap_or(u32::MAX);
        *self.by_name.entry(name).or_insert_with(|| {
            self.layers.push(Layer { name: name.to_owned(), ..Layer::default() });
            self.sums.push(Sums::default());
            next
        })
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
        if self.events.len() == self.most_events {
            self.events.pop_front();
        }
        if self.most_events > 0 {
            self.events.push_back(event);
        }
    }

    /// The device stands this high while all open runs go on.
    fn raise(&mut self, now: &Levels) {
        let (allocated, reserved) = (now.allocated, reserved(now));
        self.peaks = (self.peaks.0.max(allocated), self.peaks.1.max(reserved));
        for run in self.open.iter().flatten().flatten() {
            let layer = &mut self.layers[run.layer as usize];
            layer.peak_allocated = layer.peak_allocated.max(allocated);
            layer.peak_reserved = layer.peak_reserved.max(reserved);
        }
    }

    /// The device stands this high in a layer and in those around it, whether they run or not.
    fn raise_around(&mut self, node: u32, now: &Levels) {
        let (allocated, reserved) = (now.allocated, reserved(now));
        self.for_each_layer(node, |layer, _| {
            layer.peak_allocated = layer.peak_allocated.max(allocated);
            layer.peak_reserved = layer.peak_reserved.max(reserved);
        });
    }

    #[expect(clippy::cast_precision_loss, reason = "averages")]
    fn end(mut self, now: &Levels) -> Layers {
        for thread in (0..self.open.len()).filter_map(|thread| u16::try_from(thread).ok()) {
            self.leave_to(ThreadId(thread), 0, now);
        }
        self.note(LayerEventKind::Snapshot, Bytes(0), None, now);
        for (layer, sums) in self.layers.iter_mut().zip(&self.sums) {
            layer.current = Bytes(sums.live);
            layer.lifetime_seconds = (sums.ended > 0).then(|| sums.lived / sums.ended as f64);
            layer.fragmentation =
                if sums.events > 0 { sums.ratios / sums.events as f64 } else { 0.0 };
        }
        let at_start = Totals::after(self.trace, self.device, count(base_events(self.trace)));
        Layers {
            device: self.device,
            losses: self.trace.losses.clone(),
            peak_allocated: self.peaks.0,
            peak_reserved: self.peaks.1,
            at_start: at_start.allocated(),
            allocated_bytes: self.allocated_bytes,
            layers: self.layers,
            events: self.events.into(),
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

fn count(events: usize) -> u32 {
    u32::try_from(events).unwrap_or(u32::MAX)
}
