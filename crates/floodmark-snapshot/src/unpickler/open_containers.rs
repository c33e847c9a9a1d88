//! Dicts and lists to which the pickle may still add items.
//!
//! Few are open at once: those that contain each other. Their slots are reused.

use crate::contents::dict_items::DictItems;
use crate::contents::snapshot::{Contents, NOT_STORED};
use crate::contents::value::{IndexRange, ListOf, Value};
use crate::format::known_strings as known;
use crate::unpickler::memo::Memo;

/// The bound on open dicts, and on open lists. No snapshot needs more.
const MOST_OPEN: usize = 1 << 12;

#[derive(Debug)]
struct Dict {
    items: DictItems,
    /// Its memo index.
    memo: Option<u32>,
}

#[derive(Debug, Default)]
struct List {
    of: ListOf,
    range: IndexRange,
    frames: Vec<u32>,
    traces: Vec<IndexRange>,
    memo: Option<u32>,
    /// A number that no other list has.
    serial: u64,
}

/// All open dicts and lists.
#[derive(Debug, Default)]
pub(crate) struct OpenContainers {
    dicts: Vec<Dict>,
    free_dicts: Vec<u32>,
    lists: Vec<List>,
    free_lists: Vec<u32>,
    /// The open lists, in the order in which they were opened.
    order: Vec<u32>,
    serial: u64,
}

impl OpenContainers {
    /// Opens a dict; `None` if too many are open.
    #[inline]
    pub(crate) fn open_dict(&mut self) -> Option<u32> {
        if let Some(slot) = self.free_dicts.pop() {
            return Some(slot);
        }
        if self.dicts.len() >= MOST_OPEN {
            return None;
        }
        self.dicts.push(Dict { items: DictItems::new(), memo: None });
        u32::try_from(self.dicts.len() - 1).ok()
    }

    /// Opens a list; `None` if too many are open.
    #[inline]
    pub(crate) fn open_list(&mut self) -> Option<u32> {
        let slot = match self.free_lists.pop() {
            Some(slot) => slot,
            None if self.lists.len() >= MOST_OPEN => return None,
            None => {
                self.lists.push(List::default());
                u32::try_from(self.lists.len() - 1).ok()?
            }
        };
        self.serial += 1;
        self.lists[slot as usize].serial = self.serial;
        self.order.push(slot);
        Some(slot)
    }

    /// Sets the memo index of an open dict or list.
    #[inline]
    pub(crate) fn set_memo_index(&mut self, value: Value, index: u32) {
        if let Value::OpenDict(slot) = value {
            self.dicts[slot as usize].memo = Some(index);
        } else if let Value::OpenList(slot) = value {
            self.lists[slot as usize].memo = Some(index);
        }
    }

    /// The items of a dict.
    #[inline]
    pub(crate) fn items_of(&mut self, dict: u32) -> &mut DictItems {
        &mut self.dicts[dict as usize].items
    }

    /// Appends a frame; `false` if the list has items of another kind.
    #[inline]
    pub(crate) fn append_frame(&mut self, list: u32, frame: u32) -> bool {
        let list = &mut self.lists[list as usize];
        let fits = list.holds(ListOf::Frames);
        if fits {
            list.frames.push(frame);
        }
        fits
    }

    /// Sets items: a key, its value, the next key, and so on. Items whose key is no string are dropped.
    #[inline]
    pub(crate) fn set_all(&mut self, dict: u32, items: &[Value]) {
        let fields = &mut self.dicts[dict as usize].items;
        for [key, value] in items.as_chunks().0 {
            if let Value::String(key) = *key {
                fields.set(key, *value);
            }
        }
    }

    /// Replaces a complete dict or list by the value that it represents, in the memo too.
    pub(crate) fn close(&mut self, value: &mut Value, contents: &mut Contents, memo: &mut Memo) {
        if let Value::OpenDict(slot) = *value {
            self.close_dict(slot, value, contents, memo);
        } else if let Value::OpenList(slot) = *value {
            self.close_list(slot, value, contents, memo);
        }
    }

