//! Records that define what events refer to by number: functions, call stacks, modules, labels and texts.
//!
//! A record has five numbers for them; this file defines the meaning of each.

use super::{Record, pack_strings, record_kind, unpack_strings};
use crate::event::{Category, TextKind};

/// What a record defines. Ids start at 1; 0 stands for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Definition<S> {
    /// A function.
    Code {
        /// Its id.
        id: u32,
        /// The line of its `def`.
        first_line: u32,
        /// Its file.
        file: S,
        /// Its name.
        name: S,
    },
    /// A node of the call tree.
    Stack {
        /// Its id.
        id: u32,
        /// The node of the caller.
        parent: u32,
        /// The function.
        code: u32,
        /// The line that runs.
        line: u32,
        /// The module that the frame calls.
        module: u32,
        /// [`crate::stack_flags`].
        flags: u8,
    },
    /// A module, or another name of it.
    Module {
        /// Its id.
        id: u32,
        /// The module that its name starts from.
        root: u32,
        /// Its class.
        class: S,
        /// Its qualified name below `root`.
        name: S,
    },
    /// The label of a tensor.
    Label {
        /// Its id.
        id: u32,
        /// The category of the tensor.
        category: Category,
        /// Its name; empty where it is not known.
        name: S,
        /// Its shape.
        shape: S,
        /// Its data type.
        dtype: S,
    },
    /// The name of a phase, a mark, an operator, a stream or a pool.
    Text {
        /// Its id.
        id: u32,
        /// What it names.
        kind: TextKind,
        /// The text.
        text: S,
    },
}

impl<S: AsRef<str>> Definition<S> {
    /// The record of the definition, and its payload.
    pub fn to_record(&self) -> (Record, Vec<u8>) {
        match self {
            Self::Code { id, first_line, file, name } => {
                let record = Record::definition(record_kind::CODE, *id, [0, 0, *first_line, 0, 0]);
                (record, pack_strings(&[file.as_ref(), name.as_ref()]))
            }
            Self::Stack { id, parent, code, line, module, flags } => {
                let numbers = [*parent, *code, *line, *module, u32::from(*flags)];
                (Record::definition(record_kind::STACK, *id, numbers), Vec::new())
            }
            Self::Module { id, root, class, name } => {
                let record = Record::definition(record_kind::MODULE, *id, [0, *root, 0, 0, 0]);
                (record, pack_strings(&[class.as_ref(), name.as_ref()]))
            }
            Self::Label { id, category, name, shape, dtype } => {
                let numbers = [0, *category as u32, 0, 0, 0];
                let record = Record::definition(record_kind::LABEL, *id, numbers);
                (record, pack_strings(&[name.as_ref(), shape.as_ref(), dtype.as_ref()]))
            }
            Self::Text { id, kind, text } => {
                let record = Record::definition(record_kind::TEXT, *id, [0, *kind as u32, 0, 0, 0]);
                (record, pack_strings(&[text.as_ref()]))
            }
        }
    }
}

impl Definition<String> {
    /// What a record defines; `None` for an event, and for an unknown kind of record or of text.
    #[expect(clippy::cast_possible_truncation, reason = "each was a u8 when written")]
    pub fn from_record(record: &Record, payload: &[u8]) -> Option<Self> {
        let id = record.definition_id();
        let [parent, second, line, module, flags] = record.definition_numbers();
        Some(match record.kind {
            record_kind::CODE => {
                let [file, name] = unpack_strings(payload);
                Self::Code { id, first_line: line, file, name }
            }
            record_kind::STACK => {
                Self::Stack { id, parent, code: second, line, module, flags: flags as u8 }
            }
            record_kind::MODULE => {
                let [class, name] = unpack_strings(payload);
                Self::Module { id, root: second, class, name }
            }
            record_kind::LABEL => {
                let [name, shape, dtype] = unpack_strings(payload);
                let category = Category::from_number(second as u8).unwrap_or(Category::Unknown);
                Self::Label { id, category, name, shape, dtype }
            }
            record_kind::TEXT => {
                let [text] = unpack_strings(payload);
                Self::Text { id, kind: TextKind::from_number(second as u8)?, text }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Device;

    #[test]
    fn every_definition_reads_back_as_it_was_written() {
        let text = |text: &str| text.to_owned();
        let definitions = [
            Definition::Code { id: 1, first_line: 7, file: text("train.py"), name: text("main") },
            Definition::Stack { id: 2, parent: 1, code: 3, line: 40, module: 5, flags: 6 },
            Definition::Module { id: 3, root: 1, class: text("Linear"), name: text("fc") },
            Definition::Label {
                id: 4,
                category: Category::Gradient,
                name: text("fc.weight"),
                shape: text("(2, 2)"),
                dtype: text("float32"),
            },
            Definition::Text { id: 5, kind: TextKind::Phase, text: text("warm-up") },
        ];
        for definition in definitions {
            let (record, payload) = definition.to_record();
            assert_eq!(Definition::from_record(&record, &payload), Some(definition));
        }
    }

    #[test]
    fn an_event_defines_nothing() {
        let record = Record::new(crate::EventKind::Alloc as u8, Device::CPU);
        assert_eq!(Definition::from_record(&record, &[]), None);
    }
}
