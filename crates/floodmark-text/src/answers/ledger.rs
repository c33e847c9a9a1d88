//! All memory of a GPU by owner, as text.

use floodmark_analysis::{Ledger, LedgerOwner, LedgerPoint, LedgerRow};
use floodmark_trace::Bytes;

use crate::answer_text::AnswerText;
use crate::plural::plural;
use crate::sentence;
use crate::sheet::{self, Bar, Bars, Cells, Sheet, Tone, signed};

/// The most samples in the table over time.
const MOST_POINTS: usize = 12;

impl From<&Ledger> for AnswerText {
    fn from(found: &Ledger) -> Self {
        Self {
            above: vec![summary(found), sampled(found)],
            losses: found.losses.0.iter().map(ToString::to_string).collect(),
            sheets: [Some(owners(found)), over_time(&found.over_time)]
                .into_iter()
                .flatten()
                .collect(),
            below: found.notes.iter().map(|note| format!("Note: {note}")).collect(),
        }
    }
}

/// `In use on cuda:0: 30.20 GiB of 79.65 GiB: 29.00 GiB torch, 612.0 MiB this process outside torch, …`.
fn summary(found: &Ledger) -> String {
    let sum = |owners: &[LedgerOwner]| {
        let rows = found.rows.iter().filter(|row| owners.contains(&row.owner));
        rows.map(|row| row.bytes).reduce(i64::saturating_add)
    };
    let parts = [
        (sum(&[LedgerOwner::TorchAllocated, LedgerOwner::TorchCached]), "torch"),
        (sum(&[LedgerOwner::OutsideTorch]), "this process outside torch"),
        (sum(&[LedgerOwner::OtherProcess]), "other processes"),
        (sum(&[LedgerOwner::Unexplained]), "unexplained"),
    ];
    let parts = parts.into_iter().filter_map(|(sum, what)| Some(format!("{} {what}", bytes(sum?))));
    format!(
        "In use on {}: {} of {}: {}",
        found.device,
        found.used,
        found.total,
        parts.collect::<Vec<_>>().join(", ")
    )
}

/// When the program was there, and when NVML was asked.
fn sampled(found: &Ledger) -> String {
    let driver = found.driver.filter(|&driver| driver > Bytes(0));
    let driver = driver.map_or_else(String::new, |driver| format!(", {driver} kept by the driver"));
    let (when, free) = (sentence::when(&found.at), found.free);
    format!("Time: {when}; NVML was asked at {:.3} s; {free} free{driver}", found.sampled_seconds)
}

/// The bytes of a row, which may be negative.
fn bytes(bytes: i64) -> String {
    u64::try_from(bytes).map_or_else(|_| signed(bytes), |bytes| Bytes(bytes).to_string())
}

fn owners(found: &Ledger) -> Sheet {
    let mut columns = sheet::numbers(&["Bytes", "Share"]);
    columns.extend(sheet::words(&["Owner"]));
    let rows = found.rows.iter().map(|row| {
        let cells = vec![bytes(row.bytes), share(row.bytes, found.used), owner(row)];
        Cells { cells, below: Vec::new() }
    });
    let bar = |row: &LedgerRow| {
        let tone = row.category.map_or(Tone::Usual, Tone::Category);
        Bar::new(Bytes(u64::try_from(row.bytes).unwrap_or(0)), found.used, tone)
    };
    let bars = Some(Bars { after: 0, of: found.rows.iter().map(bar).collect() });
    Sheet { columns, rows: rows.collect(), bars, is_prose: false }
}

#[expect(clippy::cast_precision_loss, reason = "a share in percent")]
fn share(part: i64, whole: Bytes) -> String {
    if whole == Bytes(0) {
        return String::new();
    }
    format!("{:.1} %", part as f64 / whole.0 as f64 * 100.0)
}

fn owner(row: &LedgerRow) -> String {
    match row.owner {
        LedgerOwner::TorchAllocated => {
            format!("torch, allocated: {}", row.category.unwrap_or_default())
        }
        LedgerOwner::TorchCached => "torch, reserved and not allocated".to_owned(),
        LedgerOwner::OutsideTorch => {
            "this process outside torch: CUDA context, libraries, kernels".to_owned()
        }
        LedgerOwner::OtherProcess => {
            let name = row.name.as_deref().unwrap_or("not visible from the recorded process");
            let pid = row.pid.map_or_else(String::new, |pid| format!(" {pid}"));
            format!("process{pid}: {name}")
        }
        LedgerOwner::Unexplained => "unexplained".to_owned(),
    }
}

/// Samples from the first to the last one, evenly chosen where there are many.
fn over_time(points: &[LedgerPoint]) -> Option<Sheet> {
    if points.len() < 2 {
        return None;
    }
    let mut columns = sheet::numbers(&[
        "Time",
        "In use",
        "Reserved by torch",
        "Outside torch",
        "Other processes",
    ]);
    let title = match points.len() {
        many if many > MOST_POINTS => format!("Samples: {MOST_POINTS} of {many}"),
        all => plural(all as u64, "sample"),
    };
    columns.extend(sheet::words(&[&title]));
    let shown = |bytes: Option<Bytes>| bytes.map_or_else(|| "?".to_owned(), |b| b.to_string());
    let last = points.len() - 1;
    let count = points.len().min(MOST_POINTS);
    let rows = (0..count).map(|at| &points[at * last / (count - 1)]).map(|point| Cells {
        cells: vec![
            format!("{:.3} s", point.seconds),
            point.used.to_string(),
            shown(point.reserved),
            shown(point.outside_torch),
            shown(point.other_processes),
            String::new(),
        ],
        below: Vec::new(),
    });
    Some(Sheet { columns, rows: rows.collect(), ..Sheet::default() })
}
