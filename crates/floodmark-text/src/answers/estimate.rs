//! Whether a program fits, as text.

use floodmark_analysis::{
    DeviceEstimate, Estimate, Process, Row, SharedGpu, StepPeaks, Unknown, WholeRun,
};
use floodmark_trace::{Engine, PhantomEnd, PhantomRead};

use crate::answer_text::AnswerText;
use crate::plural::plural;
use crate::sentence;
use crate::sheet::{self, Bars, Cells, Sheet, Side};
use crate::short_path::shorten;

impl From<&Estimate> for AnswerText {
    fn from(found: &Estimate) -> Self {
        let losses = found.losses.0.iter().map(ToString::to_string).collect();
        let mut sheets = Vec::new();
        if found.processes > 1 {
            sheets.push(needs_of_processes(&found.devices));
            sheets.extend(largest(found).map(categories));
        } else if !found.devices.is_empty() {
            sheets.push(needs(&found.devices));
            sheets.extend(found.devices.iter().map(categories));
        }
        if !found.reads.is_empty() {
            sheets.push(reads(&found.reads));
        }
        if !found.unsupported.is_empty() {
            sheets.push(unsupported(found));
        }
        sheets.extend(found.op_calls.as_ref().map(Sheet::from_report));
        Self { above: verdict(found), losses, sheets, below: assumptions(found) }
    }
}

/// The answer in a few words.
fn verdict(found: &Estimate) -> Vec<String> {
    let rank = match (found.rank, found.world_size) {
        (Some(rank), Some(size)) => format!(", as rank {rank} of {size}"),
        _ => String::new(),
    };
    // A program that was killed early has not described its devices.
    let named = found.devices.iter().map(|device| &*device.name).find(|name| !name.is_empty());
    let gpu = named.unwrap_or(&found.gpu);
    let verdict = match found.fits {
        Some(true) => "Fits",
        Some(false) => "Does not fit",
        None => "Unknown whether it fits",
    };
    let mut above = vec![format!("{verdict}: {gpu}{rank}, {}", ended(found))];
    above.extend(found.unknown.map(|unknown| reason(found, unknown)));
    // A failed request has a line of its own below, instead of torch's message.
    let has_own_line = found.ended == PhantomEnd::OutOfMemory
        && found.devices.iter().any(|device| device.failed.is_some());
    if found.fits == Some(false) && !found.error.is_empty() && !has_own_line {
        above.push(format!("The program failed: {}", found.error));
    }
    above.extend(found.whole_run.as_ref().map(whole_run));
    above.extend(found.step_peaks.and_then(further_steps));
    if found.processes > 1 {
        above.extend(
            largest(found).map(|device| of_process(device) + &sentence::moment(&device.at)),
        );
    } else {
        above.extend(found.devices.iter().map(|device| sentence::moment(&device.at)));
    }
    above.extend(found.changes.iter().map(sentence::applied_change));
    for device in &found.devices {
        above.extend(device.failed.as_ref().map(|at| of_process(device) + &sentence::moment(at)));
    }
    above
}

/// What a program that ran out of memory needs.
fn whole_run(found: &WholeRun) -> String {
    let WholeRun { needed, peak_allocated, peak_reserved, steps, .. } = found;
    let made = plural((*steps).into(), "step");
    let run = if found.ended == PhantomEnd::Steps {
        made
    } else if *steps > 0 {
        format!("the whole run, {made}")
    } else {
        "the whole run".to_owned()
    };
    let more = found.step_peaks.and_then(further_steps);
    let more = more.map_or_else(String::new, |more| format!(". {more}"));
    format!(
        "With enough memory it needs {needed} ({peak_allocated} allocated, {peak_reserved} reserved): {run}{more}"
    )
}

/// What further steps may need.
fn further_steps(found: StepPeaks) -> Option<String> {
    match found {
        StepPeaks::Equal => None,
        StepPeaks::Differ => Some(
            "The peaks of the last steps differ: further steps may need more (`--steps`)"
                .to_owned(),
        ),
        StepPeaks::Grow => Some(
            "The peak still grows from step to step: further steps need more (`--steps`)"
                .to_owned(),
        ),
    }
}

