//! A moment of a device: how much was allocated, and what the program was doing.

pub(crate) mod at;
pub(crate) mod category_levels;
pub(crate) mod category_peaks;
pub(crate) mod levels;
pub(crate) mod step_levels;
pub(crate) mod summary;
pub(crate) mod totals;

use floodmark_trace::{Bytes, Device, Micros, Oom, StackId, Subject, Trace, stack_flags};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::context::{Context, Phase};
use crate::allocation::location::location;
use crate::moment::at::{At, StepPhase};
use crate::moment::totals::{Peak, Totals, peaks};
use crate::question_error::QuestionError;

/// A failed allocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Request {
    /// The requested bytes.
    pub bytes: Bytes,
    /// The line that requested it.
    pub location: Option<String>,
}

/// A time on a device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Moment {
    /// Which time it is.
    pub what: At,
    /// Seconds since the recording began.
    pub seconds: f64,
    /// The step, where there are steps.
    pub step: Option<u32>,
    /// The phase of the program, if known.
    pub phase: Option<String>,
    /// The innermost module that was running, where that is known.
    pub module: Option<String>,
    /// The failed allocation; for `oom` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// Its device.
    #[serde(skip)]
    pub device: Device,
    /// How many events of the trace have happened.
    #[serde(skip)]
    pub after: u32,
    /// torch's total of allocated bytes.
    #[serde(skip)]
    pub allocated: Bytes,
    /// The requested bytes; `None` while that is unknown for some live blocks.
    #[serde(skip)]
    pub requested: Option<Bytes>,
    /// torch's total of active bytes; `None` for the CPU.
    #[serde(skip)]
    pub active: Option<Bytes>,
    /// torch's total of reserved bytes; `None` for the CPU.
    #[serde(skip)]
    pub reserved: Option<Bytes>,
    /// The part of `allocated` that was live before the recording and belongs to no recorded block.
    #[serde(skip)]
    pub unseen: Bytes,
}

/// The default device: for a question about a failed request, the device where the last one failed;
/// otherwise the device with the highest peak, CUDA before the CPU.
pub fn default_device(trace: &Trace, at: At) -> Result<Device, QuestionError> {
    if at == At::Oom {
        return device_of_last_oom(trace);
    }
    device_of_peaks(trace, peaks(trace).iter())
}

/// The named device, or the one with the highest peak.
pub(crate) fn chosen_device(
    trace: &Trace,
    device: Option<Device>,
) -> Result<Device, QuestionError> {
    let Some(device) = device else { return default_device(trace, At::Peak) };
    let device = device.canonical();
    check_device(trace, device)?;
    Ok(device)
}

/// Where the last request failed.
pub(crate) fn device_of_last_oom(trace: &Trace) -> Result<Device, QuestionError> {
    last_oom(trace, None)
        .map(|(_, device, _)| device)
        .ok_or_else(|| QuestionError::without_oom(trace))
}

/// The device with the highest peak, a CUDA device before the CPU.
pub(crate) fn device_of_peaks<'a>(
    trace: &Trace,
    peaks: impl Iterator<Item = &'a Peak>,
) -> Result<Device, QuestionError> {
    peaks
        .max_by_key(|peak| (!peak.device.is_cpu(), peak.allocated, std::cmp::Reverse(peak.device)))
        .map(|peak| peak.device)
        .ok_or_else(|| QuestionError::without_allocations(trace))
}

/// Finds a moment of a device.
pub fn moment(
    trace: &Trace,
    context: &Context,
    device: Device,
    at: At,
) -> Result<Moment, QuestionError> {
    let totals = |after| Totals::after(trace, device, after);
    match at {
        At::Oom => oom_moment(trace, context, device, &totals),
        At::Peak => {
            check_device(trace, device)?;
            let peak = peaks(trace).into_iter().find(|peak| peak.device == device);
            let peak = peak.ok_or_else(|| QuestionError::without_allocations(trace))?;
            moment_of(trace, context, &peak, at, &totals)
        }
        At::End | At::Seconds(_) => {
            check_device(trace, device)?;
            later_moment(trace, context, at, &totals)
        }
        At::Step { step, phase } => {
            check_device(trace, device)?;
            step_moment(trace, context, device, (step, phase), &totals)
        }
    }
}

