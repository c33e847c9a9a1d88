//! Pickle, whatever is in it: opcodes, the bytes of a file that is read, and a writer.

pub(crate) mod input;
pub(crate) mod opcode;
pub(crate) mod pickler;
