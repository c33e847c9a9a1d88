//! `floodmark estimate`: what the Python side is to do, and the answer as sentences and sheets.

use anyhow::{Context, Result};
use floodmark_analysis::{DeviceEstimate, Estimate};
use floodmark_trace::{Bytes, Engine, PhantomEnd, PhantomRead};

use crate::args::{EngineName, EstimateArgs, PhantomArgs};
use crate::failure::Problem;
use crate::info::plural;
use crate::machine::PhantomMachine;
use crate::page::Page;
use crate::run::{self, RunPlan};
use crate::sentence;
use crate::sheet::{self, Cells, Sheet, Side};
use crate::shorten::shorten;

/// How much memory the recorder may use: that of `floodmark run`.
const RECORDER_BYTES: u64 = 256 << 20;

/// A machine has no more cards than this, unless the user says so.
const USUAL_GPUS: u32 = 8;

/// A program to record on a phantom GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimatePlan {
    /// The program, and how it is recorded.
    pub run: RunPlan,
    /// How it is played: `phantom` or `fake`; none for what can be had.
    pub engine: Option<&'static str>,
    /// The machine that is played.
    pub machine: PhantomMachine,
    /// After how many optimizer steps the program is ended.
    pub steps: Option<u32>,
    /// Whether the answer is printed as JSON.
    pub json: bool,
}

pub(crate) fn plan(args: EstimateArgs) -> Result<EstimatePlan> {
    let machine = machine(&args.phantom)?;
    let (target, words) = run::target(args.program)?;
    Ok(EstimatePlan {
        run: RunPlan {
            target,
            args: words,
            output: args.output,
            devices: None,
            stacks: true,
            ops: false,
            max_memory_bytes: RECORDER_BYTES,
            follow_fork: false,
            force: args.force,
            quiet: args.quiet,
            hint: None,
        },
        engine: args.phantom.engine.map(EngineName::name),
        machine,
        steps: args.phantom.steps,
        json: args.json,
    })
}

/// The machine that the words of a command line mean.
pub(crate) fn machine(args: &PhantomArgs) -> Result<PhantomMachine> {
    let failed = || format!("Failed to play a `{}`", args.gpu);
    let ranks = args.world.map(|world| (args.rank.unwrap_or(0), world));
    if let Some((rank, world)) = ranks.filter(|(rank, world)| rank >= world) {
        return Err(Problem::NoSuchRankOf { rank, world }).with_context(failed);
    }
    let gpus = args.gpus.unwrap_or_else(|| args.world.unwrap_or(1).min(USUAL_GPUS));
    let mut machine =
        PhantomMachine::new(&args.gpu, args.memory.map(Bytes), gpus).with_context(failed)?;
    machine.ranks = ranks;
    machine.answers.clone_from(&args.answers);
    Ok(machine)
}

impl From<&Estimate> for Page {
    fn from(found: &Estimate) -> Self {
        let losses = found.losses.0.iter().map(ToString::to_string).collect();
        let mut sheets = Vec::new();
        if !found.devices.is_empty() {
            sheets.push(needs(&found.devices));
            sheets.extend(found.devices.iter().map(categories));
        }
        if !found.reads.is_empty() {
            sheets.push(reads(&found.reads));
        }
        if !found.unsupported.is_empty() {
            sheets.push(unsupported(found));
        }
        Self { above: verdict(found), losses, sheets, below: rests_on(found) }
    }
}

/// The answer in a few words.
fn verdict(found: &Estimate) -> Vec<String> {
    let rank = match (found.rank, found.world_size) {
        (Some(rank), Some(size)) => format!(", as rank {rank} of {size}"),
        _ => String::new(),
    };
    let card = found.devices.first().map_or(&*found.gpu, |device| &*device.name);
    let verdict = match found.fits {
        Some(true) => "Fits",
        Some(false) => "Does not fit",
        None => "Nobody knows whether it fits: the program failed",
    };
    let mut above = vec![format!("{verdict}: {card}{rank}, {}", ended(found))];
    if !found.error.is_empty() && found.fits.is_none() {
        above.push(format!("It died of {}", found.error));
    }
    if found.devices.is_empty() && found.ended != PhantomEnd::OutOfMemory {
        above.push("The program allocated nothing on a CUDA device".to_owned());
    }
    for device in &found.devices {
        above.push(sentence::moment(&device.at));
        above.extend(device.failed.as_ref().map(sentence::moment));
    }
    above
}

