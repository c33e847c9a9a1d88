//! Hints for options of floodmark that follow the program.
//!
//! Everything after the program belongs to the program, as with `python`: a script may have its own `--gpu` or `-o`.
//! The user may have meant floodmark's option, so a hint shows where to write it.

use std::ffi::{OsStr, OsString};

use clap::{ArgAction, Command};

/// The commands that launch a program.
const COMMANDS: [&str; 4] = ["run", "estimate", "fit", "plan"];
/// Options that every program may have: they get no hint.
const EVERYWHERE: [&str; 2] = ["help", MODULE];
/// The id of `-m`.
const MODULE: &str = "is_module";

/// An option of a command, as written on the command line.
struct OptionWords {
    id: String,
    /// Number of words that it takes, the option included.
    words: usize,
    /// Whether the user may repeat it.
    repeats: bool,
}

/// Returns a hint for options of floodmark that follow the program; `None` if there are none.
pub(crate) fn hint(cli: &Command, words: &[OsString]) -> Option<String> {
    let name = words.get(1)?.to_str().filter(|name| COMMANDS.contains(name))?;
    let command = cli.find_subcommand(name)?;
    let mut given = Vec::new();
    let mut before: Vec<&OsString> = Vec::new();
    let mut at = 2;
    while let Some(found) = words.get(at).and_then(|word| option(command, word)) {
        if found.id != MODULE {
            before.extend(&words[at..words.len().min(at + found.words)]);
        }
        at += found.words;
        given.push(found.id);
    }
    // `-` is standard input.
    let is_program = |word: &&OsString| *word == "-" || !word.as_encoded_bytes().starts_with(b"-");
    let program = words.get(at).filter(is_program)?;
    if given.iter().any(|id| id == "quiet") {
        return None;
    }
    let misplaced = misplaced(command, &given, &words[at + 1..]);
    if misplaced.is_empty() {
        return None;
    }
    let options = joined(&misplaced);
    let all = joined(&[before, misplaced].concat());
    let module = if given.iter().any(|id| id == MODULE) { "-m " } else { "" };
    let program = program.to_string_lossy();
    Some(format!(
        "`{options}` follows `{program}` and is passed to it; to give it to floodmark, write \
         `floodmark {name} {all} {module}{program} …`"
    ))
}

/// The options after the program that the command has too and did not get.
fn misplaced<'a>(command: &Command, given: &[String], behind: &'a [OsString]) -> Vec<&'a OsString> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(word) = behind.get(at).filter(|word| *word != "--") {
        let Some(option) = option(command, word) else {
            at += 1;
            continue;
        };
        let words = &behind[at..behind.len().min(at + option.words)];
        let is_given = !option.repeats && given.contains(&option.id);
        if !is_given && words.len() == option.words && !EVERYWHERE.contains(&&*option.id) {
            found.extend(words);
        }
        at += option.words;
    }
    found
}

fn joined(words: &[&OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The option of the command that this word names.
fn option(command: &Command, word: &OsStr) -> Option<OptionWords> {
    let word = word.to_str()?;
    let (name, has_value) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
    let argument = command.get_arguments().find(|argument| {
        let long =
            argument.get_long().and_then(|long| name.strip_prefix("--").map(|name| name == long));
        let short = argument.get_short().map(|short| word == format!("-{short}"));
        long.unwrap_or(false) || short.unwrap_or(false)
    })?;
    let takes_value = argument.get_action().takes_values();
    Some(OptionWords {
        id: argument.get_id().to_string(),
        words: if takes_value && !has_value { 2 } else { 1 },
        repeats: matches!(argument.get_action(), ArgAction::Append),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn hint_for(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        hint(&crate::args::Cli::command(), &words)
    }

    #[test]
    fn an_option_of_ours_behind_the_program_gets_a_hint() {
        for (written, option, meant) in [
            ("f estimate t.py --gpu h100", "--gpu h100", "estimate --gpu h100 t.py"),
            ("f estimate t.py --lr 1 --gpu=t4 x", "--gpu=t4", "estimate --gpu=t4 t.py"),
            (
                "f estimate -m pkg --json -o x.flood a",
                "--json -o x.flood",
                "estimate --json -o x.flood -m pkg",
            ),
            (
                "f estimate --gpu t4 t.py --gpu 0 --steps 3",
                "--steps 3",
                "estimate --gpu t4 --steps 3 t.py",
            ),
            ("f fit t.py --vary B=1..4 --batch {B}", "--vary B=1..4", "fit --vary B=1..4 t.py"),
            ("f run t.py -o x.flood", "-o x.flood", "run -o x.flood t.py"),
            ("f run - -o x.flood", "-o x.flood", "run -o x.flood -"),
        ] {
            let hint = hint_for(written).unwrap_or_default();
            assert!(hint.starts_with(&format!("`{option}` follows")), "{written}: {hint}");
            assert!(hint.ends_with(&format!("`floodmark {meant} …`")), "{written}: {hint}");
        }
    }

    #[test]
    fn what_is_the_programs_alone_gets_none() {
        for line in [
            "f estimate --gpu h100 train.py --gpu 0",
            "f estimate --quiet train.py --gpu 0",
            "f estimate train.py --help -h -m",
            "f estimate train.py -- --gpu 0",
            "f estimate train.py --gpu",
            "f estimate train.py --gpus-per-node 8",
            "f estimate --nonsense train.py --gpu h100",
            "f report x.flood --json",
            "f",
        ] {
            assert_eq!(hint_for(line), None, "{line}");
        }
    }
}
