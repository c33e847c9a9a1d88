//! The options of the command line.

pub(crate) mod estimate;
pub(crate) mod misplaced;
pub(crate) mod recording;
pub(crate) mod varied_value;
pub(crate) mod watch;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, Styles, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use floodmark_allocator::TorchVersion;
use floodmark_analysis::{At, By, FrameChoice, Limit};
use floodmark_files::export::format::Format;
use floodmark_files::size::parse_size;
use floodmark_profiles::Change;
use floodmark_trace::{Bytes, Device};

pub(crate) use crate::args::estimate::{EstimateArgs, FitArgs, GpusArgs, PhantomArgs, PlanArgs};
pub(crate) use crate::args::recording::RecordingArgs;
pub(crate) use crate::args::varied_value::{Setting, VariedValue};
pub(crate) use crate::args::watch::{MetricsArgs, TopArgs};

/// The smallest limit on the recorder's own memory.
pub const LEAST_RECORDER_BYTES: u64 = 16 << 20;

/// Shows what fills the memory of a `PyTorch` program.
#[derive(Debug, Parser)]
#[command(name = "floodmark", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// clap's message about an invalid command line, without styles; control characters of the command line are escaped.
pub(crate) fn usage_error(words: &[OsString]) -> String {
    let parsed = Cli::command().styles(Styles::plain()).try_get_matches_from(words);
    parsed.map_or_else(|error| error.render().ansi().to_string(), |_| String::new())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record the memory of a Python program, without changing the program
    Run(RunArgs),
    /// Run a program on a simulated GPU and show whether it fits
    Estimate(EstimateArgs),
    /// Find the largest value that fits on a simulated GPU
    Fit(FitArgs),
    /// Find the cheapest changes with which a program fits on a simulated GPU
    Plan(PlanArgs),
    /// List the GPUs that can be simulated
    Gpus(GpusArgs),
    /// Summarize a trace: devices, peaks, events, lost events
    Info(InfoArgs),
    /// Show what filled the memory of a device at its peak or at another time
    Report(ReportArgs),
    /// Show whose memory is in use on a GPU: torch, this process outside torch, other processes
    Ledger(LedgerArgs),
    /// Print a source file with the bytes beside each line
    Annotate(AnnotateArgs),
    /// Open traces in the browser
    View(ViewArgs),
    /// Convert a trace to the format of another tool
    Export(ExportArgs),
    /// Replay the allocations of a trace under other allocator settings or less memory
    Simulate(SimulateArgs),
    /// Explain why an allocation failed: from a trace, or from torch's message
    Oom(OomArgs),
    /// Watch memory in the terminal, also while the program runs
    Top(TopArgs),
    /// Serve memory metrics to Prometheus, also while the program runs
    Metrics(MetricsArgs),
    /// Suggest changes, each with the bytes that it saves
    Advise(AdviseArgs),
    /// Compare two traces and show what grew
    Diff(DiffArgs),
    /// Show which lines grow from step to step
    Leaks(LeaksArgs),
    /// Answer an assistant's questions about traces: an MCP server on stdin and stdout
    Mcp(McpArgs),
    /// Check whether floodmark works here: torch, CUDA, recorder, simulated GPU, disk
    Doctor(DoctorArgs),
    /// Print the JSON Schema of what `--json` prints
    Schema,
    /// Print the completions of the command line for a shell
    Completions(CompletionsArgs),
    /// Write a man page for every command into a folder
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Write the trace to PATH: a file if it ends in `.flood`, otherwise a folder with a file for each rank
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Record these devices: `all`, or names such as `cpu,cuda:0`
    #[arg(long, default_value = "all", value_parser = parse_devices)]
    pub(crate) devices: Devices,
    #[command(flatten)]
    pub(crate) recording: RecordingArgs,
    /// Replace the trace, or the folder of traces, at PATH; other files are kept
    #[arg(long)]
    pub(crate) force: bool,
    /// Apply a change to the program while it runs, without editing it: `checkpoint=12`, `fused` (see `floodmark plan`); may be repeated
    #[arg(long = "with", value_name = "CHANGE")]
    pub(crate) changes: Vec<Change>,
    /// Print no summary and no hints
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
}

