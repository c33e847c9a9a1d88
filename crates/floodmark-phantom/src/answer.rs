//! The assumed value that a program gets when it reads a value that was not computed.
//!
//! Such a read returns zeros. When the Python front has computed the result of an operator on the host,
//! it knows the sizes that the operator reads back, and sets them here for the calling thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The values returned to reads of a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// A number that the operator needs. A single byte is a truth value by which it checks its operands:
    /// it is true, since the operator succeeded on the host.
    Number(i64),
    /// Truth values alone, one bit for each read, the lowest first.
    TruthValues(u64),
}

thread_local! {
    static ANSWER: Cell<Option<Answer>> = const { Cell::new(None) };
}

static READS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Sets the assumed value for what this thread reads from now on.
pub(crate) fn give(answer: Option<Answer>) {
    ANSWER.set(answer);
}

/// The value for a read of this many bytes, if one was set.
pub(crate) fn given(length: u64) -> Option<[u8; 8]> {
    match ANSWER.get()? {
        Answer::Number(number) => match length {
            1 => Some(1_i64.to_le_bytes()),
            4 | 8 => Some(number.to_le_bytes()),
            _ => None,
        },
        Answer::TruthValues(bits) => (length == 1).then(|| {
            ANSWER.set(Some(Answer::TruthValues(bits >> 1)));
            (bits & 1).to_le_bytes()
        }),
    }
}

/// Counts a read without a value.
pub(crate) fn note_unanswered(length: u64) {
    READS.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(length, Ordering::Relaxed);
}

/// The number of reads without a value, and their bytes.
pub(crate) fn unanswered() -> (u64, u64) {
    (READS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_answered_one_after_the_other() {
        give(Some(Answer::TruthValues(0b01)));
        let byte = || given(1).map(|bytes| bytes[0]);
        assert_eq!((byte(), given(8), byte()), (Some(1), None, Some(0)));
        give(Some(Answer::Number(7)));
        assert_eq!((byte(), given(4).map(|bytes| bytes[0])), (Some(1), Some(7)));
        give(None);
        assert_eq!(given(4), None);
    }
}
