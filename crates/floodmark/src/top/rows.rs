//! The rows of a report as the screen shows them: few columns, sorted and filtered.

use floodmark_analysis::{By, Detail, Report, Row};
use floodmark_session::text::bar::share;
use floodmark_session::text::sheet;
use floodmark_session::text::short_path::shorten;
use floodmark_session::text::terminal_safe::safe_text;
use floodmark_trace::Bytes;

use super::state::{Sort, State};

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    /// The number that the bar shows.
    pub(crate) bytes: Bytes,
    /// Its share of the whole.
    pub(crate) share: f64,
    /// The columns between the bar and the name.
    pub(crate) middle: Vec<String>,
    /// What the row is about.
    pub(crate) name: String,
    /// All of the name, without indentation: what is filtered, and shown below the table.
    pub(crate) full: String,
    /// Its category, where the row has one.
    pub(crate) category: Option<&'static str>,
    count: u64,
}

/// The title of the first column, of those in the middle, and of the name.
pub(crate) fn titles(by: By) -> (&'static str, &'static [&'static str], &'static str) {
    match by {
        By::Module => ("Bytes", &["Own", "Count"], "Module"),
        By::Category => ("Bytes", &["Median", "Count"], "Category"),
        By::Tensor => ("Bytes", &["Category"], "Name or location"),
        By::Step => ("Peak", &["End", "Growth"], "Step"),
        By::Line | By::Stack | By::Op | By::Phase | By::Segment => {
            ("Bytes", &["Median", "Count"], "Location")
        }
    }
}

/// The rows that pass the filter, in the order that was chosen, and how many there are without it.
pub(crate) fn rows(report: &Report, state: &State) -> (Vec<Shown>, usize) {
    let whole = if report.by == By::Step {
        report.rows.iter().map(|row| number(row).0).max().unwrap_or(0)
    } else {
        report.allocated.0
    };
    let is_tree = state.sort == Sort::Usual && state.filter.is_empty();
    let all = report.rows.iter().map(|row| shown(row, whole, is_tree));
    let wanted = state.filter.to_lowercase();
    let is_wanted = |row: &Shown| row.full.to_lowercase().contains(&wanted);
    let mut rows: Vec<Shown> = all.filter(is_wanted).collect();
    match state.sort {
        Sort::Usual => {}
        Sort::Count => rows.sort_by_key(|row| std::cmp::Reverse((row.count, row.bytes))),
        Sort::Name if report.by == By::Step => rows.reverse(),
        Sort::Name => rows.sort_by(|one, other| one.full.cmp(&other.full)),
    }
    (rows, report.total_rows)
}

fn number(row: &Row) -> Bytes {
    if let Detail::Step { peak: Some(peak), .. } = row.detail { peak } else { row.bytes }
}

fn shown(row: &Row, whole: u64, is_tree: bool) -> Shown {
    let bytes = number(row);
    let full = safe_text(shorten(&row.location)).into_owned();
    let count = row.count.to_string();
    let usual = || vec![row.median.to_string(), row.count.to_string()];
    let (middle, name, category) = match &row.detail {
        Detail::Module { own, depth, class } => {
            let depth = if is_tree { *depth } else { 0 };
            let name =
                safe_text(&sheet::module(&row.location, depth, class.as_deref())).into_owned();
            (vec![own.to_string(), count], name, None)
        }
        Detail::Category { category, .. } => (usual(), full.clone(), Some(*category)),
        Detail::Tensor { category, shape, dtype, .. } => {
            let kind = [dtype, shape].into_iter().flatten().map(String::as_str);
            let kind = kind.collect::<Vec<_>>().join(" ");
            let name = if kind.is_empty() { full.clone() } else { format!("{full}  {kind}") };
            (vec![(*category).to_owned()], safe_text(&name).into_owned(), Some(*category))
        }
        Detail::Step { end, growth, .. } => {
            let end = end.map_or_else(String::new, |end| end.to_string());
            let growth = growth.map_or_else(String::new, sheet::signed);
            (vec![end, growth], full.clone(), None)
        }
        Detail::Line { .. }
        | Detail::Stack { .. }
        | Detail::Op { .. }
        | Detail::Phase { .. }
        | Detail::Segment { .. } => (usual(), full.clone(), None),
    };
    Shown { bytes, share: share(bytes.0, whole), middle, name, full, category, count: row.count }
}
