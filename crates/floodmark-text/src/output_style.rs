//! How an answer is rendered: as plain text, or with bars, colours and a width.

/// Where an answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStyle {
    /// To something that reads text.
    Plain,
    /// To somebody who looks.
    Drawn {
        /// So many characters are on a line.
        width: usize,
        /// Whether colours are wanted.
        is_coloured: bool,
    },
}
