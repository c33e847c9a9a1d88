//! Options of the commands that use a simulated GPU.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use floodmark_profiles::{Change, Objective, ValueAt};
use floodmark_trace::Engine;

use crate::args::recording::SharedRecordingArgs;
use crate::args::varied_value::{Setting, VariedValue};
use crate::args::{ProgramArgs, parse_gpu_memory};

#[derive(Debug, Args)]
pub(crate) struct GpusArgs {
    /// Print this GPU profile as TOML, to edit and use with `--gpu FILE.toml`
    pub(crate) gpu: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "gpu")]
    pub(crate) json: bool,
}

/// The engine that simulates a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    Phantom,
    Fake,
}

impl From<EngineName> for Engine {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Phantom => Self::Phantom,
            EngineName::Fake => Self::Fake,
        }
    }
}

/// Options for the simulated GPUs and the length of the run.
#[derive(Debug, Clone, Args)]
pub(crate) struct PhantomArgs {
    /// Simulate with this engine: `phantom` (torch's own host code and allocator; needs a CUDA build of torch) or
    /// `fake` (fake tensors; any build) [default: `phantom` with a CUDA build of torch, otherwise `fake`]
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<EngineName>,
    /// Simulate this GPU: a name from `floodmark gpus`, or a TOML file
    #[arg(long, default_value = "h200", value_name = "NAME")]
    pub(crate) gpu: String,
    /// Simulate N GPUs [default: 1; with `--world` its size, at most 8; under a launcher one for each rank of this machine]
    #[arg(long, value_name = "N")]
    pub(crate) gpus: Option<u32>,
    /// Memory of each GPU, instead of that in its profile: `24GiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_gpu_memory)]
    pub(crate) memory: Option<u64>,
    /// Run as rank R [default: 0]
    #[arg(long, value_name = "R", requires = "world")]
    pub(crate) rank: Option<u32>,
    /// Simulate a world of N ranks; this process is one of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) world: Option<u32>,
    /// Stop after K steps: optimizer steps, `floodmark.step()`, or calls of `backward()` if there are neither
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) steps: Option<u32>,
    /// Value that this line reads back from the GPU, where the estimate cannot compute it: `train.py:12=1`; may be repeated
    #[arg(long = "answer", value_name = "FILE:LINE=VALUE")]
    pub(crate) answers: Vec<ValueAt>,
    /// Apply a change to the program while it runs, without editing it: `checkpoint=12`, `fused` (see `floodmark plan`); may be repeated
    #[arg(long = "with", value_name = "CHANGE")]
    pub(crate) changes: Vec<Change>,
    /// After `--steps`, run further steps that are not recorded, and say what a step costs
    #[arg(long, hide = true, requires = "steps")]
    pub(crate) measure_step: bool,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct EstimateArgs {
    #[command(flatten)]
    pub(crate) phantom: PhantomArgs,
    /// Write the trace to PATH: a file if it ends in `.flood`, otherwise a folder with a file for each rank
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) recording: SharedRecordingArgs,
    /// Replace the trace, or the folder of traces, at PATH; other files are kept
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not run a program that runs out of memory again, with more of it, to see what the whole run needs
    #[arg(long)]
    pub(crate) no_rerun: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress and no hints
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub(crate) phantom: PhantomArgs,
    /// Vary NAME: `BATCH=1..512`, in steps of 8 with `8..512:8`, doubling with `1..512:x2`, or `BATCH=8,12,20`.
    /// `{BATCH}` in the program's arguments and in `--env` becomes the value; may be repeated
    #[arg(long, value_name = "NAME=VALUES", required = true)]
    pub(crate) vary: Vec<VariedValue>,
    /// What is to be as large as possible, where several values are varied: `BATCH*SEQ` [default: the product of the values
    /// with which the need for memory grows]
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) objective: Option<Objective>,
    /// Set an environment variable of the program: `BATCH={BATCH}`; may be repeated
    #[arg(long = "env", value_name = "KEY=VALUE")]
    pub(crate) environment: Vec<Setting>,
    /// Run N tries at a time [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Try everything again: neither read nor write what earlier tries found
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) phantom: PhantomArgs,
    /// Write the trace of the unchanged program, with the plan in it, to FILE (`.flood`), for `view` and `export`
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Start no further try after this time: `90s`, `5min`, `1h`
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) budget: Option<Duration>,
    /// Run N tries at a time [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Also try to shard the model over 2, 4, 8 and so on up to N GPUs with FSDP2. What a GPU needs is reported
    #[arg(long, value_name = "N", conflicts_with_all = ["world", "run"])]
    pub(crate) shard_over: Option<u32>,
    /// Also try to compile the model with `torch.compile`, which takes long
    #[arg(long)]
    pub(crate) compile: bool,
    /// Also try other values of an argument of the program: `ACCUMULATE=1,2,4,8`, the first one for the program as it is.
    /// `{ACCUMULATE}` in its arguments and in `--env` becomes the value; may be repeated
    #[arg(long, value_name = "NAME=VALUES")]
    pub(crate) vary: Vec<VariedValue>,
    /// Set an environment variable of the program: `ACCUMULATE={ACCUMULATE}`; may be repeated
    #[arg(long = "env", value_name = "KEY=VALUE")]
    pub(crate) environment: Vec<Setting>,
    /// Try everything again: neither read nor write what earlier tries found
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Then run the program with the plan, as `floodmark run --with` does
    #[arg(long, conflicts_with = "json")]
    pub(crate) run: bool,
    /// Number of tries to show; 0 shows all
    #[arg(long, default_value_t = 25, value_name = "N")]
    pub(crate) top: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
}

/// Parses `90s`, `5min` or `1h`; a number without a unit is in seconds.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a number and `s`, `min` or `h`, such as `5min`".to_owned();
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        let seconds = |text: &str| parse_duration(text).map(|time| time.as_secs());
        assert_eq!(
            ["90", "90s", "5min", "5 m", "1h"].map(|text| seconds(text).unwrap()),
            [90, 90, 300, 300, 3600]
        );
        for wrong in ["", "min", "5 days", "-1s", "nan"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
