//! `floodmark info`: the summary of a trace.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use floodmark_analysis::{DeviceSummary, Summary, summary};
use floodmark_text::bar;
use floodmark_text::output_style::OutputStyle;
use floodmark_text::plural::plural;
use floodmark_text::sheet::Tone;
use floodmark_text::summary::{counts, device_line};
use floodmark_text::terminal_safe::safe_text;
use floodmark_text::text_table;
use floodmark_text::truncate::wrap;
use floodmark_trace::Phantom;

use schemars::JsonSchema;
use serde::Serialize;

use crate::args::InfoArgs;
use crate::commands::info_ranks::{RankInfo, RanksInfo};
use crate::text::command_output::CommandOutput;
use crate::text::failure::Result;
use crate::text::stdout_style;
use crate::traces::trace_paths::{named_or_newest, open, ranks};

/// The summary of a trace, or of each rank of a folder.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Info {
    /// A trace.
    Trace(Box<Summary>),
    /// A folder.
    Ranks(RankSummaries),
}

/// The summaries of the ranks of a folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RankSummaries {
    /// The version of floodmark that wrote the answer.
    floodmark: &'static str,
    /// The summaries, by rank.
    ranks: Vec<Summary>,
}

/// The answer, with the path that was asked about and the traces of a folder.
#[derive(Debug)]
pub(crate) struct InfoAnswer {
    pub(crate) found: Info,
    asked: PathBuf,
    ranks: Vec<(u32, PathBuf)>,
}

impl InfoAnswer {
    /// A paragraph for a trace, a table for several ranks.
    pub(crate) fn text(&self, style: OutputStyle) -> String {
        let folder = match &self.found {
            Info::Trace(summary) => return details(summary, &self.asked, style),
            Info::Ranks(folder) => folder,
        };
        let ranks = self.ranks.iter().zip(&folder.ranks);
        let ranks: Vec<RankInfo<'_>> =
            ranks.map(|((rank, path), summary)| RankInfo { rank: *rank, path, summary }).collect();
        match &ranks[..] {
            [RankInfo { path, summary, .. }] => details(summary, path, style),
            all => {
                let folder = RanksInfo { folder: &self.asked, ranks: all };
                text_table::render_as(&(&folder).into(), style)
            }
        }
    }
}

pub(crate) fn info(args: &InfoArgs) -> Result<CommandOutput> {
    let answer = answer(args)?;
    if args.json {
        return CommandOutput::json(&answer.found);
    }
    Ok(answer.text(stdout_style::of_stdout()).into())
}

pub(crate) fn answer(args: &InfoArgs) -> Result<InfoAnswer> {
    let asked = named_or_newest(args.trace.as_deref())?;
    let Some(ranks) = ranks(&asked)? else {
        let found = Info::Trace(Box::new(summary(&open(&asked)?)));
        return Ok(InfoAnswer { found, asked, ranks: Vec::new() });
    };
    let summaries = ranks.iter().map(|(_, path)| Ok(summary(&open(path)?)));
    let summaries = summaries.collect::<Result<_>>()?;
    let floodmark = env!("CARGO_PKG_VERSION");
    let found = Info::Ranks(RankSummaries { floodmark, ranks: summaries });
    Ok(InfoAnswer { found, asked, ranks })
}

fn details(summary: &Summary, path: &Path, style: OutputStyle) -> String {
    let path = path.display().to_string();
    let mut text = text_table::paragraph(&format!("{path}: {}", counts(summary)), style) + "\n";
    for loss in &summary.losses.0 {
        let _ = writeln!(text, "{}", text_table::paragraph(&format!("! {loss}"), style));
    }
    for device in &summary.devices {
        let _ = writeln!(text, "{}", text_table::paragraph(&device_line(device), style));
        text += &device_bar(device, style);
    }
    for (name, value) in facts(summary) {
        let (name, value) = (format!("  {name:<10} "), safe_text(&value));
        let lines = match style {
            OutputStyle::Drawn { width, .. } => {
                wrap(&value, width, &name, &" ".repeat(name.len())).join("\n")
            }
            OutputStyle::Plain => name + &value,
        };
        let _ = writeln!(text, "{lines}");
    }
    text
}

/// On a terminal, the peak beside the memory of the GPU: `█` allocated, `░` reserved beyond it.
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

/// The facts in the header that are known, each with its name.
pub(crate) fn facts(summary: &Summary) -> Vec<(&'static str, String)> {
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

/// The GPU profile, the driver and the assumptions of a recording on a simulated GPU.
fn simulated(about: &Phantom) -> String {
    let engine = about.engine.name();
    let reads: u64 = about.reads.iter().map(|read| read.count).sum();
    let refused: u64 = about.unsupported.iter().map(|call| call.count).sum();
    format!(
        "{}, a simulated GPU (engine `{engine}`): computed values are meaningless; {} of an assumed value, {} refused",
        about.gpu,
        plural(reads, "read"),
        plural(refused, "call"),
    )
}
