//! The answers that a frame shows.

use std::collections::BTreeMap;

use floodmark_analysis::{
    At, Axis, By, CategoryBytes, Context, LiveSummary, Moment, Question, Report, default_device,
    history_by_category, leaks, live_summary, moment, report,
};
use floodmark_text::sentence;
use floodmark_trace::{Bytes, Device, Loss, Trace};

use super::ranks::RankLevel;

/// The number of pieces of the graph, for a screen of any width.
const PIECES: usize = 480;
/// The length of the graph of a running program, unless the user chose all of it.
const RECENT_SECONDS: f64 = 120.0;
/// The most rows of an answer.
const MOST_ROWS: usize = 5_000;

/// The time of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) enum When {
    /// Now while the program runs, the peak afterwards.
    #[default]
    Usual,
    /// The chosen time.
    At(At),
}

/// The question of the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ViewQuestion {
    /// The rank, in a folder.
    pub(crate) rank: Option<u32>,
    /// The device; `None` for the one with the highest peak.
    pub(crate) device: Option<Device>,
    /// The grouping of the rows.
    pub(crate) by: By,
    /// The time.
    pub(crate) when: When,
    /// Whether the graph of a running program shows its whole run.
    pub(crate) is_whole: bool,
}

/// The state of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The program still writes the file.
    Recording,
    /// The recording was stopped, or the program ended.
    Finished,
    /// The recording stopped before the program ended.
    StoppedEarly,
    /// The program is gone, and the file has no end.
    Unfinished,
}

/// The answers.
#[derive(Debug)]
pub(crate) struct View {
    /// What was asked.
    pub(crate) question: ViewQuestion,
    pub(crate) stage: Stage,
    /// All ranks of a folder, by peak; empty for a single trace.
    pub(crate) ranks: Vec<RankLevel>,
    /// The rank whose rows are shown.
    pub(crate) rank: Option<u32>,
    pub(crate) summary: LiveSummary,
    /// Events per second, over the last seconds of a growing file.
    pub(crate) events_per_second: f64,
    /// The rows; `None` if nothing is allocated, or there is no answer.
    pub(crate) report: Option<Report>,
    /// The bytes of each category at the same time.
    pub(crate) categories: Vec<(&'static str, Bytes)>,
    /// The allocated and reserved bytes of each device at the same time.
    pub(crate) levels: Vec<(Bytes, Option<Bytes>)>,
    /// The line above the rows: the moment that they show, or why there is no answer.
    pub(crate) headline: String,
    /// The peak of each piece of the axis, by category.
    pub(crate) history: Vec<CategoryBytes>,
    /// The growth of lines in bytes per step, by location.
    pub(crate) growth: BTreeMap<String, Bytes>,
    /// The axis of the graph.
    pub(crate) axis: Axis,
    /// The losses of the trace.
    pub(crate) losses: Vec<String>,
}

impl View {
    /// Computes the answers of a trace.
    pub(crate) fn new(trace: &Trace, stage: Stage, question: ViewQuestion) -> Self {
        let summary = live_summary(trace);
        let device = device(trace, question.device);
        let axis = axis(trace, device, &summary, stage, question);
        let mut view = Self {
            question,
            stage,
            ranks: Vec::new(),
            rank: summary.rank.or(question.rank),
            events_per_second: summary.events_per_second,
            report: None,
            categories: Vec::new(),
            levels: summary.devices.iter().map(|one| (one.allocated, one.reserved)).collect(),
            headline: "Nothing is allocated yet".to_owned(),
            history: Vec::new(),
            growth: BTreeMap::new(),
            axis,
            losses: losses(trace, stage),
            summary,
        };
        if let Some(device) = device {
            let context = Context::new(trace);
            view.history = history_by_category(trace, &context, device, &view.axis, PIECES);
            view.growth = growth(trace, device);
            view.ask_rows(trace, device);
        }
        view
    }

    /// Adds the ranks of the folder.
    pub(crate) fn among(self, ranks: Vec<RankLevel>) -> Self {
        Self { ranks, ..self }
    }

