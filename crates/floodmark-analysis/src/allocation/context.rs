//! In which step and phase each allocation was made: one pass over the events.
//!
//! Steps are numbered from 0. An explicit end of a step (`Step`) counts; without one, each end of an optimizer's `step`
//! does. Where there is neither, and no backward pass, each forward that reads or fills a KV cache is a step
//! ([`crate::allocation::generation`]). What comes after the last end belongs to the next step.
//!
//! The phase is the user's name where one was open. Otherwise the first rule that fits:
//!
//! 1. `optimizer`: an optimizer's `step` is on the stack, or runs on this thread.
//! 2. `backward`: the backward pass made it.
//! 3. `forward`: a module is on the stack. Also without a module, when this thread made a forward
//!    allocation before it in this pass and a backward allocation follows before the optimizer runs or
//!    the step ends: that is the computation of the loss.
//! 4. `outside`.
//!
//! A *stretch* is a part of the recording in which the program makes allocations of one of the first
//! three; allocations outside do not interrupt it.

use floodmark_trace::{
    Allocation, AllocationId, Bytes, Category, Device, Event, EventNumber, Label, LabelId, StackId,
    Subject, TextId, ThreadId, Trace, stack_flags,
};
use hashbrown::HashSet;

use crate::allocation::derived_category;
use crate::allocation::frame_rules::FrameRoles;
use crate::allocation::generation::{GenerationScan, StepKind};

/// The phase of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The model, or the loss after it.
    Forward,
    /// Autograd.
    Backward,
    /// An optimizer's `step`.
    Optimizer,
    /// The user's name of it.
    Named(TextId),
    /// None of these.
    Outside,
}

impl Phase {
    /// Its name, as reports show it.
    pub fn name(self, trace: &Trace) -> &str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Named(text) => trace.text(text).unwrap_or("(unnamed phase)"),
            Self::Outside => "outside",
        }
    }
}

/// Steps, phases and stretches of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// The events that end a step.
    step_ends: Vec<u32>,
    /// Per step that ended, in a program that generates; empty in one that trains.
    step_kinds: Vec<StepKind>,
    /// The call stacks that allocate keys and values, found by their growth.
    cache_stacks: HashSet<StackId>,
    /// Per allocation; never `Named`.
    work: Vec<Phase>,
    /// The events that begin a stretch, or the time between two.
    stretch_starts: Vec<u32>,
    /// The backward allocations that begin a stretch.
    backward_starts: Vec<u32>,
    /// The first forward allocation of each step that has one.
    forward_starts: Vec<u32>,
    /// The events at which an optimizer's `step` ended, that of the outermost.
    optimizer_ends: Vec<u32>,
    /// Per allocation of a torch snapshot: the category that is derived, if one is. Empty for a recording.
    derived: Vec<Option<Category>>,
    /// The roles of the frames of each call stack.
    roles: FrameRoles,
    /// The sizes of labelled parameters.
    parameter_sizes: HashSet<Bytes>,
}

impl Context {
    /// Reads the events once.
    pub fn new(trace: &Trace) -> Self {
        let mut scan = ContextScan::with_steps(has_explicit_steps(&trace.events));
        scan.read_on(trace);
        scan.context
    }

    /// Categories that a snapshot does not record, derived from stacks, lifetimes and sizes.
    pub(crate) fn derived(&self, id: AllocationId) -> Option<Category> {
        self.derived.get(id.index()).copied().flatten()
    }

    /// Whether the call stack allocates keys and values, by their growth from forward to forward.
    pub(crate) fn is_cache_stack(&self, stack: StackId) -> bool {
        self.cache_stacks.contains(&stack)
    }

    /// The roles of the frames of each call stack.
    pub(crate) fn roles(&self) -> &FrameRoles {
        &self.roles
    }

    /// Whether a parameter has this size.
    pub(crate) fn is_parameter_size(&self, requested: Bytes) -> bool {
        self.parameter_sizes.contains(&requested)
    }

    /// The step to which an event belongs; `None` when the trace has no steps.
    pub fn step(&self, event: u32) -> Option<u32> {
        let ended = self.step_ends.partition_point(|&end| end < event);
        (!self.step_ends.is_empty()).then(|| u32::try_from(ended).unwrap_or(u32::MAX))
    }

    /// Whether a step that ended is a prefill or a decode; `None` for a step of training.
    pub fn step_kind(&self, step: u32) -> Option<StepKind> {
        self.step_kinds.get(step as usize).copied()
    }

