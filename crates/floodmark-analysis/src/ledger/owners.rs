//! The bytes in use by owner, and what NVML does not say about them.

use std::collections::BTreeMap;

use floodmark_trace::{Bytes, GpuProcess, Trace};

use super::samples::TimedSample;
use super::{LedgerOwner, LedgerRow};
use crate::moment::Moment;

/// A sample this far from the chosen time is worth a note.
const FAR_SECONDS: f64 = 1.0;

/// The rows of a ledger, which add up to the bytes in use.
#[derive(Debug)]
pub(super) struct Owners {
    /// What is in use.
    pub(super) used: Bytes,
    pub(super) rows: Vec<LedgerRow>,
    /// What is unknown, and why.
    pub(super) notes: Vec<String>,
}

/// Divides the bytes in use at a moment among their owners. `categories` add up to the allocated bytes.
pub(super) fn owners(
    trace: &Trace,
    sample: &TimedSample<'_>,
    now: &Moment,
    categories: BTreeMap<&'static str, Bytes>,
) -> Owners {
    let mut found =
        Owners { used: Bytes(sample.figures.used), rows: Vec::new(), notes: Vec::new() };
    let mut categories: Vec<_> = categories.into_iter().collect();
    categories.sort_by_key(|&(name, bytes)| (std::cmp::Reverse(bytes), name));
    for (name, bytes) in categories {
        let category = Some(name);
        found.rows.push(LedgerRow { category, ..row(LedgerOwner::TorchAllocated, bytes) });
    }
    found.torch_cached(now);
    found.move_to(sample, now);
    found.processes(trace, sample);
    let known = found.rows.iter().map(|row| row.bytes).fold(0, i64::saturating_add);
    let left = signed(found.used).saturating_sub(known);
    found.rows.push(LedgerRow { bytes: left, ..row(LedgerOwner::Unexplained, Bytes(0)) });
    if left < 0 {
        found.notes.push("the owners together have more than NVML says is in use".to_owned());
    }
    if sample.is_torn {
        found.notes.push("torch's reserved bytes changed while NVML was asked".to_owned());
    }
    if sample.figures.driver.is_none() {
        found.notes.push("NVML counts in use what the driver keeps for itself".to_owned());
    }
    found
}

impl Owners {
    fn torch_cached(&mut self, now: &Moment) {
        if let Some(reserved) = now.reserved {
            let cached = reserved.saturating_sub(now.allocated);
            self.rows.push(row(LedgerOwner::TorchCached, cached));
        } else if now.allocated > Bytes(0) {
            let unknown =
                "the trace has no reserved bytes: what torch caches counts as outside torch";
            self.notes.push(unknown.to_owned());
        }
    }

    /// From the time of the sample to the moment: torch may have more or less now.
    fn move_to(&mut self, sample: &TimedSample<'_>, now: &Moment) {
        let (then, now_bytes) = (sample.of_torch(), now.reserved.unwrap_or(now.allocated));
        if then != now_bytes {
            self.used = (self.used + now_bytes).saturating_sub(then);
            self.notes.push(format!(
                "torch had {then} when NVML was asked and {now_bytes} at the chosen time: the bytes in use are NVML's \
                 with this difference"
            ));
        }
        let away = (sample.seconds - now.seconds).abs();
        if away >= FAR_SECONDS {
            self.notes.push(format!("NVML was asked {away:.1} s away from the chosen time"));
        }
    }

    fn processes(&mut self, trace: &Trace, sample: &TimedSample<'_>) {
        let Some(processes) = &sample.figures.processes else {
            self.notes.push(
                "NVML does not list the processes on this GPU: what lies outside torch has no owner".to_owned(),
            );
            return;
        };
        let (own, others): (Vec<&GpuProcess>, Vec<_>) =
            processes.iter().partition(|process| process.pid == trace.header.pid);
        match own.first().map(|own| own.bytes) {
            Some(Some(bytes)) => {
                let outside = Bytes(bytes).saturating_sub(sample.of_torch());
                self.rows.push(row(LedgerOwner::OutsideTorch, outside));
            }
            Some(None) => self.notes.push(
                "NVML does not say the bytes of this process: what it has outside torch is unexplained".to_owned(),
            ),
            None => self.notes.push(without_own(trace, &others)),
        }
        // Without a row of this process, one that it cannot see may be itself, under another number.
        let is_other = |process: &&GpuProcess| !own.is_empty() || process.name.is_some();
        let mut others: Vec<&GpuProcess> = others.into_iter().filter(is_other).collect();
        others.sort_by_key(|process| (std::cmp::Reverse(process.bytes), process.pid));
        for process in others {
            let Some(bytes) = process.bytes else {
                let named = named(process);
                self.notes
                    .push(format!("NVML does not say the bytes of {named}: they are unexplained"));
                continue;
            };
            let (pid, name) = (Some(process.pid), process.name.clone());
            self.rows.push(LedgerRow { pid, name, ..row(LedgerOwner::OtherProcess, Bytes(bytes)) });
        }
    }
}

/// Why this process has no row of its own outside torch.
fn without_own(trace: &Trace, others: &[&GpuProcess]) -> String {
    let unseen: Vec<String> = others
        .iter()
        .filter(|process| process.name.is_none())
        .map(|process| process.pid.to_string())
        .collect();
    let own = format!(
        "NVML does not name this process (pid {}): what it has outside torch is unexplained",
        trace.header.pid
    );
    if unseen.is_empty() {
        return own;
    }
    let (are, them) = if unseen.len() == 1 {
        ("one process", "it may be this one")
    } else {
        ("processes", "one of them may be this one")
    };
    format!("{own}. It lists {are} that cannot be seen from here ({}): {them}", unseen.join(", "))
}

fn named(process: &GpuProcess) -> String {
    let name = process.name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    format!("process {}{name}", process.pid)
}

fn row(owner: LedgerOwner, bytes: Bytes) -> LedgerRow {
    LedgerRow { owner, bytes: signed(bytes), category: None, pid: None, name: None }
}

fn signed(bytes: Bytes) -> i64 {
    i64::try_from(bytes.0).unwrap_or(i64::MAX)
}
