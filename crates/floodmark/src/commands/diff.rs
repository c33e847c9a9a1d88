//! `floodmark diff`: what grew between two traces.

use floodmark_analysis::{Diff, DiffSides, FrameChoice, Question, Side, diff_between as ask};
use floodmark_text::diff::amount;
use floodmark_text::sentence;

use crate::args::DiffArgs;
use crate::commands::answer::Answer;
use crate::text::command_output::CommandOutput;
use crate::text::csv;
use crate::text::failure::{Failure, Problem, Result};
use crate::text::output;
use crate::traces::chosen_trace::{Chosen, TraceChoice, choose};

pub(crate) fn diff(args: &DiffArgs) -> Result<CommandOutput> {
    let answer = answer(args)?;
    let diff = &answer.found;
    let output = if args.csv {
        output::losses(&diff.losses.a, "A: ");
        output::losses(&diff.losses.b, "B: ");
        CommandOutput::exactly(csv::render_diff(diff, csv::Reader::of_stdout()))
    } else {
        answer.output(args.json)?
    };
    let limit = args.fail_above.filter(|&limit| diff.peaks.are_above(limit));
    let failure = limit.map(|limit| {
        let totals = [("allocated", Some(diff.peaks.allocated)), ("reserved", diff.peaks.reserved)];
        let above = totals.into_iter().filter_map(|(name, total)| {
            let total = total.filter(|total| total.is_above(limit))?;
            Some(format!("{name} by {}", amount(&total)))
        });
        let above = above.collect::<Vec<_>>().join(", ");
        Problem::GrewAbove { device: diff.device, limit: sentence::limit(limit), above }.into()
    });
    Ok(CommandOutput { failure, ..output })
}

pub(crate) fn answer(args: &DiffArgs) -> Result<Answer<Diff>> {
    let wanted = TraceChoice { rank: args.rank, device: args.device, at: args.at };
    let a = choose(&args.a, wanted)?;
    // Compare the same rank of two folders.
    let rank = if args.b.is_dir() { args.rank.or(a.rank) } else { args.rank };
    let b = choose(&args.b, TraceChoice { rank, ..wanted })?;
    let question = Question {
        device: args.device,
        by: args.by,
        at: args.at,
        top: (args.top > 0).then_some(args.top),
        frames: FrameChoice::with_torch_frames(args.torch_frames),
    };
    let sides =
        DiffSides { renamed: args.map.clone(), ..DiffSides::new(question.device, question.at) };
    let found = compare(&a, &b, &sides, &question)?;
    let note =
        |name: &str, chosen: &Chosen| chosen.note.as_ref().map(|note| format!("{name}: {note}"));
    let notes = note("A", &a).into_iter().chain(note("B", &b));
    Ok(Answer::new(found, notes).about(&[&a.trace, &b.trace]))
}

fn compare(a: &Chosen, b: &Chosen, sides: &DiffSides, question: &Question) -> Result<Diff> {
    let failed = || format!("Failed to compare `{}` with `{}`", a.path.display(), b.path.display());
    ask(&a.trace, &b.trace, sides, question).map_err(|error| {
        let path = match error.side {
            Side::A => &a.path,
            Side::B => &b.path,
        };
        let cause = format!("`{}` has no answer", path.display());
        Failure::from(error.source).context(cause).context(failed())
    })
}
