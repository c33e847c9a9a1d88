//! The shared state of questions about a growing trace: every event is read once.
//!
//! A question then costs what is new since the last one, what is live at the moment that it is about, and the size of
//! its answer. The index answers [`GrowingIndex::summary`], [`GrowingIndex::report`],
//! [`GrowingIndex::levels_at_steps`] and [`GrowingIndex::layers`]. What may change with later events (categories, names of modules and tensors, which
//! allocations belong to the loss) is not kept, but found anew for what is live.
//!
//! All events are read again
//!
//! - for a report by step: what was live at the peaks of all steps may get another category with every event;
//! - for a report by segment: the allocator is replayed;
//! - when the stack of an older allocation is defined late, at the first explicit end of a step in a program whose
//!   optimizer ended its steps, and when another number of bytes turns out to be from before the recording;
//! - for layers: also when a module gets a name late.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use floodmark_trace::{Bytes, Device, Subject, ThreadId, Trace};

use crate::allocation::context::{Context, ContextScan};
use crate::grouping::by_phase::PhasePeaks;
use crate::index::moment_index::MomentIndex;
use crate::layers::runs::Runs;
use crate::layers::{LayerQuestion, LayerSource, Layers};
use crate::moment::at::At;
use crate::moment::levels::Levels;
use crate::moment::step_levels::StepLevels;
use crate::moment::summary::{Counts, Summary, is_of_the_program, summary_of};
use crate::moment::{Moment, check_device, device_of_last_oom, device_of_peaks};
use crate::question_error::QuestionError;

/// Steps, phases, totals and live allocations of a trace that grows.
#[derive(Debug, Default)]
pub struct GrowingIndex {
    read: usize,
    stack_revision: u64,
    scan: ContextScan,
    counts: Counts,
    /// Per thread: whether it did something.
    threads: Vec<bool>,
    devices: BTreeMap<Device, DeviceIndex>,
    /// The layers of each device that were asked for last. They are followed when they are asked for.
    layers: Mutex<BTreeMap<Device, LayerIndex>>,
}

/// The shared state of questions about one device.
#[derive(Debug)]
pub(crate) struct DeviceIndex {
    pub(crate) moments: MomentIndex,
    pub(crate) phases: PhasePeaks,
    steps: StepLevels,
}

/// The runs of layers that were followed.
#[derive(Debug)]
struct LayerIndex {
    key: LayerKey,
    /// How many events are kept.
    most_events: usize,
    runs: Runs,
}

/// The definitions behind the runs: a change of them requires new runs.
#[derive(Debug, PartialEq, Eq)]
struct LayerKey {
    source: LayerSource,
    unseen: Bytes,
    path_revision: u64,
}

impl GrowingIndex {
    /// Reads all events of a trace.
    pub fn new(trace: &Trace) -> Self {
        let mut index = Self::default();
        index.extend(trace);
        index
    }

    /// Reads the events that are new since the last call. The trace must be the one that was read then.
    pub fn extend(&mut self, trace: &Trace) {
        let stack_revision = trace.stack_revision();
        if stack_revision != self.stack_revision {
            *self = Self { stack_revision, ..Self::default() };
        }
        for event in trace.events.get(self.read..).unwrap_or_default() {
            if is_of_the_program(event) {
                self.count_thread(event.thread);
            }
            self.counts.failed_requests += usize::from(matches!(event.subject, Subject::Oom(_)));
        }
        let is_renewed = self.scan.extend(trace);
        for device in trace.devices() {
            let index =
                self.devices.entry(device).or_insert_with(|| DeviceIndex::at_start(trace, device));
            index.extend(trace, &self.scan, is_renewed);
        }
        self.read = trace.events.len();
    }

    fn count_thread(&mut self, thread: ThreadId) {
        let at = thread.index();
        if at >= self.threads.len() {
            self.threads.resize(at + 1, false);
        }
        self.counts.threads += usize::from(!std::mem::replace(&mut self.threads[at], true));
    }

    /// Steps and phases.
    pub fn context(&self) -> &Context {
        &self.scan.context
    }

