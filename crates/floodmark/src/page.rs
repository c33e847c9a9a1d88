//! An answer as sentences and a sheet, before it becomes text or HTML.

use floodmark_analysis::{By, Report};

use crate::info::plural;
use crate::sentence;
use crate::sheet::Sheet;

/// What is shown of an answer.
#[derive(Debug)]
pub struct Page {
    /// The answer in a few words.
    pub(crate) above: Vec<String>,
    /// What is missing from the recording.
    pub(crate) losses: Vec<String>,
    /// The rows; none where an answer without rows needs no titles.
    pub(crate) sheet: Option<Sheet>,
    /// What was left out.
    pub(crate) below: Vec<String>,
}

impl From<&Report> for Page {
    fn from(report: &Report) -> Self {
        Self {
            above: vec![sentence::moment(&report.at)],
            losses: report.losses.0.iter().map(ToString::to_string).collect(),
            sheet: Some(Sheet::of(report)),
            below: left_out(report).into_iter().collect(),
        }
    }
}

/// `… and 75 more rows, 1.200 GiB`.
fn left_out(report: &Report) -> Option<String> {
    let (rows, bytes) = report.left_out();
    let kind = if report.by == By::Step { "earlier row" } else { "more row" };
    (rows > 0).then(|| format!("… and {}, {bytes}", plural(rows as u64, kind)))
}
