//! The strings of a snapshot, each once.

use hashbrown::HashTable;

use crate::contents::hash::{hash_bytes, random_seed};
use crate::format::known_strings::{EMPTY, KNOWN, StringId};

/// All texts, each once.
#[derive(Debug)]
pub(crate) struct Strings {
    text: String,
    /// Where each text ends.
    ends: Vec<usize>,
    by_text: HashTable<StringId>,
    /// The last texts that were looked up, by hash: most are looked up again and again.
    recent: [StringId; 64],
    /// What hashes begin with.
    seed: u64,
}

impl Strings {
    pub(crate) fn new() -> Self {
        let mut words = Self {
            text: String::new(),
            ends: Vec::new(),
            by_text: HashTable::new(),
            recent: [0; 64],
            seed: random_seed(),
        };
        for text in KNOWN {
            words.intern(text);
        }
        words
    }

    /// The number of a text.
    pub(crate) fn intern(&mut self, text: &str) -> StringId {
        let hash = hash_bytes(self.seed, text.as_bytes());
        let recent = (hash >> 58) as usize;
        if let Some(&word) = self.recent.get(recent)
            && !self.ends.is_empty()
            && self.get(word) == text
        {
            return word;
        }
        let word = self.look_up(text, hash);
        self.recent[recent] = word;
        word
    }

    fn look_up(&mut self, text: &str, hash: u64) -> StringId {
        if let Some(&word) = self.by_text.find(hash, |&word| self.get(word) == text) {
            return word;
        }
        let word = u32::try_from(self.ends.len()).unwrap_or(EMPTY);
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (all, ends, seed) = (&self.text, &self.ends, self.seed);
        self.by_text
            .insert_unique(hash, word, |&word| hash_bytes(seed, slice(all, ends, word).as_bytes()));
        word
    }

    /// The text itself.
    pub(crate) fn get(&self, word: StringId) -> &str {
        slice(&self.text, &self.ends, word)
    }
}

fn slice<'a>(text: &'a str, ends: &[usize], word: StringId) -> &'a str {
    let at = word as usize;
    let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    ends.get(at).and_then(|&end| text.get(start..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::known_strings::{NOT_COMPILED, STAGE};

    #[test]
    fn known_words_have_their_own_places() {
        let mut words = Strings::new();
        assert_eq!(words.ends.len(), KNOWN.len());
        assert_eq!(words.get(NOT_COMPILED), "N/A");
        assert_eq!(words.intern("stage"), STAGE);
        assert_eq!(words.intern(""), EMPTY);
        let new = words.intern("Optimizer.step#AdamW.step");
        assert_eq!(words.intern("Optimizer.step#AdamW.step"), new);
        assert_eq!(words.get(new), "Optimizer.step#AdamW.step");
    }
}
