//! The events of `device_traces`, stored in about ten bytes each.
//!
//! The rows of a trace need the blocks from before the history, pools and annotations, which are known only at the end of
//! the file. A trace of many events is too large to be in memory twice. So entries are written once, read twice, and freed
//! chunk by chunk during the second reading.

use std::ops::Range;

use crate::format::known_strings::StringId;

/// `TraceEntry::Action` in `CUDACachingAllocator.h`. An entry stores the discriminant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    Oom,
    Annotate,
}

const ACTIONS: [Action; 9] = [
    Action::Alloc,
    Action::FreeRequested,
    Action::FreeCompleted,
    Action::SegmentAlloc,
    Action::SegmentFree,
    Action::SegmentMap,
    Action::SegmentUnmap,
    Action::Oom,
    Action::Annotate,
];

/// Fields that seldom change from event to event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RepeatedFields {
    pub(crate) stream: u64,
    /// Number of the pool plus one; 0 where the event has no pool.
    pub(crate) pool: u32,
    pub(crate) compile_context: StringId,
    pub(crate) user_metadata: StringId,
}

/// `TraceEntry` in `CUDACachingAllocator.h`: one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceEntry {
    pub(crate) action: Action,
    /// Whether the next event completed this free.
    pub(crate) is_completed: bool,
    pub(crate) addr: u64,
    pub(crate) size: u64,
    /// Microseconds since 1970, or 0.
    pub(crate) time: u64,
    /// Number of the call stack plus one; 0 where the event has no `frames`.
    pub(crate) stack: u32,
    pub(crate) repeated: RepeatedFields,
}

impl TraceEntry {
    /// The number of the pool, if the event has one.
    pub(crate) fn pool(&self) -> Option<u32> {
        self.repeated.pool.checked_sub(1)
    }
}

const ACTION_BITS: u16 = 0xf;
const COMPLETED: u16 = 1 << 4;
const ADDR_FALLS: u16 = 1 << 5;
const TIME_FALLS: u16 = 1 << 6;
const NEW_REPEATED: u16 = 1 << 7;
const HAS_STACK: u16 = 1 << 8;

/// Chunks are freed as they are read. The C library returns memory of this size to the system at once.
const CHUNK_BYTES: usize = 1 << 18;
/// The bound on the bytes of one entry.
const MOST_ENTRY_BYTES: usize = 96;

/// The events of one list in `device_traces`.
#[derive(Debug, Clone)]
struct EventList {
    first: u32,
    chunks: Range<usize>,
    /// The serial number of the list.
    serial: u64,
}

/// All events, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct TraceEntries {
    chunks: Vec<Vec<u8>>,
    lists: Vec<EventList>,
    previous: PreviousEntry,
    /// The last entry: its chunk, its offset there, its address, and whether it is a free.
    last: Option<(usize, usize, u64, bool)>,
    count: u32,
}

/// The fields of the entry before, against which an entry is stored as differences.
#[derive(Debug, Clone, Copy, Default)]
struct PreviousEntry {
    addr: u64,
    time: u64,
    repeated: RepeatedFields,
}