    /// The name of a step: `step 3`, `step 3 (decode)`.
    pub fn step_name(&self, step: u32) -> String {
        let kind = self.step_kind(step);
        let kind = kind.map_or_else(String::new, |kind| format!(" ({})", kind.name()));
        format!("step {step}{kind}")
    }

    /// The events that end a step.
    pub fn step_ends(&self) -> &[u32] {
        &self.step_ends
    }

    /// How many steps ended.
    pub fn finished_steps(&self) -> u32 {
        u32::try_from(self.step_ends.len()).unwrap_or(u32::MAX)
    }

    /// The step in which the recording ended, if a step ended before it and a device, or any, allocated in it.
    pub fn unfinished_step(&self, trace: &Trace, device: Option<Device>) -> Option<u32> {
        let last = *self.step_ends.last()? as usize;
        let is_made = |event: &Event| {
            let Subject::Alloc(id) = event.subject else { return false };
            device.is_none_or(|device| event.device == device)
                && trace.allocations.get(id.index()).is_some_and(|made| !made.before_recording)
        };
        trace.events.iter().skip(last + 1).any(is_made).then(|| self.finished_steps())
    }

    /// The phase in which an allocation was made. `None` for one from before the recording.
    pub fn phase(&self, trace: &Trace, id: AllocationId) -> Option<Phase> {
        let allocation = trace.allocations.get(id.index())?;
        if allocation.before_recording {
            return None;
        }
        Some(match allocation.phase {
            TextId(0) => self.work(id),
            named => Phase::Named(named),
        })
    }

    /// The same without the user's names.
    pub(crate) fn work(&self, id: AllocationId) -> Phase {
        self.work.get(id.index()).copied().unwrap_or(Phase::Outside)
    }

    /// Whether no stretch begins between two events.
    pub(crate) fn is_one_stretch(&self, from: u32, to: u32) -> bool {
        let stretch = |event| self.stretch_starts.partition_point(|&start| start <= event);
        stretch(from) == stretch(to)
    }

    /// Whether an allocation was freed in the stretch in which it was made.
    pub(crate) fn is_passing(&self, allocation: &Allocation) -> bool {
        let freed = allocation.freed_at.map(EventNumber::get);
        freed.is_some_and(|freed| self.is_one_stretch(allocation.made_at, freed))
    }

    /// The event that begins the last stretch.
    pub(crate) fn last_stretch(&self) -> Option<u32> {
        self.stretch_starts.last().copied()
    }

    /// Whether no step ended before an event.
    pub(crate) fn is_in_first_step(&self, event: u32) -> bool {
        self.step_ends.first().is_none_or(|&end| event <= end)
    }

    /// The first backward allocation after a forward one.
    pub(crate) fn next_backward(&self, event: u32) -> Option<u32> {
        next(&self.backward_starts, event)
    }

    /// The last end of an optimizer's `step` before an event.
    pub(crate) fn last_optimizer_end(&self, before: u32) -> Option<u32> {
        let ended = self.optimizer_ends.partition_point(|&end| end < before);
        ended.checked_sub(1).map(|at| self.optimizer_ends[at])
    }

    /// The first end of an optimizer's `step` after an event.
    pub(crate) fn next_optimizer_end(&self, event: u32) -> Option<u32> {
        next(&self.optimizer_ends, event)
    }

    /// Whether a module ran.
    pub(crate) fn has_forward(&self) -> bool {
        !self.forward_starts.is_empty()
    }

    /// The next event at which the forward of a step begins.
    pub(crate) fn next_forward(&self, event: u32) -> Option<u32> {
        next(&self.forward_starts, event)
    }
}

fn next(events: &[u32], after: u32) -> Option<u32> {
    events.get(events.partition_point(|&event| event <= after)).copied()
}

fn has_explicit_steps(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event.subject, Subject::Step(_)))
}

/// The state of the one pass: a trace that grows is read on from there.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(crate) struct ContextScan {
    pub(crate) context: Context,
    /// How many events were read.
    read: usize,
    has_explicit_steps: bool,
    /// The phase of the open stretch.
    stretch: Option<Phase>,
    has_forward: bool,
    /// Per thread: how many optimizers run.
    optimizers: Vec<u32>,
    /// Per thread: the optimizers that raised. Their ends are recorded right before the next one
    /// begins.
    raised: Vec<u32>,
    /// Counts forward passes, from 0: advances when a backward, an optimizer or a step ends one.
    pass_number: u32,
    /// Per thread: 1 + the last forward pass in which it took part.
    took_part: Vec<u32>,
    /// Allocations that are the loss's, if a backward follows: those made first come first.
    maybe_loss: Vec<AllocationId>,
    /// Autograd saved something in this forward pass, so a backward is to follow.
    has_saved: bool,
    /// The forwards of a program that generates; `None` once it trains.
    generation: Option<GenerationScan>,
    /// A step ended before the events that are new, or steps of generation count no more.
    is_renewed: bool,
}

