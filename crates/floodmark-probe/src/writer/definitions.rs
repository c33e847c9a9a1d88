//! All definitions of a recorder: call stacks, functions, modules, labels and texts.
//!
//! Their memory was counted in the budget when they were created ([`crate::budget`]).
//!
//! A window that opens later gets the definitions that its events refer to, and no others: a model that ran before
//! it does not belong to it.

use std::collections::BTreeSet;

use floodmark_trace::journal::Record;
use floodmark_trace::{Batch, CodeRow, EventKind, LabelRow, ModuleRow, StackRow, TextRow};

/// All definitions, by id.
#[derive(Debug, Default)]
pub(crate) struct DefinitionTable {
    stacks: Vec<Option<StackRow>>,
    codes: Vec<Option<CodeRow>>,
    /// A module has a row for each of its names.
    modules: Vec<Vec<ModuleRow>>,
    labels: Vec<Option<LabelRow>>,
    texts: Vec<Option<TextRow>>,
    /// Labels without a name.
    nameless: BTreeSet<u32>,
}

fn put<T: Default + Clone>(table: &mut Vec<T>, id: u32) -> &mut T {
    let at = id as usize;
    if at >= table.len() {
        table.resize(at + 1, T::default());
    }
    &mut table[at]
}

impl DefinitionTable {
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

    /// Labels without a name.
    pub(crate) fn nameless(&self) -> &BTreeSet<u32> {
        &self.nameless
    }

    /// A function.
    pub(crate) fn code(&self, id: u32) -> Option<&CodeRow> {
        self.codes.get(id as usize)?.as_ref()
    }

    /// A label.
    pub(crate) fn label(&self, id: u32) -> Option<&LabelRow> {
        self.labels.get(id as usize)?.as_ref()
    }
}