/// The same, when the peak of the device and its totals after any number of events are known.
pub(crate) fn moment_of(
    trace: &Trace,
    context: &Context,
    peak: &Peak,
    at: At,
    totals: &dyn Fn(u32) -> Totals,
) -> Result<Moment, QuestionError> {
    match at {
        At::Oom => oom_moment(trace, context, peak.device, totals),
        At::Peak => Ok(moment_of_peak(trace, context, peak.after, totals)),
        At::End | At::Seconds(_) => later_moment(trace, context, at, totals),
        At::Step { step, phase } => step_moment(trace, context, peak.device, (step, phase), totals),
    }
}

/// When allocated bytes were highest in a step; of a phase, right after an allocation of that phase.
fn step_moment(
    trace: &Trace,
    context: &Context,
    device: Device,
    (step, phase): (u32, Option<StepPhase>),
    totals: &dyn Fn(u32) -> Totals,
) -> Result<Moment, QuestionError> {
    let ends = context.step_ends();
    let finished = context.finished_steps();
    let is_there = step < finished || context.unfinished_step(trace, Some(device)) == Some(step);
    if !is_there {
        return Err(QuestionError::NoSuchStep { step, finished });
    }
    let at = step as usize;
    let from = at.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |end| end + 1);
    let to = ends.get(at).map_or(trace.events.len(), |end| *end as usize + 1);
    let mut now = totals(from);
    let mut highest = phase.is_none().then(|| (now.allocated(), from));
    for (number, event) in (from..).zip(&trace.events[from as usize..to]) {
        if event.device != device {
            continue;
        }
        now.apply(trace, event);
        let is_meant = phase.is_none_or(|phase| {
            let Subject::Alloc(id) = event.subject else { return false };
            context.phase(trace, id).is_some_and(|found| found.name(trace) == phase.name())
        });
        if is_meant && highest.is_none_or(|(bytes, _)| now.allocated() > bytes) {
            highest = Some((now.allocated(), number + 1));
        }
    }
    let missing =
        || QuestionError::NoPhaseInStep { step, phase: phase.map_or("", StepPhase::name) };
    let (_, after) = highest.ok_or_else(missing)?;
    let time = event_before(after).map_or(Micros(0), |event| trace.events[event].time);
    let what = At::Step { step, phase };
    let mut moment = moment_with(context, what, &totals(after), after, time);
    set_phase_and_module(trace, context, &mut moment);
    // Where the step begins with its highest level, the last event is of the step before.
    moment.step = Some(step);
    Ok(moment)
}

fn later_moment(
    trace: &Trace,
    context: &Context,
    at: At,
    totals: &dyn Fn(u32) -> Totals,
) -> Result<Moment, QuestionError> {
    let (end, all) = (trace.end(), u32::try_from(trace.events.len()).unwrap_or(u32::MAX));
    let At::Seconds(seconds) = at else {
        return Ok(moment_with(context, at, &totals(all), all, end));
    };
    let time = Micros(micros(seconds));
    if time > end {
        return Err(QuestionError::AfterEnd { seconds, end });
    }
    let after = events_until(trace, seconds);
    let mut moment = moment_with(context, at, &totals(after), after, time);
    set_phase_and_module(trace, context, &mut moment);
    Ok(moment)
}

/// Whether a trace has anything of a device.
pub(crate) fn check_device(trace: &Trace, device: Device) -> Result<(), QuestionError> {
    let recorded = trace.devices();
    if recorded.is_empty() {
        return Err(QuestionError::without_allocations(trace));
    }
    if !recorded.contains(&device) {
        return Err(QuestionError::NoSuchDevice { device, recorded });
    }
    Ok(())
}

/// The moment of a peak that is known already.
pub(crate) fn peak_moment(trace: &Trace, context: &Context, peak: &Peak) -> Moment {
    moment_of_peak(trace, context, peak.after, &|after| Totals::after(trace, peak.device, after))
}

pub(crate) fn moment_of_peak(
    trace: &Trace,
    context: &Context,
    after: u32,
    totals: &dyn Fn(u32) -> Totals,
) -> Moment {
    let time = event_before(after).map_or(Micros(0), |event| trace.events[event].time);
    let mut moment = moment_with(context, At::Peak, &totals(after), after, time);
    set_phase_and_module(trace, context, &mut moment);
    moment
}

