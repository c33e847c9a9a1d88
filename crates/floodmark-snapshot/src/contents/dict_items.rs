//! The items of one dict, for the keys in `known_strings.rs`. Other items are dropped.

use crate::contents::value::{IndexRange, ListOf, Value};
use crate::format::known_strings::{self as known, KEYS, StringId};

/// Values by key.
#[derive(Debug)]
pub(crate) struct DictItems {
    /// One bit for each key. A value without its bit belongs to an earlier dict.
    present: u64,
    values: [Value; KEYS],
}

impl DictItems {
    pub(crate) fn new() -> Self {
        Self { present: 0, values: [Value::Opaque; KEYS] }
    }

    pub(crate) fn clear(&mut self) {
        self.present = 0;
    }

    #[inline]
    pub(crate) fn set(&mut self, key: StringId, value: Value) {
        if let Some(slot) = self.values.get_mut(key as usize) {
            *slot = value;
            self.present |= 1 << key;
        }
    }

    /// One bit for each key of the dict.
    pub(crate) fn present(&self) -> u64 {
        self.present
    }

    pub(crate) fn has(&self, key: StringId) -> bool {
        self.present >> key & 1 == 1
    }

    fn get(&self, key: StringId) -> Value {
        if self.has(key) { self.values[key as usize] } else { Value::Opaque }
    }

    /// An integer; 0 if it is missing or negative.
    pub(crate) fn number(&self, key: StringId) -> u64 {
        let Value::Int(number) = self.get(key) else { return 0 };
        u64::try_from(number).unwrap_or(0)
    }

    /// The index of a device: 0 if it is missing, `None` if torch has no device with that index.
    pub(crate) fn device(&self) -> Option<i8> {
        let Value::Int(number) = self.get(known::DEVICE) else { return Some(0) };
        i8::try_from(number).ok().filter(|&device| device >= 0)
    }

    /// A string; the empty one if it is missing.
    pub(crate) fn string(&self, key: StringId) -> StringId {
        let Value::String(word) = self.get(key) else { return known::EMPTY };
        word
    }

    pub(crate) fn pool(&self, key: StringId) -> Option<u32> {
        let Value::Pool(pool) = self.get(key) else { return None };
        Some(pool)
    }

    /// The call stack; the empty one if it is missing.
    pub(crate) fn stack(&self) -> u32 {
        let Value::Stack(stack) = self.get(known::FRAMES) else { return 0 };
        stack
    }

    pub(crate) fn list(&self, key: StringId, of: ListOf) -> Option<IndexRange> {
        let Value::List(kind, range) = self.get(key) else { return None };
        (kind == of).then_some(range)
    }

    /// Whether the list of this key has items. A list of lists counts as empty.
    pub(crate) fn is_filled(&self, key: StringId) -> bool {
        matches!(self.get(key), Value::List(of, _) if of != ListOf::Traces)
    }
}
