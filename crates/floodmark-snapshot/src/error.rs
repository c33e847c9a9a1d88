//! Why something could not be read as a snapshot.

use floodmark_trace::{DecompressionLimit, Hint};

/// What is wrong with a file. Offsets count from the beginning of the pickle, after decompression.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The pickle wants Python to import or call something. We never do, and a snapshot never does.
    #[error("this pickle would run code: opcode {opcode} at byte {offset}")]
    AsksToRunCode {
        /// The opcode, as `pickletools` calls it.
        opcode: &'static str,
        /// Where it is.
        offset: u64,
    },
    /// A byte that is no opcode of any protocol.
    #[error("byte {offset} is no pickle opcode: 0x{byte:02x}")]
    UnknownOpcode {
        /// The byte.
        byte: u8,
        /// Where it is.
        offset: u64,
    },
    /// The protocol is newer than those we know.
    #[error("pickle protocol {0} is not known")]
    UnknownProtocol(u8),
    /// The bytes end before the pickle does.
    #[error("the pickle ends at byte {offset}, before it is complete")]
    Truncated {
        /// Where the bytes end.
        offset: u64,
    },
    /// What follows an opcode is not what must follow it.
    #[error("opcode {opcode} at byte {offset} has an invalid argument")]
    BadArgument {
        /// The opcode.
        opcode: &'static str,
        /// Where it is.
        offset: u64,
    },
    /// An opcode needs values that the stack does not have.
    #[error("opcode {opcode} at byte {offset} needs values that the stack does not have")]
    StackUnderflow {
        /// The opcode.
        opcode: &'static str,
        /// Where it is.
        offset: u64,
    },
    /// A reference to something that was never remembered.
    #[error("byte {offset} refers to memo {index}, which is empty")]
    MissingMemo {
        /// The number in the memo.
        index: u64,
        /// Where the reference is.
        offset: u64,
    },
    /// More things inside each other, or beside each other, than any snapshot has.
    #[error("the pickle is nested too deep at byte {offset}")]
    TooDeep {
        /// Where it became too much.
        offset: u64,
    },
    /// A pickle, but of something else.
    #[error("this is a pickle of {found}, not of a memory snapshot")]
    NotASnapshot {
        /// What it is instead.
        found: &'static str,
    },
    /// No pickle at all.
    #[error("this is {found}, not a memory snapshot")]
    NotAPickle {
        /// What it seems to be.
        found: &'static str,
    },
    /// A small file that becomes a huge one.
    #[error("the file decompresses to more than {limit} bytes")]
    TooLarge {
        /// The most that a file of this size may become.
        limit: u64,
    },
    /// The compressed file around the pickle is damaged or cut, or the system failed to read it.
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

/// What a `.flood` file is called here.
pub(crate) const FLOOD: &str = "a floodmark trace";
/// What a compressed one is called.
pub(crate) const PACKED_FLOOD: &str = "a compressed floodmark trace";
