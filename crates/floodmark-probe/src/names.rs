//! Names that become numbers: labels of tensors, phases, marks, operators, streams, pools.

use floodmark_trace::journal::{Record, pack_strings, record_kind};
use floodmark_trace::{Category, Device, TextKind};

use crate::recording::Recording;
use crate::thread::Local;

/// What a name takes in the table and in the writer's, beside its characters.
const NAME_BYTES: usize = 224;

/// The number of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TextNumber {
    /// 0 for none.
    pub(crate) number: u16,
    /// There was a text, and no number or memory left for it.
    pub(crate) is_left_out: bool,
}

/// The number of a label, which is defined when it is new. 0 when the memory limit is reached.
pub(crate) fn label_id(
    recording: &Recording,
    local: &mut Local,
    category: Category,
    name: String,
    shape: String,
    dtype: String,
) -> u32 {
    let mut names = recording.names.lock();
    let next = u32::try_from(names.labels.len() + 1).unwrap_or(0);
    let key = (category as u8, name, shape, dtype);
    if let Some(&id) = names.labels.get(&key) {
        return id;
    }
    if !recording.budget.take(NAME_BYTES + 2 * (key.1.len() + key.2.len() + key.3.len())) {
        return 0;
    }
    let mut record = Record::new(record_kind::LABEL, Device::CPU);
    record.addr = u64::from(next);
    record.bytes = u64::from(category as u8);
    // Written under the lock, so that no thread uses the number before it is defined.
    local.write(recording, record, &pack_strings(&[&key.1, &key.2, &key.3]));
    names.labels.insert(key, next);
    next
}

/// The number of a text, which is defined when it is new.
pub(crate) fn text_id(
    recording: &Recording,
    local: &mut Local,
    kind: TextKind,
    text: &str,
) -> TextNumber {
    let mut names = recording.names.lock();
    if let Some(&number) = names.texts[kind as usize].get(text) {
        return TextNumber { number, is_left_out: false };
    }
    names.text_count += 1;
    let number = u16::try_from(names.text_count).ok();
    let number = number.filter(|_| recording.budget.take(NAME_BYTES + 2 * text.len()));
    let Some(number) = number else {
        names.text_count -= 1;
        return TextNumber { number: 0, is_left_out: true };
    };
    let mut record = Record::new(record_kind::TEXT, Device::CPU);
    record.addr = u64::from(number);
    record.bytes = u64::from(kind as u8);
    local.write(recording, record, &pack_strings(&[text]));
    names.texts[kind as usize].insert(text.to_owned(), number);
    TextNumber { number, is_left_out: false }
}

/// The number of a stream or pool, by its handle; each thread remembers those it has met.
pub(crate) fn handle_id(
    recording: &Recording,
    local: &mut Local,
    kind: TextKind,
    handle: u64,
    text: impl FnOnce() -> String,
) -> TextNumber {
    let key = (kind as u8, handle);
    if let Some(&(_, _, id)) = local.handles.iter().find(|known| (known.0, known.1) == key) {
        return id;
    }
    let id = text_id(recording, local, kind, &text());
    // A program that makes streams without end must not fill memory with what it met.
    if local.handles.len() >= MOST_HANDLES {
        local.handles.clear();
    }
    local.handles.push((key.0, key.1, id));
    id
}

/// Handles that a thread remembers.
const MOST_HANDLES: usize = 64;
