//! A cache of compressed answers, limited to [`MOST_BYTES`].

use axum::body::Bytes;
use lru::LruCache;

/// An hour of use requests some thousand tiles of a few kilobytes each.
const MOST_BYTES: usize = 64 << 20;

/// Answers by request and revision. Drops the least recently used one first.
#[derive(Debug)]
pub(crate) struct AnswerCache {
    answers: LruCache<String, Bytes>,
    bytes: usize,
}

impl Default for AnswerCache {
    fn default() -> Self {
        Self { answers: LruCache::unbounded(), bytes: 0 }
    }
}

impl AnswerCache {
    /// The cached answer of a key.
    pub(crate) fn get(&mut self, key: &str) -> Option<Bytes> {
        self.answers.get(key).cloned()
    }

    /// Stores an answer, and drops others if there is no room.
    pub(crate) fn keep(&mut self, key: String, answer: Bytes) {
        self.bytes += key.len() + answer.len();
        let name_bytes = key.len();
        if let Some(old) = self.answers.put(key, answer) {
            self.bytes -= name_bytes + old.len();
        }
        while self.bytes > MOST_BYTES {
            let Some((key, oldest)) = self.answers.pop_lru() else { return };
            self.bytes -= key.len() + oldest.len();
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
        assert_eq!((cache.bytes, cache.answers.len()), (6, 1));
    }
}
