//! `floodmark estimate train.py --gpu h100`: options of ours behind the program are ours.
//!
//! Whatever follows a program belongs to it, but for `estimate` and `fit` people write the card behind the
//! script. So options of the command that stand right behind the program are put before it, until the first
//! word that is none of them. What was given before the program already is not taken again: then it is the
//! program's. `--` ends it: all that follows is the program's.

use std::ffi::{OsStr, OsString};

use clap::{ArgAction, Command};

/// The commands that take their options behind the program too.
const COMMANDS: [&str; 2] = ["estimate", "fit"];
/// What every program may mean as its own.
const NEVER: [&str; 3] = ["help", "is_module", "words"];

/// An option of a command, as it stands in the words.
struct Found {
    id: String,
    /// How many words it takes.
    words: usize,
    /// Whether it may be given several times.
    repeats: bool,
}

/// The words with our options before the program.
pub(crate) fn first(cli: &Command, words: Vec<OsString>) -> Vec<OsString> {
    let command = words.get(1).and_then(|name| name.to_str());
    let command = command.filter(|name| COMMANDS.contains(name));
    let Some(command) = command.and_then(|name| cli.find_subcommand(name)) else {
        return words;
    };
    let mut given = Vec::new();
    let mut at = 2;
    while let Some(found) = words.get(at).and_then(|word| option(command, word)) {
        given.push(found.id);
        at += found.words;
    }
    // Something that is no option, or one that we do not know: the parser has its say.
    if words.get(at).is_none_or(|word| word.as_encoded_bytes().starts_with(b"-")) {
        return words;
    }
    let behind = at + 1;
    let mut end = behind;
    while let Some(found) = words.get(end).and_then(|word| option(command, word)) {
        let is_again = !found.repeats && given.contains(&found.id);
        if NEVER.contains(&found.id.as_str()) || is_again || end + found.words > words.len() {
            break;
        }
        given.push(found.id);
        end += found.words;
    }
    let rest = if words.get(end).is_some_and(|word| word == "--") { end + 1 } else { end };
    [&words[..at], &words[behind..end], &words[at..behind], &words[rest..]].concat()
}

/// The option that a word begins.
fn option(command: &Command, word: &OsStr) -> Option<Found> {
    let word = word.to_str()?;
    let (name, has_value) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
    let argument = command.get_arguments().find(|argument| {
        let long =
            argument.get_long().and_then(|long| name.strip_prefix("--").map(|name| name == long));
        let short = argument.get_short().map(|short| word == format!("-{short}"));
        long.unwrap_or(false) || short.unwrap_or(false)
    })?;
    let takes_value = argument.get_action().takes_values();
    Some(Found {
        id: argument.get_id().to_string(),
        words: if takes_value && !has_value { 2 } else { 1 },
        repeats: matches!(argument.get_action(), ArgAction::Append),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn sorted(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words = first(&crate::args::Cli::command(), words);
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_behind_the_program_come_before_it() {
        for (written, meant) in [
            ("f estimate train.py --gpu h100", "f estimate --gpu h100 train.py"),
            (
                "f estimate t.py --gpu=h100 --steps 3 --lr 1",
                "f estimate --gpu=h100 --steps 3 t.py --lr 1",
            ),
            ("f estimate -m pkg --json -o x.flood a", "f estimate -m --json -o x.flood pkg a"),
            ("f fit t.py --vary B=1..4 --batch {B}", "f fit --vary B=1..4 t.py --batch {B}"),
            (
                "f estimate t.py --answer a:1=1 --answer a:2=1",
                "f estimate --answer a:1=1 --answer a:2=1 t.py",
            ),
        ] {
            assert_eq!(sorted(written), meant, "{written}");
        }
    }

    #[test]
    fn what_is_the_programs_stays_behind_it() {
        for line in [
            "f estimate --gpu h100 train.py --gpu 0",
            "f estimate train.py --help",
            "f estimate train.py --lr 1 --gpu h100",
            "f estimate train.py run --gpu h100",
            "f estimate train.py --gpu",
            "f estimate --nonsense train.py --gpu h100",
            "f run train.py --json",
            "f report x.flood --json",
            "f",
        ] {
            assert_eq!(sorted(line), line);
        }
        assert_eq!(sorted("f estimate t.py -- --gpu 0"), "f estimate t.py --gpu 0");
        assert_eq!(
            sorted("f estimate t.py --gpu t4 -- --gpu 0"),
            "f estimate --gpu t4 t.py --gpu 0"
        );
    }
}
