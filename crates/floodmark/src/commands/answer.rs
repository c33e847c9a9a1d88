//! What a command found, before it is printed: the command line shows it, and the MCP server sends it.

use floodmark_analysis::program_folder;
use floodmark_text::answer_text::AnswerText;
use floodmark_text::short_path::with_program_folders;
use floodmark_trace::Trace;
use serde::Serialize;

use crate::text::command_output::CommandOutput;
use crate::text::failure::Result;
use crate::text::stdout_style;

/// An answer, with the notes and the hint that the command prints beside it.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    /// The answer; `--json` prints it.
    pub(crate) found: T,
    /// Notes on which of several ranks was chosen. Already printed to stderr.
    pub(crate) notes: Vec<String>,
    /// A hint about the next command; printed with text, not with JSON.
    pub(crate) hint: Option<String>,
    /// The folders from which a text shows the paths of the recorded programs.
    pub(crate) folders: Vec<String>,
}

impl<T> Answer<T> {
    /// An answer without a hint and without folders.
    pub(crate) fn new(found: T, notes: impl IntoIterator<Item = String>) -> Self {
        Self { found, notes: notes.into_iter().collect(), hint: None, folders: Vec::new() }
    }

    /// Adds the program folders of these traces, from which a text shows paths.
    pub(crate) fn about(mut self, traces: &[&Trace]) -> Self {
        let folders = traces.iter().filter_map(|trace| program_folder(trace));
        self.folders = folders.map(str::to_owned).collect();
        self
    }
}

impl<T> Answer<T>
where
    T: Serialize,
    AnswerText: for<'a> From<&'a T>,
{
    /// The answer as JSON or as text.
    pub(crate) fn output(&self, is_json: bool) -> Result<CommandOutput> {
        if is_json {
            return CommandOutput::json(&self.found);
        }
        let text = with_program_folders(&self.folders, || stdout_style::show(&self.found));
        Ok(CommandOutput { hint: self.hint.clone(), ..text.into() })
    }
}
