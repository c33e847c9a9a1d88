//! The strings of a snapshot, each once.

use hashbrown::HashTable;

use crate::contents::hash::{hash_bytes, random_seed};
use crate::format::known_strings::{EMPTY, KNOWN, StringId};

/// All strings, each once.
#[derive(Debug)]
pub(crate) struct Strings {
    text: String,
    /// The end of each string in `text`.
    ends: Vec<usize>,
    by_text: HashTable<StringId>,
    /// The strings that were looked up last, by hash: a file repeats most of them.
    recent: [StringId; 64],
    /// Seed of the hashes.
    seed: u64,
}

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Self {
            text: String::new(),
            ends: Vec::new(),
            by_text: HashTable::new(),
            recent: [0; 64],
            seed: random_seed(),
        };
        for text in KNOWN {
            strings.intern(text);
        }
        strings
    }
}

impl Strings {
    /// The number of a string, which is added if it is new.
    pub(crate) fn intern(&mut self, text: &str) -> StringId {
        let hash = hash_bytes(self.seed, text.as_bytes());
        let recent = (hash >> 58) as usize;
        if let Some(&id) = self.recent.get(recent)
            && !self.ends.is_empty()
            && self.get(id) == text
        {
            return id;
        }
        let id = self.look_up(text, hash);
        self.recent[recent] = id;
        id
    }

    fn look_up(&mut self, text: &str, hash: u64) -> StringId {
        if let Some(&id) = self.by_text.find(hash, |&id| self.get(id) == text) {
            return id;
        }
        let id = u32::try_from(self.ends.len()).unwrap_or(EMPTY);
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (all, ends, seed) = (&self.text, &self.ends, self.seed);
        self.by_text
            .insert_unique(hash, id, |&id| hash_bytes(seed, slice(all, ends, id).as_bytes()));
        id
    }

    /// The string with this number.
    pub(crate) fn get(&self, id: StringId) -> &str {
        slice(&self.text, &self.ends, id)
    }
}

fn slice<'a>(text: &'a str, ends: &[usize], id: StringId) -> &'a str {
    let at = id as usize;
    let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    ends.get(at).and_then(|&end| text.get(start..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::known_strings::{NOT_COMPILED, STAGE};

    #[test]
    fn known_strings_have_their_index() {
        let mut strings = Strings::default();
        assert_eq!(strings.ends.len(), KNOWN.len());
        assert_eq!(strings.get(NOT_COMPILED), "N/A");
        assert_eq!(strings.intern("stage"), STAGE);
        assert_eq!(strings.intern(""), EMPTY);
        let new = strings.intern("Optimizer.step#AdamW.step");
        assert_eq!(strings.intern("Optimizer.step#AdamW.step"), new);
        assert_eq!(strings.get(new), "Optimizer.step#AdamW.step");
    }
}