/// Why the answer is unknown.
fn reason(found: &Estimate, unknown: Unknown) -> String {
    match unknown {
        Unknown::Failed => format!("The program failed: {}", found.error),
        Unknown::NoEnd => {
            "The recording has no end: the program still runs, or it was killed".to_owned()
        }
        Unknown::Incomplete => {
            "The recording is incomplete: what it misses may need more".to_owned()
        }
        Unknown::NothingAllocated => {
            "Nothing was allocated on the GPU: the program used the CPU alone, or its \
            work ran in processes without the simulated GPU (`--world N` runs one rank in this \
            process)"
                .to_owned()
        }
        Unknown::FakeTensors => "The program had blocks of fake tensors \
            (`floodmark.estimate(engine=\"fake\")`, `MemoryTracer`): their tensors are allocated on no \
            GPU, so what they need is in the answers of these blocks alone"
            .to_owned(),
        Unknown::SharedGpu => {
            let too_much = found.shared.iter().filter(|gpu| gpu.needed > gpu.capacity);
            let each = too_much.map(|SharedGpu { gpu, processes, needed, capacity }| {
                format!(
                    "{processes} processes share GPU {gpu} and together need up to {needed} of its \
                     {capacity}; whether at the same time is unknown"
                )
            });
            each.collect::<Vec<_>>().join("\n")
        }
    }
}

/// The device of the process that needs most.
fn largest(found: &Estimate) -> Option<&DeviceEstimate> {
    // The first of equal devices, not the last.
    found.devices.iter().rev().max_by_key(|device| device.needed)
}

/// `rank 3` or `process 1234`.
fn name_of(process: &Process) -> String {
    match process.rank {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {}", process.pid),
    }
}

/// `Rank 3: `, if there are several processes.
fn of_process(device: &DeviceEstimate) -> String {
    let Some(process) = &device.process else { return String::new() };
    let name = name_of(process);
    format!("{}{}: ", name[..1].to_uppercase(), &name[1..])
}

fn ended(found: &Estimate) -> String {
    let steps = plural(found.steps.into(), "step");
    let ended = match found.ended {
        PhantomEnd::Done if found.steps == 0 => "finished".to_owned(),
        PhantomEnd::Done => format!("finished after {steps}"),
        PhantomEnd::Steps => format!("stopped after {steps}"),
        PhantomEnd::OutOfMemory => format!("out of memory after {steps}"),
        PhantomEnd::Failed => format!("failed after {steps}"),
        PhantomEnd::Unknown => format!("not finished, after {steps}"),
    };
    if found.processes > 1 {
        return format!("{} processes, {ended}", found.processes);
    }
    ended
}

/// A row for each process and device.
fn needs_of_processes(devices: &[DeviceEstimate]) -> Sheet {
    let mut columns = sheet::words(&["Process", "Device"]);
    let titles = ["Peak allocated", "Peak reserved", "Outside torch", "Needed"];
    columns.extend(sheet::numbers(&titles));
    columns.extend(sheet::numbers(&["Capacity", "Headroom"]));
    let rows = devices.iter().map(|found| {
        let more = if found.is_lower_bound { "> " } else { "" };
        let headroom =
            if found.is_lower_bound { "none".to_owned() } else { found.headroom.to_string() };
        let cells = vec![
            found.process.as_ref().map_or_else(String::new, name_of),
            found.device.to_string(),
            found.peak_allocated.to_string(),
            found.peak_reserved.to_string(),
            found.outside_torch.to_string(),
            format!("{more}{}", found.needed),
            found.capacity.to_string(),
            headroom,
        ];
        Cells { cells, below: Vec::new() }
    });
    Sheet { columns, rows: rows.collect(), ..Sheet::default() }
}

