//! The request of `floodmark estimate`, which Python executes.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use floodmark_profiles::{Change, PhantomMachine};
use floodmark_trace::{Bytes, Device, Engine};
use serde::{Deserialize, Serialize};

use crate::args::{EstimateArgs, PhantomArgs, ProgramArgs};
use crate::requests::run::RunRequest;
use crate::text::failure::{Context, Problem, Result};

/// The default limit on GPUs of the simulated machine.
const USUAL_GPUS: u32 = 8;

/// The variable in which a launcher such as `torchrun` passes the number of ranks on this machine.
const LOCAL_RANKS_VARIABLE: &str = "LOCAL_WORLD_SIZE";

/// The Python module that executes a request in a new process.
const MODULE: &str = "floodmark.estimate.request_process";

/// How many of the last lines that a failed program printed are shown.
const TAIL_LINES: usize = 20;

/// A program to record on a simulated GPU. The process of a try gets one as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct EstimateRequest {
    /// The program, and how it is recorded.
    pub run: RunRequest,
    /// The engine; `None` for the best one that works here.
    pub engine: Option<Engine>,
    /// The simulated machine.
    pub machine: PhantomMachine,
    /// The number of optimizer steps after which the program stops.
    pub steps: Option<u32>,
    /// Whether the program stops once two steps in a row have the same peaks.
    pub until_steady: bool,
    /// Whether to run a program that runs out of memory again, with more memory.
    pub reruns: bool,
    /// Whether to count the operators of a step. This may change what the program allocates.
    pub counts_operators: bool,
    /// Whether to run further steps after the recording, to measure the cost of a step.
    pub measures_step: bool,
    /// How the answer is printed.
    pub answer: AnswerForm,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerForm {
    /// As text.
    Text,
    /// As the documented JSON.
    Json,
    /// As JSON for `fit` and `plan`.
    Try,
}

impl EstimateRequest {
    /// The request of one try of `fit` or `plan`: quiet, without a second run after out of memory.
    pub(crate) fn of_try(phantom: &PhantomArgs, program: ProgramArgs) -> Result<Self> {
        let machine = machine(phantom)?;
        let run =
            RunRequest { force: true, quiet: true, ..RunRequest::of_program("estimate", program)? };
        let request = Self::new(phantom, machine, run);
        Ok(Self { reruns: false, answer: AnswerForm::Try, ..request })
    }

    fn new(phantom: &PhantomArgs, machine: PhantomMachine, run: RunRequest) -> Self {
        Self {
            run: RunRequest { changes: phantom.changes.clone(), ..run },
            engine: phantom.engine.map(Engine::from),
            machine,
            steps: phantom.steps,
            until_steady: false,
            reruns: true,
            counts_operators: false,
            measures_step: phantom.measure_step,
            answer: AnswerForm::Text,
        }
    }

    /// Records GPUs only. A recording without host memory is faster.
    pub(crate) fn record_only_gpus(&mut self) {
        let gpus = (0..=i8::MAX).take(self.machine.gpus as usize).map(Device::cuda);
        self.run.devices = Some(gpus.collect());
    }
}

pub(crate) fn request(args: EstimateArgs) -> Result<EstimateRequest> {
    let machine = machine(&args.phantom)?;
    let run = RunRequest {
        output: args.output,
        recording: args.recording.into(),
        force: args.force,
        quiet: args.quiet,
        ..RunRequest::of_program("estimate", args.program)?
    };
    let answer = if args.json { AnswerForm::Json } else { AnswerForm::Text };
    Ok(EstimateRequest {
        reruns: !args.no_rerun,
        answer,
        ..EstimateRequest::new(&args.phantom, machine, run)
    })
}

/// The simulated machine that the options describe.
pub(crate) fn machine(args: &PhantomArgs) -> Result<PhantomMachine> {
    let failed = || format!("Failed to simulate a `{}`", args.gpu);
    // A change that shards the model needs a world of that size.
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

/// The number of ranks that a launcher started on this machine: each has a GPU.
fn local_ranks() -> Option<u32> {
    std::env::var(LOCAL_RANKS_VARIABLE).ok()?.parse().ok().filter(|ranks| *ranks > 0)
}

/// The command that runs an estimate in a new process. The process reads the request from `file`, and ends with this
/// process.
pub(crate) fn process(python: &OsStr, request: &EstimateRequest, file: &Path) -> Result<Command> {
    std::fs::write(file, serde_json::to_vec(request)?).context("Failed to write a request")?;
    let mut command = Command::new(python);
    command.args([OsStr::new("-m"), OsStr::new(MODULE), file.as_os_str()]);
    // Python decodes the arguments of the program itself, in any locale.
    command.args(request.run.words());
    command.stdin(Stdio::null());
    // End the program with this process: it may wait forever.
    command.env("FLOODMARK_ENDS_WITH", std::process::id().to_string());
    Ok(command)
}

/// The last lines that a program printed, indented.
pub(crate) fn tail(printed: &[u8]) -> String {
    let printed = String::from_utf8_lossy(printed);
    let lines: Vec<&str> = printed.lines().collect();
    let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    shown.iter().flat_map(|line| ["\n    ", line]).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command as Words};

    #[test]
    fn a_process_reads_the_request_that_was_written() {
        let mut words = "floodmark estimate --gpu h100 --memory 24GiB --world 4 --rank 1 --steps 2 --measure-step \
            --engine fake --with checkpoint=2 --with fused --answer a=b.py:3=inf --ops --max-memory 32MiB \
            -o x.flood --force -m train --batch"
            .split_whitespace()
            .map(OsString::from)
            .collect::<Vec<_>>();
        words.push(OsString::from_vec(vec![b'a', 0xff]));
        let Words::Estimate(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("an estimate");
        };
        let mut request = request(args).unwrap();
        request.run.output = Some(OsString::from_vec(vec![0xfe]).into());
        request.record_only_gpus();
        let written = serde_json::to_vec(&request).unwrap();
        assert_eq!(serde_json::from_slice::<EstimateRequest>(&written).unwrap(), request);
        assert_eq!(request.run.changes.len(), 2);
        assert_eq!(request.run.words().len(), 3);
    }
}
