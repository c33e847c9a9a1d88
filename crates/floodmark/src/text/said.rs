//! What a command has to say.

use crate::text::exit_status::ExitStatus;
use crate::text::failure::{Failure, Result};
use crate::text::output;

/// What a command has to say.
#[derive(Debug)]
pub(crate) struct Said {
    /// For stdout.
    pub(crate) text: String,
    /// Whether the text is for programs: it has no styles, and its names are exact.
    pub(crate) is_exact: bool,
    /// Why the exit status is not 0 although there is an answer.
    pub(crate) objection: Option<Failure>,
    /// What to ask next, for stderr.
    pub(crate) hint: Option<String>,
}

impl From<String> for Said {
    fn from(text: String) -> Self {
        Self { text, is_exact: false, objection: None, hint: None }
    }
}

impl Said {
    /// Text for programs.
    pub(crate) fn exactly(text: String) -> Self {
        Self { is_exact: true, ..text.into() }
    }

    /// An answer as JSON.
    pub(crate) fn json(answer: &impl serde::Serialize) -> Result<Self> {
        Ok(Self::exactly(serde_json::to_string_pretty(answer)? + "\n"))
    }

    pub(crate) fn print(&self) -> ExitStatus {
        if self.is_exact { output::exact(&self.text) } else { output::data(&self.text) }
    }
}
