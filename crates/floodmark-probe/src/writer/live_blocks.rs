//! Live blocks that an idle recorder passes to the one that replaces it.
//!
//! A window with a file needs a journal that starts with it, and so a new recorder. Live blocks are known to
//! the old recorder, so memory is not searched.

use std::collections::BTreeMap;

use floodmark_trace::journal::Record;
use floodmark_trace::{EventKind, LabelRow, Window};

use crate::recorder::names::label_id;
use crate::recorder::with_recording;
use crate::writer::definitions::DefinitionTable;

/// The blocks that are live when a recorder starts, in the order of [`floodmark_trace::Assembler::initial_records`].
#[derive(Debug)]
pub(crate) struct LiveBlocks {
    /// The devices that were tracked.
    pub(crate) window: Window,
    pub(crate) records: Vec<Record>,
}

impl LiveBlocks {
    /// Replaces the numbers of labels, which the old recorder defined, by those of the recorder that records now.
    pub(crate) fn with_new_labels(self, known: &DefinitionTable) -> Self {
        let mut live = self;
        let mut numbers = BTreeMap::new();
        live.records.retain_mut(|record| {
            if record.kind != EventKind::Label as u8 {
                return true;
            }
            let old = record.label_number();
            let define = || known.label(old).map_or(0, define_anew);
            record.set_label_number(*numbers.entry(old).or_insert_with(define));
            record.label_number() != 0
        });
        live
    }
}

fn define_anew(label: &LabelRow) -> u32 {
    let LabelRow { category, name, shape, dtype, .. } = label.clone();
    with_recording(|recording, local| label_id(recording, local, category, name, shape, dtype))
        .unwrap_or(0)
}
