//! Errors of requests: a status, a message, and a hint if there is one.

use floodmark_analysis::{AnnotationError, DiffError, QuestionError, SimulationError};
use floodmark_trace::Hint;
use schemars::JsonSchema;
use serde::Serialize;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Refusal {
    #[error("there is no `api/{path}`")]
    NoSuchPath { path: String },
    #[error("there is no trace {number}; {count} are shown, counted from 0")]
    NoSuchTrace { number: usize, count: usize },
    #[error("`{name}` is `{text}`; it must be {wants}")]
    WrongParameter { name: &'static str, text: String, wants: &'static str },
    #[error("`{name}` is missing: {wants}")]
    MissingParameter { name: &'static str, wants: &'static str },
    #[error("these traces are not followed")]
    NotFollowed,
    #[error("the trace has no plan")]
    NoPlan,
    #[error(transparent)]
    Question(#[from] QuestionError),
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    #[error("{}: {}", .0, .0.source)]
    Diff(#[from] DiffError),
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
    #[error("the answer could not be computed; this is a bug of floodmark")]
    Bug,
}

impl Hint for Refusal {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Question(error) => error.hint(),
            Self::Simulation(error) => error.hint(),
            Self::Diff(error) => error.hint(),
            Self::Annotation(error) => error.hint(),
            Self::NotFollowed => Some("start the viewer with `--follow`"),
            Self::NoPlan => Some("make one with `floodmark plan -o plan.flood train.py`"),
            Self::NoSuchPath { .. }
            | Self::NoSuchTrace { .. }
            | Self::WrongParameter { .. }
            | Self::MissingParameter { .. }
            | Self::Bug => None,
        }
    }
}

/// The error as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// The message.
    pub(crate) error: String,
    /// What to do.
    pub(crate) hint: Option<&'static str>,
}

impl Refusal {
    /// The error as JSON.
    pub(crate) fn problem(&self) -> Problem {
        Problem { error: self.to_string(), hint: self.hint() }
    }

    /// Its HTTP status.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::NoSuchPath { .. } | Self::NoSuchTrace { .. } | Self::NotFollowed => 404,
            Self::WrongParameter { .. } | Self::MissingParameter { .. } => 400,
            // The request is well-formed; the trace has no answer to it.
            Self::NoPlan
            | Self::Question(_)
            | Self::Simulation(_)
            | Self::Diff(_)
            | Self::Annotation(_) => 422,
            Self::Bug => 500,
        }
    }
}
