//! What Python adds to a recording: labels of tensors, names of modules, steps, marks and phases.

use std::sync::atomic::Ordering;

use floodmark_trace::journal::{FLAG_NAME_LEFT_OUT, Record};
use floodmark_trace::{Category, Device, EventKind, TextKind};

use crate::recorder::TextNumber;
use crate::recorder::names::{label_id, text_id};
use crate::recorder::with_recording;
use crate::switches::{ENABLED, IS_WATCHED};

/// Whether a window is open in this process and records events.
pub fn is_recording() -> bool {
    IS_WATCHED.load(Ordering::Acquire) && ENABLED.load(Ordering::Acquire)
}

/// Keeps running code alive, with the GIL held. Returns modules that have no name yet, as pairs: the
/// outermost module around it, and the module.
pub fn pin_running_code() -> Vec<(usize, usize)> {
    with_recording(|recording, _| {
        recording.gil_request.clear();
        // The last window may have closed since the request.
        if recording.has_stacks() { recording.tree.lock().pin_running_code() } else { Vec::new() }
    })
    .unwrap_or_default()
}

/// Names modules below `root`: address, qualified name, class. The GIL is held, all are alive.
pub fn name_modules(root: usize, named: &[(usize, String, String)]) {
    with_recording(|recording, local| local.name_modules(recording, root, named));
}

/// A named module is about to be destroyed.
pub fn forget_module(addr: usize) {
    with_recording(|recording, _| recording.tree.lock().forget_module(addr));
}

/// The number of a label, for [`label`].
pub fn define_label(category: Category, name: String, shape: String, dtype: String) -> u32 {
    with_recording(|recording, local| label_id(recording, local, category, name, shape, dtype))
        .unwrap_or(0)
}

/// A tensor whose name is known.
#[derive(Debug, Clone, Copy)]
pub struct LabelledTensor {
    /// Where it is.
    pub device: Device,
    /// Its address.
    pub addr: u64,
    /// From [`define_label`].
    pub label: u32,
}

/// Device type, device index, address, label.
impl From<(String, i32, u64, u32)> for LabelledTensor {
    fn from((kind, index, addr, label): (String, i32, u64, u32)) -> Self {
        Self { device: Device::of_torch(&kind, index), addr, label }
    }
}

/// Labels tensors.
pub fn label(tensors: &[LabelledTensor]) {
    for tensor in tensors {
        label_each(&[(tensor.device.canonical(), tensor.label)], &[tensor.addr]);
    }
}

/// Sets the addresses of the tensors that `labels` name, in the same order; 0 for none.
pub fn label_each(labels: &[(Device, u32)], addrs: &[u64]) {
    with_recording(|recording, local| {
        for (&(device, label), &addr) in labels.iter().zip(addrs) {
            if addr != 0 && recording.wants(device) {
                let mut record = Record::label(device, addr, label);
                record.flags = if label == 0 { FLAG_NAME_LEFT_OUT } else { 0 };
                local.write(recording, record, &[]);
            }
        }
    });
}

fn write(record: Record) {
    with_recording(|recording, local| local.write(recording, record, &[]));
}

fn write_named(kind: EventKind, name: TextNumber) {
    let mut record = Record::named(kind, u32::from(name.number));
    record.flags = if name.is_left_out { FLAG_NAME_LEFT_OUT } else { 0 };
    write(record);
}

/// Records the end of a step in every window. Returns the number of earlier steps, or `None` when
/// nothing is recorded.
pub fn step() -> Option<u32> {
    if !is_recording() {
        return None;
    }
    let number = with_recording(|recording, _| {
        for state in &recording.windows.lock().open {
            state.steps.fetch_add(1, Ordering::Relaxed);
        }
        recording.steps.fetch_add(1, Ordering::Relaxed)
    })?;
    write(Record::step(number));
    Some(number)
}

/// Writes a step or a phase that belongs to one window only.
pub(crate) fn write_in_window(record: Record, window: u64) {
    write(record.in_window(window));
}

/// The number of the name of a phase or a mark; 0 when no number is left.
pub(crate) fn name_number(kind: TextKind, name: &str) -> u32 {
    let found = with_recording(|recording, local| text_id(recording, local, kind, name));
    found.map_or(0, |found| u32::from(found.number))
}

/// Writes a mark.
pub fn mark(name: &str) {
    let id = with_recording(|recording, local| text_id(recording, local, TextKind::Mark, name));
    if let Some(id) = id {
        write_named(EventKind::Mark, id);
    }
}

/// A named phase begins on this thread.
pub fn begin_phase(name: &str) {
    let id = with_recording(|recording, local| {
        // In shared state, the end of a phase would end a phase of another thread.
        if local.is_shared {
            return None;
        }
        let id = text_id(recording, local, TextKind::Phase, name);
        local.phases.push(id);
        Some(id)
    });
    if let Some(id) = id.flatten() {
        write_named(EventKind::PhaseBegin, id);
    }
}

/// The innermost named phase of this thread ends.
pub fn end_phase() {
    let id = with_recording(|_, local| local.phases.pop()).flatten();
    if let Some(id) = id {
        write_named(EventKind::PhaseEnd, id);
    }
}

/// An optimizer's `step` begins or ends on this thread.
pub fn note_optimizer(begins: bool) {
    let kind = if begins { EventKind::OptimizerBegin } else { EventKind::OptimizerEnd };
    write(Record::new(kind as u8, Device::CPU));
}
