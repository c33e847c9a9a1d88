//! The exit status of the program.

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// The command succeeded.
    Done = 0,
    /// The input or the question is invalid, or a limit of the user is exceeded.
    Wrong = 1,
    /// An internal error: a bug of floodmark.
    Failed = 2,
}
