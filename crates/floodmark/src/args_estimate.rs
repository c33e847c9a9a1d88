//! The words of the commands about a GPU that is not there.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::{ProgramArgs, parse_size};
use crate::vary::{Setting, Vary};

#[derive(Debug, Args)]
pub(crate) struct GpusArgs {
    /// Print the profile of this one, to be changed and used with `--gpu FILE.toml`
    pub(crate) gpu: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "gpu")]
    pub(crate) json: bool,
}

/// How a GPU is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    Phantom,
    Fake,
}

impl EngineName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Phantom => "phantom",
            Self::Fake => "fake",
        }
    }
}

/// Which machine is played, and for how long.
#[derive(Debug, Clone, Args)]
pub(crate) struct PhantomArgs {
    /// How it is played: `phantom` (torch's own host code, exact, needs torch's CUDA build) or `fake` (fake
    /// tensors, any build); by default the phantom where torch was built with CUDA
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<EngineName>,
    /// The card: a name from `floodmark gpus`, or a TOML file
    #[arg(long, default_value = "h200", value_name = "NAME")]
    pub(crate) gpu: String,
    /// How many cards the machine has; by default 1, or up to 8 with `--world`
    #[arg(long, value_name = "N")]
    pub(crate) gpus: Option<u32>,
    /// The memory of each card, instead of its own: `24GiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// Run as this rank
    #[arg(long, value_name = "R", requires = "world")]
    pub(crate) rank: Option<u32>,
    /// Of so many ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) world: Option<u32>,
    /// End the program after so many optimizer steps
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) steps: Option<u32>,
    /// What a line gets when it reads a value back: `train.py:12=1`; can be given several times
    #[arg(long = "answer", value_name = "FILE:LINE=VALUE", value_parser = parse_answer)]
    pub(crate) answers: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct EstimateArgs {
    #[command(flatten)]
    pub(crate) phantom: PhantomArgs,
    /// Write the trace to PATH: a file if it ends in `.flood`, otherwise a folder with a file for each rank
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file, or the folder of traces, at PATH; what is not a trace is kept
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not tell how far it is
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub(crate) phantom: PhantomArgs,
    /// What to vary: `BATCH=1..512`, every eighth with `8..512:8`, doubled with `1..512:x2`, or `BATCH=8,12,20`
    #[arg(long, value_name = "NAME=VALUES")]
    pub(crate) vary: Vary,
    /// Set a variable of the program's environment: `BATCH={BATCH}`; can be given several times
    #[arg(long = "env", value_name = "KEY=VALUE")]
    pub(crate) environment: Vec<Setting>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The value goes where `{NAME}` stands in the words of the program.
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
}

/// `train.py:12=1`: checked here, carried out by the phantom.
fn parse_answer(text: &str) -> Result<String, String> {
    let wrong = || "an answer is `FILE:LINE=VALUE`, such as `train.py:12=1`".to_owned();
    let (place, value) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (file, line) = place.rsplit_once(':').ok_or_else(wrong)?;
    let is_line = line.parse::<u32>().is_ok_and(|line| line > 0);
    if file.trim().is_empty() || !is_line || text.contains(['\n', '\r']) {
        return Err(wrong());
    }
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(format!("{place}=1")),
        "false" => Ok(format!("{place}=0")),
        number if number.parse::<f64>().is_ok() => Ok(format!("{place}={number}")),
        _ => Err("the value of an answer is a number, `true` or `false`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_line_and_a_number() {
        assert_eq!(parse_answer("train.py:12=1"), Ok("train.py:12=1".to_owned()));
        assert_eq!(parse_answer("a=b/c.py:3= True"), Ok("a=b/c.py:3=1".to_owned()));
        assert_eq!(parse_answer("x.py:3=-2.5"), Ok("x.py:3=-2.5".to_owned()));
        for wrong in ["", "x.py=1", "x.py:0=1", "x.py:a=1", ":3=1", "x.py:3=", "x.py:3=yes"] {
            assert!(parse_answer(wrong).is_err(), "{wrong}");
        }
    }
}
