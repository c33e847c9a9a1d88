//! Why a snapshot could not be read.

use floodmark_trace::{DecompressionLimit, Hint};

/// Why a snapshot could not be read. Offsets count from the beginning of the pickle, after decompression.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The pickle has an opcode that imports or calls. No snapshot has one, and the reader runs none.
    #[error("this pickle would run code: opcode {opcode} at byte {offset}")]
    AsksToRunCode {
        /// The name of the opcode in `pickletools`.
        opcode: &'static str,
        /// Its offset.
        offset: u64,
    },
    /// A byte is no opcode of any protocol.
    #[error("byte {offset} is no pickle opcode: 0x{byte:02x}")]
    UnknownOpcode {
        /// The byte.
        byte: u8,
        /// Its offset.
        offset: u64,
    },
    /// The protocol is newer than 5.
    #[error("pickle protocol {0} is not known")]
    UnknownProtocol(u8),
    /// The bytes end before the pickle does.
    #[error("the pickle ends at byte {offset}, before it is complete")]
    Truncated {
        /// Where the bytes end.
        offset: u64,
    },
    /// The argument of an opcode is invalid.
    #[error("opcode {opcode} at byte {offset} has an invalid argument")]
    BadArgument {
        /// The opcode.
        opcode: &'static str,
        /// Its offset.
        offset: u64,
    },
    /// An opcode needs values that the stack does not have.
    #[error("opcode {opcode} at byte {offset} needs values that the stack does not have")]
    StackUnderflow {
        /// The opcode.
        opcode: &'static str,
        /// Its offset.
        offset: u64,
    },
    /// An opcode gets a value from the memo that was never put there.
    #[error("byte {offset} refers to memo {index}, which is empty")]
    MissingMemo {
        /// The memo index.
        index: u64,
        /// The offset of the opcode.
        offset: u64,
    },
    /// The stack or the nesting is larger than in any snapshot.
    #[error("the pickle is nested too deep at byte {offset}")]
    TooDeep {
        /// The offset of the opcode that exceeds the bound.
        offset: u64,
    },
    /// The file is a pickle of another value.
    #[error("this is a pickle of {found}, not of a memory snapshot")]
    NotASnapshot {
        /// The value.
        found: &'static str,
    },
    /// The file is no pickle.
    #[error("this is {found}, not a memory snapshot")]
    NotAPickle {
        /// What the file seems to be.
        found: &'static str,
    },
    /// The file decompresses to more than the limit.
    #[error("the file decompresses to more than {limit} bytes")]
    TooLarge {
        /// The limit on the decompressed bytes.
        limit: u64,
    },
    /// The compressed file is damaged or truncated, or the system could not read it.
    #[error("the file cannot be decompressed")]
    Compression(#[source] std::io::Error),
}

impl Hint for SnapshotError {
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::AsksToRunCode { .. } => {
                "snapshots are plain data; do not open this file with `pickle.load` unless you trust it"
            }
            Self::NotAPickle { found: FLOOD } => "open it as a trace",
            Self::NotAPickle { found: PACKED_FLOOD } => {
                "decompress it first: a `.flood` file is compressed already"
            }
            Self::NotASnapshot { .. } | Self::NotAPickle { .. } => {
                "write a snapshot with `torch.cuda.memory._record_memory_history()`, then \
                 `torch.cuda.memory._dump_snapshot(path)`"
            }
            Self::Compression(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                "the file is damaged: copy it again"
            }
            Self::Truncated { .. } | Self::Compression(_) => {
                "the file is not complete: copy it again, or let the program finish writing it"
            }
            Self::TooLarge { .. } => DecompressionLimit::HINT,
            Self::UnknownOpcode { .. }
            | Self::UnknownProtocol(_)
            | Self::BadArgument { .. }
            | Self::StackUnderflow { .. }
            | Self::MissingMemo { .. }
            | Self::TooDeep { .. } => {
                "the file is damaged, or was not written by `torch.cuda.memory._dump_snapshot`"
            }
        })
    }
}

/// A `.flood` file in the message of [`SnapshotError::NotAPickle`].
pub(crate) const FLOOD: &str = "a floodmark trace";
/// A compressed `.flood` file in that message.
pub(crate) const PACKED_FLOOD: &str = "a compressed floodmark trace";
