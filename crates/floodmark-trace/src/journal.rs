//! The records that a traced thread writes while the program runs.
//!
//! Each thread owns one segment at a time: a file of fixed size, mapped shared. A record takes one slot;
//! a record with a payload takes as many further slots as the payload needs, in the same segment. The
//! header's `committed` field counts slots that are completely written, and is stored last. A reader
//! looks no further than `committed`, so it never sees half a record, however the program ended.
//!
//! All numbers are little-endian. `docs/trace-format.md` draws the bytes.

use crate::event::Device;

/// The first eight bytes of a segment.
pub const SEGMENT_MAGIC: [u8; 8] = *b"FLDJRNL1";
/// Bytes before the first slot.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 80;
/// Bytes of a segment on disk.
pub const SEGMENT_BYTES: usize = 1 << 20;
/// Slots of a segment.
pub const SLOTS_PER_SEGMENT: usize = (SEGMENT_BYTES - SEGMENT_HEADER_BYTES) / SLOT_BYTES;
/// The longest payload; what is longer is cut by the one who writes it.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;
/// Where `committed` is, from the start of the segment.
pub const COMMITTED_OFFSET: usize = 32;

/// What a record says. Numbers below 100 are those of [`crate::EventKind`].
pub mod record_kind {
    /// Defines a function: `addr` its id, `requested` its first line, payload file and name.
    pub const CODE: u8 = 100;
    /// Defines a node of the call tree: `addr` its id, `stack` its parent, `bytes` the code,
    /// `requested` the line, `allocated` the module, `reserved` the flags.
    pub const STACK: u8 = 101;
    /// Defines or names a module: `addr` its id, `bytes` its root, payload class and name.
    pub const MODULE: u8 = 102;
    /// Defines a label: `addr` its id, `bytes` the category, payload name, shape and dtype.
    pub const LABEL: u8 = 103;
    /// Defines a text: `addr` its id, `bytes` what it names, payload the text.
    pub const TEXT: u8 = 104;
    /// Says how many allocations have had no stack so far: `bytes`.
    pub const STACKS_LEFT_OUT: u8 = 105;
    /// Nothing: the sequence number was taken, and there was nothing to say.
    pub const NOTHING: u8 = 106;
}

/// The backward pass did it.
pub const FLAG_BACKWARD: u8 = 1;
/// The block was let go of while a stream still used it: `FreeCompleted` comes later.
pub const FLAG_DEFERRED: u8 = 2;

/// One record, without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Its place in the order of all records of all threads: dense, from 1.
    pub seq: u64,
    /// Nanoseconds since the recording began.
    pub time_nanos: u64,
    /// An [`crate::EventKind`] or a [`record_kind`].
    pub kind: u8,
    /// [`FLAG_BACKWARD`], [`FLAG_DEFERRED`].
    pub flags: u8,
    /// Where it happened.
    pub device: Device,
    /// The call stack.
    pub stack: u32,
    /// The block's or segment's address.
    pub addr: u64,
    /// The block's or segment's size; 0 when the one who frees does not know it.
    pub bytes: u64,
    /// What the program asked for; 0 when not known.
    pub requested: u64,
    /// torch's total of allocated bytes after the event; 0 when not known.
    pub allocated: u64,
    /// torch's total of reserved bytes after the event; 0 when there is none.
    pub reserved: u64,
    /// The open phase that the user named.
    pub phase: u16,
    /// The operator.
    pub op: u16,
    /// The stream.
    pub stream: u16,
    /// The pool.
    pub pool: u16,
    /// Bytes of payload in the slots that follow.
    pub payload_bytes: u32,
}

impl Record {
    /// A record of this kind with everything else empty.
    pub const fn new(kind: u8, device: Device) -> Self {
        Self {
            seq: 0,
            time_nanos: 0,
            kind,
            flags: 0,
            device,
            stack: 0,
            addr: 0,
            bytes: 0,
            requested: 0,
            allocated: 0,
            reserved: 0,
            phase: 0,
            op: 0,
            stream: 0,
            pool: 0,
            payload_bytes: 0,
        }
    }

    /// The slot's bytes.
    #[expect(clippy::cast_sign_loss, reason = "the bytes of the two i8 are stored as they are")]
    pub fn to_bytes(&self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        slot[0..8].copy_from_slice(&self.seq.to_le_bytes());
        slot[8..16].copy_from_slice(&self.time_nanos.to_le_bytes());
        slot[16] = self.kind;
        slot[17] = self.flags;
        slot[18] = self.device.kind as u8;
        slot[19] = self.device.index as u8;
        slot[20..24].copy_from_slice(&self.stack.to_le_bytes());
        slot[24..32].copy_from_slice(&self.addr.to_le_bytes());
        slot[32..40].copy_from_slice(&self.bytes.to_le_bytes());
        slot[40..48].copy_from_slice(&self.requested.to_le_bytes());
        slot[48..56].copy_from_slice(&self.allocated.to_le_bytes());
        slot[56..64].copy_from_slice(&self.reserved.to_le_bytes());
        slot[64..66].copy_from_slice(&self.phase.to_le_bytes());
        slot[66..68].copy_from_slice(&self.op.to_le_bytes());
        slot[68..70].copy_from_slice(&self.stream.to_le_bytes());
        slot[70..72].copy_from_slice(&self.pool.to_le_bytes());
        slot[72..76].copy_from_slice(&self.payload_bytes.to_le_bytes());
        slot
    }

