//! Answers as text: sentences, tables, bars, HTML, CSV, and what is written to stdout and stderr.
//!
//! An answer becomes an [`answer_text::AnswerText`], which has sentences and sheets; `text_table.rs` and `html.rs` render it.

pub(crate) mod answer_text;
pub(crate) mod bar;
pub(crate) mod csv;
pub(crate) mod failure;
pub(crate) mod html;
pub(crate) mod output;
pub(crate) mod output_style;
pub(crate) mod palette;
pub(crate) mod progress;
pub(crate) mod sentence;
pub(crate) mod sheet;
pub(crate) mod short_path;
pub(crate) mod terminal_safe;
pub(crate) mod text_table;
pub(crate) mod truncate;