    fn ask_rows(&mut self, trace: &Trace, device: Device) {
        let is_now = self.stage == Stage::Recording;
        let at = match self.question.when {
            When::Usual if is_now => At::End,
            When::Usual => At::Peak,
            When::At(At::Seconds(seconds)) => At::Seconds(seconds.clamp(0.0, self.summary.seconds)),
            When::At(at) => at,
        };
        let question = |by| Question {
            device: Some(device),
            by,
            at,
            top: Some(MOST_ROWS),
            ..Question::default()
        };
        let mut found = match report(trace, &question(self.question.by)) {
            Ok(found) => found,
            Err(error) => return self.headline = error.to_string(),
        };
        if at == At::End
            && let Some(now) = self.summary.devices.iter().find(|one| one.device == device)
        {
            found.at = now.now.clone();
        }
        if at != At::End {
            self.ask_levels(trace, &found);
        }
        self.headline = headline(&found.at, at == At::End && is_now);
        if let Ok(by_category) = report(trace, &question(By::Category)) {
            let rows = by_category.rows.iter();
            self.categories = rows.filter_map(category).collect();
        }
        self.report = Some(found);
    }

    /// Sets the levels of all devices at the time of this report.
    fn ask_levels(&mut self, trace: &Trace, found: &Report) {
        let context = Context::new(trace);
        for (level, one) in self.levels.iter_mut().zip(&self.summary.devices) {
            let then = At::Seconds(found.at.seconds);
            *level = match moment(trace, &context, one.device, then) {
                Ok(_) if one.device == found.device => (found.allocated, found.reserved),
                Ok(then) => (then.allocated, then.reserved),
                Err(_) => *level,
            };
        }
    }

    /// Whether the rows are of now.
    pub(crate) fn is_now(&self) -> bool {
        self.stage == Stage::Recording && self.question.when == When::Usual
    }

    /// The device whose rows are shown.
    pub(crate) fn device(&self) -> Option<Device> {
        self.report.as_ref().map(|report| report.device)
    }
}

/// `Peak of cuda:0: 13.54 GiB allocated, in step 3, backward of mlp, at 1.234 s`. The reserved bytes are in the line
/// above.
fn headline(at: &Moment, is_now: bool) -> String {
    let device = at.device;
    let what = match at.what {
        At::Peak => format!("Peak of {device}"),
        At::Oom => format!("Out of memory on {device}"),
        At::End if is_now => format!("Now on {device}"),
        At::End => format!("End on {device}"),
        At::Seconds(_) | At::Step { .. } => format!("Memory of {device}"),
    };
    let request = sentence::request(at);
    format!("{what}: {request}{} allocated, {}", at.allocated, sentence::when(at))
}

fn category(row: &floodmark_analysis::Row) -> Option<(&'static str, Bytes)> {
    let floodmark_analysis::Detail::Category { category, .. } = row.detail else { return None };
    Some((category, row.bytes))
}

/// The lines that grow from step to step; none with too few steps.
fn growth(trace: &Trace, device: Device) -> BTreeMap<String, Bytes> {
    let found = leaks(trace, Some(device), None).map_or_else(|_| Vec::new(), |found| found.rows);
    found.into_iter().map(|leak| (leak.location, leak.bytes_per_step)).collect()
}

fn device(trace: &Trace, chosen: Option<Device>) -> Option<Device> {
    let chosen = chosen.filter(|device| trace.devices().contains(device));
    chosen.or_else(|| default_device(trace, At::Peak).ok())
}

/// The axis of the graph. For a running program: its last minutes in real time, so that the graph does not shift when
/// an idle stretch becomes long. Otherwise: the whole run, with long idle stretches shortened.
fn axis(
    trace: &Trace,
    device: Option<Device>,
    summary: &LiveSummary,
    stage: Stage,
    question: ViewQuestion,
) -> Axis {
    let is_running = stage == Stage::Recording;
    match device {
        Some(device) if !is_running => Axis::with_short_idle(trace, device),
        Some(_) | None => {
            let is_recent = is_running && !question.is_whole;
            let from = if is_recent { (summary.seconds - RECENT_SECONDS).max(0.0) } else { 0.0 };
            Axis::of_window(from, summary.seconds)
        }
    }
}

/// The losses of the trace. A missing end is no loss while the program runs.
fn losses(trace: &Trace, stage: Stage) -> Vec<String> {
    let is_shown = |loss: &&Loss| match loss {
        Loss::Salvaged { .. } | Loss::Unfinished | Loss::LostInJournal(_) | Loss::LedgerDamaged => {
            stage != Stage::Recording
        }
        Loss::StillRunning { .. } => false,
        Loss::Damaged { .. }
        | Loss::MissingFrames(_)
        | Loss::StoppedEarly { .. }
        | Loss::TotalsDisagree(_)
        | Loss::StacksLeftOut(_)
        | Loss::NamesLeftOut(_)
        | Loss::ThreadsShareNumber(_)
        | Loss::UnknownAllocations(_)
        | Loss::NotRecorded(_)
        | Loss::Derived(_)
        | _ => true,
    };
    trace.losses.0.iter().filter(is_shown).map(ToString::to_string).collect()
}
