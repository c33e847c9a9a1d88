//! Events in a few bytes each, until everything is known that their rows need.
//!
//! Blocks from before the history, pools and annotations come from parts of the file that are known only
//! at its end, and a trace of many events is too large to be in memory twice. A tape is written once, read
//! twice and freed piece by piece.

use std::ops::Range;

/// What happened. The number is the one on the tape.
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

/// What seldom changes from event to event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Circumstances {
    pub(crate) stream: u64,
    /// Number of the pool, one higher; 0 when the event does not say.
    pub(crate) pool: u32,
    /// `compile_context`, as a word.
    pub(crate) compile: u32,
    /// `user_metadata`, as a word.
    pub(crate) user: u32,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) action: Action,
    /// A free whose completion came next.
    pub(crate) is_completed: bool,
    pub(crate) addr: u64,
    pub(crate) size: u64,
    /// Microseconds since 1970, or 0.
    pub(crate) time: u64,
    /// The call stack, one higher; 0 when the event has none, not even an empty one.
    pub(crate) stack: u32,
    pub(crate) around: Circumstances,
}

const ACTION_BITS: u16 = 0xf;
const COMPLETED: u16 = 1 << 4;
const ADDR_FALLS: u16 = 1 << 5;
const TIME_FALLS: u16 = 1 << 6;
const NEW_AROUND: u16 = 1 << 7;
const HAS_STACK: u16 = 1 << 8;

/// Pieces this long are freed as they are read: long enough to be returned to the system at once.
const CHUNK_BYTES: usize = 1 << 18;
/// No entry is longer.
const MOST_ENTRY_BYTES: usize = 96;

/// A run of events that were in one list.
#[derive(Debug, Clone)]
struct Track {
    first: u32,
    chunks: Range<usize>,
    /// Which list it was; lists have different numbers.
    list: u64,
}

/// Events, in the order in which they were in the file.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    chunks: Vec<Vec<u8>>,
    tracks: Vec<Track>,
    state: State,
    /// The last entry: its chunk, place, address, and whether it is a free.
    last: Option<(usize, usize, u64, bool)>,
    count: u32,
}

/// What differences are taken against.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    addr: u64,
    time: u64,
    around: Circumstances,
}

impl Tape {
    /// Adds an event of the list with this number, and returns the event's number.
    pub(crate) fn push(&mut self, list: u64, entry: &Entry) -> u32 {
        if self.tracks.last().is_none_or(|track| track.list != list) {
            self.begin_track(list);
        }
        if entry.action == Action::FreeCompleted && self.complete_last(entry.addr) {
            return self.count.saturating_sub(1);
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() + MOST_ENTRY_BYTES > CHUNK_BYTES) {
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES));
        }
        let at = self.chunks.len() - 1;
        if let (Some(chunk), Some(track)) = (self.chunks.last_mut(), self.tracks.last_mut()) {
            track.chunks.end = at + 1;
            let is_free = entry.action == Action::FreeRequested;
            self.last = Some((at, chunk.len(), entry.addr, is_free));
            self.state.write(chunk, entry);
        }
        self.count = self.count.saturating_add(1);
        self.count - 1
    }

    fn begin_track(&mut self, list: u64) {
        // A track begins with a chunk of its own, so that each can be freed on its own.
        let here = self.chunks.len();
        self.chunks.push(Vec::with_capacity(CHUNK_BYTES));
        self.tracks.push(Track { first: self.count, chunks: here..here + 1, list });
        self.state = State::default();
        self.last = None;
    }

    /// Marks the last entry as completed, when it is the free of this block.
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

    /// How many events there are.
    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    /// Ready to be read from the event with this number, up to before another; `None` when no list
    /// began there.
    pub(crate) fn reel(&self, events: Range<u32>) -> Option<Reel> {
        let at = self.tracks.binary_search_by_key(&events.start, |track| track.first).ok()?;
        let track = self.tracks.get(at)?;
        let end = self.tracks.get(at + 1).map_or(self.count, |next| next.first);
        let left = events.end.min(end).saturating_sub(events.start);
        Some(Reel { chunks: track.chunks.clone(), at: 0, left, state: State::default() })
    }

    /// The next event of a reel. With `give_back`, what was read is gone.
    pub(crate) fn next(&mut self, reel: &mut Reel, give_back: bool) -> Option<Entry> {
        reel.left = reel.left.checked_sub(1)?;
        if self.chunks.get(reel.chunks.start)?.len() <= reel.at {
            if give_back && let Some(read) = self.chunks.get_mut(reel.chunks.start) {
                *read = Vec::new();
            }
            reel.chunks.start += 1;
            reel.at = 0;
        }
        let chunk = self.chunks.get(reel.chunks.start).filter(|_| !reel.chunks.is_empty())?;
        reel.state.read(chunk, &mut reel.at)
    }
}

/// Where one is on a tape.
#[derive(Debug, Clone)]
pub(crate) struct Reel {
    chunks: Range<usize>,
    at: usize,
    left: u32,
    state: State,
}

