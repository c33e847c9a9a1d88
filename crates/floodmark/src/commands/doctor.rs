//! `floodmark doctor`: what works in this environment.
//!
//! Python finds the facts, since recording needs it: it runs a small recording and a small estimate, each in a process
//! of its own. This module prints them.

use floodmark_text::answer_text::AnswerText;
use floodmark_text::sheet::{self, Cells, Sheet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::failure::{Context, Problem, Result};
use crate::text::{output, stdout_style};
use crate::{CommandOutput, ExitStatus};

/// The result of checking an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Doctor")]
pub(crate) struct Doctor {
    /// The version of this answer.
    format: u32,
    /// Whether a program can be recorded.
    can_record: bool,
    /// Whether a program can run on a simulated GPU.
    can_estimate: bool,
    /// The checks, in the order of the table.
    checks: Vec<Check>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DoctorCheck")]
struct Check {
    /// The name of the check.
    name: String,
    /// Its result.
    status: CheckStatus,
    /// Details. The home folder is written as `~`.
    result: String,
    /// What to do if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CheckStatus {
    /// It works.
    Ok,
    /// It is missing or limited; recordings work without it.
    Note,
    /// It does not work.
    Failed,
}

impl CheckStatus {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Failed => "FAILED",
        }
    }
}

impl From<&Doctor> for AnswerText {
    fn from(answer: &Doctor) -> Self {
        let columns = sheet::words(&["Check", "Status", "Result"]);
        let rows = answer.checks.iter().map(|check| Cells {
            cells: vec![check.name.clone(), check.status.word().to_owned(), check.result.clone()],
            below: check.hint.iter().map(|hint| format!("hint: {hint}")).collect(),
        });
        let rows = rows.collect();
        let works = |does: bool| if does { "work" } else { "do NOT work" };
        Self {
            above: Vec::new(),
            losses: Vec::new(),
            sheets: vec![Sheet { columns, rows, is_prose: true, ..Sheet::default() }],
            below: vec![format!(
                "Recordings {}; estimates on a simulated GPU {}",
                works(answer.can_record),
                works(answer.can_estimate),
            )],
        }
    }
}

/// Prints the checks that Python made, given as JSON. Returns exit status 1 if recording cannot work.
pub fn show_doctor(facts: &str, json: bool) -> ExitStatus {
    let printed = match output_of(facts, json) {
        Ok(printed) => printed,
        Err(error) => {
            output::failure(&error);
            return ExitStatus::Failed;
        }
    };
    match (printed.print(), printed.failure) {
        (ExitStatus::Done, Some(failure)) => output::failure(&failure),
        (status, _) => status,
    }
}

fn output_of(facts: &str, json: bool) -> Result<CommandOutput> {
    let answer: Doctor = serde_json::from_str(facts).context("Failed to read what Python found")?;
    let mut output = if json {
        CommandOutput::json(&answer)?
    } else {
        CommandOutput::from(stdout_style::show(&answer))
    };
    if !answer.can_record {
        output.failure = Some(Problem::CannotRecord.into());
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: &str = r#"{"format": 1, "can_record": true, "can_estimate": false, "checks": [
        {"name": "torch", "status": "ok", "result": "2.11.0, CUDA 13.0"},
        {"name": "GPUs", "status": "note", "result": "none"},
        {"name": "Estimate", "status": "failed", "result": "exit status 1", "hint": "run it again"}]}"#;

    #[test]
    fn the_table_has_the_status_as_a_word_and_hints_below_their_row() {
        let answer: Doctor = serde_json::from_str(FACTS).unwrap();
        let text = floodmark_text::text_table::render_as(
            &AnswerText::from(&answer),
            floodmark_text::output_style::OutputStyle::Plain,
        );
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            text.lines().map(words).collect::<Vec<_>>(),
            [
                "Check Status Result",
                "torch ok 2.11.0, CUDA 13.0",
                "GPUs note none",
                "Estimate FAILED exit status 1",
                "hint: run it again",
                "Recordings work; estimates on a simulated GPU do NOT work",
            ]
        );
    }

    #[test]
    fn json_is_what_was_found() {
        let output = output_of(FACTS, true).unwrap();
        let shown: Doctor = serde_json::from_str(&output.text).unwrap();
        assert_eq!(shown, serde_json::from_str(FACTS).unwrap());
        assert!(output.failure.is_none(), "recording works");
    }

    #[test]
    fn a_recording_that_does_not_work_is_a_failure() {
        let facts = FACTS.replace(r#""can_record": true"#, r#""can_record": false"#);
        assert!(output_of(&facts, false).unwrap().failure.is_some());
        assert!(output_of("{}", false).is_err());
    }
}