    /// The record in a slot.
    #[expect(clippy::cast_possible_wrap, reason = "the bytes of the two i8 are stored as they are")]
    pub fn from_bytes(slot: &[u8; SLOT_BYTES]) -> Self {
        Self {
            seq: u64_at(slot, 0),
            time_nanos: u64_at(slot, 8),
            kind: slot[16],
            flags: slot[17],
            device: Device { kind: slot[18] as i8, index: slot[19] as i8 },
            stack: u32_at(slot, 20),
            addr: u64_at(slot, 24),
            bytes: u64_at(slot, 32),
            requested: u64_at(slot, 40),
            allocated: u64_at(slot, 48),
            reserved: u64_at(slot, 56),
            phase: u16_at(slot, 64),
            op: u16_at(slot, 66),
            stream: u16_at(slot, 68),
            pool: u16_at(slot, 70),
            payload_bytes: u32_at(slot, 72),
        }
    }

    /// How many slots the record and its payload take.
    pub fn slots(&self) -> usize {
        1 + (self.payload_bytes as usize).div_ceil(SLOT_BYTES)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The header of a segment that has no record yet.
pub fn segment_header(session: u64, thread: u16) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut header = [0; SEGMENT_HEADER_BYTES];
    header[0..8].copy_from_slice(&SEGMENT_MAGIC);
    header[8..16].copy_from_slice(&session.to_le_bytes());
    header[16..18].copy_from_slice(&thread.to_le_bytes());
    header
}

/// A record with the thread that wrote it and its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The record.
    pub record: Record,
    /// The thread.
    pub thread: u16,
    /// The payload; empty for most.
    pub payload: Box<[u8]>,
}

/// The committed records of a segment, or `None` when the bytes are not a segment of this session.
///
/// Trusts nothing: a length that does not fit ends the reading.
pub fn segment_entries(segment: &[u8], session: u64) -> Option<Vec<Entry>> {
    let header = segment.get(..SEGMENT_HEADER_BYTES)?;
    if header[..8] != SEGMENT_MAGIC || u64_at(header, 8) != session {
        return None;
    }
    let thread = u16_at(header, 16);
    let committed = usize::try_from(u64_at(header, COMMITTED_OFFSET)).unwrap_or(usize::MAX);
    let slots = &segment[SEGMENT_HEADER_BYTES..];
    let mut entries = Vec::new();
    read_entries(slots, 0, committed, thread, &mut entries);
    Some(entries)
}

/// Appends the records in slots `from..to` of `slots` to `entries`.
pub fn read_entries(slots: &[u8], from: usize, to: usize, thread: u16, entries: &mut Vec<Entry>) {
    let (slots, _) = slots.as_chunks::<SLOT_BYTES>();
    let slots = &slots[..to.min(slots.len())];
    let mut at = from;
    while let Some(slot) = slots.get(at) {
        let record = Record::from_bytes(slot);
        let length = record.payload_bytes as usize;
        let end = at + record.slots();
        let Some(payload) = slots.get(at + 1..end).map(<[_]>::as_flattened) else { return };
        if length > MAX_PAYLOAD_BYTES {
            return;
        }
        entries.push(Entry { record, thread, payload: payload[..length].into() });
        at = end;
    }
}

/// Puts strings into a payload, each with its length in front, cutting what does not fit.
pub fn pack_strings(strings: &[&str]) -> Vec<u8> {
    let share = MAX_PAYLOAD_BYTES / strings.len().max(1) - 4;
    let mut payload = Vec::with_capacity(strings.iter().map(|s| s.len() + 4).sum());
    for text in strings {
        let cut = cut_at_char(text, share);
        #[expect(clippy::cast_possible_truncation, reason = "at most 64 KiB")]
        let length = cut.len() as u32;
        payload.extend_from_slice(&length.to_le_bytes());
        payload.extend_from_slice(cut.as_bytes());
    }
    payload
}

/// The beginning of `text`: at most so many bytes, and no half character.
pub(crate) fn cut_at_char(text: &str, most_bytes: usize) -> &str {
    let mut end = most_bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The strings of a payload; what is missing is empty, what is not UTF-8 is replaced.
pub fn unpack_strings<const N: usize>(mut payload: &[u8]) -> [String; N] {
    std::array::from_fn(|_| {
        let Some(length) = payload.get(..4) else { return String::new() };
        let length = u32_at(length, 0) as usize;
        let Some(text) = payload.get(4..4 + length) else { return String::new() };
        payload = &payload[4 + length..];
        String::from_utf8_lossy(text).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let record = Record {
            seq: 1,
            time_nanos: 2,
            kind: 3,
            flags: 4,
            device: Device { kind: 1, index: -1 },
            stack: 5,
            addr: 6,
            bytes: 7,
            requested: 8,
            allocated: 9,
            reserved: 10,
            phase: 11,
            op: 12,
            stream: 13,
            pool: 14,
            payload_bytes: 15,
        };
        assert_eq!(Record::from_bytes(&record.to_bytes()), record);
    }

    #[test]
    fn strings_unpack_as_they_were_packed() {
        let payload = pack_strings(&["train.py", "", "Größe"]);
        assert_eq!(unpack_strings(&payload), ["train.py", "", "Größe"]);
        assert_eq!(unpack_strings::<2>(&payload[..6]), ["", ""]);
    }

    #[test]
    fn a_segment_is_read_up_to_what_was_committed() {
        let mut segment = segment_header(7, 3).to_vec();
        for seq in 1..=3 {
            let record = Record { seq, ..Record::new(1, Device::CPU) };
            segment.extend_from_slice(&record.to_bytes());
        }
        segment[COMMITTED_OFFSET] = 2;
        let entries = segment_entries(&segment, 7).unwrap();
        assert_eq!(
            entries.iter().map(|e| (e.record.seq, e.thread)).collect::<Vec<_>>(),
            [(1, 3), (2, 3)]
        );
        assert_eq!(segment_entries(&segment, 8), None);
    }
}
