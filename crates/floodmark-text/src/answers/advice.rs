//! What to change, as text.

use floodmark_analysis::{Advice, AdviceReport, Cause, CauseKind};
use floodmark_trace::Bytes;

use crate::answer_text::AnswerText;
use crate::sheet::{self, Bar, Bars, Cells, Sheet, Tone};
use crate::short_path::shorten;
use crate::truncate::wrap;

/// The width of the last column: the whole table has 100 characters.
const WIDTH: usize = 67;

impl From<&AdviceReport> for AnswerText {
    fn from(found: &AdviceReport) -> Self {
        let mut losses: Vec<String> = found.losses.0.iter().map(ToString::to_string).collect();
        if found.is_reproduced == Some(false) {
            losses.push(
                "the simulation does not reproduce the recording: the figures may be off"
                    .to_owned(),
            );
        }
        let below = found.notes.iter().map(|note| format!("Note: {note}"));
        let is_known = |cause: &Cause| cause.kind != CauseKind::Unknown;
        let causes = found.causes.iter().any(is_known).then(|| causes(found));
        let changes = (!found.advice.is_empty()).then(|| rows(found));
        Self {
            above: vec![summary(found)],
            losses,
            sheets: causes.into_iter().chain(changes).collect(),
            below: below.collect(),
        }
    }
}

fn summary(found: &AdviceReport) -> String {
    let reserved = found.peak_reserved.map(|reserved| format!(", {reserved} reserved"));
    let what = match found.advice.len() {
        0 => "nothing was found that would save memory".to_owned(),
        1 => "one change would save memory".to_owned(),
        count => format!("{count} changes would save memory, each by itself"),
    };
    let reserved = reserved.unwrap_or_default();
    let met = match found.failed_requests {
        0 => "",
        1 => ", if the failed allocation had succeeded",
        _ => ", if the failed allocations had succeeded",
    };
    format!("Peak of {}{met}: {} allocated{reserved}; {what}", found.device, found.peak_allocated)
}

/// The causes of the peak, without the small ones.
fn causes(found: &AdviceReport) -> Sheet {
    let all: Bytes = found.causes.iter().map(|cause| cause.bytes).sum();
    let title = match found.failed_requests {
        0 => "What fills the peak",
        _ => "What fills the memory at the failed allocation",
    };
    let mut columns = sheet::numbers(&["Bytes", "Share"]);
    columns.extend(sheet::words(&[title]));
    let is_shown = |cause: &&Cause| percent(cause.bytes, all) > 0;
    let shown: Vec<&Cause> = found.causes.iter().filter(is_shown).collect();
    let bar = |cause: &&Cause| Bar::new(cause.bytes, all, Tone::Usual);
    let bars = Some(Bars { after: 0, of: shown.iter().map(bar).collect() });
    let rows = shown.iter().map(|cause| cause_cells(cause, all)).collect();
    Sheet { columns, rows, bars, is_prose: false }
}

fn cause_cells(cause: &Cause, all: Bytes) -> Cells {
    let location = cause.location.as_deref().map(|location| format!("  {}", shorten(location)));
    Cells {
        cells: vec![
            cause.bytes.to_string(),
            format!("{} %", percent(cause.bytes, all)),
            shorten(&cause.name).to_owned(),
        ],
        below: location.into_iter().collect(),
    }
}

/// A percentage, rounded to an integer.
fn percent(part: Bytes, all: Bytes) -> u64 {
    (part.0.saturating_mul(100) + all.0 / 2).checked_div(all.0).unwrap_or(0)
}

fn rows(found: &AdviceReport) -> Sheet {
    let mut titles = vec!["Saves allocated"];
    titles.extend(found.peak_reserved.map(|_| "Saves reserved"));
    let mut columns = sheet::numbers(&titles);
    columns.extend(sheet::words(&["Finding, and what to do"]));
    let saved =
        |advice: &Advice| Bar::new(advice.saves_allocated, found.peak_allocated, Tone::Shrank);
    let bars = Some(Bars { after: 0, of: found.advice.iter().map(saved).collect() });
    Sheet { columns, rows: found.advice.iter().map(cells).collect(), bars, is_prose: true }
}

fn cells(advice: &Advice) -> Cells {
    let mut cells = vec![advice.saves_allocated.to_string()];
    cells.extend(advice.saves_reserved.map(|saved| saved.to_string()));
    let mut finding = wrap(shorten(&advice.finding), WIDTH, "", "").into_iter();
    cells.extend(finding.next());
    let assumes = match advice.assumes {
        "" => Vec::new(),
        assumes => wrap(&format!("Assumes: {assumes}"), WIDTH, "  ", "  "),
    };
    let below = finding.chain(wrap(&advice.change, WIDTH, "→ ", "  ")).chain(assumes).collect();
    Cells { cells, below }
}
