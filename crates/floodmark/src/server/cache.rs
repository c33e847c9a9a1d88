//! Answers that were given, in case they are asked for again: compressed, and no more than [`MOST_BYTES`] of them.

use std::collections::{BTreeMap, HashMap};

use axum::body::Bytes;

/// A page that is looked at for an hour asks for some thousand tiles of a few kilobytes each.
const MOST_BYTES: usize = 64 << 20;

/// Answers by request and revision; the one that was not used for longest goes first.
#[derive(Debug, Default)]
pub(crate) struct AnswerCache {
    answers: HashMap<String, Kept>,
    /// Who was used when.
    used: BTreeMap<u64, String>,
    clock: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    answer: Bytes,
    used: u64,
}

impl AnswerCache {
    /// The answer that was kept under a key.
    pub(crate) fn get(&mut self, key: &str) -> Option<Bytes> {
        self.clock += 1;
        let kept = self.answers.get_mut(key)?;
        let name = self.used.remove(&kept.used)?;
        kept.used = self.clock;
        self.used.insert(self.clock, name);
        Some(kept.answer.clone())
    }

    /// Keeps an answer, and drops others where there is no room.
    pub(crate) fn keep(&mut self, key: String, answer: Bytes) {
        self.clock += 1;
        self.bytes += answer.len() + key.len();
        let name_bytes = key.len();
        self.used.insert(self.clock, key.clone());
        if let Some(old) = self.answers.insert(key, Kept { answer, used: self.clock }) {
            self.used.remove(&old.used);
            self.bytes -= old.answer.len() + name_bytes;
        }
        while self.bytes > MOST_BYTES {
            let Some((_, oldest)) = self.used.pop_first() else { return };
            if let Some(gone) = self.answers.remove(&oldest) {
                self.bytes -= gone.answer.len() + oldest.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let third = Bytes::from(vec![0; MOST_BYTES / 3 - 16]);
        let mut cache = AnswerCache::default();
        cache.keep("a".to_owned(), third.clone());
        cache.keep("b".to_owned(), third.clone());
        assert!(cache.get("a").is_some());
        cache.keep("c".to_owned(), third.clone());
        cache.keep("d".to_owned(), third);
        let there = ["a", "b", "c", "d"].map(|key| cache.get(key).is_some());
        assert_eq!(there, [true, false, true, true]);
        assert!(cache.bytes <= MOST_BYTES);
    }

    #[test]
    fn an_answer_that_is_kept_twice_counts_once() {
        let mut cache = AnswerCache::default();
        for _ in 0..3 {
            cache.keep("a".to_owned(), Bytes::from_static(b"12345"));
        }
        assert_eq!((cache.bytes, cache.used.len()), (6, 1));
    }
}
