//! A report as titles and cells, before it becomes text or HTML.

use std::collections::BTreeSet;

use floodmark_analysis::{At, By, Detail, Frame, Report, Row};
use floodmark_trace::Bytes;

use crate::bar::share;
use crate::sentence::phase_name;
use crate::short_path::shorten;

/// The alignment of the cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Left, for words.
    Left,
    /// Right, for numbers.
    Right,
}

/// A row of cells, with lines below its last cell.
#[derive(Debug)]
pub struct Cells {
    /// A cell for each column.
    pub cells: Vec<String>,
    /// Lines below the last cell.
    pub below: Vec<String>,
}

/// The meaning of a bar, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Bytes.
    Usual,
    /// Bytes of a category.
    Category(&'static str),
    /// Bytes that grew.
    Grew,
    /// Bytes that shrank.
    Shrank,
}

/// A bar: a share and its colour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Between 0 and 1.
    pub share: f64,
    /// Its meaning.
    pub tone: Tone,
}

impl Bar {
    /// A bar for the share of a part in a whole.
    pub fn new(part: Bytes, whole: Bytes, tone: Tone) -> Self {
        Self { share: share(part.0, whole.0), tone }
    }
}

/// The bars of a sheet in a terminal: one for each row, beside its number.
#[derive(Debug)]
pub struct Bars {
    /// The column with the numbers.
    pub after: usize,
    /// A bar for each row.
    pub of: Vec<Bar>,
}

/// Titles and rows.
#[derive(Debug, Default)]
pub struct Sheet {
    /// The titles, each with the alignment of its cells.
    pub columns: Vec<(String, Side)>,
    /// The rows.
    pub rows: Vec<Cells>,
    /// The bars, if rows have any.
    pub bars: Option<Bars>,
    /// Whether the last column has sentences, which are wrapped and not truncated.
    pub is_prose: bool,
}

impl Sheet {
    /// The columns that have a cell with text; all columns if there are no rows.
    pub fn shown_columns(&self) -> impl Iterator<Item = usize> {
        let is_filled = |at: &usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.cells.get(*at));
            self.rows.is_empty() || cells.any(|cell| !cell.trim().is_empty())
        };
        let last = self.columns.len().saturating_sub(1);
        (0..self.columns.len()).filter(move |at| *at == last || is_filled(at))
    }

    /// The rows of a report.
    pub fn from_report(report: &Report) -> Self {
        let phases = phases(report);
        let rows = report.rows.iter().map(|row| cells(row, &phases)).collect();
        Self { columns: columns(report, &phases), rows, bars: bars(report), is_prose: false }
    }
}

fn bars(report: &Report) -> Option<Bars> {
    if matches!(report.by, By::Segment | By::OpCall) {
        return None;
    }
    let peak = |row: &Row| {
        if let Detail::Step { peak, .. } = &row.detail {
            peak.unwrap_or_default()
        } else {
            row.bytes
        }
    };
    let (after, whole) = if report.by == By::Step {
        (1, report.rows.iter().map(peak).max().unwrap_or_default())
    } else {
        (0, report.allocated)
    };
    let of = report.rows.iter().map(|row| bar_of(row, peak(row), whole)).collect();
    Some(Bars { after, of })
}

/// The bar of a row of a report.
pub(crate) fn bar_of(row: &Row, bytes: Bytes, whole: Bytes) -> Bar {
    let tone = match row.detail {
        Detail::Category { category, .. } | Detail::Tensor { category, .. } => {
            Tone::Category(category)
        }
        Detail::Line { .. }
        | Detail::Stack { .. }
        | Detail::Module { .. }
        | Detail::Op { .. }
        | Detail::OpCall { .. }
        | Detail::Parameter { .. }
        | Detail::Phase { .. }
        | Detail::Segment { .. }
        | Detail::Step { .. } => Tone::Usual,
    };
    Bar::new(bytes, whole, tone)
}

/// Columns of numbers.
pub fn numbers(titles: &[&str]) -> Vec<(String, Side)> {
    titles.iter().map(|&title| (title.to_owned(), Side::Right)).collect()
}

