//! Answers as text: sentences, tables, bars and HTML.
//!
//! An answer becomes an [`answer_text::AnswerText`], which has sentences and sheets; `text_table.rs` and `html.rs` render it.

mod advice;
pub mod annotation;
pub mod answer_text;
pub mod bar;
pub mod diff;
mod estimate;
pub mod html;
mod leaks;
mod oom;
mod oom_messages;
pub mod output_style;
pub mod palette;
pub mod plural;
pub mod sentence;
pub mod sheet;
pub mod short_path;
mod simulation;
pub mod summary;
pub mod terminal_safe;
pub mod text_table;
pub mod truncate;