fn ended(found: &Estimate) -> String {
    let steps = plural(found.steps.into(), "step");
    match found.ended {
        PhantomEnd::Done => format!("to its end, after {steps}"),
        PhantomEnd::Steps => format!("stopped after {steps}"),
        PhantomEnd::OutOfMemory => format!("out of memory after {steps}"),
        PhantomEnd::Failed => format!("after {steps}"),
        PhantomEnd::Unknown => format!("killed, or still running, after {steps}"),
    }
}

fn needs(devices: &[DeviceEstimate]) -> Sheet {
    let mut columns = sheet::words(&["Needed"]);
    columns.extend(devices.iter().map(|device| (device.device.to_string(), Side::Right)));
    columns.push((String::new(), Side::Left));
    let row = |title: &str, of: fn(&DeviceEstimate) -> String, remark: &str| {
        let mut cells = vec![title.to_owned()];
        cells.extend(devices.iter().map(of));
        cells.push(remark.to_owned());
        Cells { cells, below: Vec::new() }
    };
    let mut rows = vec![
        row("peak allocated", |found| found.peak_allocated.to_string(), ""),
        row("peak reserved", |found| found.peak_reserved.to_string(), ""),
    ];
    if devices.iter().any(|device| device.outside > Bytes(0)) {
        rows.push(row("outside torch", |found| found.outside.to_string(), "taken by libraries"));
    }
    let at_least = |found: &DeviceEstimate| {
        let more = if found.is_lower_bound { "> " } else { "" };
        format!("{more}{}", found.needed)
    };
    rows.push(row("context", |found| found.context.to_string(), "CUDA and its libraries"));
    rows.push(row("needed", at_least, "reserved, and all that is not torch's"));
    rows.push(row("capacity", |found| found.capacity.to_string(), ""));
    let headroom = |found: &DeviceEstimate| {
        if found.is_lower_bound { "none".to_owned() } else { found.headroom.to_string() }
    };
    rows.push(row("headroom", headroom, ""));
    Sheet { columns, rows, ..Sheet::default() }
}

fn categories(device: &DeviceEstimate) -> Sheet {
    let mut columns = sheet::numbers(&["Bytes", "Count"]);
    columns.extend(sheet::words(&[&format!("Category, at the peak of {}", device.device)]));
    let rows = device.categories.iter().map(|row| Cells {
        cells: vec![row.bytes.to_string(), row.count.to_string(), row.place.clone()],
        below: Vec::new(),
    });
    Sheet { columns, rows: rows.collect(), ..Sheet::default() }
}

fn reads(reads: &[PhantomRead]) -> Sheet {
    let mut columns = sheet::numbers(&["Count", "Answered"]);
    columns.extend(sheet::words(&["Operator", "Value read back without being known, and why"]));
    let rows = reads.iter().map(|read| Cells {
        cells: vec![read.count.to_string(), read.answered.clone(), read.op.clone(), place(read)],
        below: if read.why.is_empty() { Vec::new() } else { vec![format!("  {}", read.why)] },
    });
    Sheet { columns, rows: rows.collect(), ..Sheet::default() }
}

/// `train.py:12 (main)`.
fn place(read: &PhantomRead) -> String {
    if read.file.is_empty() {
        return "(no line of Python)".to_owned();
    }
    format!("{}:{} ({})", shorten(&read.file), read.line, read.function)
}

fn unsupported(found: &Estimate) -> Sheet {
    let mut columns = sheet::numbers(&["Count"]);
    columns.extend(sheet::words(&["Call that was refused"]));
    let rows = found.unsupported.iter().map(|call| Cells {
        cells: vec![call.count.to_string(), format!("{}: {}", call.library, call.name)],
        below: Vec::new(),
    });
    Sheet { columns, rows: rows.collect(), ..Sheet::default() }
}

/// What the estimate rests on.
fn rests_on(found: &Estimate) -> Vec<String> {
    let mut below = vec![
        match found.engine {
            Engine::Phantom => {
                "Engine `phantom`: torch's own host code and allocator ran, kernels did not"
            }
            Engine::Fake => {
                "Engine `fake`: shapes of tensors were followed, and the allocator is simulated"
            }
        }
        .to_owned(),
    ];
    below.extend(found.notes.iter().cloned());
    if found.reads.is_empty() {
        below.push("No value was read back that was not known".to_owned());
    } else {
        below.push(
            "Another answer may lead elsewhere: `--answer FILE:LINE=VALUE` sets one".to_owned(),
        );
    }
    if !found.unsupported.is_empty() {
        below.push("What follows a refused call may differ on a real card".to_owned());
    }
    let gpu = &found.gpu;
    below.push(if found.is_checked {
        format!("The profile `{gpu}` was checked on hardware")
    } else {
        format!("The profile `{gpu}` was not checked on hardware: its context is a guess")
    });
    below
}
