//! Errors in a call of a tool that the command line does not have.

use floodmark_trace::Hint;

/// Why a call is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Refusal {
    #[error("the tool has no argument `{name}`; it has {known}")]
    NoSuchArgument { name: String, known: String },
    #[error("the argument `{name}` is missing")]
    Missing { name: String },
    #[error("the argument `{name}` must be {wanted}")]
    WrongType { name: String, wanted: &'static str },
    #[error("{0}")]
    Usage(String),
    #[error("exactly one of `trace` and `message` is needed")]
    TraceOrMessage,
    #[error("it is outside the folders that this server may read: {allowed}")]
    Outside { allowed: String },
    #[error("the path is not absolute, or is not that of a trace")]
    NotAResource,
    #[error("the program gave no estimate{0}")]
    NoEstimate(String),
    #[error("the program has not ended within {seconds} s, and was ended")]
    TimeLimit { seconds: u64 },
    #[error("the answer could not be computed because of a bug in floodmark")]
    Bug,
    #[error("the call was cancelled")]
    Cancelled,
}

impl Hint for Refusal {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Outside { .. } => Some("start `floodmark mcp` with the folder that has it"),
            Self::NotAResource => Some("`resources/list` has the addresses"),
            Self::NoEstimate(_) => {
                Some("`floodmark doctor` checks whether a GPU can be simulated here")
            }
            Self::TimeLimit { .. } => {
                Some("allow more seconds with `time_limit`, or run fewer `steps`")
            }
            Self::Bug => Some("stderr of the server has the details"),
            Self::NoSuchArgument { .. }
            | Self::Missing { .. }
            | Self::WrongType { .. }
            | Self::Usage(_)
            | Self::TraceOrMessage
            | Self::Cancelled => None,
        }
    }
}