/// The program that a command runs. It comes last: all that follows its name belongs to it.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProgramArgs {
    /// Run the module PROGRAM, as `python -m` does
    #[arg(short = 'm', long = "module")]
    pub(crate) is_module: bool,
    /// Script or module, followed by its own arguments
    #[arg(required = true, value_name = "PROGRAM", trailing_var_arg = true)]
    pub(crate) words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// A `.flood` file, a torch memory snapshot, or a folder with one per rank [default: the newest in this folder]
    pub(crate) trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The trace, the rank and the device that a command reads.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// A `.flood` file, a torch memory snapshot, or a folder with one per rank [default: the newest in this folder]
    pub(crate) trace: Option<PathBuf>,
    /// Device, such as `cuda:0` or `cpu` [default: the CUDA device with the highest peak, otherwise the CPU]
    #[arg(long, value_parser = parse_device)]
    pub(crate) device: Option<Device>,
    /// Rank, for a folder of traces [default: the one with the highest peak]
    #[arg(long)]
    pub(crate) rank: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Group the rows by this
    #[arg(long, default_value = "line", value_parser = by_parser())]
    pub(crate) by: By,
    /// Time: `peak`, `oom`, `end`, the peak of a step (`step:3`) or of a phase of it (`step:3:backward`), or seconds since the recording began
    #[arg(long, default_value = "peak", value_name = "MOMENT")]
    pub(crate) at: At,
    /// Number of rows; 0 shows all
    #[arg(long, default_value_t = 25, value_name = "N")]
    pub(crate) top: usize,
    /// Attribute allocations to torch's own frames, C++ included, instead of the calling line
    #[arg(long)]
    pub(crate) torch_frames: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub(crate) csv: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Time: `peak`, `oom`, `end`, the peak of a step (`step:3`) or of a phase of it (`step:3:backward`), or seconds since the recording began
    #[arg(long, default_value = "peak", value_name = "MOMENT")]
    pub(crate) at: At,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AnnotateArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Source file: a path, or the end of a path in the trace [default: the script that the program began with]
    pub(crate) file: Option<PathBuf>,
    /// Time: `peak`, `oom`, `end`, the peak of a step (`step:3`) or of a phase of it (`step:3:backward`), or seconds since the recording began
    #[arg(long, default_value = "peak", value_name = "MOMENT")]
    pub(crate) at: At,
    /// Show the whole file, not only functions with allocated bytes
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Trace before: a `.flood` file, a torch memory snapshot, or a folder with one per rank
    pub(crate) a: PathBuf,
    /// Trace after
    pub(crate) b: PathBuf,
    /// Group the rows by this
    #[arg(long, default_value = "line", value_parser = by_parser())]
    pub(crate) by: By,
    /// Time: `peak`, `oom`, `end`, the peak of a step (`step:3`) or of a phase of it (`step:3:backward`), or seconds since the recording began
    #[arg(long, default_value = "peak", value_name = "MOMENT")]
    pub(crate) at: At,
    /// Device, such as `cuda:0` or `cpu` [default: the CUDA device of A with the highest peak, otherwise the CPU]
    #[arg(long, value_parser = parse_device)]
    pub(crate) device: Option<Device>,
    /// Rank, for folders of traces [default: the one with the highest peak in A]
    #[arg(long)]
    pub(crate) rank: Option<u32>,
    /// Number of rows; 0 shows all
    #[arg(long, default_value_t = 25, value_name = "N")]
    pub(crate) top: usize,
    /// Attribute allocations to torch's own frames, C++ included, instead of the calling line
    #[arg(long)]
    pub(crate) torch_frames: bool,
    /// File that was renamed between the two, as paths or their ends: `old/net.py=model.py`; may be repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = parse_renamed)]
    pub(crate) map: Vec<(String, String)>,
    /// Exit with status 1 if the allocated or reserved peak grew by more than this: `5%` or `200MiB`
    #[arg(long, value_name = "LIMIT", value_parser = parse_limit)]
    pub(crate) fail_above: Option<Limit>,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub(crate) csv: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LeaksArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Number of rows; 0 shows all
    #[arg(long, default_value_t = 25, value_name = "N")]
    pub(crate) top: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A `.flood` file, a torch memory snapshot, or a folder with one per rank
    pub(crate) trace: PathBuf,
    /// More traces, for `html` only
    #[arg(value_name = "TRACE")]
    pub(crate) more: Vec<PathBuf>,
    /// Format
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    pub(crate) to: Format,
    /// File or folder to write; `-` is stdout [default: beside the trace]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Export only this device
    #[arg(long, value_parser = parse_device)]
    pub(crate) device: Option<Device>,
    /// Rank, for a folder of traces [default: all ranks if the format is a folder, otherwise the one with the highest peak]
    #[arg(long)]
    pub(crate) rank: Option<u32>,
    /// Frames of call stacks, for `speedscope` and `collapsed`: `program` leaves out those of torch, installed packages and Python's library
    #[arg(long, default_value = "program", value_name = "FRAMES", value_parser = frames_parser())]
    pub(crate) frames: FrameChoice,
    /// Replace an earlier export
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// `.flood` files, torch memory snapshots, or folders with one per rank [default: the newest in this folder]
    #[arg(value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// Port [default: a free one]
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub(crate) port: u16,
    /// Print the address and open no browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Update the page while the traces are being recorded
    #[arg(long)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Allocator settings to try, in the format of `PYTORCH_CUDA_ALLOC_CONF`; may be repeated
    #[arg(long, value_name = "CONF", allow_hyphen_values = true)]
    pub(crate) alloc_conf: Vec<String>,
    /// Limit on reserved memory, as on a smaller GPU: `24GiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_gpu_memory)]
    pub(crate) memory: Option<u64>,
    /// Try a list of settings that often help, and name the best one
    #[arg(long)]
    pub(crate) sweep: bool,
    /// Simulate the allocator of this torch version, such as `2.11` [default: the recorded one]
    #[arg(long, value_name = "VERSION", value_parser = parse_torch)]
    pub(crate) torch: Option<TorchVersion>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OomArgs {
    /// A `.flood` file, a torch memory snapshot, a folder with one per rank, a text with torch's message, or `-` for
    /// stdin [default: the newest trace in this folder]
    pub(crate) trace: Option<PathBuf>,
    /// Device, such as `cuda:0` [default: the one whose allocation failed]
    #[arg(long, value_parser = parse_device)]
    pub(crate) device: Option<Device>,
    /// Rank, for a folder of traces [default: one that ran out of memory]
    #[arg(long)]
    pub(crate) rank: Option<u32>,
    /// Number of lines and modules; 0 shows all
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Folders and traces that may be read [default: the working directory]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Offer no `estimate`, which runs a program
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_parser = shell_parser())]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder to write the pages to, such as `~/.local/share/man/man1`
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Which devices are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Devices {
    All,
    These(Vec<Device>),
}

