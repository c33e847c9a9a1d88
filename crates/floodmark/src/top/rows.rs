//! The rows of a report as the screen shows them: few columns, sorted and filtered.

use std::collections::{BTreeMap, HashMap};

use floodmark_analysis::{By, Detail, Report, Row};
use floodmark_text::bar::share;
use floodmark_text::sheet;
use floodmark_text::short_path::shorten;
use floodmark_text::terminal_safe::safe_text;
use floodmark_trace::Bytes;

use super::state::{Sort, State};

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScreenRow {
    /// The bytes that the bar shows.
    pub(crate) bytes: Bytes,
    /// Its share of the whole.
    pub(crate) share: f64,
    /// The columns between the bar and the name.
    pub(crate) middle: Vec<String>,
    /// Its name.
    pub(crate) name: String,
    /// The full name without indentation: the filter applies to it, and it is shown below the table.
    pub(crate) full: String,
    /// Its category, if it has one.
    pub(crate) category: Option<&'static str>,
    count: u64,
}

/// The titles of the first column, of the middle columns, and of the name.
pub(crate) fn titles(by: By) -> (&'static str, &'static [&'static str], &'static str) {
    match by {
        By::Module => ("Bytes", &["Own", "Count"], "Module"),
        By::Category => ("Bytes", &["Median", "Count"], "Category"),
        By::Tensor => ("Bytes", &["Category"], "Name or location"),
        By::Step => ("Peak", &["End", "Growth"], "Step"),
        By::Line => ("Bytes", &["Count", "Per step"], "Location"),
        By::Parameter => ("Bytes", &["Weight", "Gradient", "Optimizer state"], "Parameter"),
        By::Stack | By::Op | By::OpCall | By::Phase | By::Segment => {
            ("Bytes", &["Median", "Count"], "Location")
        }
    }
}

/// The rows that pass the filter, in the chosen order, and the number of all rows.
pub(crate) fn rows(
    report: &Report,
    growth: &BTreeMap<String, Bytes>,
    state: &State,
) -> (Vec<ScreenRow>, usize) {
    let whole = if report.by == By::Step {
        report.rows.iter().map(|row| number(row).0).max().unwrap_or(0)
    } else {
        report.allocated.0
    };
    let is_tree = state.sort == Sort::Usual && state.filter.is_empty();
    let all = report.rows.iter().map(|row| shown(row, growth, whole, is_tree));
    let wanted = state.filter.to_lowercase();
    let is_wanted = |row: &ScreenRow| row.full.to_lowercase().contains(&wanted);
    let mut rows: Vec<ScreenRow> = all.filter(is_wanted).collect();
    if report.by == By::Tensor {
        rows = grouped(rows);
    }
    match state.sort {
        // The newest step first.
        Sort::Usual if report.by == By::Step => rows.reverse(),
        Sort::Name if report.by == By::Step => {}
        Sort::Usual => {}
        Sort::Count => rows.sort_by_key(|row| std::cmp::Reverse((row.count, row.bytes))),
        Sort::Name => rows.sort_by(|one, other| one.full.cmp(&other.full)),
    }
    (rows, report.total_rows)
}

/// Merges tensors with the same name and category into one row: `model.py:12 (forward) ×24`.
fn grouped(rows: Vec<ScreenRow>) -> Vec<ScreenRow> {
    let mut places: HashMap<(String, Option<&str>, Bytes), usize> = HashMap::new();
    let mut groups: Vec<(ScreenRow, u64)> = Vec::new();
    for row in rows {
        let key = (row.name.clone(), row.category, row.bytes);
        if let Some(&at) = places.get(&key) {
            groups[at].1 += 1;
        } else {
            places.insert(key, groups.len());
            groups.push((row, 1));
        }
    }
    let group = |(row, count): (ScreenRow, u64)| {
        if count == 1 {
            return row;
        }
        #[expect(clippy::cast_precision_loss, reason = "a share of a bar")]
        let share = row.share * count as f64;
        let each = row.bytes;
        let name = format!("{} ×{count}, {each} each", row.name);
        ScreenRow { bytes: Bytes(each.0.saturating_mul(count)), share, name, count, ..row }
    };
    let mut rows: Vec<ScreenRow> = groups.into_iter().map(group).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    rows
}

fn number(row: &Row) -> Bytes {
    if let Detail::Step { peak: Some(peak), .. } = row.detail { peak } else { row.bytes }
}

fn shown(row: &Row, growth: &BTreeMap<String, Bytes>, whole: u64, is_tree: bool) -> ScreenRow {
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
        Detail::Step { end, growth, is_finished, .. } => {
            let end = end.map_or_else(String::new, |end| end.to_string());
            let growth = growth.map_or_else(String::new, sheet::signed);
            let name = if *is_finished == Some(false) {
                format!("{full}, not finished")
            } else {
                full.clone()
            };
            (vec![end, growth], name, None)
        }
        Detail::Line { .. } => {
            let grows = growth.get(&row.location).map(|bytes| format!("▲ +{bytes}"));
            (vec![count, grows.unwrap_or_default()], full.clone(), None)
        }
        Detail::Parameter { weight, gradient, optimizer_state, .. } => {
            let parts = [weight, gradient, optimizer_state].map(ToString::to_string);
            (parts.into(), full.clone(), None)
        }
        Detail::Stack { .. }
        | Detail::Op { .. }
        | Detail::OpCall { .. }
        | Detail::Phase { .. }
        | Detail::Segment { .. } => (usual(), full.clone(), None),
    };
    ScreenRow {
        bytes,
        share: share(bytes.0, whole),
        middle,
        name,
        full,
        category,
        count: row.count,
    }
}