fn oom_moment(
    trace: &Trace,
    context: &Context,
    device: Device,
    totals: &dyn Fn(u32) -> Totals,
) -> Result<Moment, QuestionError> {
    let Some((event, _, oom)) = last_oom(trace, Some(device)) else {
        let failed = last_oom(trace, None);
        return Err(match failed {
            Some((_, failed, _)) => QuestionError::NoOomOn { device, failed },
            None => QuestionError::without_oom(trace),
        });
    };
    let after = u32::try_from(event).unwrap_or(u32::MAX);
    let mut moment = moment_with(context, At::Oom, &totals(after), after, trace.events[event].time);
    moment.step = context.step(after);
    moment.phase = oom_phase(trace, &oom).map(|phase| phase.name(trace).to_owned());
    moment.module = trace.module_path(oom.stack).map(str::to_owned);
    let location = location(trace, oom.stack, oom.backward);
    moment.request = Some(Request { bytes: oom.requested, location });
    Ok(moment)
}

pub(crate) fn oom_phase(trace: &Trace, oom: &Oom) -> Option<Phase> {
    let flags = trace.stack(oom.stack).flags;
    if flags & stack_flags::OPTIMIZER != 0 {
        Some(Phase::Optimizer)
    } else if oom.backward {
        Some(Phase::Backward)
    } else if flags & stack_flags::MODULE != 0 {
        Some(Phase::Forward)
    } else {
        (oom.stack != StackId(0)).then_some(Phase::Outside)
    }
}

fn last_oom(trace: &Trace, device: Option<Device>) -> Option<(usize, Device, Oom)> {
    let mut events = trace.events.iter().enumerate().rev();
    events.find_map(|(at, event)| {
        let Subject::Oom(oom) = event.subject else { return None };
        let is_meant = device.is_none_or(|device| device == event.device);
        is_meant.then_some((at, event.device, *trace.ooms.get(oom as usize)?))
    })
}

fn moment_with(context: &Context, at: At, totals: &Totals, after: u32, time: Micros) -> Moment {
    Moment {
        what: at,
        seconds: time.as_seconds(),
        step: context.step(after.saturating_sub(1)),
        phase: None,
        module: None,
        request: None,
        device: totals.device(),
        after,
        allocated: totals.allocated(),
        requested: totals.requested(),
        active: totals.active(),
        reserved: totals.reserved(),
        unseen: totals.unseen(),
    }
}

/// Sets the phase and module of the time: those of the last allocation on the device, unless that was
/// in another step.
pub(crate) fn set_phase_and_module(trace: &Trace, context: &Context, moment: &mut Moment) {
    let past = &trace.events[..moment.after as usize];
    let last = past.iter().rev().filter(|event| event.device == moment.device).find_map(|event| {
        let Subject::Alloc(id) = event.subject else { return None };
        Some(id)
    });
    let Some(id) = last else { return };
    let allocation = &trace.allocations[id.index()];
    if context.step(allocation.made_at) == moment.step {
        moment.phase = context.phase(trace, id).map(|phase| phase.name(trace).to_owned());
        moment.module = trace.module_path(allocation.stack).map(str::to_owned);
    }
}

fn event_before(after: u32) -> Option<usize> {
    after.checked_sub(1).map(|event| event as usize)
}

/// How many events had happened at a time.
pub(crate) fn events_until(trace: &Trace, seconds: f64) -> u32 {
    let after = trace.events.partition_point(|event| event.time.as_seconds() <= seconds);
    u32::try_from(after.max(initial_events(trace))).unwrap_or(u32::MAX)
}

/// Blocks from before the recording lie at its beginning, with their labels: no moment is before them.
pub(crate) fn initial_events(trace: &Trace) -> usize {
    trace.events.iter().take_while(|event| is_initial(trace, event.subject)).count()
}

/// Whether an event at the beginning is about what was live before the recording.
pub(crate) fn is_initial(trace: &Trace, subject: Subject) -> bool {
    if let Subject::Alloc(id) = subject {
        return trace.allocations[id.index()].before_recording;
    }
    matches!(subject, Subject::InitialSegment(_) | Subject::Reserved(_) | Subject::Label { .. })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is after the end of time is after the end of the recording"
)]
pub(crate) fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}
