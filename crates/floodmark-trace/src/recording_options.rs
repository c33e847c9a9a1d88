//! The options of a recording, for the command line, Python and the recorder alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a recording is made. Each field is an option of `floodmark.trace` with that name, and one of `floodmark run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct RecordingOptions {
    /// Whether the Python call stack of every allocation is recorded.
    pub stacks: bool,
    /// Whether the names of operators are recorded, which slows down every operator.
    pub ops: bool,
    /// Whether the program's own source files that allocate are stored in the trace, without those of installed packages.
    /// Needs `stacks`.
    pub source: bool,
    /// How many bytes the recorder itself may use: a number, or a text such as `256MiB`. At least 16 MiB.
    #[schemars(with = "BytesOrText")]
    pub max_memory: u64,
    /// After how many events the recording stops, checked whenever events are written to a file; null for no limit.
    /// Without a file, events that fit in memory are always kept.
    pub max_events: Option<u64>,
    /// After how many seconds the recording stops, checked whenever events are written or kept; null for no limit.
    pub max_seconds: Option<u64>,
    /// Whether forked child processes are recorded too, each in its own file.
    pub follow_fork: bool,
}

/// A size as the user writes it. Python turns texts into numbers.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum BytesOrText {
    Bytes(u64),
    Text(String),
}

impl Default for RecordingOptions {
    fn default() -> Self {
        Self {
            stacks: true,
            ops: false,
            source: false,
            max_memory: 256 << 20,
            max_events: None,
            max_seconds: None,
            follow_fork: false,
        }
    }
}
