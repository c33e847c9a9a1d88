//! `floodmark info`: what a trace holds.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use floodmark_analysis::{DeviceSummary, Summary, summary};
use floodmark_trace::{Engine, Phantom};

use crate::Said;
use crate::commands::args::InfoArgs;
use crate::text::bar;
use crate::text::output_style::OutputStyle;
use crate::text::sentence;
use crate::text::sheet::Tone;
use crate::text::terminal_safe::plain;
use crate::text::text_table;
use crate::traces::open::{open, ranks};

pub(crate) fn info(args: &InfoArgs) -> Result<Said> {
    let Some(ranks) = ranks(&args.trace)? else {
        let summary = summary(&open(&args.trace)?);
        if args.json {
            return Said::json(&summary);
        }
        return Ok(details(&summary, &args.trace, OutputStyle::of_stdout()).into());
    };
    let mut summaries = Vec::new();
    for (_, path) in ranks {
        let summary = summary(&open(&path)?);
        summaries.push((path, summary));
    }
    if args.json {
        let summaries: Vec<_> = summaries.iter().map(|(_, summary)| summary).collect();
        return Said::json(&summaries);
    }
    let style = OutputStyle::of_stdout();
    let parts: Vec<_> =
        summaries.iter().map(|(path, summary)| details(summary, path, style)).collect();
    Ok(parts.join("\n").into())
}

/// What is said at the end of a run: how much, when, what is missing.
pub fn render_summary(summary: &Summary) -> String {
    let mut text = format!("floodmark: {}\n", counts(summary));
    for device in &summary.devices {
        let _ = writeln!(text, "  {}", plain(&device_line(device)));
    }
    for loss in &summary.losses.0 {
        let _ = writeln!(text, "  ! {}", plain(&loss.to_string()));
    }
    text
}

fn details(summary: &Summary, path: &Path, style: OutputStyle) -> String {
    let path = path.display().to_string();
    let mut text = format!("{}: {}\n", plain(&path), counts(summary));
    for loss in &summary.losses.0 {
        let _ = writeln!(text, "! {}", plain(&loss.to_string()));
    }
    for device in &summary.devices {
        let _ = writeln!(text, "{}", plain(&device_line(device)));
        text += &device_bar(device, style);
    }
    for (name, value) in facts(summary) {
        let _ = writeln!(text, "  {name:<10} {}", plain(&value));
    }
    text
}

/// Where somebody looks, the peak beside the card: `█` allocated, `░` reserved beyond it.
fn device_bar(device: &DeviceSummary, style: OutputStyle) -> String {
    let (OutputStyle::Drawn { width, .. }, Some(total)) = (style, device.total) else {
        return String::new();
    };
    let cells = width.saturating_sub(20).min(60);
    let reserved = bar::share(device.reserved_peak.unwrap_or_default().0, total.0);
    let beyond = bar::bar(reserved, cells).replace(|letter| letter != ' ', "░");
    let allocated = bar::bar(bar::share(device.peak.0, total.0), cells);
    let drawn = allocated.trim_end().chars().count();
    let rest: String = beyond.chars().skip(drawn).collect();
    let ink = text_table::inked(style, text_table::colour(Tone::Usual));
    let percent = 100.0 * bar::share(device.peak.0, total.0);
    format!("  {ink}{}{rest}{ink:#} {percent:.0} % of {total}\n", allocated.trim_end())
}

fn counts(summary: &Summary) -> String {
    let mut text = format!(
        "{} in {:.3} s, {}",
        plural(summary.events as u64, "event"),
        summary.seconds,
        plural(summary.allocations as u64, "allocation"),
    );
    let _ = match summary.steps {
        0 => Ok(()),
        steps => write!(text, ", {}", plural(u64::from(steps), "step")),
    };
    let _ = write!(text, ", {}", plural(summary.threads as u64, "thread"));
    if summary.failed_requests > 0 {
        let failed = plural(summary.failed_requests as u64, "request");
        let _ = write!(text, "; {failed} could not be met (`--at oom`)");
    }
    text
}

fn device_line(device: &DeviceSummary) -> String {
    let mut text = sentence::moment(&device.at);
    let mut of = Vec::new();
    if let Some(total) = device.total {
        of.push(format!("of {total}"));
    }
    if !device.name.is_empty() {
        of.push(device.name.clone());
    }
    if !of.is_empty() {
        let _ = write!(text, " ({})", of.join(", "));
    }
    text
}

/// What the header says, as far as it says something.
fn facts(summary: &Summary) -> Vec<(&'static str, String)> {
    let header = &summary.header;
    let rank = match (header.rank, header.world_size) {
        (Some(rank), Some(size)) => format!("{rank} of {size}"),
        (Some(rank), None) => rank.to_string(),
        (None, _) => String::new(),
    };
    let cuda = match (header.cuda.as_str(), header.driver.as_str()) {
        (cuda, "") => cuda.to_owned(),
        (cuda, driver) => format!("{cuda}, driver {driver}"),
    };
    let facts = [
        ("simulated", header.phantom.as_ref().map_or_else(String::new, simulated)),
        ("command", header.command.join(" ")),
        ("host", header.host.clone()),
        ("rank", rank),
        ("python", header.python.clone()),
        ("torch", header.torch.clone()),
        ("cuda", cuda),
        (
            "allocator",
            [&*header.allocator_backend, &*header.allocator_conf].join(" ").trim().to_owned(),
        ),
        ("recorded", header.recorded.join(", ")),
        ("by", format!("floodmark {}", header.floodmark)),
    ];
    facts.into_iter().filter(|(_, value)| !value.is_empty() && value != "floodmark ").collect()
}

/// What a recording on a simulated GPU rests on.
fn simulated(about: &Phantom) -> String {
    let engine = match about.engine {
        Engine::Phantom => "phantom",
        Engine::Fake => "fake",
    };
    let reads: u64 = about.reads.iter().map(|read| read.count).sum();
    let refused: u64 = about.unsupported.iter().map(|call| call.count).sum();
    format!(
        "{}, a simulated GPU (engine `{engine}`): results are void; {} of an unknown value, {} refused",
        about.gpu,
        plural(reads, "read"),
        plural(refused, "call"),
    )
}

/// `1,234 events`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let ending = if count == 1 { "" } else { "s" };
    format!("{text} {noun}{ending}")
}
