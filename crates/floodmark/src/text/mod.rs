//! What the program writes: CSV, errors and hints, progress bars, and the style of stdout.
//!
//! Answers are rendered by `floodmark_text`.

pub(crate) mod command_output;
pub(crate) mod csv;
pub(crate) mod exit_status;
pub(crate) mod failure;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod shell_word;
pub(crate) mod stdout_style;