impl ContextScan {
    fn with_steps(has_explicit_steps: bool) -> Self {
        let generation = (!has_explicit_steps).then(GenerationScan::default);
        Self { has_explicit_steps, generation, ..Self::default() }
    }

    /// Reads the events that are new. Returns whether older events are in other steps now. That happens at the program's
    /// first explicit end of a step, after optimizers had ended some; where a first decode step shows that a forward
    /// before it was a prefill; and where a program that has generated begins to train.
    pub(crate) fn extend(&mut self, trace: &Trace) -> bool {
        let new = trace.events.get(self.read..).unwrap_or_default();
        let is_first = !self.has_explicit_steps && has_explicit_steps(new);
        let is_renewed = is_first && !self.context.step_ends.is_empty();
        if is_renewed || self.read == 0 {
            *self = Self::with_steps(is_first);
        }
        self.has_explicit_steps |= is_first;
        if is_first {
            self.generation = None;
        }
        self.is_renewed = is_renewed;
        self.read_on(trace);
        self.is_renewed
    }

    /// Whether a later backward pass, or a failure before it, may show that the allocation belongs to the computation
    /// of the loss.
    pub(crate) fn may_be_loss(&self, id: AllocationId) -> bool {
        self.maybe_loss.binary_search(&id).is_ok()
    }

    fn read_on(&mut self, trace: &Trace) {
        self.context.work.resize(trace.allocations.len(), Phase::Outside);
        self.context.roles.extend(trace);
        let new = trace.events.get(self.read..).unwrap_or_default();
        let first = u32::try_from(self.read).unwrap_or(u32::MAX);
        for (at, event) in (first..).zip(new) {
            match event.subject {
                Subject::Alloc(id) => {
                    self.generate(trace, at, id, first);
                    self.allocate(trace, at, id);
                }
                Subject::OptimizerBegin => self.begin_optimizer(at, event.thread),
                Subject::OptimizerEnd => self.end_optimizer(at, event.thread),
                Subject::Step(_) => self.end_step(at),
                Subject::Label { allocation, label } => self.label(trace, allocation, label),
                Subject::Saved(_) => self.has_saved = true,
                // The backward pass does not follow, but the allocations were made for it.
                Subject::Oom(_) if self.has_saved => self.find_loss(),
                Subject::Free { .. }
                | Subject::FreeCompleted(_)
                | Subject::FreeUnknown(_)
                | Subject::SegmentAlloc(_)
                | Subject::SegmentFree(_)
                | Subject::SegmentMap(_)
                | Subject::SegmentUnmap(_)
                | Subject::InitialSegment(_)
                | Subject::Oom(_)
                | Subject::Reserved(_)
                | Subject::Unpacked(_)
                | Subject::Mark(_)
                | Subject::PhaseBegin(_)
                | Subject::PhaseEnd(_) => {}
            }
        }
        self.read = trace.events.len();
        if trace.header.is_snapshot() {
            self.context.derived = derived_category::derive(trace, &self.context);
        }
    }

    /// Ends steps of a program that generates.
    fn generate(&mut self, trace: &Trace, at: u32, id: AllocationId, first_new: u32) {
        let Some(generation) = &mut self.generation else { return };
        let is_new = |one: &&Allocation| !one.before_recording;
        let Some(allocation) = trace.allocations.get(id.index()).filter(is_new) else { return };
        if allocation.backward || trace.header.is_snapshot() {
            self.train();
            return;
        }
        let context = &mut self.context;
        for step in generation.allocate(trace, &context.roles, at, id) {
            if context.step_ends.last().is_none_or(|&last| last < step.end) {
                context.step_ends.push(step.end);
                context.step_kinds.push(step.kind);
                self.is_renewed |= step.end + 1 < first_new;
            }
        }
        generation.note_cache_stacks(&mut context.cache_stacks);
    }

    /// The program trains: its forwards are not steps.
    fn train(&mut self) {
        if self.generation.take().is_some() && !self.context.step_kinds.is_empty() {
            self.context.step_ends.clear();
            self.context.step_kinds.clear();
            self.is_renewed = true;
        }
    }

