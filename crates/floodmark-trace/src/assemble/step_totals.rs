//! The peaks of a device in one step, known as soon as the step is folded.
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
    /// The number of the step, from its record.
    pub step: u32,
    /// Where.
    pub device: Device,
    /// The peak of allocated bytes during it, including its beginning.
    pub peak: Bytes,
    /// The allocated bytes at its end.
    pub end: Bytes,
    /// The peak of reserved bytes during it; 0 if nothing is reserved.
    pub reserved_peak: Bytes,
    /// The reserved bytes at its end; 0 if nothing is reserved.
    pub reserved: Bytes,
}
