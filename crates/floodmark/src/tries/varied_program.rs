//! A program some of whose arguments are varied: `{BATCH}` stands where the value goes.

use std::ffi::OsString;

use crate::args::{ProgramArgs, Setting, VariedValue};
use crate::text::failure::{Context, Problem, Result};

/// Where values go: the program's arguments, and variables of its environment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VariedProgram<'a> {
    pub(crate) vary: &'a [VariedValue],
    pub(crate) program: &'a ProgramArgs,
    pub(crate) environment: &'a [Setting],
}

impl VariedProgram<'_> {
    /// Every name is varied once, and stands somewhere.
    pub(crate) fn check_names(&self) -> Result<()> {
        for (at, varied) in self.vary.iter().enumerate() {
            if self.vary[..at].iter().any(|other| other.name == varied.name) {
                let name = varied.name.clone();
                return Err(Problem::VariedTwice { name }).context("Failed to vary the program");
            }
            let placeholder = varied.placeholder();
            let words = self.program.words.iter().filter_map(|word| word.to_str());
            let mut all = words.chain(self.environment.iter().map(|setting| &*setting.value));
            if !all.any(|text| text.contains(&placeholder)) {
                return Err(Problem::NothingVaries { placeholder })
                    .context("Failed to vary the program");
            }
        }
        Ok(())
    }

    /// The program and its environment with one value for each name.
    pub(crate) fn with(&self, values: &[u64]) -> (ProgramArgs, Vec<Setting>) {
        let put = |text: &str| {
            let with =
                |text: String, (varied, &value): (&VariedValue, &u64)| varied.put(&text, value);
            self.vary.iter().zip(values).fold(text.to_owned(), with)
        };
        let word = |word: &OsString| match word.to_str() {
            Some(text) => OsString::from(put(text)),
            None => word.clone(),
        };
        let words = self.program.words.iter().map(word).collect();
        let set =
            |setting: &Setting| Setting { key: setting.key.clone(), value: put(&setting.value) };
        let environment = self.environment.iter().map(set).collect();
        (ProgramArgs { words, ..*self.program }, environment)
    }
}
