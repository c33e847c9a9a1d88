//! Copies of the source files whose lines allocate, read by the writer when the first of their lines does.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use floodmark_trace::{
    Batch, MOST_FILE_BYTES, MOST_SOURCE_BYTES, SourceFile, is_library_file, stack_flags,
};

use crate::writer::definitions::DefinitionTable;

/// The files that a window has already, and how much more it may have.
#[derive(Debug)]
pub(crate) struct TouchedSources {
    seen: HashSet<String>,
    bytes_left: usize,
}

impl Default for TouchedSources {
    fn default() -> Self {
        Self { seen: HashSet::new(), bytes_left: MOST_SOURCE_BYTES }
    }
}

impl TouchedSources {
    /// Adds source files to a batch when its call stacks are the first to name them.
    ///
    /// A file that cannot be read, is no text or is too long is left out; the page shows that its source is missing.
    pub(crate) fn complete(&mut self, known: &DefinitionTable, batch: &mut Batch) {
        for stack in &batch.stacks {
            if stack.flags & (stack_flags::LIBRARY | stack_flags::NATIVE) != 0 {
                continue;
            }
            let own = batch.codes.iter().find(|code| code.id == stack.code);
            let Some(code) = own.or_else(|| known.code(stack.code)) else { continue };
            if self.seen.contains(&code.file) || is_library_file(&code.file) {
                continue;
            }
            self.seen.insert(code.file.clone());
            if let Some(text) = self.read(&code.file) {
                self.bytes_left -= text.len();
                batch.sources.push(SourceFile { file: code.file.clone(), text });
            }
        }
    }

    fn read(&self, file: &str) -> Option<String> {
        let path = Path::new(file);
        let about = fs::metadata(path).ok()?;
        let most = MOST_FILE_BYTES.min(self.bytes_left);
        let fits = |bytes: usize| bytes <= most;
        if !about.is_file() || !usize::try_from(about.len()).is_ok_and(fits) {
            return None;
        }
        // The file may have grown since.
        fs::read_to_string(path).ok().filter(|text| fits(text.len()))
    }
}

#[cfg(test)]
mod tests {
    use floodmark_trace::{CodeRow, StackRow};

    use super::*;

    fn batch(file: &str, flags: u8) -> Batch {
        let code = CodeRow { id: 1, first_line: 1, file: file.to_owned(), name: "f".to_owned() };
        let stack = StackRow { id: 1, parent: 0, code: 1, line: 2, module: 0, flags };
        Batch { codes: vec![code], stacks: vec![stack], ..Batch::default() }
    }

    fn stored(sources: &mut TouchedSources, mut batch: Batch) -> Vec<String> {
        sources.complete(&DefinitionTable::default(), &mut batch);
        batch.sources.into_iter().map(|source| source.text).collect()
    }

    #[test]
    fn a_file_of_the_program_is_stored_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.py");
        fs::write(&path, "x = 1\n").unwrap();
        let file = path.to_str().unwrap();
        let mut sources = TouchedSources::default();
        assert_eq!(stored(&mut sources, batch(file, 0)), ["x = 1\n"]);
        assert_eq!(stored(&mut sources, batch(file, 0)), [""; 0]);
    }

    #[test]
    fn libraries_long_files_and_missing_ones_are_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.py");
        fs::write(&path, "#".repeat(MOST_FILE_BYTES + 1)).unwrap();
        let library = folder.path().join("site-packages");
        fs::create_dir(&library).unwrap();
        fs::write(library.join("a.py"), "a\n").unwrap();
        let mut sources = TouchedSources::default();
        assert_eq!(stored(&mut sources, batch(path.to_str().unwrap(), 0)), [""; 0]);
        let library = library.join("a.py");
        assert_eq!(stored(&mut sources, batch(library.to_str().unwrap(), 0)), [""; 0]);
        assert_eq!(stored(&mut sources, batch("/nowhere/a.py", 0)), [""; 0]);
        assert_eq!(stored(&mut sources, batch(file!(), stack_flags::LIBRARY)), [""; 0]);
    }

    #[test]
    fn all_files_together_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.py");
        fs::write(&path, "x = 1\n").unwrap();
        let mut sources = TouchedSources { bytes_left: 5, ..TouchedSources::default() };
        assert_eq!(stored(&mut sources, batch(path.to_str().unwrap(), 0)), [""; 0]);
    }
}
