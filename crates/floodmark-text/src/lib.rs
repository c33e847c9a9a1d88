//! Answers as text: sentences, tables, bars and HTML.
//!
//! An answer becomes an [`answer_text::AnswerText`], which has sentences and sheets. [`text_table`] and [`html`] render it.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`plural`]: a count and its noun; [`short_path`]: paths without the folder of the program; [`terminal_safe`]: text
//!    without control characters; [`truncate`]: text that fits a width; [`bar`]: a share, drawn; [`palette`]: colours;
//!    [`output_style`]: plain text, or drawn for a terminal.
//! 2. [`sentence`]: a time in one sentence.
//! 3. [`sheet`]: titles and cells; [`summary`]: a recording in a few lines.
//! 4. [`answer_text`]: an answer as sentences and sheets.
//! 5. `answers`: the text of each answer; [`text_table`], [`html`]: an answer, rendered.

pub mod answer_text;
mod answers;
pub mod bar;
pub mod html;
pub mod output_style;
pub mod palette;
pub mod plural;
pub mod sentence;
pub mod sheet;
pub mod short_path;
pub mod summary;
pub mod terminal_safe;
pub mod text_table;
pub mod truncate;

pub use answers::{annotation, diff};
