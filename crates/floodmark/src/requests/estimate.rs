//! `floodmark estimate`: what the Python side is to do.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use floodmark_profiles::{Change, PhantomMachine};
use floodmark_trace::{Bytes, Device, Engine};

use crate::args::{EstimateArgs, PhantomArgs, ProgramArgs};
use crate::requests::run::{self, RunRequest};
use crate::text::failure::{Context, Problem, Result};

/// A machine has at most this many GPUs, unless the user says otherwise.
const USUAL_GPUS: u32 = 8;

/// Where a launcher such as `torchrun` says how many ranks it has started on this machine.
const LOCAL_RANKS_VARIABLE: &str = "LOCAL_WORLD_SIZE";

/// How much of what a failed program said is shown.
const TAIL_LINES: usize = 20;

/// A program to record on a phantom GPU.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct EstimateRequest {
    /// The program, and how it is recorded.
    pub run: RunRequest,
    /// The engine; none for the best that works here.
    pub engine: Option<Engine>,
    /// The simulated machine.
    pub machine: PhantomMachine,
    /// After how many optimizer steps the program is ended.
    pub steps: Option<u32>,
    /// Whether the program is ended as soon as two steps in a row have the same peaks.
    pub until_steady: bool,
    /// Whether a program that runs out of memory is run again with more of it.
    pub reruns: bool,
    /// Whether the operators of a step are counted, which may change what is allocated.
    pub counts_operators: bool,
    /// Whether further steps are run after the recording, which say what a step costs.
    pub measures_step: bool,
    /// Whether the answer is printed as JSON.
    pub json: bool,
}

pub(crate) fn request(args: EstimateArgs) -> Result<EstimateRequest> {
    let machine = machine(&args.phantom)?;
    let (target, words) = run::target("estimate", args.program)?;
    let gpus = (0..=i8::MAX).take(machine.gpus as usize).map(Device::cuda);
    Ok(EstimateRequest {
        run: RunRequest {
            target,
            args: words,
            output: args.output,
            devices: args.phantom.only_gpus.then(|| gpus.collect()),
            recording: args.recording.into(),
            force: args.force,
            quiet: args.quiet,
            changes: args.phantom.changes.clone(),
            hint: None,
        },
        engine: args.phantom.engine.map(Engine::from),
        machine,
        steps: args.phantom.steps,
        until_steady: args.phantom.until_steady,
        reruns: !args.no_rerun,
        counts_operators: args.phantom.count_operators,
        measures_step: args.phantom.measure_step,
        json: args.json,
    })
}

/// The machine that the words of a command line mean.
pub(crate) fn machine(args: &PhantomArgs) -> Result<PhantomMachine> {
    let failed = || format!("Failed to simulate a `{}`", args.gpu);
    // A program that is sharded by a change is a rank of a world of that size.
    let sharded = args.changes.iter().map(Change::gpus).max().filter(|gpus| *gpus > 1);
    let world = args.world.or(sharded);
    let ranks = world.map(|world| (args.rank.unwrap_or(0), world));
    if let Some((rank, world)) = ranks.filter(|(rank, world)| rank >= world) {
        return Err(Problem::NoSuchRankOf { rank, world }).with_context(failed);
    }
    let usual = || match world {
        Some(world) => world.min(USUAL_GPUS),
        None => local_ranks().unwrap_or(1),
    };
    let gpus = args.gpus.unwrap_or_else(usual);
    let mut machine =
        PhantomMachine::new(&args.gpu, args.memory.map(Bytes), gpus).with_context(failed)?;
    machine.ranks = ranks;
    machine.answers.clone_from(&args.answers);
    Ok(machine)
}

/// How many ranks a launcher has started on this machine: each has a GPU.
fn local_ranks() -> Option<u32> {
    std::env::var(LOCAL_RANKS_VARIABLE).ok()?.parse().ok().filter(|ranks| *ranks > 0)
}

/// An estimate in a process of its own, which prints JSON and ends with this process. It replaces `output`. A program that
/// runs out of memory is not run again.
pub(crate) fn process(
    python: &OsStr,
    phantom: &PhantomArgs,
    output: &Path,
    program: &ProgramArgs,
) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "floodmark", "estimate", "--json", "--quiet", "--force", "--no-rerun"]);
    command.arg("--output").arg(output);
    command.args(["--gpu", &phantom.gpu]);
    if let Some(engine) = phantom.engine {
        command.args(["--engine", Engine::from(engine).name()]);
    }
    let numbers = [
        ("--gpus", phantom.gpus),
        ("--rank", phantom.rank),
        ("--world", phantom.world),
        ("--steps", phantom.steps),
    ];
    for (flag, number) in numbers {
        if let Some(number) = number {
            command.args([flag, &number.to_string()]);
        }
    }
    if let Some(memory) = phantom.memory {
        command.args(["--memory", &memory.to_string()]);
    }
    for change in &phantom.changes {
        command.arg("--with").arg(change.to_string());
    }
    if phantom.until_steady {
        command.arg("--until-steady");
    }
    if phantom.count_operators {
        command.arg("--count-operators");
    }
    if phantom.measure_step {
        command.arg("--measure-step");
    }
    if phantom.only_gpus {
        command.arg("--only-gpus");
    }
    for answer in &phantom.answers {
        command.arg("--answer").arg(answer.to_string());
    }
    if program.is_module {
        command.arg("-m");
    }
    command.args(&program.words);
    command.stdin(Stdio::null());
    // The program may wait for ever: it ends with this process.
    command.env("FLOODMARK_ENDS_WITH", std::process::id().to_string());
    command
}

/// The last lines of what a program said, indented.
pub(crate) fn tail(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.lines().collect();
    let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    shown.iter().flat_map(|line| ["\n    ", line]).collect()
}
