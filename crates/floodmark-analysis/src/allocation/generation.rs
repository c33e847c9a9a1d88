//! Steps of a program that generates: each forward of the model that reads or fills a KV cache.
//!
//! A *forward* is what one thread allocates below one outermost module, until it allocates elsewhere. A cache is known by
//! the functions that allocate it ([`FrameRoles`]), or by its growth: tensors that outlive the forward, grow
//! by the same bytes from forward to forward, and replace those of the forward before, while the first allocation of the
//! forward (the embedded tokens) keeps its size.
//!
//! A forward is a *decode* step where the cache had keys and values of earlier forwards: it replaces some of
//! them, or allocates less than the prefill where the cache was allocated before. It is a *prefill* step where it fills an empty cache. Prefills count once a
//! decode step has followed: a model that is trained or evaluated fills caches too, and reads none.
//!
//! A program that trains (an optimizer, a backward pass, `floodmark.step`) has no such steps, wherever it generates.

use floodmark_trace::{Allocation, AllocationId, Bytes, ModuleId, StackId, Trace};
use hashbrown::{HashMap, HashSet};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::frame_rules::{FrameRoles, Role};

/// The kind of a step of a program that generates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// The model reads the whole prompt and fills the KV cache.
    Prefill,
    /// The model reads the newest tokens and the KV cache.
    Decode,
}

impl StepKind {
    /// Its name, as reports show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// A step that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GeneratedStep {
    /// The last event of it.
    pub(crate) end: u32,
    pub(crate) kind: StepKind,
}

/// The allocations of one thread below one outermost module.
#[derive(Debug, Clone)]
struct Forward {
    model: ModuleId,
    begin: u32,
    /// Its last allocation.
    last: u32,
    /// The bytes of its first allocation.
    input: Bytes,
    /// The bytes of all of them.
    bytes: Bytes,
    made: Vec<AllocationId>,
}

/// A forward that has ended, of a model whose cache is not known yet.
#[derive(Debug, Clone)]
struct Past {
    end: u32,
    input: Bytes,
    /// Allocations that outlived it, by call stack: bytes and count.
    kept: HashMap<StackId, (u64, Vec<AllocationId>)>,
}

/// The state of an outermost module.
#[derive(Debug, Clone, Default)]
struct Model {
    /// Keys and values that were live when its last forward ended.
    cache: Vec<AllocationId>,
    prefill_bytes: Option<Bytes>,
    decode_input: Option<Bytes>,
    /// A prefill that counts if a decode step follows.
    waiting: Option<u32>,
    /// When its last forward began.
    last_begin: u32,
    /// The last forwards, the newest last; at most five.
    past: Vec<Past>,
    grows: bool,
}

/// The state of one pass over the allocations.
#[derive(Debug, Clone, Default)]
pub(crate) struct GenerationScan {
    /// Per stack: the outermost module on it.
    models_of_stacks: Vec<ModuleId>,
    /// Per thread: the forward that runs.
    open: Vec<Option<Forward>>,
    models: HashMap<ModuleId, Model>,
    /// Keys and values that were allocated outside every model.
    outside: Vec<AllocationId>,
    /// The model whose forwards are the steps.
    lead: Option<ModuleId>,
    /// Call stacks that allocate keys and values, found by their growth and not noted yet.
    cache_stacks: Vec<StackId>,
}

impl GenerationScan {
    /// Reads an allocation of the program. Returns the steps that are known to have ended by it, in order.
    pub(crate) fn allocate(
        &mut self,
        trace: &Trace,
        roles: &FrameRoles,
        at: u32,
        id: AllocationId,
    ) -> Vec<GeneratedStep> {
        let Some(allocation) = trace.allocations.get(id.index()) else { return Vec::new() };
        let model = self.model_of(trace, allocation.stack);
        let thread = allocation.thread.index();
        if thread >= self.open.len() {
            self.open.resize(thread + 1, None);
        }
        let is_other = |forward: &mut Forward| forward.model != model;
        let ended = self.open[thread].take_if(is_other);
        let steps = ended
            .map_or_else(Vec::new, |ended| self.end(trace, roles, &ended, at.saturating_sub(1)));
        if model.0 != 0 {
            let forward = self.open[thread].get_or_insert_with(|| Forward {
                model,
                begin: at,
                last: at,
                input: allocation.requested,
                bytes: Bytes(0),
                made: Vec::new(),
            });
            forward.last = at;
            forward.bytes = Bytes(forward.bytes.0 + allocation.requested.0);
            forward.made.push(id);
        } else if roles.of_stack(allocation.stack) == Role::KvCache {
            self.outside.push(id);
        }
        steps
    }

    /// Adds the call stacks that were found to allocate keys and values since the last call.
    pub(crate) fn note_cache_stacks(&mut self, known: &mut HashSet<StackId>) {
        known.extend(self.cache_stacks.drain(..));
    }

    fn model_of(&mut self, trace: &Trace, stack: StackId) -> ModuleId {
        for at in self.models_of_stacks.len()..trace.stack_count() {
            let frame = u32::try_from(at).map(|id| trace.stack(StackId(id))).unwrap_or_default();
            let outer = self.models_of_stacks.get(frame.parent.index()).copied();
            let outer = outer.filter(|outer| outer.0 != 0);
            self.models_of_stacks.push(outer.unwrap_or(frame.module));
        }
        self.models_of_stacks.get(stack.index()).copied().unwrap_or_default()
    }

