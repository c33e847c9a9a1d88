//! How long a snapshot takes to be read, and how much memory beyond the file.
//!
//! `cargo run --release -p floodmark-snapshot --example time_import -- snapshot.pickle`

#![expect(clippy::print_stdout, reason = "a program of its own")]

use std::time::Instant;

use floodmark_trace::Trace;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: time_import FILE")?;
    let bytes = std::fs::read(path)?;
    let before = peak_bytes()?;
    let start = Instant::now();
    let trace = floodmark_snapshot::read_snapshot(&bytes)?;
    let first = start.elapsed().as_secs_f64();
    let peak = peak_bytes()?;
    println!("events       {:>12}", trace.events.len());
    println!("allocations  {:>12}", trace.allocations.len());
    println!("file bytes   {:>12}", bytes.len());
    println!("peak - file  {:>12}", peak.saturating_sub(bytes.len() as u64));
    println!("peak - start {:>12}", peak.saturating_sub(before));
    println!("first read   {first:>12.4} s");
    println!("best of ten  {:>12.4} s", best_of_ten(&bytes, trace)?);
    Ok(())
}

fn best_of_ten(bytes: &[u8], first: Trace) -> Result<f64, Box<dyn std::error::Error>> {
    drop(first);
    let mut best = f64::INFINITY;
    for _ in 0..10 {
        let start = Instant::now();
        let trace = floodmark_snapshot::read_snapshot(bytes)?;
        best = best.min(start.elapsed().as_secs_f64());
        drop(trace);
    }
    Ok(best)
}

/// The most memory that this process had at once.
fn peak_bytes() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
