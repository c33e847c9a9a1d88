//! What grew between two traces, as text.

use floodmark_analysis::{At, By, Diff, DiffDetail, DiffRow, Total};
use floodmark_trace::Bytes;

use crate::answer_text::AnswerText;
use crate::plural::plural;
use crate::sentence;
use crate::sheet::{self, Bar, Bars, Cells, Sheet, Tone, frames_below, signed};
use crate::short_path::shorten;

impl From<&Diff> for AnswerText {
    fn from(diff: &Diff) -> Self {
        let mut above = vec![summary(diff)];
        above.extend([("A", &diff.at.a), ("B", &diff.at.b)].map(|(name, moment)| {
            format!("{name}: {}{}", sentence::request(moment), sentence::when(moment))
        }));
        let losses = [("A", &diff.losses.a), ("B", &diff.losses.b)];
        let losses = losses
            .iter()
            .flat_map(|(name, losses)| losses.0.iter().map(move |loss| format!("{name}: {loss}")));
        Self {
            above,
            losses: losses.collect(),
            sheets: (!diff.rows.is_empty()).then(|| rows(diff)).into_iter().collect(),
            below: left_out(diff),
        }
    }
}

/// `Peak of cuda:0 grew by 1.200 GiB (+14.0 %): 8.600 GiB allocated in A, 9.800 GiB in B; reserved …`.
fn summary(diff: &Diff) -> String {
    let device = match (diff.device, diff.device_b) {
        (a, b) if a == b => a.to_string(),
        (a, b) => format!("{a} in A and {b} in B"),
    };
    let subject = match diff.at.a.what {
        At::Peak => format!("Peak of {device}"),
        At::Oom => format!("Allocated bytes of {device} when it ran out of memory"),
        At::End => format!("Allocated bytes of {device} at the end"),
        At::Seconds(_) => format!("Allocated bytes of {device} at this time"),
        At::Step { step, phase: None } => format!("Peak of step {step} on {device}"),
        At::Step { step, phase: Some(phase) } => {
            format!("Peak of step {step}, {}, on {device}", phase.name())
        }
    };
    let Total { a, b, .. } = diff.allocated;
    let reserved = diff.reserved.as_ref();
    let reserved = reserved.map(|reserved| format!("; reserved bytes {}", moved(reserved)));
    let moved = moved(&diff.allocated);
    format!("{subject} {moved}: {a} allocated in A, {b} in B{}", reserved.unwrap_or_default())
}

/// `grew by 1.200 GiB (+14.0 %)`.
fn moved(total: &Total) -> String {
    match total.change {
        0 => "did not change".to_owned(),
        1.. => format!("grew by {}", amount(total)),
        _ => format!("shrank by {}", amount(total)),
    }
}

/// `1.200 GiB (+14.0 %)`.
pub fn amount(total: &Total) -> String {
    let bytes = Bytes(total.change.unsigned_abs());
    match total.percent {
        Some(percent) => format!("{bytes} ({})", sentence::percent(percent)),
        None => bytes.to_string(),
    }
}

fn rows(diff: &Diff) -> Sheet {
    let mut columns = sheet::numbers(&["Change", "A", "B", "Count A", "Count B"]);
    columns.extend(sheet::words(match diff.by {
        By::Line => &["Location"],
        By::Stack => &["Stack, innermost frame first"],
        By::Module => &["Module, without those inside it"],
        By::Op => &["Operator"],
        By::OpCall => &["Operator and location"],
        By::Parameter => &["Parameter"],
        By::Phase => &["Phase"],
        By::Category => &["Category"],
        By::Tensor => &["Category", "Shape", "Name or location"],
        By::Step => &["Step"],
        By::Segment => &["Segment"],
    }));
    let size = |row: &DiffRow| Bytes(row.change.unsigned_abs());
    let largest = diff.rows.iter().map(size).max().unwrap_or_default();
    let tone = |row: &DiffRow| if row.change < 0 { Tone::Shrank } else { Tone::Grew };
    let of = diff.rows.iter().map(|row| Bar::new(size(row), largest, tone(row))).collect();
    let bars = Some(Bars { after: 0, of });
    let rows = diff.rows.iter().map(|row| cells(row, diff.by)).collect();
    Sheet { columns, rows, bars, is_prose: false }
}

fn cells(row: &DiffRow, by: By) -> Cells {
    let location = if by == By::Phase {
        sentence::phase_name(&row.location).to_owned()
    } else {
        shorten(&row.location).to_owned()
    };
    let mut cells = vec![signed(row.change), row.a.to_string(), row.b.to_string()];
    cells.extend([row.count_a.to_string(), row.count_b.to_string()]);
    let mut below = Vec::new();
    match &row.detail {
        DiffDetail::Line { .. } | DiffDetail::Named {} => cells.push(location),
        DiffDetail::Stack { frames, backward } => {
            let (innermost, outer) = frames_below(frames, *backward, location);
            cells.push(innermost);
            below = outer;
        }
        DiffDetail::Tensor { shape, category, .. } => {
            cells.extend([(*category).to_owned(), shape.clone().unwrap_or_default(), location]);
        }
    }
    Cells { cells, below }
}

fn left_out(diff: &Diff) -> Vec<String> {
    let mut text = Vec::new();
    let (rows, change) = diff.left_out();
    if rows > 0 {
        text.push(format!("… and {}, {}", plural(rows as u64, "more row"), signed(change)));
    }
    if diff.unchanged_rows > 0 {
        text.push(format!("{} did not change", plural(diff.unchanged_rows as u64, "row")));
    }
    text
}
