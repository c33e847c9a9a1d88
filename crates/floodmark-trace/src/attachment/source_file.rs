//! Copies of source files in a trace, and which files are the program's own.
//!
//! The recorder stores a file when the first of its lines allocates, so the copy is the source that ran.
//! Installed packages and Python's own library are not stored: they can be installed again.

use super::named_text::{decode_named_text, encode_named_text};
use crate::limits::Budget;

/// The longest file that is stored.
pub const MOST_FILE_BYTES: usize = 1 << 20;
/// The most bytes of all files of a trace.
pub const MOST_SOURCE_BYTES: usize = 16 << 20;

/// A copy of a source file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path, as the frames of call stacks have it.
    pub file: String,
    /// Its text.
    pub text: String,
}

impl SourceFile {
    /// The payload of its frame.
    pub(crate) fn encode(&self) -> std::io::Result<Vec<u8>> {
        encode_named_text(&self.file, &self.text)
    }

    /// Reads a frame; `None` if its payload is malformed or too long.
    pub(crate) fn decode(payload: &[u8], budget: &mut Budget) -> Option<Self> {
        let (file, text) = decode_named_text(payload, MOST_FILE_BYTES, budget)?;
        Some(Self { file, text })
    }
}

/// Whether a file is of an installed package or of Python's own library; `<frozen runpy>` is, and so is the command
/// `floodmark`, in whose process a program may run.
pub fn is_library_file(file: &str) -> bool {
    file.starts_with("<frozen ") || file.ends_with("/bin/floodmark") || library_part(file).is_some()
}

/// The path below the folder of installed packages, or below Python's own library.
pub fn library_part(file: &str) -> Option<&str> {
    package_part(file).or_else(|| python_part(file))
}

/// Whether a file is of Python's own library, such as `copy.py`, or compiled into the interpreter.
pub fn is_python_library(file: &str) -> bool {
    file.starts_with("<frozen ") || package_part(file).is_none() && python_part(file).is_some()
}

fn package_part(file: &str) -> Option<&str> {
    let folders = ["/site-packages/", "/dist-packages/"];
    folders.iter().find_map(|folder| Some(&file[file.rfind(folder)? + folder.len()..]))
}

fn python_part(file: &str) -> Option<&str> {
    let folders = ["/lib/python3.", "/lib64/python3."];
    let (_, below) = folders.iter().find_map(|folder| file.split_once(folder))?;
    below.split_once('/').map(|(_, below)| below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DecompressionLimit;

    fn budget() -> Budget {
        Budget::new(DecompressionLimit::default())
    }

    #[test]
    fn a_library_is_identified_by_its_path_in_site_packages() {
        let parts = [
            "/venv/lib/python3.12/site-packages/torch/nn.py",
            "/usr/lib/python3/dist-packages/numpy/a.py",
            "/usr/lib/python3.10/threading.py",
            "/home/ada/train.py",
            "train.py",
        ]
        .map(library_part);
        let expected = [Some("torch/nn.py"), Some("numpy/a.py"), Some("threading.py"), None, None];
        assert_eq!(parts, expected);
    }

    #[test]
    fn pythons_own_library_is_distinguished_from_packages() {
        let files = [
            "/usr/lib/python3.12/copy.py",
            "/usr/lib64/python3.12/concurrent/futures/thread.py",
            "<frozen importlib._bootstrap>",
            "/venv/lib/python3.12/site-packages/transformers/trainer.py",
            "/usr/lib/python3/dist-packages/numpy/a.py",
            "/home/ada/lib/python3.py",
            "/home/ada/train.py",
        ];
        let expected = [true, true, true, false, false, false, false];
        assert_eq!(files.map(is_python_library), expected);
    }

    #[test]
    fn the_command_that_runs_a_program_is_no_file_of_it() {
        let files = ["/venv/bin/floodmark", "<frozen runpy>", "/home/ada/bin/train", "floodmark"];
        assert_eq!(files.map(is_library_file), [true, true, false, false]);
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let text = "import torch\n# Grüße\n".repeat(100);
        let source = SourceFile { file: "/home/ada/train.py".to_owned(), text };
        let payload = source.encode().unwrap();
        assert!(payload.len() < 200);
        assert_eq!(SourceFile::decode(&payload, &mut budget()), Some(source));
    }

    #[test]
    fn a_payload_with_a_wrong_length_is_refused() {
        let source = SourceFile { file: "a.py".to_owned(), text: "x = 1\n".repeat(100) };
        let payload = source.encode().unwrap();
        for cut in 0..payload.len() {
            assert_eq!(SourceFile::decode(&payload[..cut], &mut budget()), None, "{cut}");
        }
        let mut longer = payload.clone();
        longer[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(SourceFile::decode(&longer, &mut budget()), None);
        let mut shorter = payload;
        shorter[8..12].copy_from_slice(&5_u32.to_le_bytes());
        assert_eq!(SourceFile::decode(&shorter, &mut budget()), None);
    }
}