impl TraceEntries {
    /// Adds an event of the list with this serial number, and returns the event's number.
    pub(crate) fn push(&mut self, serial: u64, entry: &TraceEntry) -> u32 {
        if self.lists.last().is_none_or(|list| list.serial != serial) {
            self.begin_list(serial);
        }
        if entry.action == Action::FreeCompleted && self.complete_last(entry.addr) {
            return self.count.saturating_sub(1);
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() + MOST_ENTRY_BYTES > CHUNK_BYTES) {
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES));
        }
        let at = self.chunks.len() - 1;
        if let (Some(chunk), Some(list)) = (self.chunks.last_mut(), self.lists.last_mut()) {
            list.chunks.end = at + 1;
            let is_free = entry.action == Action::FreeRequested;
            self.last = Some((at, chunk.len(), entry.addr, is_free));
            self.previous.write_next(chunk, entry);
        }
        self.count = self.count.saturating_add(1);
        self.count - 1
    }

    fn begin_list(&mut self, serial: u64) {
        // No chunk has entries of two lists, so that those of each list are freed while it is read.
        let here = self.chunks.len();
        self.chunks.push(Vec::with_capacity(CHUNK_BYTES));
        self.lists.push(EventList { first: self.count, chunks: here..here + 1, serial });
        self.previous = PreviousEntry::default();
        self.last = None;
    }

    /// Marks the last entry as completed if it is the free of this block; returns whether it is.
    fn complete_last(&mut self, addr: u64) -> bool {
        let Some((chunk, at, last_addr, true)) = self.last.take() else { return false };
        let Some(tag) = self.chunks.get_mut(chunk).and_then(|chunk| chunk.get_mut(at)) else {
            return false;
        };
        if last_addr == addr {
            *tag |= COMPLETED.to_le_bytes()[0];
        }
        last_addr == addr
    }

    /// The number of events.
    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    /// A cursor over a range of events; `None` if no list begins at its start.
    pub(crate) fn cursor(&self, events: Range<u32>) -> Option<EntryCursor> {
        let at = self.lists.binary_search_by_key(&events.start, |list| list.first).ok()?;
        let list = self.lists.get(at)?;
        let end = self.lists.get(at + 1).map_or(self.count, |next| next.first);
        let left = events.end.min(end).saturating_sub(events.start);
        Some(EntryCursor {
            chunks: list.chunks.clone(),
            offset: 0,
            left,
            previous: PreviousEntry::default(),
        })
    }

    /// Reads the next event. With `frees_chunks`, frees each chunk after its last event.
    pub(crate) fn next(
        &mut self,
        cursor: &mut EntryCursor,
        frees_chunks: bool,
    ) -> Option<TraceEntry> {
        cursor.left = cursor.left.checked_sub(1)?;
        if self.chunks.get(cursor.chunks.start)?.len() <= cursor.offset {
            if frees_chunks && let Some(read) = self.chunks.get_mut(cursor.chunks.start) {
                *read = Vec::new();
            }
            cursor.chunks.start += 1;
            cursor.offset = 0;
        }
        let chunk = self.chunks.get(cursor.chunks.start).filter(|_| !cursor.chunks.is_empty())?;
        cursor.previous.read_next(chunk, &mut cursor.offset)
    }
}

/// A position in the events of one list.
#[derive(Debug, Clone)]
pub(crate) struct EntryCursor {
    chunks: Range<usize>,
    /// In the first of the chunks.
    offset: usize,
    left: u32,
    previous: PreviousEntry,
}

impl PreviousEntry {
    fn write_next(&mut self, out: &mut Vec<u8>, entry: &TraceEntry) {
        let (addr, addr_falls) = difference(entry.addr, self.addr);
        let (time, time_falls) = difference(entry.time, self.time);
        let mut tag = entry.action as u16;
        let flags = [
            (entry.is_completed, COMPLETED),
            (addr_falls, ADDR_FALLS),
            (time_falls, TIME_FALLS),
            (entry.repeated != self.repeated, NEW_REPEATED),
            (entry.stack != 0, HAS_STACK),
        ];
        for (is_set, flag) in flags {
            tag |= if is_set { flag } else { 0 };
        }
        let mut bytes = [0; MOST_ENTRY_BYTES];
        bytes[..2].copy_from_slice(&tag.to_le_bytes());
        // Blocks begin at multiples of 512: the nine bits that rotate to the top are zero.
        let mut end = write_number(&mut bytes, 2, addr.rotate_right(9));
        end = write_number(&mut bytes, end, time);
        end = write_number(&mut bytes, end, entry.size);
        if entry.stack != 0 {
            end = write_number(&mut bytes, end, entry.stack.into());
        }
        if entry.repeated != self.repeated {
            let RepeatedFields { stream, pool, compile_context, user_metadata } = entry.repeated;
            for number in [stream, pool.into(), compile_context.into(), user_metadata.into()] {
                end = write_number(&mut bytes, end, number);
            }
        }
        out.extend_from_slice(&bytes[..end]);
        *self = Self { addr: entry.addr, time: entry.time, repeated: entry.repeated };
    }

