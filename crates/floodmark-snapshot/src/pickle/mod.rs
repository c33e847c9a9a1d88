//! The pickle format: its opcodes, the bytes that are read, and a pickler.

pub(crate) mod input;
pub(crate) mod opcode;
pub(crate) mod pickler;