    fn close_dict(
        &mut self,
        slot: u32,
        value: &mut Value,
        contents: &mut Contents,
        memo: &mut Memo,
    ) {
        let outer_list = self.order.last().map_or(0, |&list| self.lists[list as usize].serial);
        let dict = &mut self.dicts[slot as usize];
        let index = dict.memo.take();
        if dict.items.has(known::ACTION) {
            // Most dicts are events. No snapshot gets one from the memo.
            *value = Value::Event(contents.add_event(&dict.items, outer_list));
        } else {
            *value = contents.add_dict(&dict.items);
            if let Some(index) = index {
                memo.put(index, *value);
            }
        }
        dict.items.clear();
        self.free_dicts.push(slot);
    }

    fn close_list(
        &mut self,
        slot: u32,
        value: &mut Value,
        contents: &mut Contents,
        memo: &mut Memo,
    ) {
        // Nearly always this is the innermost list.
        if let Some(at) = self.order.iter().rposition(|&open| open == slot) {
            self.order.remove(at);
        }
        let list = &mut self.lists[slot as usize];
        let stack = match list.of {
            ListOf::Nothing => Some(0),
            ListOf::Frames => Some(contents.call_tree.add_stack(&list.frames)),
            ListOf::Events
            | ListOf::Blocks
            | ListOf::Segments
            | ListOf::Annotations
            | ListOf::Histories
            | ListOf::Traces => None,
        };
        if let (Some(stack), Some(index)) = (stack, list.memo.take()) {
            memo.put(index, Value::Stack(stack));
        }
        *value = match (stack, list.of) {
            (Some(stack), _) => Value::Stack(stack),
            (None, ListOf::Traces) => {
                contents.traces.push(std::mem::take(&mut list.traces));
                let at = u32::try_from(contents.traces.len() - 1).unwrap_or(0);
                Value::List(ListOf::Traces, IndexRange { first: at, end: at + 1 })
            }
            (None, of) => Value::List(of, list.range),
        };
        list.of = ListOf::Nothing;
        list.frames.clear();
        self.free_lists.push(slot);
    }

    /// Appends items. Counts those that do not belong into the list.
    #[inline]
    pub(crate) fn append_all(&mut self, list: u32, items: &[Value], contents: &mut Contents) {
        let list = &mut self.lists[list as usize];
        for &item in items {
            if let Value::Frame(frame) = item
                && list.holds(ListOf::Frames)
            {
                list.frames.push(frame);
            } else {
                contents.out_of_place += u64::from(!list.append(item));
            }
        }
    }
}

impl List {
    /// Adds an item that is no frame; `false` if it does not belong into the list.
    fn append(&mut self, item: Value) -> bool {
        match item {
            // An event that changes no memory.
            Value::Event(NOT_STORED) => self.holds(ListOf::Events),
            Value::Event(number) => self.extend(ListOf::Events, number),
            Value::Block(number) => self.extend(ListOf::Blocks, number),
            Value::Segment(number) => self.extend(ListOf::Segments, number),
            Value::Annotation(number) => self.extend(ListOf::Annotations, number),
            Value::History(number) => self.extend(ListOf::Histories, number),
            Value::Stack(0) => self.trace(IndexRange::default()),
            Value::List(ListOf::Events, events) => self.trace(events),
            // `forward_frames` is a list of strings.
            Value::String(_) => true,
            Value::Opaque
            | Value::Int(_)
            | Value::Pool(_)
            | Value::Frame(_)
            | Value::Stack(_)
            | Value::List(..)
            | Value::Settings
            | Value::Snapshot
            | Value::OpenDict(_)
            | Value::OpenList(_) => false,
        }
    }

    /// Whether the list may have items of this kind. All items have the kind of the first.
    #[inline]
    fn holds(&mut self, of: ListOf) -> bool {
        if self.of == ListOf::Nothing {
            self.of = of;
            self.range = IndexRange::default();
        }
        self.of == of
    }

    /// Adds the item with the next number. An item of another list stays there.
    fn extend(&mut self, of: ListOf, number: u32) -> bool {
        if !self.holds(of) {
            return false;
        }
        if self.range == IndexRange::default() {
            self.range = IndexRange { first: number, end: number };
        }
        // A completion that was merged with its free has the number of the free.
        let is_next = number == self.range.end || number.checked_add(1) == Some(self.range.end);
        if number == self.range.end {
            self.range.end = number.saturating_add(1);
        }
        is_next
    }

    fn trace(&mut self, events: IndexRange) -> bool {
        let fits = self.holds(ListOf::Traces);
        if fits {
            self.traces.push(events);
        }
        fits
    }
}