    fn label(&mut self, trace: &Trace, id: AllocationId, label: LabelId) {
        let is_parameter = |label: &Label| label.category == Category::Parameter;
        if trace.label(label).is_some_and(is_parameter)
            && let Some(allocation) = trace.allocations.get(id.index())
        {
            self.context.parameter_sizes.insert(allocation.requested);
        }
    }

    fn allocate(&mut self, trace: &Trace, at: u32, id: AllocationId) {
        let Some(allocation) = trace.allocations.get(id.index()) else { return };
        if allocation.before_recording {
            return;
        }
        self.end_raised_optimizer(trace, at, allocation);
        let work = self.work(trace, allocation);
        self.context.work[id.index()] = work;
        match work {
            Phase::Forward => {
                *slot(&mut self.took_part, allocation.thread) = self.pass_number + 1;
                if !self.has_forward {
                    self.has_forward = true;
                    self.context.forward_starts.push(at);
                }
            }
            Phase::Backward => {
                self.find_loss();
                self.has_saved = false;
                self.pass_number += 1;
            }
            Phase::Optimizer => self.end_forward(),
            Phase::Named(_) | Phase::Outside => {
                if *slot(&mut self.took_part, allocation.thread) == self.pass_number + 1 {
                    self.maybe_loss.push(id);
                }
                return;
            }
        }
        self.enter(at, Some(work));
    }

    /// Allocations outside the model, after its forward, belong to the computation of the loss.
    fn find_loss(&mut self) {
        for loss in self.maybe_loss.drain(..) {
            self.context.work[loss.index()] = Phase::Forward;
        }
    }

    fn work(&mut self, trace: &Trace, allocation: &Allocation) -> Phase {
        let flags = trace.stack(allocation.stack).flags;
        let is_optimizing = *slot(&mut self.optimizers, allocation.thread) > 0;
        if is_optimizing || flags & stack_flags::OPTIMIZER != 0 {
            Phase::Optimizer
        } else if allocation.backward {
            Phase::Backward
        } else if flags & stack_flags::MODULE != 0 {
            Phase::Forward
        } else {
            Phase::Outside
        }
    }

    fn enter(&mut self, at: u32, stretch: Option<Phase>) {
        if self.stretch != stretch {
            self.stretch = stretch;
            self.context.stretch_starts.push(at);
            if stretch == Some(Phase::Backward) {
                self.context.backward_starts.push(at);
            }
        }
    }

    fn end_forward(&mut self) {
        self.maybe_loss.clear();
        self.has_saved = false;
        self.pass_number += 1;
    }

    /// A module runs outside every optimizer on a thread where one has not ended: its `step` raised.
    fn end_raised_optimizer(&mut self, trace: &Trace, at: u32, allocation: &Allocation) {
        let thread = allocation.thread;
        let running = *slot(&mut self.optimizers, thread);
        let flags = trace.stack(allocation.stack).flags;
        let is_forward = flags & (stack_flags::MODULE | stack_flags::OPTIMIZER)
            == stack_flags::MODULE
            && !allocation.backward;
        if running > 0 && is_forward {
            *slot(&mut self.optimizers, thread) = 1;
            // This event is of the next step.
            self.end_optimizer(at.saturating_sub(1), thread);
            *slot(&mut self.raised, thread) = running;
        }
    }

    fn begin_optimizer(&mut self, at: u32, thread: ThreadId) {
        self.train();
        *slot(&mut self.raised, thread) = 0;
        *slot(&mut self.optimizers, thread) += 1;
        self.end_forward();
        self.enter(at, Some(Phase::Optimizer));
    }

    /// An optimizer may call another one's `step`: only the outermost ends the step.
    fn end_optimizer(&mut self, at: u32, thread: ThreadId) {
        self.train();
        let raised = slot(&mut self.raised, thread);
        if *raised > 0 {
            *raised -= 1;
            return;
        }
        let running = slot(&mut self.optimizers, thread);
        *running = running.saturating_sub(1);
        if *running == 0 {
            self.enter(at, None);
            self.context.optimizer_ends.push(at);
            if !self.has_explicit_steps {
                self.end_step(at);
            }
        }
    }

    fn end_step(&mut self, at: u32) {
        self.context.step_ends.push(at);
        self.has_forward = false;
        // An optimizer that raised has no end event.
        self.optimizers.fill(0);
        self.end_forward();
        self.enter(at, None);
    }
}

fn slot(per_thread: &mut Vec<u32>, thread: ThreadId) -> &mut u32 {
    let at = thread.index();
    if at >= per_thread.len() {
        per_thread.resize(at + 1, 0);
    }
    &mut per_thread[at]
}
