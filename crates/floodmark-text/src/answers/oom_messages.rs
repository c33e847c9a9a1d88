//! What out-of-memory messages mean, as text.

use floodmark_analysis::{OomMessage, OomMessageReason, OomMessages, OomRemedy};
use floodmark_trace::Bytes;

use crate::answer_text::AnswerText;
use crate::plural::plural;
use crate::sheet::{self, Cells, Sheet};
use crate::short_path::shorten;
use crate::truncate::wrap;

/// The width of the last column: the whole table has 100 characters.
const WIDTH: usize = 95;
/// The number of other messages that are shown.
const MOST_OTHERS: usize = 10;

impl From<&OomMessages> for AnswerText {
    fn from(found: &OomMessages) -> Self {
        let Some(cause) = found.cause() else { return Self::default() };
        let mut above = vec![summary(cause, found), why(cause)];
        above.extend(cause.notes.iter().map(|note| format!("Note: {note}")));
        let lacks = |figures: &[&str]| format!("the message does not have {}", figures.join(", "));
        let losses = (!cause.missing.is_empty()).then(|| lacks(&cause.missing));
        let (others, left_out) = others(found);
        let sheets = [facts(cause), remedies(&cause.remedies), others];
        let mut below: Vec<String> = left_out.into_iter().collect();
        below.extend(next_steps(cause));
        Self {
            above,
            losses: losses.into_iter().collect(),
            sheets: sheets.into_iter().flatten().collect(),
            below,
        }
    }
}

/// `Out of memory on cuda:0: 1.600 GiB requested at train.py:31 (forward), on rank 3, log line 7`.
fn summary(cause: &OomMessage, found: &OomMessages) -> String {
    let device = cause.device.map_or_else(String::new, |device| format!(" on {device}"));
    let mut parts = Vec::new();
    let frame = cause.frame.as_ref().map(ToString::to_string);
    let frame = frame.map(|frame| format!(" at {}", shorten(&frame))).unwrap_or_default();
    match cause.requested {
        Some(requested) => parts.push(format!("{requested} requested{frame}")),
        None => parts.push(format!("{} failed{frame}", cause.source.words())),
    }
    parts.extend(cause.rank.map(|rank| format!("on rank {rank}")));
    if found.lines > 1 {
        parts.push(format!("log line {}", cause.line));
    }
    if cause.count > 1 {
        parts.push(format!("{} times", cause.count));
    }
    format!("Out of memory{device}: {}", parts.join(", "))
}

fn why(cause: &OomMessage) -> String {
    let mut letters = cause.finding.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("Why: {}. {}{}", cause.reason.words(), first.unwrap_or_default(), letters.as_str())
}

fn facts(cause: &OomMessage) -> Option<Sheet> {
    let mut rows = Vec::new();
    let mut push = |bytes: Option<Bytes>, what: String| {
        let row = |bytes: Bytes| Cells { cells: vec![bytes.to_string(), what], below: Vec::new() };
        rows.extend(bytes.map(row));
    };
    push(cause.total, "memory of the device".to_owned());
    push(cause.limit, "limit on what torch may reserve".to_owned());
    push(cause.device_free, "free on the device".to_owned());
    push(cause.outside_torch, "in use outside torch, with the CUDA context".to_owned());
    push(cause.this_process, "in use by this process, with the CUDA context".to_owned());
    for other in &cause.other_processes {
        push(Some(other.bytes), format!("in use by process {}", other.process));
    }
    push(cause.reserved, "reserved by torch".to_owned());
    push(cause.allocated, "allocated".to_owned());
    push(cause.free, "reserved but unallocated".to_owned());
    push(cause.private_pools, "free in private pools".to_owned());
    let mut columns = sheet::numbers(&["Bytes"]);
    columns.extend(sheet::words(&["Memory in the message"]));
    (!rows.is_empty()).then_some(Sheet { columns, rows, ..Sheet::default() })
}

fn remedies(remedies: &[OomRemedy]) -> Option<Sheet> {
    let row = |(at, remedy): (usize, &OomRemedy)| {
        let mut lines = wrap(&remedy.change, WIDTH, "", "").into_iter();
        let cells = vec![(at + 1).to_string(), lines.next().unwrap_or_default()];
        let code = remedy.code.iter().map(|code| format!("→ {code}"));
        Cells { cells, below: lines.chain(code).collect() }
    };
    let rows: Vec<Cells> = remedies.iter().enumerate().map(row).collect();
    let columns = [sheet::numbers(&["#"]), sheet::words(&["Try, in this order"])].concat();
    (!rows.is_empty()).then_some(Sheet { columns, rows, is_prose: true, ..Sheet::default() })
}

/// The other messages of the text, and the number of those left out.
fn others(found: &OomMessages) -> (Option<Sheet>, Option<String>) {
    let others = found.messages.iter().enumerate().filter(|(at, _)| *at != found.cause);
    let row = |(_, message): (usize, &OomMessage)| {
        let number = |number: Option<u32>| number.map_or_else(String::new, |n| n.to_string());
        let requested = message.requested.map_or_else(String::new, |bytes| bytes.to_string());
        let location = message.frame.as_ref().map(ToString::to_string);
        let location =
            location.map_or_else(String::new, |location| format!(" at {}", shorten(&location)));
        let what = format!("{}: {}{location}", message.reason.words(), message.source.words());
        let cells = vec![
            message.line.to_string(),
            number(message.rank),
            message.count.to_string(),
            requested,
            what,
        ];
        Cells { cells, below: Vec::new() }
    };
    let rows: Vec<Cells> = others.map(row).take(MOST_OTHERS).collect();
    let left_out = found.messages.len() as u64 - 1 - rows.len() as u64 + found.left_out;
    let left_out = (left_out > 0).then(|| format!("… and {}", plural(left_out, "more message")));
    let mut columns = sheet::numbers(&["Line", "Rank", "Count", "Requested"]);
    columns.extend(sheet::words(&["Other messages"]));
    ((!rows.is_empty()).then_some(Sheet { columns, rows, ..Sheet::default() }), left_out)
}

/// The commands that show more than the message.
fn next_steps(cause: &OomMessage) -> Vec<String> {
    let record = "Record the program to see which lines fill the memory: `floodmark run -o train.flood train.py`, then \
                  `floodmark oom train.flood`";
    let estimate = "Without a GPU: `floodmark estimate --gpu NAME train.py` says whether it fits, `floodmark fit` finds \
                    the largest batch";
    match cause.reason {
        OomMessageReason::Capacity
        | OomMessageReason::Fragmentation
        | OomMessageReason::OtherPool
        | OomMessageReason::Limit
        | OomMessageReason::HugeRequest
        | OomMessageReason::Library
        | OomMessageReason::Unknown => vec![record.to_owned(), estimate.to_owned()],
        OomMessageReason::OutsideTorch
        | OomMessageReason::Refused
        | OomMessageReason::HostMemory => vec![record.to_owned()],
    }
}