/// Columns of words.
pub fn words(titles: &[&str]) -> Vec<(String, Side)> {
    titles.iter().map(|&title| (title.to_owned(), Side::Left)).collect()
}

fn columns(report: &Report, phases: &[String]) -> Vec<(String, Side)> {
    let number = |title: &str| (title.to_owned(), Side::Right);
    let word = |title: &str| (title.to_owned(), Side::Left);
    let usual = |last: &str| {
        let mut columns: Vec<_> = ["Bytes", "Cumulative", "Median", "Count"].map(number).into();
        columns.push(word(last));
        columns
    };
    match report.by {
        By::Line => usual("Location"),
        By::Stack => usual("Stack, innermost frame first"),
        By::Op => usual("Operator"),
        By::OpCall => {
            let mut columns = numbers(&["Growth", "End", "Peak", of_moment(report), "Call"]);
            columns.extend(words(&["Operator", "Location"]));
            columns
        }
        By::Parameter => {
            let mut columns =
                numbers(&["Bytes", "Cumulative", "Weight", "Gradient", "Optimizer state"]);
            columns.extend(words(&["Shape", "Dtype", "Parameter"]));
            columns
        }
        By::Phase | By::Category => {
            let is_phase = report.by == By::Phase;
            let mut columns = usual(if is_phase { "Phase" } else { "Category and its largest" });
            columns.insert(4, number("Peak"));
            columns
        }
        By::Module => {
            let mut columns: Vec<_> =
                ["Bytes", "Own", "Cumulative", "Median", "Count"].map(number).into();
            columns.push(word("Module"));
            columns
        }
        By::Tensor => {
            let mut columns: Vec<_> = ["Bytes", "Cumulative"].map(number).into();
            columns.extend(["Category", "Shape", "Dtype", "Name or location"].map(word));
            columns
        }
        By::Step => {
            let mut columns = vec![word("Step")];
            columns.extend(["Peak", "End", "Growth"].map(number));
            columns.extend(phases.iter().map(|phase| number(&phase_title(phase))));
            columns.push(number(of_moment(report)));
            columns
        }
        By::Segment => {
            let mut columns = numbers(&["Segment", "Allocated", "Free", "Largest free", "Blocks"]);
            columns.extend(words(&["█ allocated ▒ pending · free", "Address"]));
            columns
        }
    }
}

/// The title of the bytes at the time of the report.
fn of_moment(report: &Report) -> &'static str {
    if report.at.what == At::Peak { "Of this peak" } else { "Of this moment" }
}

