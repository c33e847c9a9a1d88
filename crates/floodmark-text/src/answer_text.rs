//! An answer as sentences and a sheet, before it becomes text or HTML.

use floodmark_analysis::{By, Report};

use crate::plural::plural;
use crate::sentence;
use crate::sheet::Sheet;

/// The shown parts of an answer.
#[derive(Debug, Default)]
pub struct AnswerText {
    /// The answer in a few words.
    pub above: Vec<String>,
    /// The losses of the recording.
    pub losses: Vec<String>,
    /// The tables. An answer may have several parts, or none.
    pub sheets: Vec<Sheet>,
    /// What was left out.
    pub below: Vec<String>,
}

impl From<&Report> for AnswerText {
    fn from(report: &Report) -> Self {
        Self {
            above: std::iter::once(sentence::moment(&report.at))
                .chain(fragmentation(report))
                .collect(),
            losses: report.losses.0.iter().map(ToString::to_string).collect(),
            sheets: vec![Sheet::from_report(report)],
            below: left_out(report).into_iter().collect(),
        }
    }
}

/// The three kinds of wasted bytes with the share of reserved bytes that are not allocated, and their course over time.
fn fragmentation(report: &Report) -> Vec<String> {
    let Some(found) = &report.fragmentation else { return Vec::new() };
    let now = &found.at;
    let free = match now.free_blocks {
        0 => "nothing is free".to_owned(),
        1 => format!("{} free in 1 block", now.free),
        many => {
            let (many, largest) = (plural(many, "block"), now.largest_free);
            format!("{} free in {many}, the largest {largest}", now.free)
        }
    };
    let mut sentences = vec![
        format!("Reserved: {:.1} % are not allocated; {free}", now.ratio * 100.0),
        format!(
            "Wasted: {} by rounding inside blocks, {} free in split segments, {} free in blocks below the \
             largest request ({})",
            now.rounding, now.split, now.unusable, found.largest_request,
        ),
    ];
    let over_time = found.over_time.iter().map(|at| at.now.free);
    if let (Some(least), Some(most)) = (over_time.clone().min(), over_time.max()) {
        let moments = plural(found.over_time.len() as u64, "moment");
        let worst = found.over_time.iter().max_by_key(|at| at.now.unusable);
        let worst = worst.map_or_else(String::new, |at| {
            let when = at
                .step
                .map_or(format!("{:.3} s", at.seconds), |step| format!("the end of step {step}"));
            format!(", the most in blocks below the largest request at {when}: {}", at.now.unusable)
        });
        sentences.push(format!("Over time, at {moments}: {least} to {most} free{worst}"));
    }
    sentences
}

/// `… and 75 more rows, 1.200 GiB`.
fn left_out(report: &Report) -> Option<String> {
    let (rows, bytes) = report.left_out();
    let kind = if report.by == By::Step { "earlier row" } else { "more row" };
    (rows > 0).then(|| format!("… and {}, {bytes}", plural(rows as u64, kind)))
}
