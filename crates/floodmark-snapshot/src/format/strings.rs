//! The texts of a snapshot, each kept once, and those that mean something to us.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// A text: those of [`KNOWN`] come first, at their own place.
pub(crate) type Word = u32;

macro_rules! known {
    ($($name:ident = $text:literal,)*) => {
        $(pub(crate) const $name: Word = place($text);)*

        const KNOWN: &[&str] = &[$($text,)*];
    };
}

known! {
    EMPTY = "",
    // Keys of dicts: all below `KEYS`.
    ACTION = "action",
    ADDR = "addr",
    SIZE = "size",
    STREAM = "stream",
    TIME_US = "time_us",
    COMPILE_CONTEXT = "compile_context",
    USER_METADATA = "user_metadata",
    INTERNAL_METADATA = "internal_metadata",
    POOL_ID = "pool_id",
    DEVICE_FREE = "device_free",
    FRAMES = "frames",
    FORWARD_FRAMES = "forward_frames",
    NAME = "name",
    FILENAME = "filename",
    LINE = "line",
    ADDRESS = "address",
    REQUESTED_SIZE = "requested_size",
    STATE = "state",
    HISTORY = "history",
    REAL_SIZE = "real_size",
    DEVICE = "device",
    TOTAL_SIZE = "total_size",
    SEGMENT_POOL_ID = "segment_pool_id",
    BLOCKS = "blocks",
    STAGE = "stage",
    SEGMENTS = "segments",
    DEVICE_TRACES = "device_traces",
    ALLOCATOR_SETTINGS = "allocator_settings",
    EXTERNAL_ANNOTATIONS = "external_annotations",
    HOST_SEGMENTS = "host_segments",
    HOST_TRACES = "host_traces",
    CUDA_ALLOC_CONF = "PYTORCH_CUDA_ALLOC_CONF",
    ALLOC_CONF = "PYTORCH_ALLOC_CONF",
    STREAM_REUSE = "graph_capture_record_stream_reuse",
    MAX_CACHED_SIZE = "max_cached_size",
    MAX_SPLIT_SIZE = "max_split_size",
    // Values.
    ALLOC = "alloc",
    FREE_REQUESTED = "free_requested",
    FREE_COMPLETED = "free_completed",
    SEGMENT_ALLOC = "segment_alloc",
    SEGMENT_FREE = "segment_free",
    SEGMENT_MAP = "segment_map",
    SEGMENT_UNMAP = "segment_unmap",
    OOM = "oom",
    ANNOTATE = "annotate",
    SNAPSHOT = "snapshot",
    ACTIVE_ALLOCATED = "active_allocated",
    ACTIVE_PENDING_FREE = "active_pending_free",
    START = "START",
    NOT_COMPILED = "N/A",
}

/// The place of a text in [`KNOWN`], for the compiler.
const fn place(text: &str) -> Word {
    let mut at = 0;
    while !is_same(KNOWN[at].as_bytes(), text.as_bytes()) {
        at += 1;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the list is short")]
    let word = at as Word;
    word
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Keys of dicts are below this.
pub(crate) const KEYS: usize = ALLOC as usize;
const _: () = assert!(KEYS <= 64, "a set of keys is 64 bits");

/// All texts, each once.
#[derive(Debug)]
pub(crate) struct Words {
    text: String,
    /// Where each text ends.
    ends: Vec<usize>,
    by_text: HashTable<Word>,
    /// The last texts that were looked up, by hash: most are looked up again and again.
    recent: [Word; 64],
    /// What hashes begin with.
    seed: u64,
}

impl Words {
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
    pub(crate) fn intern(&mut self, text: &str) -> Word {
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

    fn look_up(&mut self, text: &str, hash: u64) -> Word {
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
    pub(crate) fn get(&self, word: Word) -> &str {
        slice(&self.text, &self.ends, word)
    }
}

fn slice<'a>(text: &'a str, ends: &[usize], word: Word) -> &'a str {
    let at = word as usize;
    let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    ends.get(at).and_then(|&end| text.get(start..end)).unwrap_or_default()
}

/// A quick hash: of texts and of lists of numbers that a file repeats.
pub(crate) fn hash_step(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// Another one for every reader: no file can be written whose texts all have the same hash.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().hash_one(0)
}

fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let mut hash = seed ^ bytes.len() as u64;
    for chunk in chunks {
        hash = hash_step(hash, u64::from_le_bytes(*chunk));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    finish_hash(hash_step(hash, u64::from_le_bytes(last)))
}

/// Spreads what is known over all bits: tables look at the highest and the lowest ones.
pub(crate) fn finish_hash(hash: u64) -> u64 {
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_words_have_their_own_places() {
        let mut words = Words::new();
        assert_eq!(words.ends.len(), KNOWN.len());
        assert_eq!(words.get(NOT_COMPILED), "N/A");
        assert_eq!(words.intern("stage"), STAGE);
        assert_eq!(words.intern(""), EMPTY);
        let new = words.intern("Optimizer.step#AdamW.step");
        assert_eq!(words.intern("Optimizer.step#AdamW.step"), new);
        assert_eq!(words.get(new), "Optimizer.step#AdamW.step");
    }
}
