//! Writes pickles of protocol 4. Repeated strings come from the memo.

use std::io::{self, Write};

use hashbrown::HashMap;

use crate::pickle::opcode as op;

/// The buffer is written when it has this number of bytes.
const FLUSH_BYTES: usize = 1 << 16;

/// Writes one pickle, as Python's `pickle.Pickler`.
pub(crate) struct Pickler<'a, W> {
    out: &'a mut W,
    buffer: Vec<u8>,
    memo_count: u32,
    strings: HashMap<String, u32>,
}

impl<'a, W: Write> Pickler<'a, W> {
    pub(crate) fn new(out: &'a mut W) -> Self {
        let buffer = vec![op::PROTO, 4];
        Self { out, buffer, memo_count: 0, strings: HashMap::new() }
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.buffer.push(op::STOP);
        self.out.write_all(&self.buffer)?;
        self.out.flush()
    }

    /// Begins a dict. Keys and values follow.
    pub(crate) fn begin_dict(&mut self) {
        self.buffer.extend_from_slice(&[op::EMPTY_DICT, op::MARK]);
    }

    pub(crate) fn end_dict(&mut self) -> io::Result<()> {
        self.buffer.push(op::SETITEMS);
        self.flush()
    }

    /// Begins a list. Its items follow.
    pub(crate) fn begin_list(&mut self) {
        self.buffer.extend_from_slice(&[op::EMPTY_LIST, op::MARK]);
    }

    pub(crate) fn end_list(&mut self) -> io::Result<()> {
        self.buffer.push(op::APPENDS);
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.len() >= FLUSH_BYTES {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Puts the value that was written last into the memo, and returns its index there.
    pub(crate) fn memoize(&mut self) -> u32 {
        self.buffer.push(op::MEMOIZE);
        self.memo_count += 1;
        self.memo_count - 1
    }

    /// Writes a value of the memo.
    pub(crate) fn get(&mut self, index: u32) {
        if let Ok(short) = u8::try_from(index) {
            self.buffer.extend_from_slice(&[op::BINGET, short]);
        } else {
            self.buffer.push(op::LONG_BINGET);
            self.buffer.extend_from_slice(&index.to_le_bytes());
        }
    }

    /// Writes a string.
    pub(crate) fn string(&mut self, text: &str) {
        if let Some(&known) = self.strings.get(text) {
            self.get(known);
            return;
        }
        if let Ok(length) = u8::try_from(text.len()) {
            self.buffer.extend_from_slice(&[op::SHORT_BINUNICODE, length]);
        } else {
            self.buffer.push(op::BINUNICODE8);
            self.buffer.extend_from_slice(&(text.len() as u64).to_le_bytes());
        }
        self.buffer.extend_from_slice(text.as_bytes());
        let index = self.memoize();
        self.strings.insert(text.to_owned(), index);
    }

    pub(crate) fn number(&mut self, number: u64) {
        let bytes = number.to_le_bytes();
        if let Ok(number) = u8::try_from(number) {
            self.buffer.extend_from_slice(&[op::BININT1, number]);
        } else if let Ok(number) = u16::try_from(number) {
            self.buffer.push(op::BININT2);
            self.buffer.extend_from_slice(&number.to_le_bytes());
        } else if let Ok(number) = i32::try_from(number) {
            self.buffer.push(op::BININT);
            self.buffer.extend_from_slice(&number.to_le_bytes());
        } else {
            // A positive number whose highest bit is set needs one more byte.
            let length = 8 - number.leading_zeros() as usize / 8 + 1;
            let length = if bytes[length - 2] & 0x80 == 0 { length - 1 } else { length };
            let mut padded = [0; 9];
            padded[..8].copy_from_slice(&bytes);
            self.buffer.extend_from_slice(&[op::LONG1, length.to_le_bytes()[0]]);
            self.buffer.extend_from_slice(&padded[..length]);
        }
    }

    pub(crate) fn minus_one(&mut self) {
        self.buffer.push(op::BININT);
        self.buffer.extend_from_slice(&(-1_i32).to_le_bytes());
    }

    pub(crate) fn boolean(&mut self, is_true: bool) {
        self.buffer.push(if is_true { op::NEWTRUE } else { op::NEWFALSE });
    }

    pub(crate) fn float(&mut self, number: f64) {
        self.buffer.push(op::BINFLOAT);
        self.buffer.extend_from_slice(&number.to_be_bytes());
    }

    pub(crate) fn pair(&mut self, (first, second): (u64, u64)) {
        self.number(first);
        self.number(second);
        self.buffer.push(op::TUPLE2);
    }
}