fn needs(devices: &[DeviceEstimate]) -> Sheet {
    let mut columns = sheet::words(&["Needed"]);
    columns.extend(devices.iter().map(|device| (device.device.to_string(), Side::Right)));
    columns.push((String::new(), Side::Left));
    let row = |title: &str, of: &dyn Fn(&DeviceEstimate) -> String, remark: &str| {
        let mut cells = vec![title.to_owned()];
        cells.extend(devices.iter().map(of));
        cells.push(remark.to_owned());
        Cells { cells, below: Vec::new() }
    };
    let mut rows = vec![
        row("peak allocated", &|found| found.peak_allocated.to_string(), ""),
        row("peak reserved", &|found| found.peak_reserved.to_string(), ""),
    ];
    let mut owners: Vec<&str> = Vec::new();
    for owner in devices.iter().flat_map(|device| &device.owners) {
        if !owners.contains(&owner.owner.as_str()) {
            owners.push(&owner.owner);
        }
    }
    for name in &owners {
        let of = |found: &DeviceEstimate| {
            let bytes = found.owners.iter().find(|owner| owner.owner == *name);
            bytes.map_or_else(String::new, |owner| owner.bytes.to_string())
        };
        rows.push(row(name, &of, remark_on(name)));
    }
    let at_least = |found: &DeviceEstimate| {
        let more = if found.is_lower_bound { "> " } else { "" };
        format!("{more}{}", found.needed)
    };
    let adds_up = |found: &DeviceEstimate| {
        found.is_lower_bound || found.needed == found.peak_reserved + found.outside_torch
    };
    let sum = if devices.iter().all(adds_up) {
        "reserved and all below it"
    } else {
        "less than their sum: not all at the same time"
    };
    rows.push(row("needed", &at_least, sum));
    rows.push(row("capacity", &|found| found.capacity.to_string(), ""));
    let headroom = |found: &DeviceEstimate| {
        if found.is_lower_bound { "none".to_owned() } else { found.headroom.to_string() }
    };
    rows.push(row("headroom", &headroom, ""));
    Sheet { columns, rows, ..Sheet::default() }
}

/// What an owner of memory outside torch is, for those whose name does not say it.
fn remark_on(owner: &str) -> &'static str {
    match owner {
        "CUDA context" => "what the first call to CUDA takes",
        "kernels" => "code and local memory",
        "cuBLAS" => "a handle for each thread that multiplies",
        "streams" => "beside the default stream",
        "NCCL" => "communicators",
        "other allocations" => "by libraries, as `cudaMalloc`",
        _ => "",
    }
}

fn categories(device: &DeviceEstimate) -> Sheet {
    let mut columns = sheet::numbers(&["Bytes", "Count"]);
    let process = device.process.as_ref().map_or_else(String::new, |p| format!("{}, ", name_of(p)));
    let title = format!("Category, at the peak of {process}{}", device.device);
    columns.extend(sheet::words(&[&title]));
    let rows = device.categories.iter().map(|row| Cells {
        cells: vec![row.bytes.to_string(), row.count.to_string(), row.location.clone()],
        below: Vec::new(),
    });
    let bar = |row: &Row| sheet::bar_of(row, row.bytes, device.peak_allocated);
    let of = device.categories.iter().map(bar).collect();
    Sheet { columns, rows: rows.collect(), bars: Some(Bars { after: 0, of }), is_prose: false }
}

fn reads(reads: &[PhantomRead]) -> Sheet {
    let mut columns = sheet::numbers(&["Count", "Assumed"]);
    let title = "GPU values the script read (`.item()`, `if`) that had to be assumed";
    columns.extend(sheet::words(&["Operator", title]));
    let rows = reads.iter().map(|read| Cells {
        cells: vec![read.count.to_string(), read.assumed.clone(), read.op.clone(), location(read)],
        below: if read.reason.is_empty() { Vec::new() } else { vec![format!("  {}", read.reason)] },
    });
    Sheet { columns, rows: rows.collect(), ..Sheet::default() }
}

/// `train.py:12 (main)`.
fn location(read: &PhantomRead) -> String {
    if read.file.is_empty() {
        return "(no line of Python)".to_owned();
    }
    format!("{}:{} ({})", shorten(&read.file), read.line, read.function)
}

fn unsupported(found: &Estimate) -> Sheet {
    let mut columns = sheet::numbers(&["Count"]);
    columns.extend(sheet::words(&["Unsupported call"]));
    let rows = found.unsupported.iter().map(|call| Cells {
        cells: vec![call.count.to_string(), format!("{}: {}", call.library, call.name)],
        below: Vec::new(),
    });
    Sheet { columns, rows: rows.collect(), ..Sheet::default() }
}

/// The assumptions of the estimate.
fn assumptions(found: &Estimate) -> Vec<String> {
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
        below.push("Every value that the program read back was computed".to_owned());
    } else {
        below.push(
            "Other values may change the result: set one with `--answer FILE:LINE=VALUE`"
                .to_owned(),
        );
    }
    if !found.unsupported.is_empty() {
        below.push("After an unsupported call, a real GPU may behave differently".to_owned());
    }
    let gpu = &found.gpu;
    below.push(if found.is_checked {
        format!("The profile `{gpu}` was checked on hardware")
    } else {
        format!(
            "The profile `{gpu}` was not checked on hardware: its memory outside torch is assumed"
        )
    });
    below
}