fn cells(row: &Row, phases: &[String]) -> Cells {
    let location = shorten(&row.location).to_owned();
    let usual = |last| {
        let numbers = [row.bytes, row.cumulative, row.median].map(|bytes| bytes.to_string());
        let [bytes, cumulative, median] = numbers;
        vec![bytes, cumulative, median, row.count.to_string(), last]
    };
    let only = |cells| Cells { cells, below: Vec::new() };
    let shown = |bytes: Option<Bytes>| bytes.map_or_else(String::new, |b| b.to_string());
    match &row.detail {
        Detail::Line { .. } | Detail::Op { .. } => only(usual(location)),
        Detail::OpCall { call, op, peak, end, growth, .. } => only(vec![
            growth.map_or_else(String::new, signed),
            shown(*end),
            shown(*peak),
            row.bytes.to_string(),
            call.map_or_else(String::new, |call| call.to_string()),
            op.clone().unwrap_or_default(),
            location,
        ]),
        Detail::Parameter { shape, dtype, weight, gradient, optimizer_state, .. } => only(vec![
            row.bytes.to_string(),
            row.cumulative.to_string(),
            weight.to_string(),
            gradient.to_string(),
            optimizer_state.to_string(),
            shape.clone().unwrap_or_default(),
            dtype.clone().unwrap_or_default(),
            location,
        ]),
        Detail::Phase { peak, .. } => {
            let mut cells = usual(phase_name(&row.location).to_owned());
            cells.insert(4, peak.map_or_else(String::new, |bytes| bytes.to_string()));
            only(cells)
        }
        Detail::Stack { frames, backward, .. } => {
            let (innermost, below) = frames_below(frames, *backward, location);
            Cells { cells: usual(innermost), below }
        }
        Detail::Category { largest, peak, .. } => {
            let mut cells = usual(location);
            cells.insert(4, peak.map_or_else(String::new, |bytes| bytes.to_string()));
            let largest = largest.iter();
            let largest =
                largest.map(|one| format!("  {:>9} {}", one.bytes, shorten(&one.location)));
            Cells { cells, below: largest.collect() }
        }
        Detail::Module { own, depth, class } => {
            let mut cells = usual(module(&row.location, *depth, class.as_deref()));
            cells.insert(1, own.to_string());
            only(cells)
        }
        Detail::Tensor { shape, dtype, category, .. } => only(vec![
            row.bytes.to_string(),
            row.cumulative.to_string(),
            (*category).to_owned(),
            shape.clone().unwrap_or_default(),
            dtype.clone().unwrap_or_default(),
            location,
        ]),
        Detail::Segment { segment, free, largest_free, picture, .. } => only(vec![
            segment.to_string(),
            row.bytes.to_string(),
            free.to_string(),
            largest_free.to_string(),
            row.count.to_string(),
            picture.clone(),
            location,
        ]),
        Detail::Step { step, kind, is_finished, peak, end, growth, phases: peaks, .. } => {
            let name = |step: u32| match (is_finished, kind) {
                (Some(false), _) => format!("{step}, not finished"),
                (_, Some(kind)) => format!("{step}, {}", kind.name()),
                (_, None) => step.to_string(),
            };
            let mut cells = vec![step.map_or(location, name)];
            cells.extend([shown(*peak), shown(*end), growth.map_or_else(String::new, signed)]);
            cells.extend(phases.iter().map(|phase| shown(peaks.get(phase).copied())));
            cells.push(row.bytes.to_string());
            only(cells)
        }
    }
}

/// The innermost frame of a stack, or `location` if it has none, and the frames to show below it.
pub fn frames_below(frames: &[Frame], backward: bool, location: String) -> (String, Vec<String>) {
    let mut frames = frames.iter().map(|frame| shorten(&frame.to_string()).to_owned());
    let mark = if backward { " (backward)" } else { "" };
    let innermost = frames.next().map_or(location, |frame| frame + mark);
    (innermost, frames.map(|frame| format!("  {frame}")).collect())
}

/// `    mlp (MLP)`: the last part of the path, indented by its depth. A derived name, `BertLayer (modeling_bert:669)`, has its
/// class.
pub fn module(path: &str, depth: u32, class: Option<&str>) -> String {
    let name = if depth == 0 { path } else { path.rsplit('.').next().unwrap_or(path) };
    let is_named = |class: &str| {
        name.strip_prefix(class).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
    };
    let class = class.filter(|class| !is_named(class));
    let class = class.map_or_else(String::new, |class| format!(" ({class})"));
    format!("{:indent$}{name}{class}", "", indent = 2 * depth as usize)
}

/// Every phase of a report by step, in the order in which a step has them.
fn phases(report: &Report) -> Vec<String> {
    let mut all = BTreeSet::new();
    for row in &report.rows {
        if let Detail::Step { phases, .. } = &row.detail {
            all.extend(phases.keys().cloned());
        }
    }
    let mut phases: Vec<String> = all.into_iter().collect();
    phases.sort_by_key(|phase| match phase.as_str() {
        "forward" => 0,
        "backward" => 1,
        "optimizer" => 2,
        "outside" => 4,
        _ => 3,
    });
    phases
}

/// The title of a phase. The other phases have columns of their own, so their names are not repeated.
fn phase_title(phase: &str) -> String {
    if phase == phase_name(phase) { capitalised(phase) } else { "Outside phases".to_owned() }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `+1.500 GiB`, `−512 B`, `0 B`.
pub fn signed(change: i64) -> String {
    let sign = match change {
        0 => "",
        1.. => "+",
        _ => "−",
    };
    format!("{sign}{}", Bytes(change.unsigned_abs()))
}
