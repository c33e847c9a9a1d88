//! One record: its fields, its bytes, its checksum.
//!
//! Six fields mean different things by the kind of the record (the call stack of an allocation, the number of a
//! step). They are private: each kind has constructors and readers that name what the fields mean there.
//!
//! A record is six words of eight bytes. A record with more (a GPU's totals, a requested size, a payload)
//! has four further words, then the payload. Most records of a program on the CPU take less than a cache
//! line that way.

use super::{FLAG_OF_WINDOW, MAX_PAYLOAD_BYTES, SLOT_BYTES};
use crate::event::{Device, EventKind};

/// Words of a short record, which has no payload.
pub const SHORT_WORDS: usize = 6;
/// Words of a long record, without its payload.
const LONG_WORDS: usize = 10;
/// In the byte of the flags: the record is long.
const LONG: u8 = 0x80;
/// The word with the ordinal (low half) and the checksum (high half).
const CHECK_WORD: usize = 1;

/// Odd numbers without a pattern: the sum of the words times these changes with every bit of every word.
const KEYS: [u64; LONG_WORDS] = [
    0x9e37_79b9_7f4a_7c15,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0xff51_afd7_ed55_8ccd,
    0xc4ce_b9fe_1a85_ec53,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xd6e8_feb8_6659_fd93,
    0xa076_1d64_78bd_642f,
];

/// Where the checksums of one recording start: a record of another recording is invalid in this
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// The seed of a recording.
    pub const fn of_session(session: u64) -> Self {
        // The highest bit is set, so that a slot of zeros has a checksum that is not zero.
        Self(session.wrapping_mul(KEYS[0]) | 1 << 63)
    }
}

/// One record, without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds since the recording began: its place in the order of all records.
    pub time_nanos: u64,
    /// The thread, in the order in which threads were first seen.
    pub thread: u32,
    /// An [`crate::EventKind`] or a [`super::record_kind`].
    pub kind: u8,
    /// [`super::FLAG_BACKWARD`] and the others.
    pub flags: u8,
    /// The device of the memory.
    pub device: Device,
    /// The call stack of a block; the number of a label, step or name; the first number of a definition.
    number: u32,
    /// The address of a block or segment; the free memory after a failed request; the id of a definition.
    addr: u64,
    /// The size of a block or segment; the request that failed; the window of a record for one window.
    bytes: u64,
    /// The requested bytes of a block.
    requested: u64,
    /// torch's total of allocated bytes after the event.
    allocated: u64,
    /// torch's total of reserved bytes after the event.
    reserved: u64,
    /// The open phase that the user named.
    pub phase: u16,
    /// The operator.
    pub op: u16,
    /// The stream.
    pub stream: u16,
    /// The pool.
    pub pool: u16,
}

/// A record as stored in a chunk, without its payload.
#[derive(Debug, Clone, Copy)]
pub struct RecordBytes {
    words: [u64; LONG_WORDS],
    count: usize,
    /// How many slots the record and its payload take.
    pub slots: usize,
}

impl RecordBytes {
    /// The words before the payload.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words[..self.count]
    }
}

impl Record {
    /// A record of this kind with everything else empty.
    #[inline]
    pub const fn new(kind: u8, device: Device) -> Self {
        Self {
            time_nanos: 0,
            thread: 0,
            kind,
            flags: 0,
            device,
            number: 0,
            addr: 0,
            bytes: 0,
            requested: 0,
            allocated: 0,
            reserved: 0,
            phase: 0,
            op: 0,
            stream: 0,
            pool: 0,
        }
    }

    /// The same record at this time.
    #[must_use]
    pub const fn at_time(self, time_nanos: u64) -> Self {
        Self { time_nanos, ..self }
    }

    /// An event of the block or segment at this address; `bytes` is 0 when its size is not known.
    #[inline]
    pub const fn block(kind: EventKind, device: Device, addr: u64, bytes: u64) -> Self {
        Self { addr, bytes, ..Self::new(kind as u8, device) }
    }

