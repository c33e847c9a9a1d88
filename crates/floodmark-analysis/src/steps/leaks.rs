//! Which lines grow from step to step.
//!
//! For every line: how much of what it allocated is live when each step ends. The first step is left out,
//! because everything that stays is allocated in it. A *suspect* grows until the end of the last finished
//! step, for at least three steps and at least half of those looked at, in nine of ten of them or in one of every few (a
//! cache of each evaluation), and frees at most a tenth of what it gained. What is allocated anew in each step and freed in the
//! next (gradients, the last loss) does not grow.

use std::collections::BTreeMap;

use floodmark_trace::{AllocationId, Bytes, Category, Device, Losses, Trace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::category::category;
use crate::allocation::context::Context;
use crate::allocation::generation::StepKind;
use crate::allocation::location::{Frame, Line, Lines, frame, marked};
use crate::allocation::use_times::freed;
use crate::grouping::live_groups::common;
use crate::json_format::FORMAT;
use crate::moment::at::At;
use crate::moment::{check_device, default_device};
use crate::question_error::QuestionError;

/// How many steps must grow, and how many must follow the first one.
const FEWEST_STEPS: u32 = 3;

/// A line that grows from step to step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Leak {
    /// What it gains in a step, on average.
    pub bytes_per_step: Bytes,
    /// What it gained since it began to grow.
    pub growth: Bytes,
    /// Its live bytes when the last finished step ends.
    pub bytes: Bytes,
    /// How many more blocks are live since it began to grow.
    pub count: i64,
    /// The first step of the growth.
    pub since: u32,
    /// How many steps there are from that one on.
    pub steps: u32,
    /// In how many of them it grew.
    pub grew: u32,
    /// The category of most of the bytes.
    #[schemars(with = "Category")]
    pub category: &'static str,
    /// The line, in words.
    pub location: String,
    /// The file; null for blocks without a Python frame.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The function.
    pub function: Option<String>,
    /// The module, where all that it gained has the same.
    pub module: Option<String>,
    /// Whether the backward pass of this line allocated them.
    pub backward: bool,
    /// The stack of the newest block, innermost frame first.
    pub frames: Vec<Frame>,
    /// Its allocations that are still live, oldest first.
    #[serde(skip)]
    pub allocations: Vec<AllocationId>,
}

/// Which lines grow from step to step.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Leaks {
    /// The version of floodmark that wrote the answer.
    pub floodmark: &'static str,
    /// The version of this JSON: it changes when a field changes its meaning.
    pub format: u32,
    /// The device.
    pub device: Device,
    /// How many finished steps were looked at: all but the first.
    pub steps: u32,
    /// How many more bytes are live when the last of them ends than when the first step ended, of all lines.
    pub growth: i64,
    /// What the KV cache gains from one decode step to the next, on average; null in a program that does not generate.
    pub kv_cache_per_step: Option<Bytes>,
    /// What the recording misses.
    pub losses: Losses,
    /// How many suspects there are, those left out included.
    pub total_rows: usize,
    /// The suspects, the one that gains most in a step first.
    pub rows: Vec<Leak>,
}

/// Finds lines that grow from step to step.
pub fn leaks(
    trace: &Trace,
    device: Option<Device>,
    top: Option<usize>,
) -> Result<Leaks, QuestionError> {
    let device = match device {
        Some(device) => device.canonical(),
        None => default_device(trace, At::Peak)?,
    };
    check_device(trace, device)?;
    let context = Context::new(trace);
    let finished = context.finished_steps();
    if finished <= FEWEST_STEPS {
        return Err(QuestionError::TooFewSteps { finished, needed: FEWEST_STEPS + 1 });
    }
    let mut lines = Lines::new(trace, false);
    let held = line_histories(trace, &context, device, &mut lines);
    let growth: i128 = held
        .values()
        .flat_map(|held| held.changes.range(1..))
        .map(|(_, change)| change.bytes)
        .sum();
    let mut rows: Vec<Leak> = held
        .iter()
        .filter_map(|(&line, held)| {
            let window = growth_range(held, finished)?;
            Some(leak(trace, &context, &lines, line, held, &window))
        })
        .collect();
    rows.sort_by(|one, other| {
        (other.bytes_per_step, &one.location).cmp(&(one.bytes_per_step, &other.location))
    });
    let total_rows = rows.len();
    let kv_cache_per_step = cache_growth(trace, &context, device);
    rows.truncate(top.unwrap_or(usize::MAX));
    Ok(Leaks {
        floodmark: env!("CARGO_PKG_VERSION"),
        format: FORMAT,
        device,
        steps: finished - 1,
        growth: i64::try_from(growth).unwrap_or(i64::MAX),
        kv_cache_per_step,
        losses: trace.losses.clone(),
        total_rows,
        rows,
    })
}

/// What the KV cache gains in a decode step that follows another one. In the first one after a prompt, other lines
/// may allocate it than in the prefill.
fn cache_growth(trace: &Trace, context: &Context, device: Device) -> Option<Bytes> {
    context.step_kind(0)?;
    let is_decode = |step| context.step_kind(step) == Some(StepKind::Decode);
    let counts = |step: u32| step > 0 && is_decode(step) && is_decode(step - 1);
    let steps = (0..context.finished_steps()).filter(|&step| counts(step)).count();
    let mut gained = 0_i128;
    for (id, allocation) in (0_u32..).map(AllocationId).zip(&trace.allocations) {
        if allocation.device != device || category(trace, context, id) != Category::KvCache {
            continue;
        }
        let size = i128::from(allocation.rounded.0);
        let made = context.step(allocation.made_at).filter(|_| !allocation.before_recording);
        let freed = freed(allocation).and_then(|event| context.step(event));
        gained += if made.is_some_and(counts) { size } else { 0 };
        gained -= if freed.is_some_and(counts) { size } else { 0 };
    }
    Some(bytes(gained / i128::try_from(steps.max(1)).unwrap_or(1)))
}