    #[expect(clippy::cast_possible_truncation, reason = "these were 32 bits when written")]
    fn read_next(&mut self, chunk: &[u8], at: &mut usize) -> Option<TraceEntry> {
        let tag = u16::from_le_bytes(chunk.get(*at..)?.first_chunk().copied()?);
        *at += 2;
        let addr = read_number(chunk, at)?.rotate_left(9);
        let time = read_number(chunk, at)?;
        let size = read_number(chunk, at)?;
        self.addr = apply(self.addr, addr, tag & ADDR_FALLS != 0);
        self.time = apply(self.time, time, tag & TIME_FALLS != 0);
        let stack = if tag & HAS_STACK != 0 { read_number(chunk, at)? as u32 } else { 0 };
        if tag & NEW_REPEATED != 0 {
            self.repeated = RepeatedFields {
                stream: read_number(chunk, at)?,
                pool: read_number(chunk, at)? as u32,
                compile_context: read_number(chunk, at)? as u32,
                user_metadata: read_number(chunk, at)? as u32,
            };
        }
        Some(TraceEntry {
            action: *ACTIONS.get(usize::from(tag & ACTION_BITS))?,
            is_completed: tag & COMPLETED != 0,
            addr: self.addr,
            size,
            time: self.time,
            stack,
            repeated: self.repeated,
        })
    }
}

fn difference(now: u64, before: u64) -> (u64, bool) {
    (now.abs_diff(before), now < before)
}

fn apply(before: u64, difference: u64, falls: bool) -> u64 {
    if falls { before.wrapping_sub(difference) } else { before.wrapping_add(difference) }
}

/// Writes a number, seven bits in each byte, and returns the offset after it.
#[inline]
fn write_number(out: &mut [u8; MOST_ENTRY_BYTES], mut at: usize, mut number: u64) -> usize {
    while number >= 0x80 {
        out[at] = number.to_le_bytes()[0] | 0x80;
        number >>= 7;
        at += 1;
    }
    out[at] = number.to_le_bytes()[0];
    at + 1
}

#[inline]
fn read_number(chunk: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *chunk.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_entry() -> impl Strategy<Value = TraceEntry> {
        let repeated = (0..3_u64, 0..2_u32, 0..2_u32, any::<u32>());
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>());
        (0..ACTIONS.len(), numbers, repeated).prop_map(|(action, numbers, repeated)| {
            let (addr, size, time, stack) = numbers;
            let (stream, pool, compile_context, user_metadata) = repeated;
            let repeated = RepeatedFields { stream, pool, compile_context, user_metadata };
            let action = ACTIONS[action];
            TraceEntry { action, is_completed: false, addr, size, time, stack, repeated }
        })
    }

    proptest! {
        #[test]
        fn entries_are_read_as_they_were_written(lists in prop::collection::vec(prop::collection::vec(any_entry(), 0..900), 1..4)) {
            let mut entries = TraceEntries::default();
            let mut ranges = Vec::new();
            for (number, list) in (1..).zip(&lists) {
                let first = entries.count;
                for entry in list {
                    entries.push(number, entry);
                }
                ranges.push(first..entries.count);
            }
            for frees_chunks in [false, true] {
                for (list, range) in lists.iter().zip(&ranges) {
                    let Some(mut cursor) = entries.cursor(range.clone()) else {
                        prop_assert!(list.is_empty());
                        continue;
                    };
                    let read = std::iter::from_fn(|| entries.next(&mut cursor, frees_chunks));
                    let read: Vec<TraceEntry> = read.collect();
                    prop_assert_eq!(&read, list);
                }
            }
        }
    }

    #[test]
    fn a_completion_right_after_its_free_is_no_entry() {
        let mut entries = TraceEntries::default();
        let repeated = RepeatedFields::default();
        let entry = |action, addr| TraceEntry {
            action,
            is_completed: false,
            addr,
            size: 1,
            time: 0,
            stack: 0,
            repeated,
        };
        entries.push(1, &entry(Action::FreeRequested, 512));
        entries.push(1, &entry(Action::FreeCompleted, 512));
        entries.push(1, &entry(Action::FreeRequested, 1024));
        entries.push(1, &entry(Action::FreeCompleted, 512));
        let mut cursor = entries.cursor(0..3).unwrap();
        let read = std::iter::from_fn(|| entries.next(&mut cursor, true));
        let read: Vec<_> = read.map(|read| (read.action, read.is_completed)).collect();
        let expected = [
            (Action::FreeRequested, true),
            (Action::FreeRequested, false),
            (Action::FreeCompleted, false),
        ];
        assert_eq!(read, expected);
    }
}
