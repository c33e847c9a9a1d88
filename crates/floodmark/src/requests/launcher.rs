//! Programs that start the ranks of a job, such as `torchrun`: `floodmark` comes after them on a command line.

use std::ffi::OsString;
use std::path::Path;

use crate::text::shell_word::quoted;

/// Launchers, each with its option for a module.
const LAUNCHERS: [(&str, &str); 3] =
    [("torchrun", "-m"), ("accelerate", "-m"), ("deepspeed", "--module")];

/// For a launcher, the command line with `floodmark COMMAND` after it; `None` for other programs.
pub(crate) fn right_order(command: &str, words: &[OsString]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let name = Path::new(words.first()?).file_name()?.to_str()?;
    let (_, module) = LAUNCHERS.iter().find(|(launcher, _)| *launcher == name)?;
    let is_script = |word: &str| Path::new(word).extension().is_some_and(|end| end == "py");
    let is_program = |word: &&str| is_script(word) || ["-m", "--module"].contains(word);
    let at = words.iter().position(is_program);
    let (launcher, program) = words.split_at(at.unwrap_or(words.len()));
    let mut all: Vec<String> = launcher.iter().map(|word| quoted(word)).collect();
    all.extend([*module, "floodmark", command].map(str::to_owned));
    all.extend(program.iter().map(|word| match *word {
        "--module" => "-m".to_owned(),
        word => quoted(word),
    }));
    if at.is_none() {
        all.push("SCRIPT.py".to_owned());
    }
    Some(all.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floodmark_stands_behind_the_launcher() {
        let order = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            right_order("run", &words)
        };
        for (line, right) in [
            (
                "torchrun --nproc-per-node 2 ddp.py --lr 1",
                "torchrun --nproc-per-node 2 -m floodmark run ddp.py --lr 1",
            ),
            ("/opt/bin/torchrun -m my.train", "/opt/bin/torchrun -m floodmark run -m my.train"),
            ("accelerate launch a.py", "accelerate launch -m floodmark run a.py"),
            ("deepspeed a.py", "deepspeed --module floodmark run a.py"),
            ("torchrun --help", "torchrun --help -m floodmark run SCRIPT.py"),
        ] {
            assert_eq!(order(line).as_deref(), Some(right));
        }
        assert_eq!(order("train.py torchrun"), None);
    }
}
