//! `floodmark simulate`: the recorded requests under other allocator settings, or with less memory.

use floodmark_analysis::{At, Simulation, SimulationQuestion, simulation_with};
use floodmark_trace::Bytes;

use crate::args::SimulateArgs;
use crate::commands::answer::Answer;
use crate::text::command_output::CommandOutput;
use crate::text::failure::{Context, Result};
use crate::text::progress::Progress;
use crate::traces::chosen_trace::{Chosen, choose_source};

pub(crate) fn simulate(args: &SimulateArgs) -> Result<CommandOutput> {
    answer(args)?.output(args.json)
}

pub(crate) fn answer(args: &SimulateArgs) -> Result<Answer<Simulation>> {
    let Chosen { path, trace, note, .. } = choose_source(&args.source, At::Peak)?;
    let question = SimulationQuestion {
        device: args.source.device,
        alloc_confs: args.alloc_conf.clone(),
        memory: args.memory.map(Bytes),
        torch: args.torch,
        sweeps: args.sweep,
    };
    let progress = Progress::new("Simulating", 100);
    let tell = |done: usize, all: usize| progress.at((100 * done / all.max(1)) as u64);
    let found = simulation_with(&trace, &question, tell)
        .with_context(|| format!("Failed to simulate `{}`", path.display()))?;
    Ok(Answer::new(found, note).about(&[&trace]))
}
