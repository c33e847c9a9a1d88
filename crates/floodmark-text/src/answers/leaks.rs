//! What grows from step to step, as text.

use floodmark_analysis::{Leak, Leaks};
use floodmark_trace::Bytes;

use crate::answer_text::AnswerText;
use crate::plural::plural;
use crate::sheet::{self, Bar, Bars, Cells, Sheet, Tone, signed};
use crate::short_path::shorten;

/// The number of shown frames of a stack.
const FRAMES: usize = 6;

impl From<&Leaks> for AnswerText {
    fn from(leaks: &Leaks) -> Self {
        Self {
            above: [Some(summary(leaks)), cache(leaks)].into_iter().flatten().collect(),
            losses: leaks.losses.0.iter().map(ToString::to_string).collect(),
            sheets: (!leaks.rows.is_empty()).then(|| rows(leaks)).into_iter().collect(),
            below: left_out(leaks).into_iter().collect(),
        }
    }
}

fn summary(leaks: &Leaks) -> String {
    let device = leaks.device;
    let found = match leaks.total_rows {
        0 => format!("No leak found: no line on {device} grows from step to step"),
        1 => format!("1 line on {device} grows from step to step"),
        lines => format!("{lines} lines on {device} grow from step to step"),
    };
    let steps = plural(leaks.steps.into(), "step");
    format!("{found}; all lines together, in {steps} after the first: {}", signed(leaks.growth))
}

/// What grows by itself while a model generates.
fn cache(leaks: &Leaks) -> Option<String> {
    let bytes = leaks.kv_cache_per_step.filter(|bytes| bytes.0 > 0)?;
    Some(format!(
        "The KV cache grows by {bytes} in each decode step: it keeps the keys and values of every token"
    ))
}

fn rows(leaks: &Leaks) -> Sheet {
    let mut columns =
        sheet::numbers(&["Per step", "Growth", "Live now", "Blocks", "Since", "Grew in"]);
    columns.extend(sheet::words(&["Category", "Location, and the newest stack"]));
    // Each bar is a share of the growth of all shown lines.
    let whole = leaks.rows.iter().map(|leak| leak.growth).sum();
    let of = leaks.rows.iter().map(|leak| Bar::new(leak.growth, whole, Tone::Grew)).collect();
    let bars = Some(Bars { after: 1, of });
    Sheet { columns, rows: leaks.rows.iter().map(cells).collect(), bars, is_prose: false }
}

fn cells(leak: &Leak) -> Cells {
    let number = |bytes: Bytes| bytes.to_string();
    let mut cells: Vec<String> = [leak.bytes_per_step, leak.growth, leak.bytes].map(number).into();
    cells.extend([
        format!("{:+}", leak.count),
        format!("step {}", leak.since),
        format!("{} of {}", leak.grew, leak.steps),
        leak.category.to_owned(),
        shorten(&leak.location).to_owned(),
    ]);
    let mut below: Vec<String> =
        leak.module.iter().map(|module| format!("  in module {module}")).collect();
    let mut stack = leak.frames.iter().map(ToString::to_string).peekable();
    stack.next_if(|innermost| *innermost == leak.location);
    let mut stack = stack.map(|frame| format!("  {}", shorten(&frame)));
    below.extend(stack.by_ref().take(FRAMES));
    let more = stack.count() as u64;
    if more > 0 {
        below.push(format!("  … and {}", plural(more, "more frame")));
    }
    Cells { cells, below }
}

fn left_out(leaks: &Leaks) -> Option<String> {
    let rows = leaks.total_rows - leaks.rows.len();
    (rows > 0).then(|| format!("… and {}", plural(rows as u64, "more row")))
}