impl State {
    fn write(&mut self, out: &mut Vec<u8>, entry: &Entry) {
        let (addr, addr_falls) = difference(entry.addr, self.addr);
        let (time, time_falls) = difference(entry.time, self.time);
        let mut tag = entry.action as u16;
        let flags = [
            (entry.is_completed, COMPLETED),
            (addr_falls, ADDR_FALLS),
            (time_falls, TIME_FALLS),
            (entry.around != self.around, NEW_AROUND),
            (entry.stack != 0, HAS_STACK),
        ];
        for (is_set, flag) in flags {
            tag |= if is_set { flag } else { 0 };
        }
        let mut bytes = [0; MOST_ENTRY_BYTES];
        bytes[..2].copy_from_slice(&tag.to_le_bytes());
        // Blocks begin at multiples of 512: what is turned to the top is zero.
        let mut end = write_number(&mut bytes, 2, addr.rotate_right(9));
        end = write_number(&mut bytes, end, time);
        end = write_number(&mut bytes, end, entry.size);
        if entry.stack != 0 {
            end = write_number(&mut bytes, end, entry.stack.into());
        }
        if entry.around != self.around {
            let Circumstances { stream, pool, compile, user } = entry.around;
            for number in [stream, pool.into(), compile.into(), user.into()] {
                end = write_number(&mut bytes, end, number);
            }
        }
        out.extend_from_slice(&bytes[..end]);
        *self = Self { addr: entry.addr, time: entry.time, around: entry.around };
    }

    #[expect(clippy::cast_possible_truncation, reason = "these were 32 bits when written")]
    fn read(&mut self, chunk: &[u8], at: &mut usize) -> Option<Entry> {
        let tag = u16::from_le_bytes(chunk.get(*at..)?.first_chunk().copied()?);
        *at += 2;
        let addr = read_number(chunk, at)?.rotate_left(9);
        let time = read_number(chunk, at)?;
        let size = read_number(chunk, at)?;
        self.addr = apply(self.addr, addr, tag & ADDR_FALLS != 0);
        self.time = apply(self.time, time, tag & TIME_FALLS != 0);
        let stack = if tag & HAS_STACK != 0 { read_number(chunk, at)? as u32 } else { 0 };
        if tag & NEW_AROUND != 0 {
            self.around = Circumstances {
                stream: read_number(chunk, at)?,
                pool: read_number(chunk, at)? as u32,
                compile: read_number(chunk, at)? as u32,
                user: read_number(chunk, at)? as u32,
            };
        }
        Some(Entry {
            action: *ACTIONS.get(usize::from(tag & ACTION_BITS))?,
            is_completed: tag & COMPLETED != 0,
            addr: self.addr,
            size,
            time: self.time,
            stack,
            around: self.around,
        })
    }
}

fn difference(now: u64, before: u64) -> (u64, bool) {
    (now.abs_diff(before), now < before)
}

fn apply(before: u64, difference: u64, falls: bool) -> u64 {
    if falls { before.wrapping_sub(difference) } else { before.wrapping_add(difference) }
}

/// Writes a number, seven bits a byte, and returns where the next one goes.
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

    fn any_entry() -> impl Strategy<Value = Entry> {
        let around = (0..3_u64, 0..2_u32, 0..2_u32, any::<u32>());
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>());
        (0..ACTIONS.len(), numbers, around).prop_map(|(action, numbers, around)| {
            let (addr, size, time, stack) = numbers;
            let (stream, pool, compile, user) = around;
            let around = Circumstances { stream, pool, compile, user };
            let action = ACTIONS[action];
            Entry { action, is_completed: false, addr, size, time, stack, around }
        })
    }

    proptest! {
        #[test]
        fn what_is_on_a_tape_is_read(lists in prop::collection::vec(prop::collection::vec(any_entry(), 0..900), 1..4)) {
            let mut tape = Tape::default();
            let mut ranges = Vec::new();
            for (number, list) in (1..).zip(&lists) {
                let first = tape.count;
                for entry in list {
                    tape.push(number, entry);
                }
                ranges.push(first..tape.count);
            }
            for give_back in [false, true] {
                for (list, range) in lists.iter().zip(&ranges) {
                    let Some(mut reel) = tape.reel(range.clone()) else {
                        prop_assert!(list.is_empty());
                        continue;
                    };
                    let read = std::iter::from_fn(|| tape.next(&mut reel, give_back));
                    let read: Vec<Entry> = read.collect();
                    prop_assert_eq!(&read, list);
                }
            }
        }
    }

    #[test]
    fn a_completion_right_after_its_free_is_no_entry() {
        let mut tape = Tape::default();
        let around = Circumstances::default();
        let entry = |action, addr| Entry {
            action,
            is_completed: false,
            addr,
            size: 1,
            time: 0,
            stack: 0,
            around,
        };
        tape.push(1, &entry(Action::FreeRequested, 512));
        tape.push(1, &entry(Action::FreeCompleted, 512));
        tape.push(1, &entry(Action::FreeRequested, 1024));
        tape.push(1, &entry(Action::FreeCompleted, 512));
        let mut reel = tape.reel(0..3).unwrap();
        let read = std::iter::from_fn(|| tape.next(&mut reel, true));
        let read: Vec<_> = read.map(|read| (read.action, read.is_completed)).collect();
        let expected = [
            (Action::FreeRequested, true),
            (Action::FreeRequested, false),
            (Action::FreeCompleted, false),
        ];
        assert_eq!(read, expected);
    }
}
