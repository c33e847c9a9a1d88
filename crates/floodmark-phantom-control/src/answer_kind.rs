//! The values that a thread reads from a simulated GPU where none is known. Passed to the library
//! as a number.

/// The kind of the values that a thread reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum AnswerKind {
    /// Zeros, where the device has no value.
    Zero = 0,
    /// A number. A single byte is a truth value, and true.
    Number = 1,
    /// Truth values: the bits of a number, one for each read, the lowest first.
    TruthValues = 2,
}

impl AnswerKind {
    /// The kind of a number; [`Self::Zero`] for an unknown number.
    pub fn from_number(number: i32) -> Self {
        match number {
            2 => Self::TruthValues,
            1 => Self::Number,
            _ => Self::Zero,
        }
    }
}
