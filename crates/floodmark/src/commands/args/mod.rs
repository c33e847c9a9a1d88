//! The words of the command line.

pub(crate) mod estimate;
pub(crate) mod misplaced;
pub(crate) mod varied_value;
pub(crate) mod watch;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use floodmark_allocator::TorchVersion;
use floodmark_analysis::{At, By, Limit};
use floodmark_session::export::format::Format;
use floodmark_session::size::parse_size;
use floodmark_trace::{Bytes, Device};

use crate::commands::run::LEAST_RECORDER_BYTES;

pub(crate) use crate::commands::args::estimate::{
    EngineName, EstimateArgs, FitArgs, GpusArgs, PhantomArgs,
};
pub(crate) use crate::commands::args::watch::{MetricsArgs, TopArgs};

/// Shows how high memory stood in a `PyTorch` program, and what filled it.
#[derive(Debug, Parser)]
#[command(name = "floodmark", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record the memory of a Python program, without changing the program
    Run(RunArgs),
    /// Run a program on a simulated GPU and show whether it fits
    Estimate(EstimateArgs),
    /// Find the largest value with which a program fits on a simulated GPU
    Fit(FitArgs),
    /// List the GPU profiles of `estimate` and `fit`
    Gpus(GpusArgs),
    /// Say what a trace holds
    Info(InfoArgs),
    /// Say what filled a device at a moment
    Report(ReportArgs),
    /// Show traces in the browser
    View(ViewArgs),
    /// Write a trace in the format of another tool
    Export(ExportArgs),
    /// Say what other allocator settings, or another card, would have done to the same program
    Simulate(SimulateArgs),
    /// Say why a request could not be met
    Oom(OomArgs),
    /// Watch a trace in the terminal, also while it grows
    Top(TopArgs),
    /// Serve the figures of a trace to Prometheus, also while it grows
    Metrics(MetricsArgs),
    /// Say what to change, with the bytes that each change saves
    Advise(AdviseArgs),
    /// Say what grew between two traces
    Diff(DiffArgs),
    /// Say which lines hold more from step to step
    Leaks(LeaksArgs),
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct RunArgs {
    /// Write the trace to PATH: a file if it ends in `.flood`, otherwise a folder with a file for each rank
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Record these devices: `all`, or names such as `cpu,cuda:0`
    #[arg(long, default_value = "all", value_parser = parse_devices)]
    pub(crate) devices: Devices,
    /// Record no Python call stacks
    #[arg(long)]
    pub(crate) no_stacks: bool,
    /// Record the names of operators, at a cost for each operator
    #[arg(long)]
    pub(crate) ops: bool,
    /// Limit the memory of the recorder: 16MiB or more
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = parse_max_memory)]
    pub(crate) max_memory: u64,
    /// Record forked child processes too, each in its own file
    #[arg(long)]
    pub(crate) follow_fork: bool,
    /// Replace the file, or the folder of traces, at PATH; what is not a trace is kept
    #[arg(long)]
    pub(crate) force: bool,
    /// Print no summary at the end, and no hints
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
    /// Script or module, then its own arguments: everything after its name belongs to it
    #[arg(required = true, value_name = "PROGRAM", trailing_var_arg = true)]
    pub(crate) words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// A `.flood` file, a torch memory snapshot, or a folder with one per rank
    pub(crate) trace: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which trace is asked, and of which device.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// A `.flood` file, a torch memory snapshot, or a folder with one per rank
    pub(crate) trace: PathBuf,
    /// The device; by default the CUDA device with the highest peak, or the CPU where there is none
    #[arg(long, value_parser = parse_device)]
    pub(crate) device: Option<Device>,
    /// The rank, in a folder; by default the one with the highest peak
    #[arg(long)]
    pub(crate) rank: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// What the rows are
    #[arg(long, default_value = "line", value_parser = by_parser())]
    pub(crate) by: By,
    /// The moment: `peak`, `oom`, `end`, or seconds since the recording began
    #[arg(long, default_value = "peak", value_name = "MOMENT")]
    pub(crate) at: At,
    /// How many rows to show; 0 shows all
    #[arg(long, default_value_t = 25, value_name = "N")]
    pub(crate) top: usize,
    /// Attribute allocations to torch's own frames instead of the calling line; show C++ frames
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
pub(crate) struct DiffArgs {
    /// The trace before: a `.flood` file, a torch memory snapshot, or a folder with one per rank
    pub(crate) a: PathBuf,
    /// The trace after
    pub(crate) b: PathBuf,
    /// What the rows are
    #[arg(long, default_value = "line", value_parser = by_parser())]
    pub(crate) by: By,
    /// The moment: `peak`, `oom`, `end`, or seconds since the recording began
    #[arg(long, default_value = "peak", value_name = "MOMENT")]
    pub(crate) at: At,
    /// The device; by default that of A with the highest peak, a CUDA device before the CPU
    #[arg(long, value_parser = parse_device)]
    pub(crate) device: Option<Device>,
    /// The rank, in folders; by default the one with the highest peak in A
    #[arg(long)]
    pub(crate) rank: Option<u32>,
    /// How many rows to show; 0 shows all
    #[arg(long, default_value_t = 25, value_name = "N")]
    pub(crate) top: usize,
    /// Attribute allocations to torch's own frames instead of the calling line; show C++ frames
    #[arg(long)]
    pub(crate) torch_frames: bool,
    /// End with exit status 1 when the peak, allocated or reserved, grew by more: `5%` or `200MiB`
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
    /// How many rows to show; 0 shows all
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
    /// Further traces, for `html`
    #[arg(value_name = "TRACE")]
    pub(crate) more: Vec<PathBuf>,
    /// The format
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    pub(crate) to: Format,
    /// Where to write it, `-` for stdout; by default beside the trace
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Only this device
    #[arg(long, value_parser = parse_device)]
    pub(crate) device: Option<Device>,
    /// The rank, in a folder; by default all of them where the format is a folder, otherwise the one with the highest peak
    #[arg(long)]
    pub(crate) rank: Option<u32>,
    /// Replace what an export has written there
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// `.flood` files, torch memory snapshots, or folders with one per rank
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// The port; by default one that is free
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub(crate) port: u16,
    /// Print the address, and do not open a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Show traces while they are recorded: the page grows with them
    #[arg(long)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Settings to try, as `PYTORCH_CUDA_ALLOC_CONF` has them; can be given several times
    #[arg(long, value_name = "CONF", allow_hyphen_values = true)]
    pub(crate) alloc_conf: Vec<String>,
    /// How much torch may reserve, as if the card had no more: `24GiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// Try a set of settings that often help, and name the best
    #[arg(long)]
    pub(crate) sweep: bool,
    /// Whose rules: a version of torch such as `2.11`; by default the one that recorded
    #[arg(long, value_name = "VERSION", value_parser = parse_torch)]
    pub(crate) torch: Option<TorchVersion>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OomArgs {
    /// A `.flood` file, a torch memory snapshot, or a folder with one per rank
    pub(crate) trace: PathBuf,
    /// The device; by default the one whose request failed
    #[arg(long, value_parser = parse_device)]
    pub(crate) device: Option<Device>,
    /// The rank, in a folder; by default one that ran out of memory
    #[arg(long)]
    pub(crate) rank: Option<u32>,
    /// How many lines and modules to show; 0 shows all
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

/// Which devices are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Devices {
    All,
    These(Vec<Device>),
}

fn by_parser() -> impl TypedValueParser<Value = By> {
    PossibleValuesParser::new(By::ALL.map(By::name)).try_map(|name| name.parse::<By>())
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

/// A limit that the recorder can keep.
fn parse_max_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < LEAST_RECORDER_BYTES {
        return Err(format!("the recorder needs {}MiB or more", LEAST_RECORDER_BYTES >> 20));
    }
    Ok(bytes)
}

/// `5%`, `0.5 %` or a size.
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
        assert!(run.ops && run.program.is_module && !run.quiet);
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
