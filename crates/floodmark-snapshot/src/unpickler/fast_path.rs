//! The most frequent opcodes of a snapshot, read without the stack.
//!
//! Items of a dict that are numbers, short texts or things from the memo go straight to their places, and so
//! do frames of a list. Everything else is left to the machine, which goes on where this stops; with a
//! snapshot of torch it would have done the same, in more steps.

use crate::contents::value::Value;
use crate::format::known_strings::{self as known, KEYS, StringId};
use crate::pickle::input::PickleInput;
use crate::pickle::opcode as op;
use crate::unpickler::Unpickler;

/// No key with its value is longer here. Fewer bytes at hand are left to the machine.
const MOST_ITEM_BYTES: usize = 32;
/// The longest text that is read here.
const MOST_TEXT_BYTES: usize = 16;

impl<S: PickleInput> Unpickler<S> {
    /// Sets items of a dict, as far as they are simple.
    pub(crate) fn simple_items(&mut self, dict: u32) {
        while let Some(bytes) = self.input.at_hand().first_chunk::<MOST_ITEM_BYTES>() {
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
                        Some(Value::String(word)) => items.set(key, Value::String(word)),
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
                    // Torch writes this anew for every event.
                    let word = if text == b"N/A" {
                        known::NOT_COMPILED
                    } else {
                        let Ok(text) = std::str::from_utf8(text) else { return };
                        self.contents.strings.intern(text)
                    };
                    items.set(key, Value::String(word));
                    self.memo.put(self.memo.next_index(), Value::String(word));
                    3 + length
                }
                _ => return,
            };
            self.input.skip(key_bytes + length);
        }
    }

    /// Appends frames from the memo to a list.
    pub(crate) fn simple_frames(&mut self, list: u32) {
        while let Some((index, length)) = memo_reference(self.input.at_hand()) {
            let Some(Value::Frame(frame)) = self.memo.get(index) else { return };
            if !self.open.append_frame(list, frame) {
                return;
            }
            self.input.skip(length);
        }
    }
}

/// Whether torch puts one number or one text under a key. Under others there may be tuples, whose first
/// element looks like a value.
#[inline]
fn is_simple(key: StringId) -> bool {
    (key as usize) < KEYS && !matches!(key, known::POOL_ID | known::SEGMENT_POOL_ID)
}

/// The number of a memo, and how many bytes say it.
#[inline]
fn memo_reference(bytes: &[u8]) -> Option<(u32, usize)> {
    match *bytes {
        [op::LONG_BINGET, a, b, c, d, ..] => Some((u32::from_le_bytes([a, b, c, d]), 5)),
        [op::BINGET, index, ..] => Some((index.into(), 2)),
        _ => None,
    }
}