    /// The same as [`summary`](crate::summary()).
    pub fn summary(&self, trace: &Trace) -> Summary {
        let devices = self.devices.values().map(|device| {
            let moments = &device.moments;
            let at = moments.peak_moment(trace, self.context());
            (*moments.peak(), at)
        });
        summary_of(trace, self.context(), self.counts, devices)
    }

    /// The same as [`levels_at_steps`](crate::levels_at_steps()), from the step `first` on.
    pub fn levels_at_steps(
        &self,
        trace: &Trace,
        device: Option<Device>,
        first: usize,
    ) -> Result<Vec<Levels>, QuestionError> {
        let device = match device {
            Some(device) => device.canonical(),
            None => self.default_device(trace, At::Peak)?,
        };
        let steps = &self.device(trace, device)?.steps;
        Ok(steps.levels_from(first, trace, self.context().step_ends()))
    }

    /// The same as [`layers`](crate::layers()). Questions about the same layers of the same device follow what is new;
    /// one about others, or for more events than the one before, follows all events.
    pub fn layers(&self, trace: &Trace, question: &LayerQuestion) -> Result<Layers, QuestionError> {
        let device = match question.device {
            Some(device) => device.canonical(),
            None => self.default_device(trace, At::Peak)?,
        };
        check_device(trace, device)?;
        let most_events = question.events.unwrap_or(usize::MAX);
        let key = LayerKey {
            source: question.source.clone(),
            unseen: trace.unseen_at_start(device),
            path_revision: trace.path_revision(),
        };
        let mut kept = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_kept = |kept: &LayerIndex| kept.key == key && kept.most_events >= most_events;
        let mut layers = kept.remove(&device).filter(is_kept).unwrap_or_else(|| {
            let runs = Runs::at_start(trace, device, &question.source);
            LayerIndex { key, most_events, runs }
        });
        layers.runs.extend(trace, layers.most_events);
        let answer = layers.runs.layers(trace, most_events);
        kept.insert(device, layers);
        Ok(answer)
    }

    pub(crate) fn default_device(&self, trace: &Trace, at: At) -> Result<Device, QuestionError> {
        if at == At::Oom {
            // A trace without one need not be searched.
            let has_failed = self.counts.failed_requests > 0;
            return if has_failed {
                device_of_last_oom(trace)
            } else {
                Err(QuestionError::without_oom(trace))
            };
        }
        device_of_peaks(trace, self.devices.values().map(|device| device.moments.peak()))
    }

    pub(crate) fn moment(
        &self,
        trace: &Trace,
        device: Device,
        at: At,
    ) -> Result<Moment, QuestionError> {
        if at == At::Oom && self.counts.failed_requests == 0 {
            return Err(QuestionError::without_oom(trace));
        }
        match self.devices.get(&device) {
            Some(index) => index.moments.moment(trace, self.context(), at),
            None => crate::moment::moment(trace, self.context(), device, at),
        }
    }

    pub(crate) fn device(
        &self,
        trace: &Trace,
        device: Device,
    ) -> Result<&DeviceIndex, QuestionError> {
        check_device(trace, device)?;
        self.devices.get(&device).ok_or_else(|| QuestionError::without_allocations(trace))
    }
}

impl DeviceIndex {
    fn at_start(trace: &Trace, device: Device) -> Self {
        Self {
            moments: MomentIndex::at_start(trace, device),
            phases: PhasePeaks::at_start(trace, device),
            steps: StepLevels::at_start(trace, device),
        }
    }

    fn extend(&mut self, trace: &Trace, scan: &ContextScan, is_renewed: bool) {
        let is_other = self.moments.extend(trace);
        if is_other || is_renewed {
            let device = self.moments.device();
            self.phases = PhasePeaks::at_start(trace, device);
            self.steps = StepLevels::at_start(trace, device);
        }
        self.phases.extend(trace, &scan.context, |id| scan.may_be_loss(id));
        self.steps.extend(trace, scan.context.step_ends());
    }
}