    /// The address of the block or segment, or an address inside it.
    #[inline]
    pub const fn addr(&self) -> u64 {
        self.addr
    }

    /// The size of the block or segment; 0 for a free without a size.
    #[inline]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the program requested of a block; 0 when not known.
    #[inline]
    pub const fn requested(&self) -> u64 {
        self.requested
    }

    /// Sets what the program requested of a block.
    #[inline]
    pub const fn set_requested(&mut self, bytes: u64) {
        self.requested = bytes;
    }

    /// The call stack of an event of memory; 0 for none.
    #[inline]
    pub const fn stack(&self) -> u32 {
        self.number
    }

    /// Sets the call stack of an event of memory.
    #[inline]
    pub const fn set_stack(&mut self, stack: u32) {
        self.number = stack;
    }

    /// torch's total of allocated bytes after an allocation or free; 0 when not known.
    #[inline]
    pub const fn allocated(&self) -> u64 {
        self.allocated
    }

    /// torch's total of reserved bytes after an allocation or free; 0 when there is none.
    #[inline]
    pub const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Sets torch's totals after an allocation or free.
    #[inline]
    pub const fn set_totals(&mut self, allocated: u64, reserved: u64) {
        self.allocated = allocated;
        self.reserved = reserved;
    }

    /// The label of the block around an address.
    #[inline]
    pub const fn label(device: Device, addr: u64, label: u32) -> Self {
        Self { addr, number: label, ..Self::new(EventKind::Label as u8, device) }
    }

    /// The number of the label, for `Label`; 0 for one that was left out.
    #[inline]
    pub const fn label_number(&self) -> u32 {
        self.number
    }

    /// Replaces the number of the label.
    pub fn set_label_number(&mut self, label: u32) {
        self.number = label;
    }

    /// A step that ended.
    pub const fn step(number: u32) -> Self {
        Self { number, ..Self::new(EventKind::Step as u8, Device::CPU) }
    }

    /// Replaces the number of the step.
    pub fn set_step_number(&mut self, number: u32) {
        self.number = number;
    }

    /// The number of the step, for `Step`.
    pub const fn step_number(&self) -> u32 {
        self.number
    }

    /// A mark, or the begin or the end of a phase; `text` is the number of its name.
    pub const fn named(kind: EventKind, text: u32) -> Self {
        Self { number: text, ..Self::new(kind as u8, Device::CPU) }
    }

    /// The number of the name, for `Mark`, `PhaseBegin` and `PhaseEnd`.
    pub const fn name_number(&self) -> u32 {
        self.number
    }

    /// Replaces the number of the name.
    pub fn set_name_number(&mut self, text: u32) {
        self.number = text;
    }

    /// The same record, only for the window with this number.
    #[must_use]
    pub const fn in_window(self, window: u64) -> Self {
        Self { flags: self.flags | FLAG_OF_WINDOW, bytes: window, ..self }
    }

    /// The window of a record with [`FLAG_OF_WINDOW`].
    pub const fn window_number(&self) -> u64 {
        self.bytes
    }

    /// Removes the number of the window.
    pub fn clear_window(&mut self) {
        self.bytes = 0;
    }

    /// A failed request; `device_free` is the free memory of the device, 0 when not known.
    pub const fn oom(device: Device, requested: u64, device_free: u64) -> Self {
        Self { addr: device_free, bytes: requested, ..Self::new(EventKind::Oom as u8, device) }
    }

    /// The bytes of a failed request.
    pub const fn failed_request(&self) -> u64 {
        self.bytes
    }

    /// A definition. [`super::Definition`] defines the order of its numbers.
    pub(super) const fn definition(kind: u8, id: u32, numbers: [u32; 5]) -> Self {
        let [number, second, third, fourth, fifth] = numbers;
        Self {
            number,
            addr: id as u64,
            bytes: second as u64,
            requested: third as u64,
            allocated: fourth as u64,
            reserved: fifth as u64,
            ..Self::new(kind, Device::CPU)
        }
    }

