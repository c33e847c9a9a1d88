//! The most frequent opcodes of a snapshot, read without the stack.
//!
//! Items of a dict that are integers, short strings or values of the memo are stored at once, and so are frames of a list. At
//! any other opcode the unpickler continues. With a snapshot of torch the result is the same as without the fast path.

use crate::contents::value::Value;
use crate::format::known_strings::{self as known, KEYS, StringId};
use crate::pickle::input::PickleInput;
use crate::pickle::opcode as op;
use crate::unpickler::Unpickler;

/// The longest key with its value. With fewer bytes in the buffer, the unpickler reads them.
const MOST_ITEM_BYTES: usize = 32;
/// The longest string that the fast path reads.
const MOST_TEXT_BYTES: usize = 16;

impl<S: PickleInput> Unpickler<S> {
    /// Sets the next items of a dict, up to one that is not simple.
    pub(crate) fn simple_items(&mut self, dict: u32) {
        while let Some(bytes) = self.input.buffered().first_chunk::<MOST_ITEM_BYTES>() {
            let Some((index, key_bytes)) = memo_reference(bytes) else { return };
            let Some(Value::String(key)) = self.memo.get(index) else { return };
            let Some((opcode, rest)) = bytes[key_bytes..].split_first() else { return };
            if !is_simple(key) {
                return;
            }
            let items = self.open.items_of(dict);
            let length = match (*opcode, rest) {
                (op::BININT1, &[number, ..]) => {
                    items.set(key, Value::Int(number.into()));
                    2
                }
                (op::BININT2, &[low, high, ..]) => {
                    items.set(key, Value::Int(u16::from_le_bytes([low, high]).into()));
                    3
                }
                (op::BININT, number) => {
                    let Some(&number) = number.first_chunk() else { return };
                    items.set(key, Value::Int(i32::from_le_bytes(number).into()));
                    5
                }
                (op::LONG1, &[length @ 1..=8, ref number @ ..]) => {
                    let Some(&number) = number.first_chunk() else { return };
                    let number = i64::from_le_bytes(number);
                    items.set(key, Value::Int(op::sign_of_last_byte(number, length.into())));
                    2 + usize::from(length)
                }
                (op::BINGET | op::LONG_BINGET, _) => {
                    let Some((index, length)) = memo_reference(&bytes[key_bytes..]) else { return };
                    match self.memo.get(index) {
                        Some(Value::String(string)) => items.set(key, Value::String(string)),
                        Some(Value::Stack(stack)) => items.set(key, Value::Stack(stack)),
                        Some(value) => items.set(key, value),
                        None => return,
                    }
                    length
                }
                (op::SHORT_BINUNICODE, &[length, ref text @ ..]) => {
                    let length = usize::from(length);
                    let Some((text, [op::MEMOIZE, ..])) = text.split_at_checked(length) else {
                        return;
                    };
                    if length > MOST_TEXT_BYTES {
                        return;
                    }
                    // Torch writes this string again for every event.
                    let string = if text == b"N/A" {
                        known::NOT_COMPILED
                    } else {
                        let Ok(text) = std::str::from_utf8(text) else { return };
                        self.contents.strings.intern(text)
                    };
                    items.set(key, Value::String(string));
                    self.memo.put(self.memo.next_index(), Value::String(string));
                    3 + length
                }
                _ => return,
            };
            self.input.skip(key_bytes + length);
        }
    }

    /// Appends the next frames to a list, as far as they come from the memo.
    pub(crate) fn simple_frames(&mut self, list: u32) {
        while let Some((index, length)) = memo_reference(self.input.buffered()) {
            let Some(Value::Frame(frame)) = self.memo.get(index) else { return };
            if !self.open.append_frame(list, frame) {
                return;
            }
            self.input.skip(length);
        }
    }
}

/// Whether the value of a key is one integer or one string. Other keys have tuples, which begin like an integer.
#[inline]
fn is_simple(key: StringId) -> bool {
    (key as usize) < KEYS && !matches!(key, known::POOL_ID | known::SEGMENT_POOL_ID)
}

/// The memo index in the next opcode, and the length of the opcode.
#[inline]
fn memo_reference(bytes: &[u8]) -> Option<(u32, usize)> {
    match *bytes {
        [op::LONG_BINGET, a, b, c, d, ..] => Some((u32::from_le_bytes([a, b, c, d]), 5)),
        [op::BINGET, index, ..] => Some((index.into(), 2)),
        _ => None,
    }
}