    fn end(
        &mut self,
        trace: &Trace,
        roles: &FrameRoles,
        forward: &Forward,
        end: u32,
    ) -> Vec<GeneratedStep> {
        let get = |id: &AllocationId| &trace.allocations[id.index()];
        self.outside.retain(|id| get(id).is_live_after(forward.begin));
        let mut model = self.models.remove(&forward.model).unwrap_or_default();
        let is_cache = |id: &&AllocationId| roles.of_stack(get(id).stack) == Role::KvCache;
        let made: Vec<AllocationId> = forward.made.iter().filter(is_cache).copied().collect();
        let before = model.cache.iter().chain(&self.outside);
        let before: Vec<&Allocation> =
            before.map(get).filter(|one| one.is_live_after(forward.begin)).collect();
        // A caller frees replaced tensors after the forward's last allocation.
        let replaces = before.iter().any(|one| !one.is_live_after(forward.last));
        let kind = match (made.is_empty(), before.is_empty()) {
            (false, true) => Some(StepKind::Prefill),
            (false, false) if replaces => Some(StepKind::Decode),
            (false, false) => Some(model.kind_by_input(forward.input)),
            (true, false) => Some(model.kind_by_bytes(forward.bytes)),
            (true, true) if model.grows => Some(model.kind_by_input(forward.input)),
            (true, true) => None,
        };
        let steps = match kind {
            Some(kind) => model.step(kind, forward, end),
            None => self.growth(trace, forward, end, &mut model),
        };
        model.cache.extend(made);
        model.cache.retain(|id| get(id).is_live_after(end));
        let is_lead = self.leads(forward.model, &model);
        model.last_begin = forward.begin;
        if !steps.is_empty() && is_lead {
            self.lead = Some(forward.model);
        } else if kind == Some(StepKind::Prefill) {
            model.waiting = Some(end);
        }
        self.models.insert(forward.model, model);
        if is_lead { steps } else { Vec::new() }
    }

    /// One model leads: a draft model runs between the forwards of another one, and so do the parts of a model that
    /// are called one by one.
    fn leads(&self, id: ModuleId, model: &Model) -> bool {
        let Some(lead) = self.lead.filter(|&lead| lead != id) else { return true };
        self.models.get(&lead).is_none_or(|lead| lead.last_begin < model.last_begin)
    }

    /// Finds a cache that grows by the same bytes in each of four forwards.
    fn growth(
        &mut self,
        trace: &Trace,
        forward: &Forward,
        end: u32,
        model: &mut Model,
    ) -> Vec<GeneratedStep> {
        let mut kept: HashMap<StackId, (u64, Vec<AllocationId>)> = HashMap::new();
        for &id in &forward.made {
            let allocation = &trace.allocations[id.index()];
            if allocation.is_live_after(end) {
                let (bytes, ids) = kept.entry(allocation.stack).or_default();
                *bytes += allocation.requested.0;
                ids.push(id);
            }
        }
        if model.past.len() == 5 {
            model.past.remove(0);
        }
        model.past.push(Past { end, input: forward.input, kept });
        let [earlier @ .., first, second, third, last] = model.past.as_slice() else {
            return Vec::new();
        };
        if [first, second, third].iter().any(|past| past.input != last.input) {
            return Vec::new();
        }
        let is_freed = |id: &AllocationId| !trace.allocations[id.index()].is_live_after(end);
        let grown = last.kept.iter().filter(|(stack, (bytes, _))| {
            let of = |past: &Past| past.kept.get(*stack).map(|(bytes, _)| *bytes);
            let (Some(one), Some(two), Some(three)) = (of(first), of(second), of(third)) else {
                return false;
            };
            let is_even = two - one.min(two) == three - two.min(three)
                && three - two.min(three) == bytes - three.min(*bytes);
            one < two && is_even && first.kept[*stack].1.iter().all(is_freed)
        });
        let grown: Vec<StackId> = grown.map(|(&stack, _)| stack).collect();
        if grown.is_empty() {
            return Vec::new();
        }
        let prefill = earlier.last().filter(|earlier| earlier.input >= last.input);
        let mut steps: Vec<_> = [prefill, Some(first), Some(second), Some(third), Some(last)]
            .into_iter()
            .flatten()
            .map(|past| GeneratedStep { end: past.end, kind: StepKind::Decode })
            .collect();
        steps[0].kind = StepKind::Prefill;
        model.decode_input = Some(last.input);
        model.grows = true;
        model.past = Vec::new();
        self.cache_stacks.extend(grown);
        steps
    }
}

impl Model {
    /// By the size of the embedded tokens, where memory does not show whether the cache was read.
    fn kind_by_input(&self, input: Bytes) -> StepKind {
        if self.decode_input == Some(input) { StepKind::Decode } else { StepKind::Prefill }
    }

    /// By the allocations of a forward, if the cache was allocated before.
    fn kind_by_bytes(&self, bytes: Bytes) -> StepKind {
        let is_shorter = self.prefill_bytes.is_some_and(|prefill| bytes < prefill);
        if is_shorter { StepKind::Decode } else { StepKind::Prefill }
    }

    /// The steps that this one shows, in order.
    fn step(&mut self, kind: StepKind, forward: &Forward, end: u32) -> Vec<GeneratedStep> {
        let step = GeneratedStep { end, kind };
        match kind {
            StepKind::Prefill => {
                self.prefill_bytes = Some(forward.bytes);
                if self.decode_input.is_none() {
                    self.waiting = Some(end);
                    return Vec::new();
                }
                vec![step]
            }
            StepKind::Decode => {
                self.decode_input = Some(forward.input);
                let prefill = |end| GeneratedStep { end, kind: StepKind::Prefill };
                self.waiting.take().map(prefill).into_iter().chain([step]).collect()
            }
        }
    }
}