    /// The id of a definition.
    #[expect(clippy::cast_possible_truncation, reason = "it was a u32 when written")]
    pub(super) const fn definition_id(&self) -> u32 {
        self.addr as u32
    }

    /// The numbers of a definition.
    #[expect(clippy::cast_possible_truncation, reason = "each was a u32 when written")]
    pub(super) const fn definition_numbers(&self) -> [u32; 5] {
        [
            self.number,
            self.bytes as u32,
            self.requested as u32,
            self.allocated as u32,
            self.reserved as u32,
        ]
    }

    /// The number, the address and the size as stored. A row of a batch has the same three, which mean the same.
    #[inline]
    pub(crate) const fn stored_numbers(&self) -> (u32, u64, u64) {
        (self.number, self.addr, self.bytes)
    }

    #[inline]
    const fn is_long(&self, payload_bytes: usize) -> bool {
        self.requested | self.allocated | self.reserved != 0
            || self.stream | self.pool != 0
            || payload_bytes != 0
    }

    /// How many slots the record takes with a payload of this length.
    #[inline]
    pub const fn slots(&self, payload_bytes: usize) -> usize {
        let words = if self.is_long(payload_bytes) { LONG_WORDS } else { SHORT_WORDS };
        words * 8 / SLOT_BYTES + payload_bytes.div_ceil(SLOT_BYTES)
    }

    /// The record's bytes, with its checksum. `ordinal` counts the records of its chunk.
    #[inline]
    #[expect(clippy::cast_sign_loss, reason = "the bytes of the two i8 are stored as they are")]
    pub fn to_bytes(&self, seed: Seed, ordinal: u32, payload: &[u8]) -> RecordBytes {
        let is_long = self.is_long(payload.len());
        let flags = if is_long { self.flags | LONG } else { self.flags };
        let head = [self.kind, flags, self.device.kind as u8, self.device.index as u8];
        let mut words = [
            self.time_nanos,
            u64::from(ordinal),
            u64::from(u32::from_le_bytes(head)) | u64::from(self.number) << 32,
            u64::from(self.thread) | u64::from(self.phase) << 32 | u64::from(self.op) << 48,
            self.addr,
            self.bytes,
            self.requested,
            self.allocated,
            self.reserved,
            u64::from(self.stream) | u64::from(self.pool) << 16 | (payload.len() as u64) << 32,
        ];
        let (count, sum) = match words.first_chunk::<SHORT_WORDS>() {
            // Constant lengths: most records are short, and go through here.
            Some(short) if !is_long => (SHORT_WORDS, checksum(seed, short, &[])),
            _ => (LONG_WORDS, checksum(seed, &words, payload)),
        };
        words[CHECK_WORD] |= u64::from(sum) << 32;
        RecordBytes { words, count, slots: self.slots(payload.len()) }
    }

    #[expect(
        clippy::cast_possible_wrap,
        clippy::cast_possible_truncation,
        reason = "the fields that `to_bytes` packed"
    )]
    fn from_words(words: &[u64; LONG_WORDS]) -> Self {
        let head = words[2].to_le_bytes();
        Self {
            time_nanos: words[0],
            thread: words[3] as u32,
            kind: head[0],
            flags: head[1] & !LONG,
            device: Device { kind: head[2] as i8, index: head[3] as i8 },
            number: (words[2] >> 32) as u32,
            addr: words[4],
            bytes: words[5],
            requested: words[6],
            allocated: words[7],
            reserved: words[8],
            phase: (words[3] >> 32) as u16,
            op: (words[3] >> 48) as u16,
            stream: words[9] as u16,
            pool: (words[9] >> 16) as u16,
        }
    }
}

