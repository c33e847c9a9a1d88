//! The output of a command.

use crate::text::exit_status::ExitStatus;
use crate::text::failure::{Failure, Result};
use crate::text::output;

/// The output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// Text for stdout.
    pub(crate) text: String,
    /// Whether programs read the text: no styles, names unchanged.
    pub(crate) is_exact: bool,
    /// Why the exit status is not 0 although there is an answer, such as a limit that was exceeded.
    pub(crate) failure: Option<Failure>,
    /// A hint about the next command, for stderr.
    pub(crate) hint: Option<String>,
}

impl From<String> for CommandOutput {
    fn from(text: String) -> Self {
        Self { text, is_exact: false, failure: None, hint: None }
    }
}

impl CommandOutput {
    /// Text for programs.
    pub(crate) fn exactly(text: String) -> Self {
        Self { is_exact: true, ..text.into() }
    }

    /// An answer as JSON.
    pub(crate) fn json(answer: &impl serde::Serialize) -> Result<Self> {
        Ok(Self::exactly(serde_json::to_string_pretty(answer)? + "\n"))
    }

    /// Writes the text to stdout.
    pub(crate) fn print(&self) -> ExitStatus {
        if self.is_exact { output::exact(&self.text) } else { output::data(&self.text) }
    }
}
