//! What the recorder has defined: call stacks, functions, modules, labels and texts.
//!
//! They lie in memory that was taken where they were made ([`crate::budget`]).
//!
//! A window that opens later gets the definitions that its events refer to, and no others: a model that ran before
//! it is no part of it.

use std::collections::BTreeSet;

use floodmark_trace::journal::Record;
use floodmark_trace::{Batch, CodeRow, EventKind, LabelRow, ModuleRow, StackRow, TextRow};

/// All definitions, by id.
#[derive(Debug, Default)]
pub(crate) struct Known {
    stacks: Vec<Option<StackRow>>,
    codes: Vec<Option<CodeRow>>,
    /// A module has a row for each of its names.
    modules: Vec<Vec<ModuleRow>>,
    labels: Vec<Option<LabelRow>>,
    texts: Vec<Option<TextRow>>,
    /// Labels that do not say what a tensor is called.
    nameless: BTreeSet<u32>,
}

fn put<T: Default + Clone>(table: &mut Vec<T>, id: u32) -> &mut T {
    let at = id as usize;
    if at >= table.len() {
        table.resize(at + 1, T::default());
    }
    &mut table[at]
}

impl Known {
    /// Adds what a record defines.
    pub(crate) fn define(&mut self, record: &Record, payload: &[u8]) {
        let mut batch = Batch::default();
        batch.define(record, payload);
        for row in batch.stacks {
            let slot = put(&mut self.stacks, row.id);
            *slot = Some(row);
        }
        for row in batch.codes {
            let slot = put(&mut self.codes, row.id);
            *slot = Some(row);
        }
        for row in batch.modules {
            let names = put(&mut self.modules, row.id);
            names.push(row);
        }
        for row in batch.labels {
            if row.name.is_empty() {
                self.nameless.insert(row.id);
            }
            let slot = put(&mut self.labels, row.id);
            *slot = Some(row);
        }
        for row in batch.texts {
            let slot = put(&mut self.texts, row.id);
            *slot = Some(row);
        }
    }

    /// Labels that do not say what a tensor is called.
    pub(crate) fn nameless(&self) -> &BTreeSet<u32> {
        &self.nameless
    }

    /// A label.
    pub(crate) fn label(&self, id: u32) -> Option<&LabelRow> {
        self.labels.get(id as usize)?.as_ref()
    }
}

/// The definitions that a window has already.
#[derive(Debug, Default)]
pub(crate) struct Referred {
    stacks: Vec<bool>,
    codes: Vec<bool>,
    /// How many rows of each module.
    modules: Vec<usize>,
    labels: Vec<bool>,
    texts: Vec<bool>,
}

/// Whether this is the first time.
fn is_new(table: &mut Vec<bool>, id: u32) -> bool {
    id != 0 && !std::mem::replace(put(table, id), true)
}

impl Referred {
    /// Adds to a batch the definitions that its rows refer to, and that no earlier batch has.
    pub(crate) fn complete(&mut self, known: &Known, batch: &mut Batch) {
        for id in 0..u32::try_from(self.modules.len()).unwrap_or(0) {
            if self.modules[id as usize] > 0 {
                self.add_module(known, id, batch);
            }
        }
        for row in std::mem::take(&mut batch.rows) {
            match row.kind {
                EventKind::Alloc
                | EventKind::Base
                | EventKind::Oom
                | EventKind::SegmentAlloc
                | EventKind::SegmentFree
                | EventKind::SegmentMap
                | EventKind::SegmentUnmap
                | EventKind::BaseSegment => self.add_stack(known, row.stack, batch),
                EventKind::Label => {
                    if is_new(&mut self.labels, row.stack) {
                        let found = known.labels.get(row.stack as usize).cloned().flatten();
                        batch.labels.extend(found);
                    }
                }
                EventKind::Mark | EventKind::PhaseBegin | EventKind::PhaseEnd => {
                    self.add_text(known, row.stack, batch);
                }
                EventKind::Free
                | EventKind::FreeUnknown
                | EventKind::FreeCompleted
                | EventKind::Reserved
                | EventKind::Saved
                | EventKind::Unpacked
                | EventKind::Step
                | EventKind::OptimizerBegin
                | EventKind::OptimizerEnd => {}
            }
            for text in [row.op, row.phase, u32::from(row.stream), u32::from(row.pool)] {
                self.add_text(known, text, batch);
            }
            batch.rows.push(row);
        }
    }

    fn add_text(&mut self, known: &Known, id: u32, batch: &mut Batch) {
        if is_new(&mut self.texts, id) {
            batch.texts.extend(known.texts.get(id as usize).cloned().flatten());
        }
    }

    /// A stack and its callers, which come first.
    fn add_stack(&mut self, known: &Known, id: u32, batch: &mut Batch) {
        let first = batch.stacks.len();
        let mut next = id;
        while is_new(&mut self.stacks, next) {
            let Some(Some(row)) = known.stacks.get(next as usize) else { break };
            batch.stacks.push(*row);
            next = row.parent;
        }
        batch.stacks[first..].reverse();
        for at in first..batch.stacks.len() {
            let StackRow { code, module, .. } = batch.stacks[at];
            if is_new(&mut self.codes, code) {
                batch.codes.extend(known.codes.get(code as usize).cloned().flatten());
            }
            self.add_module(known, module, batch);
        }
    }

    /// A module, and the modules that its names start from.
    fn add_module(&mut self, known: &Known, id: u32, batch: &mut Batch) {
        let Some(rows) = known.modules.get(id as usize) else { return };
        let had = std::mem::replace(put(&mut self.modules, id), rows.len());
        for row in rows.iter().skip(had) {
            batch.modules.push(row.clone());
            if row.root != id {
                self.add_module(known, row.root, batch);
            }
        }
    }
}
