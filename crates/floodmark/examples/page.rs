//! How long the answers take that a page asks for, and what is kept for them: `page FILE`, as JSON.
//!
//! Seconds are those of the processor, on one core: others on the machine do not count.

use std::path::Path;

use anyhow::{Context, Result};
use floodmark_analysis::{
    At, By, FrameChoice, IcicleBy, MomentIndex, PicturePoint, Question, SegmentsIndex, TimelineBy,
    TimelineIndex, TraceIndex, allocation_tile, bands, default_device, hit, icicle, lifetimes,
    report_with, segments,
};
use serde_json::{Map, Value, json};

/// How many moments and tiles are asked for.
const ASKED: u32 = 25;
/// How often each.
const TRIES: u32 = 8;

/// Bytes that the system says this process has, or had at most.
fn status(line: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.split_whitespace().next());
    let kib: u64 = found.with_context(|| format!("Failed to find `{line}`"))?.parse()?;
    Ok(kib * 1024)
}

/// Seconds that this thread had a processor: others on the machine do not count.
#[expect(clippy::cast_precision_loss, reason = "a time has a few digits")]
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok());
    nanos.unwrap_or_default() as f64 / 1e9
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begin = processor();
    let done = work();
    (processor() - begin, done)
}

/// Seconds that a question took on average over the whole recording, and its longest answer.
struct Asked(Map<String, Value>);

impl Asked {
    fn ask<T: serde::Serialize, E: std::error::Error + Send + Sync + 'static>(
        &mut self,
        name: &str,
        mut question: impl FnMut(u32) -> Result<T, E>,
    ) -> Result<()> {
        let mut longest = 0;
        for part in 0..ASKED {
            longest = longest.max(serde_json::to_vec(&question(part)?)?.len());
        }
        let begin = processor();
        for part in (0..TRIES).flat_map(|_| 0..ASKED) {
            std::hint::black_box(question(part)?);
        }
        let mean = (processor() - begin) / f64::from(TRIES * ASKED);
        let figures = json!({ "mean": mean, "longest_answer_bytes": longest });
        self.0.insert(name.to_owned(), figures);
        Ok(())
    }
}

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).context("Failed to find the name of a trace")?;
    let before = status("VmRSS:")?;
    let (open, trace) = timed(|| floodmark_files::traces::open_trace(Path::new(&path)));
    let trace = trace?;
    let opened = status("VmRSS:")?.saturating_sub(before);
    let while_opened = status("VmHWM:")?.saturating_sub(before);
    let device = default_device(&trace, At::Peak)?;
    let mut built = Map::new();
    let (took, index) = timed(|| TraceIndex::new(&trace));
    built.insert("trace".to_owned(), took.into());
    let (took, moments) = timed(|| MomentIndex::new(&trace, device));
    let moments = moments?;
    built.insert("moments".to_owned(), took.into());
    let (took, heaps) = timed(|| SegmentsIndex::new(&trace, device));
    built.insert("segments".to_owned(), took.into());
    let mut timelines = Vec::new();
    for by in TimelineBy::ALL {
        let (took, timeline) = timed(|| TimelineIndex::new(&trace, &index, device, by));
        timelines.push(timeline?);
        built.insert(format!("timeline by {}", by.name()), took.into());
    }
    let indexed = status("VmRSS:")?.saturating_sub(before);
    let mut asked = Asked(Map::new());
    let end = trace.end().as_seconds();
    let seconds = |part: u32| end * (f64::from(part) + 0.37) / f64::from(ASKED);
    let at = |part| At::Seconds(seconds(part));
    let timeline = &timelines[0];
    asked.ask("bands", |_| bands(&trace, &index, device))?;
    let deepest = timeline.timeline().deepest_level;
    let mut levels: Vec<u32> = vec![0, 3, 6, 9, 12, deepest];
    levels.retain(|&level| level <= deepest);
    levels.dedup();
    for level in levels {
        let tile = |part: u32| (u64::from(part) << level) / u64::from(ASKED);
        let name = format!("timeline tile, level {level}");
        asked.ask(&name, |part| timeline.tile(&trace, level, tile(part)))?;
        let name = format!("allocation tile, level {level}");
        asked.ask(&name, |part| {
            allocation_tile(&trace, &index, &moments, timeline, level, tile(part))
        })?;
    }
    let half = timeline.timeline().peak.allocated.0 / 2;
    let place = |part| PicturePoint { seconds: seconds(part), bytes: half, level: Some(0) };
    asked.ask("hit", |part| hit(&trace, timeline, &moments, place(part)))?;
    for by in [IcicleBy::Stack, IcicleBy::Module] {
        let name = format!("icicle by {by:?}").to_lowercase();
        asked.ask(&name, |part| {
            icicle(&trace, &index, &moments, by, FrameChoice::Program, at(part))
        })?;
    }
    for by in By::ALL.into_iter().filter(|by| !matches!(by, By::Step | By::Segment)) {
        let question = |part| Question { by, at: at(part), top: Some(200), ..Question::default() };
        let name = format!("report by {}", by.name());
        asked.ask(&name, |part| report_with(&trace, &index, &moments, &question(part)))?;
    }
    if let Ok(heaps) = &heaps {
        asked.ask("segments", |part| segments(&trace, &index, &moments, heaps, at(part)))?;
    }
    asked.ask("lifetimes of a 25th", |part| {
        lifetimes(&trace, &index, &moments, seconds(part), seconds(part + 1), 400)
    })?;
    asked.ask("lifetimes of all", |_| lifetimes(&trace, &index, &moments, 0.0, end, 400))?;
    let answer = json!({
        "events": trace.events.len(),
        "allocations": trace.allocations.len(),
        "open_seconds": open,
        "opened_bytes": opened,
        "most_bytes_while_opening": while_opened,
        "indexed_bytes": indexed,
        "most_bytes": status("VmHWM:")?.saturating_sub(before),
        "built_seconds": built,
        "asked_seconds": asked.0,
    });
    #[expect(clippy::print_stdout, reason = "it is what the program is for")]
    {
        println!("{answer:#}");
    }
    Ok(())
}