/// The change of one step: bytes that it allocated and kept, minus bytes that it freed.
#[derive(Debug, Clone, Copy, Default)]
struct StepChange {
    bytes: i128,
    count: i64,
}

/// The live bytes of a line.
#[derive(Debug, Default)]
struct LineHistory {
    /// By step; steps that changed nothing may be left out.
    changes: BTreeMap<u32, StepChange>,
    /// The live allocations at the end of the last finished step, oldest first, each with its step.
    live: Vec<(u32, AllocationId)>,
}

fn line_histories(
    trace: &Trace,
    context: &Context,
    device: Device,
    lines: &mut Lines<'_>,
) -> BTreeMap<Line, LineHistory> {
    let finished = context.finished_steps();
    let mut all: BTreeMap<Line, LineHistory> = BTreeMap::new();
    for (id, allocation) in (0_u32..).zip(&trace.allocations) {
        if allocation.device != device {
            continue;
        }
        let made = context.step(allocation.made_at).unwrap_or(0);
        let freed = freed(allocation).and_then(|event| context.step(event));
        let freed = freed.filter(|&freed| freed < finished);
        if made >= finished || freed == Some(made) {
            continue;
        }
        let held = all.entry(lines.line_of(allocation)).or_default();
        let bytes = i128::from(allocation.rounded.0);
        let change = held.changes.entry(made).or_default();
        change.bytes += bytes;
        change.count += 1;
        if let Some(freed) = freed {
            let change = held.changes.entry(freed).or_default();
            change.bytes -= bytes;
            change.count -= 1;
        } else {
            held.live.push((made, AllocationId(id)));
        }
    }
    all
}

/// How many steps must grow where those between them do not: two gaps of the same length may be chance.
const FEWEST_REGULAR: u32 = 4;

/// The steps in which a line grows, up to the last finished one.
#[derive(Debug)]
struct GrowthRange {
    since: u32,
    steps: u32,
    grew: u32,
    bytes: i128,
    count: i64,
}

/// The longest stretch of growth, where there is one: from the last step backwards.
fn growth_range(held: &LineHistory, finished: u32) -> Option<GrowthRange> {
    let fewest = FEWEST_STEPS.max(finished.saturating_sub(1).div_ceil(2));
    let (mut gained, mut lost) = (0_i128, 0_i128);
    let (mut grew, mut count) = (0, 0);
    let (mut gap, mut next) = (0, finished);
    let mut longest = None;
    for (&step, change) in held.changes.range(1..).rev() {
        gained += change.bytes.max(0);
        lost += (-change.bytes).max(0);
        grew += u32::from(change.bytes > 0);
        count += change.count;
        let steps = finished - step;
        if change.bytes > 0 {
            gap = gap.max(next - step);
            next = step;
        }
        let in_most = u64::from(grew) * 10 >= u64::from(steps) * 9;
        // No gap is twice as long as they are on average.
        let regularly = grew >= FEWEST_REGULAR && gap * grew < 2 * steps;
        let grows = (in_most || regularly) && lost * 10 <= gained;
        if change.bytes > 0 && steps >= fewest && grows {
            longest = Some(GrowthRange { since: step, steps, grew, bytes: gained - lost, count });
        }
    }
    longest
}

fn leak(
    trace: &Trace,
    context: &Context,
    lines: &Lines<'_>,
    line: Line,
    held: &LineHistory,
    window: &GrowthRange,
) -> Leak {
    let gained = held.live.iter().filter(|(made, _)| *made >= window.since);
    let gained: Vec<AllocationId> = gained.map(|&(_, id)| id).collect();
    let get = |id: AllocationId| &trace.allocations[id.index()];
    let modules = gained.iter().map(|&id| trace.module_path(get(id).stack));
    let module = common(modules).map(str::to_owned);
    let newest = gained.last().map(|&id| get(id).stack).into_iter();
    let frames = newest.flat_map(|stack| trace.python_frames(stack));
    let frames = frames.filter_map(|(node, _)| frame(trace, node)).collect();
    let shown = lines.frame(line);
    let backward = line.is_backward();
    let location = match &shown {
        Some(shown) => marked(shown.to_string(), backward),
        None => line.location(trace),
    };
    Leak {
        bytes_per_step: bytes(window.bytes / i128::from(window.steps)),
        growth: bytes(window.bytes),
        bytes: held.live.iter().map(|&(_, id)| get(id).rounded).sum(),
        count: window.count,
        since: window.since,
        steps: window.steps,
        grew: window.grew,
        category: most(trace, context, &gained).name(),
        location,
        file: shown.as_ref().map(|shown| shown.file.clone()),
        line: shown.as_ref().map(|shown| shown.line),
        function: shown.map(|shown| shown.function),
        module,
        backward,
        frames,
        allocations: gained,
    }
}

fn bytes(number: i128) -> Bytes {
    Bytes(u64::try_from(number).unwrap_or(0))
}

/// The category that most of the bytes have.
fn most(trace: &Trace, context: &Context, ids: &[AllocationId]) -> Category {
    let mut bytes: BTreeMap<Category, Bytes> = BTreeMap::new();
    for &id in ids {
        *bytes.entry(category(trace, context, id)).or_default() +=
            trace.allocations[id.index()].rounded;
    }
    let largest = bytes.into_iter().max_by_key(|&(category, bytes)| (bytes, category));
    largest.map_or(Category::Unknown, |(category, _)| category)
}
