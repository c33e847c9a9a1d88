//! From a recorder that waits for a window to a new one.
//!
//! A window with a file needs a journal that begins with it, and so a recorder of its own. What is live is known to
//! the recorder that waited, so nothing is searched for.

use std::collections::BTreeMap;

use floodmark_trace::journal::Record;
use floodmark_trace::{EventKind, LabelRow, Window};

use crate::known::Known;
use crate::names::label_id;
use crate::sink::Sink;
use crate::thread::with_recording;

/// What is live when a recorder begins, in the order of [`floodmark_trace::Assembler::initial_records`].
#[derive(Debug)]
pub(crate) struct Live {
    /// The devices that were followed.
    pub(crate) window: Window,
    pub(crate) records: Vec<Record>,
}

impl Live {
    /// What a recorder has followed, with the labels of the one that records now.
    pub(crate) fn from_ended(kept: &Sink, known: &Known) -> Self {
        let mut live = kept.live();
        let mut numbers = BTreeMap::new();
        live.records.retain_mut(|record| {
            if record.kind != EventKind::Label as u8 {
                return true;
            }
            let old = record.stack;
            record.stack =
                *numbers.entry(old).or_insert_with(|| known.label(old).map_or(0, define_anew));
            record.stack != 0
        });
        live
    }
}

fn define_anew(label: &LabelRow) -> u32 {
    let LabelRow { category, name, shape, dtype, .. } = label.clone();
    with_recording(|recording, local| label_id(recording, local, category, name, shape, dtype))
        .unwrap_or(0)
}
