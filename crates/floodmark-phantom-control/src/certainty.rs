//! How certain a value in the memory of a simulated GPU is. Passed to the library as a number.

/// How certain the value of a byte is, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Certainty {
    /// It has no value and reads as zero.
    Nothing = 0,
    /// It was computed from floating-point numbers that count as zero, or from what other ranks would send.
    Assumed = 1,
    /// The bytes are zero. The value repeats a short sample, which the Python front keeps.
    Sampled = 2,
    /// It was computed from random numbers, which a real device would draw differently.
    Random = 3,
    /// It is the value of a real device.
    Known = 4,
}

impl Certainty {
    /// The certainty of a number; [`Self::Nothing`] for an unknown number.
    pub fn from_number(number: i32) -> Self {
        match number {
            4 => Self::Known,
            3 => Self::Random,
            2 => Self::Sampled,
            1 => Self::Assumed,
            _ => Self::Nothing,
        }
    }
}
