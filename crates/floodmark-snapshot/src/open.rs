//! Dicts and lists that may still get items.
//!
//! There are as many at once as are inside each other, so their places are used again and again.

use crate::error::SnapshotError;
use crate::fields::Fields;
use crate::memo::Memo;
use crate::parts::Parts;
use crate::value::{ListOf, Range, Value};
use crate::words::Word;

/// More at once are in no snapshot.
const MOST_OPEN: usize = 1 << 12;

#[derive(Debug)]
struct Dict {
    fields: Fields,
    /// Under which number the memo has it.
    memo: Option<u32>,
}

#[derive(Debug, Default)]
struct List {
    of: ListOf,
    range: Range,
    frames: Vec<u32>,
    traces: Vec<Range>,
    memo: Option<u32>,
    /// Which list it is: numbers are never used again.
    serial: u64,
}

/// All that are open.
#[derive(Debug, Default)]
pub(crate) struct Open {
    dicts: Vec<Dict>,
    free_dicts: Vec<u32>,
    lists: Vec<List>,
    free_lists: Vec<u32>,
    /// Lists that are open, in the order in which they were made.
    order: Vec<u32>,
    serial: u64,
}

impl Open {
    #[inline]
    pub(crate) fn dict(&mut self, offset: u64) -> Result<Value, SnapshotError> {
        if let Some(slot) = self.free_dicts.pop() {
            return Ok(Value::OpenDict(slot));
        }
        if self.dicts.len() >= MOST_OPEN {
            return Err(SnapshotError::TooDeep { offset });
        }
        self.dicts.push(Dict { fields: Fields::new(), memo: None });
        Ok(Value::OpenDict(u32::try_from(self.dicts.len() - 1).unwrap_or(0)))
    }

    #[inline]
    pub(crate) fn list(&mut self, offset: u64) -> Result<Value, SnapshotError> {
        let slot = match self.free_lists.pop() {
            Some(slot) => slot,
            None if self.lists.len() >= MOST_OPEN => {
                return Err(SnapshotError::TooDeep { offset });
            }
            None => {
                self.lists.push(List::default());
                u32::try_from(self.lists.len() - 1).unwrap_or(0)
            }
        };
        self.serial += 1;
        self.lists[slot as usize].serial = self.serial;
        self.order.push(slot);
        Ok(Value::OpenList(slot))
    }

    /// Notes under which number the memo has something that is open.
    #[inline]
    pub(crate) fn remember(&mut self, value: Value, index: u32) {
        match value {
            Value::OpenDict(slot) => self.dicts[slot as usize].memo = Some(index),
            Value::OpenList(slot) => self.lists[slot as usize].memo = Some(index),
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, dict: u32, key: Word, value: Value) {
        self.dicts[dict as usize].fields.set(key, value);
    }

    /// What a dict or list is, now that it is whole. Whoever asks the memo for it gets that too.
    pub(crate) fn close(&mut self, value: Value, parts: &mut Parts, memo: &mut Memo) -> Value {
        let (whole, index) = match value {
            Value::OpenDict(slot) => self.close_dict(slot, parts),
            Value::OpenList(slot) => self.close_list(slot, parts),
            whole => (whole, None),
        };
        if let Some(index) = index {
            memo.put(index, whole);
        }
        whole
    }

    fn close_dict(&mut self, slot: u32, parts: &mut Parts) -> (Value, Option<u32>) {
        let around = self.order.last().map_or(0, |&list| self.lists[list as usize].serial);
        let dict = &mut self.dicts[slot as usize];
        let whole = parts.recognise(&dict.fields, around);
        dict.fields.clear();
        self.free_dicts.push(slot);
        (whole, dict.memo.take())
    }

    fn close_list(&mut self, slot: u32, parts: &mut Parts) -> (Value, Option<u32>) {
        // The list that is closed is nearly always the innermost one.
        if let Some(at) = self.order.iter().rposition(|&open| open == slot) {
            self.order.remove(at);
        }
        let list = &mut self.lists[slot as usize];
        let whole = match list.of {
            ListOf::Nothing => Value::Stack(0),
            ListOf::Frames => Value::Stack(parts.tree.stack(&list.frames)),
            ListOf::Traces => {
                parts.traces.push(std::mem::take(&mut list.traces));
                let at = u32::try_from(parts.traces.len() - 1).unwrap_or(0);
                Value::List(ListOf::Traces, Range { first: at, end: at + 1 })
            }
            of => Value::List(of, list.range),
        };
        list.of = ListOf::Nothing;
        list.frames.clear();
        self.free_lists.push(slot);
        (whole, list.memo.take())
    }

    #[inline]
    pub(crate) fn append(&mut self, list: u32, value: Value, parts: &mut Parts) {
        let list = &mut self.lists[list as usize];
        let is_in_place = match value {
            Value::Frame(frame) => {
                let fits = list.holds(ListOf::Frames);
                if fits {
                    list.frames.push(frame);
                }
                fits
            }
            // Nothing that happened to memory.
            Value::Event(u32::MAX) => list.holds(ListOf::Events),
            Value::Event(number) => list.extend(ListOf::Events, number),
            Value::Block(number) => list.extend(ListOf::Blocks, number),
            Value::Segment(number) => list.extend(ListOf::Segments, number),
            Value::Annotation(number) => list.extend(ListOf::Annotations, number),
            Value::History(number) => list.extend(ListOf::Histories, number),
            Value::Stack(0) => list.trace(Range::default()),
            Value::List(ListOf::Events, events) => list.trace(events),
            // `forward_frames` is a list of texts.
            Value::Word(_) => true,
            _ => false,
        };
        if !is_in_place {
            parts.out_of_place += 1;
        }
    }
}

impl List {
    /// Whether something of this kind may be in the list: all are of the kind of the first one.
    #[inline]
    fn holds(&mut self, of: ListOf) -> bool {
        if self.of == ListOf::Nothing {
            self.of = of;
            self.range = Range::default();
        }
        self.of == of
    }

    /// Adds what has the next number; what was in another list before stays there.
    fn extend(&mut self, of: ListOf, number: u32) -> bool {
        if !self.holds(of) {
            return false;
        }
        if self.range == Range::default() {
            self.range = Range { first: number, end: number };
        }
        // A completion that was made part of its free has the free's number.
        let is_next = number == self.range.end || number.checked_add(1) == Some(self.range.end);
        if number == self.range.end {
            self.range.end = number.saturating_add(1);
        }
        is_next
    }

    fn trace(&mut self, events: Range) -> bool {
        let fits = self.holds(ListOf::Traces);
        if fits {
            self.traces.push(events);
        }
        fits
    }
}
