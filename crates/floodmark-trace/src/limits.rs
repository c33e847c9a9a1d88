//! Limits of a reader: decompressed bytes, depth of stacks, length of names.

/// The most frames of a call stack. The recorder keeps the innermost 2,048; a deeper stack is cut to this, or to less.
pub(crate) const MAX_STACK_DEPTH: u16 = 4096;
/// The most bytes of a name: the length of the longest path.
pub(crate) const MAX_NAME_BYTES: usize = 4096;
/// The most devices of a trace: the host, and the CUDA devices that torch can number.
pub(crate) const MAX_DEVICES: usize = 129;

/// A few kilobytes can decompress to more than the memory of a machine. A reader counts what it decompresses, and
/// fails at this limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecompressionLimit {
    /// 256 times the size of the file, or 64 MiB where that is more.
    #[default]
    BySize,
    /// This many bytes, for a file of any size.
    Bytes(u64),
}

/// Recordings and snapshots of real programs stay below 30.
const MOST_RATIO: u64 = 256;
/// The limit of the smallest file: 64 MiB.
const ALWAYS_ALLOWED_BYTES: u64 = 1 << 26;

impl DecompressionLimit {
    /// The environment variable with which a user sets [`Self::Bytes`].
    pub const VARIABLE: &str = "FLOODMARK_MAX_DECOMPRESSED";
    /// What to do when a file is above the limit.
    pub const HINT: &str = "if you trust the file, allow more with the environment variable \
                            `FLOODMARK_MAX_DECOMPRESSED`, such as `FLOODMARK_MAX_DECOMPRESSED=16GiB`";

    /// The most bytes that a file of this size may decompress to.
    pub fn for_file(self, file_bytes: u64) -> u64 {
        match self {
            Self::BySize => file_bytes.saturating_mul(MOST_RATIO).max(ALWAYS_ALLOWED_BYTES),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The rest of a [`DecompressionLimit`] while a file is read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Budget {
    limit: DecompressionLimit,
    file_bytes: u64,
    taken: u64,
    /// Whether the limit was exceeded.
    is_exceeded: bool,
}

impl Budget {
    pub(crate) fn new(limit: DecompressionLimit) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Sets the current length of the file.
    pub(crate) fn set_file_bytes(&mut self, bytes: u64) {
        self.file_bytes = bytes;
    }

    /// How long the file is, as far as it was read.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Subtracts bytes before they are decompressed; `None` if they exceed the limit.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<()> {
        let taken = self.taken.saturating_add(bytes as u64);
        if taken > self.limit.for_file(self.file_bytes) {
            self.is_exceeded = true;
            return None;
        }
        self.taken = taken;
        Some(())
    }

    /// The limit, where the file needed more.
    pub(crate) fn exceeded(&self) -> Option<u64> {
        self.is_exceeded.then(|| self.limit.for_file(self.file_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_grows_with_the_file_unless_it_was_set() {
        assert_eq!(DecompressionLimit::BySize.for_file(10), ALWAYS_ALLOWED_BYTES);
        assert_eq!(DecompressionLimit::BySize.for_file(1 << 20), 1 << 28);
        assert_eq!(DecompressionLimit::BySize.for_file(u64::MAX), u64::MAX);
        assert_eq!(DecompressionLimit::Bytes(7).for_file(1 << 40), 7);
    }

    #[test]
    fn a_budget_counts_all_that_was_taken() {
        let mut budget = Budget::new(DecompressionLimit::Bytes(10));
        assert_eq!((budget.take(6), budget.take(4), budget.exceeded()), (Some(()), Some(()), None));
        assert_eq!((budget.take(1), budget.exceeded()), (None, Some(10)));
    }
}
