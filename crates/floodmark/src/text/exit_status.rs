//! The exit status of the program.

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// It did what it was asked.
    Done = 0,
    /// The input or the question was wrong, or a limit that the user set is passed.
    Wrong = 1,
    /// An internal error: a bug of floodmark.
    Failed = 2,
}
