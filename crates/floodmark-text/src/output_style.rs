//! The style of a rendered answer: plain text, or with bars, colours and a width.

/// The style of a rendered answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStyle {
    /// Plain text, for programs.
    Plain,
    /// For a terminal.
    Drawn {
        /// The width of a line, in characters.
        width: usize,
        /// Whether it has colours.
        is_coloured: bool,
    },
}