fn by_parser() -> impl TypedValueParser<Value = By> {
    PossibleValuesParser::new(By::ALL.map(By::name)).try_map(|name| name.parse::<By>())
}

/// The shells whose completions are tested.
fn shell_parser() -> impl TypedValueParser<Value = Shell> {
    PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>())
}

/// Which frames of a call stack are shown.
fn frames_parser() -> impl TypedValueParser<Value = FrameChoice> {
    PossibleValuesParser::new(["program", "all"]).try_map(|name| name.parse::<FrameChoice>())
}

/// The names of the formats, with a line of help each.
fn format_parser() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.map(|format| PossibleValue::new(format.name()).help(format.about()));
    PossibleValuesParser::new(names).try_map(|name| Format::choose(Some(&name), None))
}

fn parse_device(text: &str) -> Result<Device, String> {
    text.parse()
        .map_err(|()| "a device is `cpu` or a kind and a number such as `cuda:0`".to_owned())
}

fn parse_torch(text: &str) -> Result<TorchVersion, String> {
    text.parse().map_err(|()| "a version of torch is two numbers such as `2.11`".to_owned())
}

fn parse_devices(text: &str) -> Result<Devices, String> {
    if text == "all" {
        return Ok(Devices::All);
    }
    text.split(',').map(parse_device).collect::<Result<_, _>>().map(Devices::These)
}

