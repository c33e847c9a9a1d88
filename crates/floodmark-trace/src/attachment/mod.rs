//! Texts that are attached to a trace: copies of source files, answers of commands, and what NVML said.

mod gpu_memory;
mod named_text;
mod source_file;
mod stored_answer;

pub use gpu_memory::{GpuMemory, GpuProcess};
pub(crate) use named_text::encode_named_text;
pub use source_file::{
    MOST_FILE_BYTES, MOST_SOURCE_BYTES, SourceFile, is_library_file, is_python_library,
    library_part,
};
pub(crate) use stored_answer::{MOST_ANSWER_BYTES, StoredAnswer};
