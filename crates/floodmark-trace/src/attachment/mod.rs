//! Texts that are attached to a trace: copies of source files, and answers of commands.

mod named_text;
mod source_file;
mod stored_answer;

pub(crate) use named_text::encode_named_text;
pub use source_file::{
    MOST_FILE_BYTES, MOST_SOURCE_BYTES, SourceFile, is_library_file, is_python_library,
    library_part,
};
pub(crate) use stored_answer::{MOST_ANSWER_BYTES, StoredAnswer};
