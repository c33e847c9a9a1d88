//! `floodmark estimate`: what the Python side is to do.

use anyhow::{Context, Result};
use floodmark_profiles::PhantomMachine;
use floodmark_trace::Bytes;

use crate::commands::args::{EngineName, EstimateArgs, PhantomArgs};
use crate::commands::run::{self, RunPlan};
use crate::text::failure::Problem;

/// How much memory the recorder may use: that of `floodmark run`.
const RECORDER_BYTES: u64 = 256 << 20;

/// A machine has at most this many GPUs, unless the user says otherwise.
const USUAL_GPUS: u32 = 8;

/// A program to record on a phantom GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct EstimatePlan {
    /// The program, and how it is recorded.
    pub run: RunPlan,
    /// The engine: `phantom` or `fake`; none for the best that works here.
    pub engine: Option<&'static str>,
    /// The simulated machine.
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
    let failed = || format!("Failed to simulate a `{}`", args.gpu);
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
