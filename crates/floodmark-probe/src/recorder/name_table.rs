//! Names that have a number: labels of tensors, phases, marks, operators, streams, pools.

use hashbrown::HashMap;

/// The number of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TextNumber {
    /// 0 for none.
    pub(crate) number: u16,
    /// The text exists, but no number or memory was left for it.
    pub(crate) is_left_out: bool,
}

/// Names that got a number.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) labels: HashMap<(u8, String, String, String), u32>,
    /// By the number of their [`floodmark_trace::TextKind`].
    pub(crate) texts: [HashMap<String, u16>; 6],
    pub(crate) text_count: usize,
}