/// The definitions that a window's trace has already.
#[derive(Debug, Default)]
pub(crate) struct WrittenDefinitions {
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

impl WrittenDefinitions {
    /// Adds to a batch the definitions that its rows refer to, and that no earlier batch has.
    pub(crate) fn complete(&mut self, known: &DefinitionTable, batch: &mut Batch) {
        for id in 0..u32::try_from(self.modules.len()).unwrap_or(0) {
            if self.modules[id as usize] > 0 {
                self.add_module(known, id, batch);
            }
        }
        for row in std::mem::take(&mut batch.rows) {
            match row.kind {
                EventKind::Alloc
                | EventKind::InitialBlock
                | EventKind::Oom
                | EventKind::SegmentAlloc
                | EventKind::SegmentFree
                | EventKind::SegmentMap
                | EventKind::SegmentUnmap
                | EventKind::InitialSegment => self.add_stack(known, row.stack, batch),
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

    fn add_text(&mut self, known: &DefinitionTable, id: u32, batch: &mut Batch) {
        if is_new(&mut self.texts, id) {
            batch.texts.extend(known.texts.get(id as usize).cloned().flatten());
        }
    }

    /// A stack and its callers, which come first.
    fn add_stack(&mut self, known: &DefinitionTable, id: u32, batch: &mut Batch) {
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
    fn add_module(&mut self, known: &DefinitionTable, id: u32, batch: &mut Batch) {
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

#[cfg(test)]
mod tests {
    use floodmark_trace::journal::Definition;
    use floodmark_trace::{Assembler, Category, Device, Row, TextKind};

    use super::*;

    fn define(known: &mut DefinitionTable, definition: &Definition<&str>) {
        let (record, payload) = definition.to_record();
        known.define(&record, &payload);
    }

    fn label(id: u32, category: Category, name: &str) -> Definition<&str> {
        Definition::Label { id, category, name, shape: "", dtype: "" }
    }

    /// Two functions; the second is called by the first, and in a module below another one.
    fn known() -> DefinitionTable {
        let mut known = DefinitionTable::default();
        let definitions = [
            Definition::Code { id: 1, first_line: 0, file: "train.py", name: "main" },
            Definition::Code { id: 2, first_line: 0, file: "train.py", name: "forward" },
            Definition::Module { id: 1, root: 1, class: "Net", name: "" },
            Definition::Module { id: 2, root: 1, class: "Linear", name: "fc" },
            Definition::Stack { id: 1, parent: 0, code: 1, line: 0, module: 0, flags: 0 },
            Definition::Stack { id: 2, parent: 1, code: 2, line: 0, module: 2, flags: 0 },
            label(1, Category::Parameter, "fc.weight"),
            label(2, Category::Gradient, ""),
            Definition::Text { id: 1, kind: TextKind::Phase, text: "eval" },
        ];
        for definition in &definitions {
            define(&mut known, definition);
        }
        known
    }

    /// The rows that the records become.
    fn batch(records: &[Record]) -> Batch {
        let mut assembler = Assembler::default();
        for record in records {
            assembler.push(record, &[]);
        }
        assembler.take_batch()
    }

    fn event(kind: EventKind, addr: u64, stack: u32) -> Record {
        let mut record = Record::block(kind, Device::CPU, addr, 512);
        record.set_stack(stack);
        record
    }

    fn ids(batch: &Batch) -> [Vec<u32>; 5] {
        [
            batch.stacks.iter().map(|row| row.id).collect(),
            batch.codes.iter().map(|row| row.id).collect(),
            batch.modules.iter().map(|row| row.id).collect(),
            batch.labels.iter().map(|row| row.id).collect(),
            batch.texts.iter().map(|row| row.id).collect(),
        ]
    }

    #[test]
    fn a_batch_gets_what_its_rows_refer_to_once() {
        let (known, mut referred) = (known(), WrittenDefinitions::default());
        let mut first = batch(&[event(EventKind::Alloc, 64, 2), event(EventKind::Label, 64, 1)]);
        referred.complete(&known, &mut first);
        // Callers come before what they call.
        assert_eq!(ids(&first), [vec![1, 2], vec![1, 2], vec![2, 1], vec![1], vec![]]);
        let phase = Record::named(EventKind::PhaseBegin, 1);
        let mut second = batch(&[event(EventKind::Alloc, 128, 1), phase]);
        referred.complete(&known, &mut second);
        assert_eq!(ids(&second), [vec![], vec![], vec![], vec![], vec![1]]);
    }

    #[test]
    fn a_module_that_gets_a_name_later_is_given_again() {
        let (mut known, mut referred) = (known(), WrittenDefinitions::default());
        let mut first = batch(&[event(EventKind::Alloc, 64, 2)]);
        referred.complete(&known, &mut first);
        let head = Definition::Module { id: 2, root: 1, class: "Linear", name: "head" };
        define(&mut known, &head);
        let mut second = batch(&[event(EventKind::Free, 64, 0)]);
        referred.complete(&known, &mut second);
        let names: Vec<_> = second.modules.iter().map(|row| (row.id, row.name.as_str())).collect();
        assert_eq!(names, [(2, "head")]);
    }

    #[test]
    fn undefined_ids_are_left_out() {
        let (known, mut referred) = (DefinitionTable::default(), WrittenDefinitions::default());
        let mut found = batch(&[event(EventKind::Alloc, 64, 9), event(EventKind::Label, 64, 9)]);
        let rows: Vec<Row> = found.rows.clone();
        referred.complete(&known, &mut found);
        assert_eq!((ids(&found), found.rows), ([const { Vec::new() }; 5], rows));
    }

    #[test]
    fn labels_without_a_name_are_listed() {
        let known = known();
        assert_eq!(known.nameless().iter().copied().collect::<Vec<_>>(), [2]);
        assert_eq!(known.label(1).map(|label| label.name.as_str()), Some("fc.weight"));
        assert_eq!(known.label(3), None);
    }
}
