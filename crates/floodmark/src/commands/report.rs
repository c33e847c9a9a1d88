//! `floodmark report`: what filled a device at a moment.

use floodmark_analysis::{FrameChoice, Question, Report, add_category_peaks, report as ask};

use crate::args::ReportArgs;
use crate::commands::answer::Answer;
use crate::text::command_output::CommandOutput;
use crate::text::csv;
use crate::text::failure::{Context, Result};
use crate::text::output;
use crate::traces::chosen_trace::{Chosen, choose_source};

pub(crate) fn report(args: &ReportArgs) -> Result<CommandOutput> {
    let answer = answer(args)?;
    if args.csv {
        output::losses(&answer.found.losses, "");
        return Ok(CommandOutput::exactly(csv::render(&answer.found, csv::Reader::of_stdout())));
    }
    answer.output(args.json)
}

pub(crate) fn answer(args: &ReportArgs) -> Result<Answer<Report>> {
    let Chosen { path, trace, note, .. } = choose_source(&args.source, args.at)?;
    let question = Question {
        device: args.source.device,
        by: args.by,
        at: args.at,
        top: (args.top > 0).then_some(args.top),
        frames: FrameChoice::with_torch_frames(args.torch_frames),
    };
    let failed = || format!("Failed to report on `{}`", path.display());
    let mut found = ask(&trace, &question).with_context(failed)?;
    add_category_peaks(&trace, &mut found).with_context(failed)?;
    Ok(Answer::new(found, note).about(&[&trace]))
}
