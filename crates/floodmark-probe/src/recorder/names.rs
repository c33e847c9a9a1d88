//! Names that become numbers: labels of tensors, phases, marks, operators, streams, pools.

use floodmark_trace::journal::Definition;
use floodmark_trace::{Category, TextKind};

use super::local::Local;
use super::name_table::TextNumber;
use super::recording::Recording;

/// The memory of a name in this table and the writer's, without its characters.
const NAME_BYTES: usize = 224;

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
    let (_, name, shape, dtype) = &key;
    let label = Definition::Label { id: next, category, name, shape, dtype };
    // Written under the lock, so that no thread uses the number before it is defined.
    local.define(recording, &label);
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
    local.define(recording, &Definition::Text { id: u32::from(number), kind, text });
    names.texts[kind as usize].insert(text.to_owned(), number);
    TextNumber { number, is_left_out: false }
}

/// The number of a stream or pool, by its handle; each thread remembers the ones it has used.
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
    // A program may create any number of streams, so memory is limited.
    if local.handles.len() >= MOST_HANDLES {
        local.handles.clear();
    }
    local.handles.push((key.0, key.1, id));
    id
}

/// Handles that a thread remembers.
const MOST_HANDLES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_recorder::{MAX_MEMORY, recording, records};

    fn label(recording: &Recording, local: &mut Local, category: Category, name: &str) -> u32 {
        label_id(recording, local, category, name.to_owned(), "(2,)".to_owned(), "int8".to_owned())
    }

    #[test]
    fn a_label_is_defined_once() {
        let (recording, mut local) = (recording(MAX_MEMORY), Local::default());
        let mut number = |category, name| label(&recording, &mut local, category, name);
        let numbers = [
            number(Category::Parameter, "fc.weight"),
            number(Category::Gradient, "fc.weight"),
            number(Category::Parameter, "fc.weight"),
        ];
        assert_eq!(numbers, [1, 2, 1]);
        let records = records(&recording).concat();
        assert_eq!(records.len(), 2);
        let (record, payload) = &records[1];
        let category = Category::Gradient;
        let [name, shape, dtype] = ["fc.weight", "(2,)", "int8"].map(str::to_owned);
        let label = Definition::Label { id: 2, category, name, shape, dtype };
        assert_eq!(Definition::from_record(record, payload), Some(label));
    }

    #[test]
    fn texts_of_two_kinds_have_two_numbers() {
        let (recording, mut local) = (recording(MAX_MEMORY), Local::default());
        let mut number = |kind| text_id(&recording, &mut local, kind, "warm-up").number;
        let numbers = [TextKind::Phase, TextKind::Mark, TextKind::Phase].map(&mut number);
        assert_eq!(numbers, [1, 2, 1]);
    }

    #[test]
    fn a_spent_share_leaves_names_out() {
        let (recording, mut local) = (recording(16 << 20), Local::default());
        assert!(recording.budget.take(4 << 20), "tables have a quarter");
        let text = text_id(&recording, &mut local, TextKind::Mark, "here");
        assert_eq!(text, TextNumber { number: 0, is_left_out: true });
        assert_eq!(label(&recording, &mut local, Category::Buffer, "b"), 0);
        assert_eq!(records(&recording).concat(), [], "nothing is defined");
    }

    #[test]
    fn texts_beyond_the_last_number_are_left_out() {
        let (recording, mut local) = (recording(1 << 30), Local::default());
        let mut number = |text: &str| text_id(&recording, &mut local, TextKind::Op, text);
        for text in 1..=u16::MAX {
            assert_eq!(number(&text.to_string()).number, text);
        }
        let left_out = TextNumber { number: 0, is_left_out: true };
        assert_eq!((number("one more"), number("1").number), (left_out, 1));
    }

    #[test]
    fn a_thread_remembers_a_few_streams() {
        let (recording, mut local) = (recording(MAX_MEMORY), Local::default());
        let mut number = |handle: u64| {
            let name = || format!("0x{handle:x}");
            handle_id(&recording, &mut local, TextKind::Stream, handle, name).number
        };
        let numbers: Vec<_> = (0..200).map(&mut number).collect();
        assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
        assert_eq!((number(3), number(199)), (4, 200), "forgotten or not, it is the same number");
        assert!(local.handles.len() <= MOST_HANDLES);
    }
}
