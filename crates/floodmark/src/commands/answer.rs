//! What a command found, before it is printed: the command line shows it, and the MCP server sends it.

use anyhow::Result;
use floodmark_session::text::answer_text::AnswerText;
use serde::Serialize;

use crate::Said;
use crate::text::stdout_style;

/// An answer, and what is said beside it.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    /// The answer; `--json` prints it.
    pub(crate) found: T,
    /// Which of several ranks it is about. Already on stderr.
    pub(crate) notes: Vec<String>,
}

impl<T> Answer<T>
where
    T: Serialize,
    AnswerText: for<'a> From<&'a T>,
{
    /// The answer as JSON or as text.
    pub(crate) fn said(&self, is_json: bool) -> Result<Said> {
        if is_json { Said::json(&self.found) } else { Ok(stdout_style::show(&self.found).into()) }
    }
}