/// Parses a limit on the recorder's own memory.
fn parse_max_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    if bytes < LEAST_RECORDER_BYTES {
        return Err(format!("the recorder needs {}MiB or more", LEAST_RECORDER_BYTES >> 20));
    }
    Ok(bytes)
}

/// Parses the memory of a GPU. Refuses a few bytes, which are a forgotten unit: `--memory 24` for 24GiB.
fn parse_gpu_memory(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 1 << 20;
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    if bytes < LEAST && text.trim().parse::<u64>().is_ok() {
        let number = text.trim();
        return Err(format!("that is {number} bytes: write a unit, such as `{number}GiB`"));
    }
    Ok(bytes)
}

/// Parses `old.py=new.py`.
fn parse_renamed(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => {
            Ok((old.to_owned(), new.to_owned()))
        }
        Some(_) | None => {
            Err("a renamed file is two paths such as `train.py=train_v2.py`".to_owned())
        }
    }
}

/// Parses `5%`, `0.5 %` or a size.
fn parse_limit(text: &str) -> Result<Limit, String> {
    let wrong = || "a limit is a percentage such as `5%` or a size such as `200MiB`".to_owned();
    let Some(percent) = text.strip_suffix('%') else {
        return parse_size(text).map(|bytes| Limit::Bytes(Bytes(bytes))).map_err(|_| wrong());
    };
    let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
    if percent.is_finite() && percent >= 0.0 { Ok(Limit::Percent(percent)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use floodmark_trace::RecordingOptions;

    use super::*;

    #[test]
    fn a_limit_is_a_percentage_or_a_size() {
        let limits = ["5%", "0.5 %", "0", "200MiB"].map(|text| parse_limit(text).unwrap());
        let [five, half, none, size] = limits;
        assert_eq!([five, half], [Limit::Percent(5.0), Limit::Percent(0.5)]);
        assert_eq!([none, size], [Limit::Bytes(Bytes(0)), Limit::Bytes(Bytes(200 << 20))]);
        for wrong in ["", "%", "-5%", "nan%", "inf%", "5 percent"] {
            assert!(parse_limit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_follows_the_script_is_its_own() {
        let words = "floodmark run --ops -m pkg.train --quiet -m x --json";
        let cli = Cli::try_parse_from(words.split(' ')).unwrap();
        let Command::Run(run) = cli.command else { panic!("not run") };
        assert!(
            RecordingOptions::from(run.recording.clone()).ops
                && run.program.is_module
                && !run.quiet
        );
        assert_eq!(run.program.words, ["pkg.train", "--quiet", "-m", "x", "--json"]);
    }

    #[test]
    fn options_of_a_script_are_never_taken() {
        let own = "--gpu 0 --gpus 4 --memory 8 --steps 9 --world 2 --rank 1 --engine x -o y --json \
                   --force --answer a --vary b --env c -q -- --gpu 1";
        let own: Vec<&str> = own.split_whitespace().collect();
        let parse = |line: &str| {
            let words = line.split(' ').chain(own.iter().copied());
            Cli::try_parse_from(words).unwrap().command
        };
        let Command::Estimate(estimate) = parse("floodmark estimate train.py") else { panic!() };
        assert_eq!(estimate.program.words[1..], own);
        assert_eq!((&*estimate.phantom.gpu, estimate.output), ("h200", None));
        assert_eq!((estimate.phantom.steps, estimate.phantom.memory), (None, None));
        let Command::Estimate(module) = parse("floodmark estimate -m pkg") else { panic!() };
        assert_eq!(module.program.words[1..], own);
        let Command::Fit(fit) = parse("floodmark fit --vary B=1..2 train.py") else { panic!() };
        assert_eq!(fit.program.words[1..], own);
        let Command::Run(run) = parse("floodmark run train.py") else { panic!() };
        assert_eq!(run.program.words[1..], own);
    }

    #[test]
    fn an_option_that_does_not_exist_is_not_a_program() {
        for words in ["floodmark run --nonsense train.py", "floodmark estimate --gpuu t4 train.py"]
        {
            let error = Cli::try_parse_from(words.split(' ')).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{words}");
        }
    }
}
