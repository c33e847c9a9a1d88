//! The memo of a pickle, with four bytes for each value: a snapshot puts a million values there and gets a hundred of
//! them.

use std::collections::BTreeMap;

use crate::contents::value::Value;

const KIND_BITS: u32 = 3;
const OPAQUE: u32 = 0;
const STRING: u32 = 1;
const FRAME: u32 = 2;
const STACK: u32 = 3;
const POOL: u32 = 4;

/// Values by memo index.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// Values whose indexes came in order, as all picklers write them.
    dense: Vec<u32>,
    /// All other values.
    sparse: BTreeMap<u32, u32>,
}

impl Memo {
    /// The index that `MEMOIZE` uses next.
    pub(crate) fn next_index(&self) -> u32 {
        u32::try_from(self.dense.len() + self.sparse.len()).unwrap_or(u32::MAX)
    }

    /// Puts a value at an index.
    #[inline]
    pub(crate) fn put(&mut self, index: u32, value: Value) {
        let packed = pack(value);
        let at = index as usize;
        if at == self.dense.len() {
            self.dense.push(packed);
        } else if let Some(slot) = self.dense.get_mut(at) {
            *slot = packed;
        } else {
            self.sparse.insert(index, packed);
        }
    }

    /// The value at an index.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<Value> {
        let packed = self.dense.get(index as usize).or_else(|| self.sparse.get(&index));
        packed.map(|&packed| unpack(packed))
    }
}

/// Values of kinds that no snapshot gets from the memo become opaque.
#[inline]
fn pack(value: Value) -> u32 {
    let (kind, number) = match value {
        Value::String(string) => (STRING, string),
        Value::Frame(frame) => (FRAME, frame),
        Value::Stack(stack) => (STACK, stack),
        Value::Pool(pool) => (POOL, pool),
        Value::Opaque
        | Value::Int(_)
        | Value::Event(_)
        | Value::Block(_)
        | Value::Segment(_)
        | Value::Annotation(_)
        | Value::History(_)
        | Value::List(..)
        | Value::Settings
        | Value::Snapshot
        | Value::OpenDict(_)
        | Value::OpenList(_) => return OPAQUE,
    };
    if number >> (32 - KIND_BITS) == 0 { number << KIND_BITS | kind } else { OPAQUE }
}

#[inline]
fn unpack(packed: u32) -> Value {
    let number = packed >> KIND_BITS;
    match packed & ((1 << KIND_BITS) - 1) {
        STRING => Value::String(number),
        FRAME => Value::Frame(number),
        STACK => Value::Stack(number),
        POOL => Value::Pool(number),
        _ => Value::Opaque,
    }
}
