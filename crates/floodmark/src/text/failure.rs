//! Errors as the user sees them: what failed, why, what to do.

use std::error::Error;
use std::fmt::{Display, Write};

use anstyle::{AnsiColor, Style};
use floodmark_text::terminal_safe::safe_lines;
use floodmark_trace::{Device, Hint};

/// Errors of a command beyond those that clap reports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Problem {
    #[error("there is no such file")]
    NoSuchScript,
    #[error("floodmark runs inside the processes that a launcher starts: `{order}`")]
    BeforeLauncher { order: String },
    #[error("the module's name is not valid text")]
    ModuleNotText,
    #[error("the folder has no trace (`*.flood`)")]
    NoTraces,
    #[error("no trace is given, and this folder has none (`*.flood`)")]
    NoTraceHere,
    #[error("the folder has no rank {rank}; it has {present}")]
    NoSuchRank { rank: u32, present: String },
    #[error("the file exists")]
    OutputExists,
    #[error("the folder exists")]
    OutputFolderExists,
    #[error("its folder does not exist")]
    NoOutputFolder,
    #[error("it is a folder, and a plan is written to one file")]
    PlanNotAFile,
    #[error("the folder has `{name}`, which is not part of an export")]
    FolderNotOurs { name: String },
    #[error("the format is a folder of files, which stdout cannot be")]
    FolderToStdout,
    #[error("the format is binary, and stdout is a terminal")]
    BinaryToTerminal,
    #[error("two files are rank {rank}: `{one}` and `{other}`")]
    RankTwice { rank: u32, one: String, other: String },
    #[error("`--rank` chooses from a folder of traces, and this is a single one")]
    NotAFolder,
    #[error("rank {rank} is not one of {world}")]
    NoSuchRankOf { rank: u32, world: u32 },
    #[error("`{placeholder}` is neither in the program's arguments nor in `--env`")]
    NothingVaries { placeholder: String },
    #[error("`{name}` is varied twice")]
    VariedTwice { name: String },
    #[error("the program failed with {values}{}", .tail)]
    TryFailed { values: String, tail: String },
    #[error("the temporary folder cannot be written: {error}")]
    NoTemporarySpace { error: String },
    #[error("with {values} it is unknown whether the program fits: {reason}")]
    TryIncomplete { values: String, reason: String },
    #[error("with {values} the program allocated nothing on the GPU")]
    NothingOnGpu { values: String },
    #[error("nothing fits: {values} is the smallest value of `--vary`")]
    NothingFits { values: String },
    #[error("the program fails without changes: {error}")]
    PlanOfFailure { error: String },
    #[error("what the program needs is unknown: {reason}")]
    PlanIncomplete { reason: String },
    #[error("the program allocated nothing on the GPU")]
    PlanOfNothing,
    #[error("no plan fits: every try needs {floor} or more")]
    NoPlan { floor: String },
    #[error("found no plan within the time limit (`--budget`)")]
    OutOfTime,
    #[error(
        "the plan is not confirmed: with it the program ran out of memory on the simulated GPU, or no time was left to run it"
    )]
    PlanNotProven,
    #[error("this format takes one trace only")]
    OneTraceOnly,
    #[error("`--rank` and `--device` are for traces, and this is a text")]
    OptionOfTraces,
    #[error("the source file does not exist on this machine")]
    NoSource,
    #[error("another program uses this port")]
    PortInUse,
    #[error("stdout is not a terminal")]
    NoTerminal,
    #[error("no program is given")]
    NoProgram,
    #[error("the thread that reads the file has ended")]
    ReaderEnded,
    #[error("recording does not work in this environment")]
    CannotRecord,
    #[error("the peak of {device} grew by more than {limit}: {above}")]
    GrewAbove { device: Device, limit: String, above: String },
}

