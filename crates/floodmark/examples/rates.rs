//! How many events a second are read, replayed and simulated, on one core: `rates FILE`, as JSON.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use floodmark_allocator::{AllocatorConfig, Program, Settings, TorchVersion, replay, simulate};
use floodmark_analysis::{At, default_device};

/// The best of this many.
const TRIES: usize = 7;

fn best<T>(mut work: impl FnMut() -> T) -> f64 {
    let tries = (0..TRIES).map(|_| {
        let begin = Instant::now();
        std::hint::black_box(work());
        begin.elapsed().as_secs_f64()
    });
    tries.fold(f64::INFINITY, f64::min)
}

/// Bytes that the system says this process has, or had at most.
fn status(line: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.split_whitespace().next());
    let kib: u64 = found.with_context(|| format!("Failed to find `{line}`"))?.parse()?;
    Ok(kib * 1024)
}

#[expect(clippy::cast_precision_loss, reason = "a rate has a few digits")]
fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).context("Failed to find the name of a trace")?;
    let path = Path::new(&path);
    let before = status("VmRSS:")?;
    let first = floodmark_files::traces::open_trace(path)?;
    let memory = status("VmHWM:")?.saturating_sub(before);
    drop(first);
    let open = best(|| floodmark_files::traces::open_trace(path));
    let trace = floodmark_files::traces::open_trace(path)?;
    let device = default_device(&trace, At::Peak)?;
    let version = TorchVersion::last_in(&trace.header.torch).unwrap_or(TorchVersion::CHECKED);
    let config = AllocatorConfig::parse(&trace.header.allocator_conf, version)?;
    let replayed = best(|| replay(&trace, device, &config, u32::MAX, |_, _| {}));
    let read = best(|| Program::new(&trace, device));
    let program = Program::new(&trace, device);
    let expandable = AllocatorConfig::parse("expandable_segments:True", version)?;
    let simulated = [config, expandable].map(|config| {
        let limit = program.limit;
        let settings = Settings { config, limit, uses_recorded_addresses: false };
        best(|| simulate(&program, &settings, &mut ()))
    });
    let rate = |seconds: f64| trace.events.len() as f64 / seconds;
    let answer = serde_json::json!({
        "events": trace.events.len(),
        "requests": program.requests.len(),
        "open_seconds": open,
        "open_memory": memory,
        "replay_per_second": rate(replayed),
        "requests_read_per_second": rate(read),
        "simulate_per_second": rate(simulated[0]),
        "simulate_expandable_per_second": rate(simulated[1]),
    });
    #[expect(clippy::print_stdout, reason = "it is what the program is for")]
    {
        println!("{answer}");
    }
    Ok(())
}