#[inline]
fn checksum(seed: Seed, words: &[u64], payload: &[u8]) -> u32 {
    let mut sum = seed.0;
    for (word, key) in words.iter().zip(KEYS) {
        sum = sum.wrapping_add(word.wrapping_mul(key));
    }
    let (whole, rest) = payload.as_chunks::<8>();
    for word in whole {
        sum = sum.rotate_left(23).wrapping_add(u64::from_le_bytes(*word)).wrapping_mul(KEYS[0]);
    }
    for &byte in rest {
        sum = sum.rotate_left(23).wrapping_add(u64::from(byte)).wrapping_mul(KEYS[0]);
    }
    // The low half depends on the low bits of the words only.
    (sum >> 32) as u32
}

/// The record that begins at the first of `slots`: its ordinal, itself, its payload and its slots. `None` if its
/// checksum is wrong, or if it is incomplete.
#[inline]
pub fn parse_record(slots: &[u8], seed: Seed) -> Option<(u32, Record, &[u8], usize)> {
    let mut words = [0; LONG_WORDS];
    let (short, _) = slots.get(..SHORT_WORDS * 8)?.as_chunks::<8>();
    for (word, bytes) in words.iter_mut().zip(short) {
        *word = u64::from_le_bytes(*bytes);
    }
    let mut payload = &slots[..0];
    let mut count = SHORT_WORDS;
    if words[2].to_le_bytes()[1] & LONG != 0 {
        let (long, _) = slots.get(SHORT_WORDS * 8..LONG_WORDS * 8)?.as_chunks::<8>();
        for (word, bytes) in words[SHORT_WORDS..].iter_mut().zip(long) {
            *word = u64::from_le_bytes(*bytes);
        }
        let length = usize::try_from(words[LONG_WORDS - 1] >> 32).ok()?;
        if length > MAX_PAYLOAD_BYTES {
            return None;
        }
        payload = slots.get(LONG_WORDS * 8..LONG_WORDS * 8 + length)?;
        count = LONG_WORDS;
    }
    #[expect(clippy::cast_possible_truncation, reason = "its two halves")]
    let (ordinal, found) = (words[CHECK_WORD] as u32, (words[CHECK_WORD] >> 32) as u32);
    words[CHECK_WORD] = u64::from(ordinal);
    if checksum(seed, &words[..count], payload) != found {
        return None;
    }
    let taken = count * 8 / SLOT_BYTES + payload.len().div_ceil(SLOT_BYTES);
    Some((ordinal, Record::from_words(&words), payload, taken))
}

/// A record with its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The record.
    pub record: Record,
    /// The payload; empty for most.
    pub payload: Box<[u8]>,
}

impl From<Record> for Entry {
    fn from(record: Record) -> Self {
        Self { record, payload: Box::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed::of_session(7);

    fn full() -> Record {
        Record {
            time_nanos: 2,
            thread: 70_000,
            kind: 3,
            flags: 4,
            device: Device { kind: 1, index: -1 },
            number: 5,
            addr: 6,
            bytes: 7,
            requested: 8,
            allocated: 9,
            reserved: 10,
            phase: 11,
            op: 12,
            stream: 13,
            pool: 14,
        }
    }

    fn bytes(record: &Record, payload: &[u8]) -> Vec<u8> {
        let made = record.to_bytes(SEED, 21, payload);
        let mut bytes: Vec<u8> = made.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(payload);
        bytes.resize(made.slots * SLOT_BYTES, 0);
        bytes
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let short = Record { bytes: 9, ..Record::new(1, Device::CPU) };
        for (record, payload, slots) in [(full(), &b"payload"[..], 6), (short, b"", 3)] {
            let made = bytes(&record, payload);
            assert_eq!(parse_record(&made, SEED), Some((21, record, payload, slots)));
            assert_eq!(parse_record(&made, Seed::of_session(8)), None);
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = bytes(&full(), b"payload");
        let used = LONG_WORDS * 8 + b"payload".len();
        for bit in 0..used * 8 {
            let mut damaged = good.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse_record(&damaged, SEED), None, "bit {bit}");
        }
    }

    #[test]
    fn zeros_are_no_record() {
        assert_eq!(parse_record(&[0; 256], SEED), None);
        assert_eq!(parse_record(&[0; 256], Seed::of_session(0)), None);
    }
}