impl Hint for Problem {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoSuchScript => {
                Some("check the path; to run a module by its name, write `-m` before the name")
            }
            Self::NoTraces => Some("record one with `floodmark run script.py`"),
            Self::OneTraceOnly => Some("only `--to html` shows several in one file"),
            Self::PortInUse => Some("choose another port with `--port`, or leave it out"),
            Self::FolderNotOurs { .. } | Self::FolderToStdout => Some("choose a folder with `-o`"),
            Self::BinaryToTerminal => Some("redirect it with `|` or `>`, or name a file with `-o`"),
            Self::RankTwice { .. } => Some("name them `rank-0000.flood`, `rank-0001.flood`, …"),
            Self::OutputExists | Self::OutputFolderExists => {
                Some("choose another with `-o`, or replace it with `--force`")
            }
            Self::NoOutputFolder => Some("create the folder first"),
            Self::PlanNotAFile => Some("name a file: `-o plan.flood`"),
            Self::NotAFolder => Some("leave `--rank` out"),
            Self::NoSource => Some("name the path of a copy, or use `--json`"),
            Self::OptionOfTraces => {
                Some("leave them out: every message is shown with its rank and device")
            }
            Self::NoTraceHere => Some("record one with `floodmark run train.py`, or name a trace"),
            Self::NoTerminal => Some("`--once` writes one frame as text"),
            Self::NoSuchRankOf { .. } => Some("ranks are counted from 0"),
            Self::NothingVaries { .. } => {
                Some("write it where the value goes: `train.py --batch {BATCH}`")
            }
            Self::VariedTwice { .. } => Some("give all its values in one `--vary`"),
            Self::NoTemporarySpace { .. }
            | Self::TryIncomplete { .. }
            | Self::PlanIncomplete { .. } => Some(
                "free space where temporary files go, or choose another folder with the variable `TMPDIR`",
            ),
            Self::TryFailed { .. } | Self::NothingOnGpu { .. } => {
                Some("run `floodmark estimate` with this value to see the whole error")
            }
            Self::NothingFits { .. } => {
                Some("start lower, or choose another GPU (`floodmark gpus`)")
            }
            Self::PlanOfFailure { .. } | Self::PlanOfNothing => {
                Some("run `floodmark estimate` with the same options to see the whole error")
            }
            Self::NoPlan { .. } => Some(
                "make the batch smaller (`floodmark fit` finds the largest that fits), or choose another GPU \
                 (`floodmark gpus`)",
            ),
            Self::OutOfTime => {
                Some("run it again with a larger `--budget`: finished tries are not repeated")
            }
            Self::PlanNotProven => Some("run it again with a little less `--memory`"),
            Self::BeforeLauncher { .. } => Some(
                "or run one rank of N without the launcher: `floodmark estimate --world N SCRIPT.py`",
            ),
            Self::NoProgram => Some("name a script, or a module with `-m`"),
            Self::ReaderEnded => Some("start the command again"),
            Self::ModuleNotText
            | Self::NoSuchRank { .. }
            | Self::CannotRecord
            | Self::GrewAbove { .. } => None,
        }
    }
}

/// The result of work for a command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// An error with its causes and a hint.
///
/// Only errors that implement [`Hint`] convert to it, so every type of error has to decide on hints.
#[derive(Debug)]
pub(crate) struct Failure {
    error: anyhow::Error,
    hint: Option<&'static str>,
}

impl<E: Error + Hint + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let hint = error.hint();
        Self { error: error.into(), hint }
    }
}

impl Failure {
    /// An error of another library, which has no hint.
    pub(crate) fn from_library(error: impl Error + Send + Sync + 'static) -> Self {
        Self { error: error.into(), hint: None }
    }

    /// Adds an error with this one as its cause.
    pub(crate) fn context(self, text: impl Display + Send + Sync + 'static) -> Self {
        Self { error: self.error.context(text), ..self }
    }
}

/// Adds the failed operation to an error, as `anyhow::Context` does.
pub(crate) trait Context<T>: Sized {
    fn with_context<C>(self, text: impl FnOnce() -> C) -> Result<T>
    where
        C: Display + Send + Sync + 'static;

    fn context(self, text: impl Display + Send + Sync + 'static) -> Result<T> {
        self.with_context(|| text)
    }
}

impl<T, E: Into<Failure>> Context<T> for Result<T, E> {
    fn with_context<C>(self, text: impl FnOnce() -> C) -> Result<T>
    where
        C: Display + Send + Sync + 'static,
    {
        self.map_err(|error| error.into().context(text()))
    }
}

/// The message without styles.
pub(crate) fn plain_message(failure: &Failure) -> String {
    anstream::adapter::strip_str(&message(failure)).to_string()
}

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// The message, with styles that the stream may strip. Control characters in names are escaped.
pub(crate) fn message(failure: &Failure) -> String {
    let error = &failure.error;
    let mut text = format!("{ERROR}error{ERROR:#}: {}\n", safe_lines(&error.to_string()));
    for cause in error.chain().skip(1) {
        let _ = writeln!(text, "  Caused by: {}", safe_lines(&cause.to_string()));
    }
    if let Some(hint) = failure.hint {
        text.push('\n');
        text.push_str(&hint_line(hint));
    }
    text
}

/// The message for an invalid command line, from clap's text without styles. Control characters are escaped.
pub(crate) fn usage_message(text: &str) -> String {
    let text = safe_lines(text);
    match text.strip_prefix("error:") {
        Some(rest) => format!("{ERROR}error{ERROR:#}:{rest}"),
        None => text.into_owned(),
    }
}

/// A hint as a line of its own.
pub(crate) fn hint_line(hint: &str) -> String {
    format!("{HINT}hint{HINT:#}: {}\n", safe_lines(hint))
}
