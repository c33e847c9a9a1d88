//! What a program is told when it reads a value that nobody knows.
//!
//! Such a read is answered with zeros. While our Python front runs an operator whose result it has worked
//! out on the host, the sizes that the operator reads back in the middle are known to it, and are given
//! here for the thread that asks.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static ANSWER: Cell<Option<i64>> = const { Cell::new(None) };
}

static READS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// From now on, numbers that this thread reads and nobody knows are this one.
pub(crate) fn give(answer: Option<i64>) {
    ANSWER.set(answer);
}

/// The answer to a read of that many bytes, where one was given. A single byte is a truth value that the
/// operator checks its operands with: it is true, as its result on the host shows.
pub(crate) fn given(length: u64) -> Option<[u8; 8]> {
    let answer = ANSWER.get()?;
    match length {
        1 => Some(1_i64.to_le_bytes()),
        4 | 8 => Some(answer.to_le_bytes()),
        _ => None,
    }
}

/// Counts a read that nobody could answer.
pub(crate) fn note_unanswered(length: u64) {
    READS.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(length, Ordering::Relaxed);
}

/// How many reads could not be answered, and of how many bytes.
pub(crate) fn unanswered() -> (u64, u64) {
    (READS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed))
}
