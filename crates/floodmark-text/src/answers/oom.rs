//! Why an allocation failed, as text.

use floodmark_analysis::{Detail, OomReport, OutsideGrowth, Proof, Row};
use floodmark_trace::Bytes;

use crate::answer_text::AnswerText;
use crate::plural::plural;
use crate::sentence;
use crate::sheet::{self, Cells, Sheet};
use crate::short_path::shorten;

impl From<&OomReport> for AnswerText {
    fn from(found: &OomReport) -> Self {
        let mut above = vec![sentence::moment(&found.at), format!("Why: {}", found.why)];
        above.extend(whose_limit(found));
        above.extend(found.outside_growth.as_ref().map(outside_growth));
        let mut losses: Vec<String> = found.losses.0.iter().map(ToString::to_string).collect();
        if !found.is_replayed && !found.device.is_cpu() {
            losses.push("the trace does not say where blocks lie in their segments".to_owned());
        }
        let sheets = [
            sheet(sheet::numbers(&["Bytes"]), "Memory at the failed allocation", facts(found)),
            sheet(
                sheet::words(&["Succeeds"]),
                "This request, with a change: simulated with the same requests",
                found.proofs.iter().map(proved).collect(),
            ),
            sheet(sheet::numbers(&["Bytes"]), "Live allocations, by line", holders(&found.lines)),
            sheet(
                sheet::numbers(&["Bytes"]),
                "Live allocations, by module",
                holders(&found.modules),
            ),
        ];
        let below = found.proofs.iter().any(|proof| proof.fits).then(|| found.scope.clone());
        Self {
            above,
            losses,
            sheets: sheets.into_iter().flatten().collect(),
            below: below.into_iter().collect(),
        }
    }
}

/// `Memory outside torch grew by 2.000 GiB since step 3: 0 B of it in this process`.
fn outside_growth(growth: &OutsideGrowth) -> String {
    let own = growth
        .own_bytes
        .map_or_else(String::new, |own| format!(": {} of it in this process", sheet::signed(own)));
    format!("Memory outside torch grew by {} since step {}{own}", growth.bytes, growth.step)
}

/// Why a request fails on a device with room: the program set a limit.
fn whose_limit(found: &OomReport) -> Option<String> {
    let free = found.device_free.filter(|_| found.is_own_limit)?;
    Some(format!(
        "The device had {free} left: torch is limited by `set_per_process_memory_fraction`"
    ))
}

fn sheet(
    mut columns: Vec<(String, sheet::Side)>,
    title: &str,
    rows: Vec<[String; 2]>,
) -> Option<Sheet> {
    columns.extend(sheet::words(&[title]));
    let rows: Vec<Cells> =
        rows.into_iter().map(|cells| Cells { cells: cells.into(), below: Vec::new() }).collect();
    (!rows.is_empty()).then_some(Sheet { columns, rows, ..Sheet::default() })
}

fn facts(found: &OomReport) -> Vec<[String; 2]> {
    let mut facts = Vec::new();
    let mut push = |bytes: Option<Bytes>, what: String| {
        facts.extend(bytes.map(|bytes| [bytes.to_string(), what]));
    };
    push(found.total, "memory of the device".into());
    push(found.limit, "limit on what torch could reserve, as far as the recording shows".into());
    push(found.device_free, "free on the device".into());
    push(found.outside_torch, "used outside torch".into());
    push(found.reserved, "reserved by torch".into());
    push(Some(found.allocated), "allocated".into());
    let pending = Some(found.pending_free).filter(|&bytes| bytes > Bytes(0));
    push(pending, "pending free: freed, still used by a stream".into());
    if found.is_replayed {
        let blocks = |count: u64, largest: Bytes| match count {
            0 => String::new(),
            1 => ", in 1 block".to_owned(),
            many => format!(", in {}, the largest {largest}", plural(many, "block")),
        };
        let all = blocks(found.free_blocks, found.largest_free);
        push(Some(found.free), format!("reserved and free{all}"));
        let usable = blocks(found.usable_blocks, found.largest_usable);
        push(Some(found.usable_free), format!("of these in the request's pool and stream{usable}"));
    }
    push(found.unreserved, "not reserved: what torch could still reserve".into());
    push(found.segment, "segment that torch requested from the driver".into());
    facts
}

fn proved(proof: &Proof) -> [String; 2] {
    let fits = if proof.fits { "yes" } else { "no" };
    let with = match (proof.extra_memory, proof.alloc_conf.as_str()) {
        (Bytes(0), conf) => format!("with {conf}"),
        (more, _) => format!("with {more} more memory"),
    };
    [fits.to_owned(), with]
}

/// The rows of live allocations. Modules are indented as in a report by module.
fn holders(rows: &[Row]) -> Vec<[String; 2]> {
    let location = |row: &Row| {
        if let Detail::Module { depth, class, .. } = &row.detail {
            sheet::module(&row.location, *depth, class.as_deref())
        } else {
            shorten(&row.location).to_owned()
        }
    };
    rows.iter().map(|row| [row.bytes.to_string(), location(row)]).collect()
}
