//! What to change, as text.

use floodmark_analysis::{Advice, AdviceReport};

use crate::text::answer_text::AnswerText;
use crate::text::sheet::{self, Bar, Bars, Cells, Sheet, Tone};
use crate::text::short_path::shorten;
use crate::text::truncate::wrap;

/// With the columns before it, 100 characters.
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
        Self {
            above: vec![summary(found)],
            losses,
            sheets: (!found.advice.is_empty()).then(|| rows(found)).into_iter().collect(),
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
    let below = finding.chain(wrap(&advice.change, WIDTH, "→ ", "  ")).collect();
    Cells { cells, below }
}
