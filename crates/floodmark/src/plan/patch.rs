//! The plan as code to paste, and as a command that runs the program with it.

use std::ffi::OsString;

use floodmark_profiles::{Change, Combination};
use floodmark_trace::AppliedChange;

use crate::args::PlanArgs;
use crate::plan::arguments::program_with;
use crate::text::shell_word::quoted;

/// Plain torch code of all changes, one after the other; of an argument its value.
pub(super) fn patch_of(changes: &Combination, applied: &[AppliedChange]) -> String {
    let arguments = changes.iter().filter(|change| change.is_argument());
    let arguments = arguments.map(|change| format!("# {change}: an argument of the program\n"));
    let parts = applied.iter().filter(|change| change.is_applied()).map(|change| {
        format!("# {}: {}\n{}\n", change.change, change.target, change.patch.trim_end())
    });
    arguments.chain(parts).collect::<Vec<_>>().join("\n")
}

/// `floodmark run --with … train.py …`.
pub(super) fn run_command(args: &PlanArgs, changes: &Combination) -> String {
    let words = run_words(args, changes);
    let words: Vec<String> = words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    let gpus = changes.iter().map(Change::gpus).max().unwrap_or(1);
    let floodmark = if gpus > 1 {
        format!("torchrun --nproc-per-node {gpus} -m floodmark")
    } else {
        "floodmark".to_owned()
    };
    let variables = program_with(args, changes).1.into_iter();
    let variables = variables.map(|one| format!("{}={} ", one.key, quoted(&one.value)));
    format!("{}{floodmark} {}", variables.collect::<String>(), words.join(" "))
}

/// The words after `floodmark` that run the program with some changes.
pub(super) fn run_words(args: &PlanArgs, changes: &Combination) -> Vec<OsString> {
    let mut words = vec![OsString::from("run")];
    let applied = changes.iter().filter(|change| !change.is_argument());
    for change in args.phantom.changes.iter().chain(applied) {
        words.extend(["--with".into(), change.to_string().into()]);
    }
    if args.program.is_module {
        words.push("-m".into());
    }
    words.extend(program_with(args, changes).0.words);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patch_has_every_change_that_was_applied() {
        let applied = |change: &str, target: &str, patch: &str| AppliedChange {
            change: change.to_owned(),
            target: target.to_owned(),
            patch: patch.to_owned(),
            ..AppliedChange::default()
        };
        let all = [
            applied("fused", "`AdamW`", "a(fused=True)\n"),
            applied("x", "", ""),
            applied("y", "z", "b\n"),
        ];
        assert_eq!(
            patch_of(&Combination::new(), &all),
            "# fused: `AdamW`\na(fused=True)\n\n# y: z\nb\n"
        );
    }
}
