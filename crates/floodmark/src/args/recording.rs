//! Options of a recording.

use clap::Args;
use floodmark_trace::RecordingOptions;

use crate::args::parse_max_memory;

/// The options of `floodmark run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RecordingArgs {
    /// Record no Python call stacks
    #[arg(long)]
    no_stacks: bool,
    #[command(flatten)]
    shared: SharedRecordingArgs,
    /// Stop recording after N events, and say so in the trace; the program runs on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_events: Option<u64>,
    /// Stop recording after N seconds, and say so in the trace; the program runs on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_seconds: Option<u64>,
    /// Record forked child processes too, each in its own file
    #[arg(long)]
    follow_fork: bool,
}

/// The options that `floodmark run` shares with `floodmark estimate`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SharedRecordingArgs {
    /// Record the names of operators; slows down every operator. An estimate also prints the calls that added most
    #[arg(long)]
    ops: bool,
    /// Store the program's own source files that allocate in the trace, for `view` and `annotate` elsewhere
    #[arg(long)]
    source: bool,
    /// Limit the memory that the recorder itself uses, at least 16MiB
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = parse_max_memory)]
    max_memory: u64,
}

impl From<RecordingArgs> for RecordingOptions {
    fn from(args: RecordingArgs) -> Self {
        let RecordingArgs { no_stacks, shared, max_events, max_seconds, follow_fork } = args;
        Self { stacks: !no_stacks, max_events, max_seconds, follow_fork, ..shared.into() }
    }
}

impl From<SharedRecordingArgs> for RecordingOptions {
    fn from(args: SharedRecordingArgs) -> Self {
        let SharedRecordingArgs { ops, source, max_memory } = args;
        Self { ops, source, max_memory, ..Self::default() }
    }
}
