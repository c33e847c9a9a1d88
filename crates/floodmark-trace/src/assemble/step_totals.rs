//! How high a device stood in one step, known as soon as the step has been folded.
//!
//! The [`Assembler`](crate::Assembler) adds up every device anyway, so the figures of a step cost it one
//! comparison an event, and the file is not read again while it grows. They are the same as those
//! of a reader: the same events, folded by the same code.

use schemars::JsonSchema;
use serde::Serialize;

use crate::event::{Bytes, Device};

/// One device in one step that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepTotals {
    /// The number of the step, as its record has it.
    pub step: u32,
    /// Where.
    pub device: Device,
    /// The peak of allocated bytes during it, its beginning included.
    pub peak: Bytes,
    /// What was allocated when it ended.
    pub end: Bytes,
    /// The peak of reserved bytes during it; 0 where nothing is.
    pub reserved_peak: Bytes,
    /// What was reserved when it ended; 0 where nothing is.
    pub reserved: Bytes,
}
