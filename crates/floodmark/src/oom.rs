//! `floodmark oom`: why a request could not be met.

use std::fmt::Write;

use anyhow::{Context, Result};
use floodmark_analysis::{At, OomClass, OomReport, Proof, Row, oom as ask};
use floodmark_trace::Bytes;

use crate::args::OomArgs;
use crate::choose::{Chosen, Wanted, choose};
use crate::info::plural;
use crate::sentence;
use crate::shorten::shorten;

pub(crate) fn oom(args: &OomArgs) -> Result<String> {
    let wanted = Wanted { rank: args.rank, device: args.device, at: At::Oom };
    let Chosen { path, trace, .. } = choose(&args.trace, wanted)?;
    let found = ask(&trace, args.device, args.top)
        .with_context(|| format!("Failed to explain `{}`", path.display()))?;
    if args.json {
        return Ok(serde_json::to_string_pretty(&found)? + "\n");
    }
    Ok(render(&found))
}

fn render(found: &OomReport) -> String {
    let mut text = sentence::moment(&found.at) + "\n";
    for loss in &found.losses.0 {
        let _ = writeln!(text, "! {loss}");
    }
    let _ = writeln!(text, "\nWhy: {}\n", why(found));
    for (name, bytes, remark) in facts(found) {
        let _ = writeln!(text, "{bytes:>12}  {name}{remark}");
    }
    if !found.proofs.is_empty() {
        let _ = writeln!(text, "\nProof, by simulating the same requests:");
        for proof in &found.proofs {
            let _ = writeln!(text, "  {}", proved(proof));
        }
    }
    holders(&mut text, "Who held it, by line:", &found.lines);
    holders(&mut text, "Who held it, by module:", &found.modules);
    text
}

fn why(found: &OomReport) -> String {
    let request = found.at.request.as_ref().map_or(Bytes(0), |request| request.bytes);
    match found.class {
        OomClass::Capacity => format!(
            "true capacity. {} are allocated, and {request} more do not fit; what is free would not be enough either.",
            found.allocated
        ),
        OomClass::Fragmentation => format!(
            "fragmentation. {} are free where the request could use them, but in pieces: the largest is {}.",
            found.usable_free, found.largest_usable
        ),
        OomClass::OtherPool => format!(
            "stranded memory. {} are free, but only {} of them in the pool and on the stream of the request.",
            found.free, found.usable_free
        ),
        OomClass::PendingFrees => format!(
            "pending frees. The program has let go of {} that another stream still uses.",
            found.pending
        ),
        OomClass::OutsideTorch => format!(
            "memory outside torch. {} of the device are held by others: the CUDA context, libraries, other processes.",
            found.outside.unwrap_or_default()
        ),
    }
}

fn facts(found: &OomReport) -> Vec<(&'static str, String, String)> {
    let mut facts = Vec::new();
    let mut push = |name, bytes: Option<Bytes>, remark: String| {
        if let Some(bytes) = bytes {
            facts.push((name, bytes.to_string(), remark));
        }
    };
    push("memory of the device", found.total, String::new());
    push("torch could reserve", found.limit, " (as the recording shows)".to_owned());
    push("free on the device", found.device_free, String::new());
    push("held outside torch", found.outside, String::new());
    push("reserved", Some(found.reserved), String::new());
    push("allocated", Some(found.allocated), String::new());
    if found.pending > Bytes(0) {
        push("let go of, still used by a stream", Some(found.pending), String::new());
    }
    let pieces =
        format!(", in {}, the largest {}", plural(found.free_pieces, "piece"), found.largest_free);
    push("reserved and free", Some(found.free), pieces);
    let usable = format!(", the largest {}", found.largest_usable);
    push("of these where the request could use them", Some(found.usable_free), usable);
    push("torch had to take from the driver for it", Some(found.segment), String::new());
    facts
}

fn proved(proof: &Proof) -> String {
    let would = if proof.fits { "would have fit" } else { "would not have fit" };
    if proof.more > Bytes(0) {
        return format!("{would} with {} more", proof.more);
    }
    format!("{would} with {}", proof.alloc_conf)
}

fn holders(text: &mut String, title: &str, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}");
    for row in rows {
        let _ = writeln!(text, "{:>12}  {}", row.bytes.to_string(), shorten(&row.place));
    }
}
