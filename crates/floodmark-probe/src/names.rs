//! Names that become numbers: labels of tensors, phases, marks, operators, streams, pools.

use floodmark_trace::journal::{Record, pack_strings, record_kind};
use floodmark_trace::{Category, Device, TextKind};

use crate::recording::Recording;
use crate::thread::Local;

/// The number of a label, which is defined when it is new.
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
    let mut record = Record::new(record_kind::LABEL, Device::CPU);
    record.addr = u64::from(next);
    record.bytes = u64::from(category as u8);
    // Written under the lock, so that nobody uses the number before it is defined.
    local.write(recording, record, &pack_strings(&[&key.1, &key.2, &key.3]));
    names.labels.insert(key, next);
    next
}

/// The number of a text, which is defined when it is new. 0 when there are too many.
pub(crate) fn text_id(recording: &Recording, local: &mut Local, kind: TextKind, text: &str) -> u16 {
    let mut names = recording.names.lock();
    let key = (kind as u8, text.to_owned());
    if let Some(&id) = names.texts.get(&key) {
        return u16::try_from(id).unwrap_or(0);
    }
    let Ok(next) = u16::try_from(names.texts.len() + 1) else { return 0 };
    let mut record = Record::new(record_kind::TEXT, Device::CPU);
    record.addr = u64::from(next);
    record.bytes = u64::from(kind as u8);
    local.write(recording, record, &pack_strings(&[text]));
    names.texts.insert(key, u32::from(next));
    next
}

/// The number of a stream or pool, by its handle; each thread remembers those it has met.
pub(crate) fn handle_id(
    recording: &Recording,
    local: &mut Local,
    kind: TextKind,
    handle: u64,
    text: impl FnOnce() -> String,
) -> u16 {
    let key = (kind as u8, handle);
    if let Some(&(_, _, id)) = local.handles.iter().find(|known| (known.0, known.1) == key) {
        return id;
    }
    let id = text_id(recording, local, kind, &text());
    local.handles.push((key.0, key.1, id));
    id
}
