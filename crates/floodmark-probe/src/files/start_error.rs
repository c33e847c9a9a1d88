//! Why a recording failed to start.

use std::fmt;
use std::io;
use std::path::PathBuf;

use floodmark_trace::Hint;

use crate::budget::LEAST_MEMORY_BYTES;

/// Why a recording failed to start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another thread is starting or ending a recording for too long.
    #[error("another thread of this process is starting or stopping a recording")]
    Busy,
    /// The recorder of this process had to stop, and another window of it is still open.
    #[error("the recorder of this process has stopped: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
    /// The memory limit is too small.
    #[error(
        "failed to start the recorder: a memory limit of {bytes} bytes is too small, the least is {} MiB",
        LEAST_MEMORY_BYTES >> 20
    )]
    LimitTooSmall {
        /// The limit.
        bytes: u64,
    },
    /// There is no memory for the recorder.
    #[error("failed to start the recorder")]
    Recorder(#[source] io::Error),
    /// The path has a file that may not be replaced.
    #[error("failed to record into `{}`: {what}", path.display())]
    Occupied {
        /// The path.
        path: PathBuf,
        /// What is at the path.
        what: Occupant,
    },
    /// A live recording writes there.
    #[error("failed to record into `{}`: process {pid} is recording into it", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
        /// The process that records.
        pid: u32,
    },
    /// The path has an unfinished recording, with its journal.
    #[error(
        "failed to record into `{}`: it has an unfinished recording, whose journal `{}` has events",
        path.display(), folder.display()
    )]
    Unfinished {
        /// The path.
        path: PathBuf,
        /// The journal.
        folder: PathBuf,
    },
    /// The file could not be created.
    #[error("failed to create the trace `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The journal could not be created.
    #[error("failed to create the journal `{}`", path.display())]
    Journal {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What is at the path of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupant {
    /// A file, where none may be replaced.
    File,
    /// A file that is not a floodmark trace.
    OtherFile,
    /// A symbolic link.
    Link,
    /// A folder.
    Folder,
    /// A device, a pipe or a socket.
    Special,
}

impl Occupant {
    /// Whether it can be replaced on request.
    fn is_replaceable(self) -> bool {
        match self {
            Self::File | Self::OtherFile | Self::Link => true,
            Self::Folder | Self::Special => false,
        }
    }
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "the file exists",
            Self::OtherFile => "the file exists and is not a floodmark trace",
            Self::Link => "it is a symbolic link",
            Self::Folder => "it is a folder",
            Self::Special => "it is a device, a pipe or a socket",
        })
    }
}

impl StartError {
    /// The error with its cause, in one line.
    pub(crate) fn with_cause(&self) -> String {
        let cause = std::error::Error::source(self);
        cause.map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"))
    }
}

impl Hint for StartError {
    fn hint(&self) -> Option<&'static str> {
        let replace = "choose another name, or replace it with `--force` (in Python `force=True`)";
        Some(match self {
            Self::Busy => "start the recording again",
            Self::Stopped { .. } => "stop the recordings that are open, then start again",
            Self::LimitTooSmall { .. } => "raise the limit: `--max-memory`, in Python `max_memory`",
            Self::Recorder(_) => "free memory, or lower `max_memory`",
            Self::Occupied { what, .. } if what.is_replaceable() => replace,
            Self::Unfinished { .. } => replace,
            Self::InUse { .. } => "wait until that program ends, or choose another name",
            Self::File { .. } | Self::Occupied { .. } => {
                "choose another path with `-o`, or `floodmark.trace(path)`"
            }
            Self::Journal { .. } => {
                "the journal is written beside the trace; choose another folder"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> PathBuf {
        "run.flood".into()
    }

    fn full_disk() -> io::Error {
        io::Error::from_raw_os_error(libc::ENOSPC)
    }

    fn occupied(what: Occupant) -> StartError {
        StartError::Occupied { path: path(), what }
    }

    #[test]
    fn every_error_has_a_message_and_a_hint() {
        let errors = [
            StartError::Busy,
            StartError::Stopped { reason: "the disk is full".to_owned() },
            StartError::LimitTooSmall { bytes: 1 },
            StartError::Recorder(full_disk()),
            occupied(Occupant::File),
            StartError::InUse { path: path(), pid: 7 },
            StartError::Unfinished { path: path(), folder: "run.flood.journal".into() },
            StartError::File { path: path(), source: full_disk() },
            StartError::Journal { path: path(), source: full_disk() },
        ];
        for error in errors {
            let (message, hint) = (error.to_string(), error.hint().expect("there is a way out"));
            assert!(!message.ends_with('.') && !hint.ends_with('.'), "{message} / {hint}");
            assert!(message.starts_with(char::is_lowercase), "{message}");
        }
    }

    #[test]
    fn only_what_can_be_replaced_is_offered_to_be_replaced() {
        let offers = |what| occupied(what).hint().is_some_and(|hint| hint.contains("--force"));
        assert!([Occupant::File, Occupant::OtherFile, Occupant::Link].into_iter().all(offers));
        assert!(![Occupant::Folder, Occupant::Special].into_iter().any(offers));
    }

    #[test]
    fn the_cause_follows_the_message() {
        let text = StartError::File { path: path(), source: full_disk() }.with_cause();
        let beginning = "failed to create the trace `run.flood`: No space left on device";
        assert!(text.starts_with(beginning), "{text}");
        assert_eq!(StartError::Busy.with_cause(), StartError::Busy.to_string());
    }
}
