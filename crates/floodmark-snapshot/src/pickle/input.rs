//! The bytes of a pickle, from memory or from a reader.
//!
//! A length in a file may be wrong: a buffer grows only with bytes that have been read.

use std::io::Read;

use crate::error::SnapshotError;

/// Bytes that are read once, in order.
pub(crate) trait PickleInput {
    /// The number of bytes that were taken.
    fn offset(&self) -> u64;

    /// The next `count` bytes.
    fn take(&mut self, count: u64) -> Result<&[u8], SnapshotError>;

    /// The next byte.
    fn byte(&mut self) -> Result<u8, SnapshotError>;

    /// The next bytes, as far as they are in the buffer.
    fn buffered(&self) -> &[u8];

    /// Skips bytes of the buffer.
    fn skip(&mut self, count: usize);

    /// The bytes up to the next line feed, without it.
    fn line(&mut self) -> Result<&[u8], SnapshotError>;

    /// Reads to the end, so that a decompressor checks the checksum there.
    fn drain(&mut self) -> Result<(), SnapshotError>;

    /// The next `N` bytes.
    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }
}

/// Bytes in memory.
#[derive(Debug)]
pub(crate) struct SliceInput<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> SliceInput<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn truncated(&self) -> SnapshotError {
        SnapshotError::Truncated { offset: self.bytes.len() as u64 }
    }
}

impl PickleInput for SliceInput<'_> {
    fn offset(&self) -> u64 {
        self.at as u64
    }

    #[inline]
    fn take(&mut self, count: u64) -> Result<&[u8], SnapshotError> {
        let taken = usize::try_from(count)
            .ok()
            .and_then(|count| self.bytes.get(self.at..)?.get(..count))
            .ok_or_else(|| self.truncated())?;
        self.at += taken.len();
        Ok(taken)
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, SnapshotError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.truncated())?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn buffered(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    fn skip(&mut self, count: usize) {
        self.at = self.at.saturating_add(count).min(self.bytes.len());
    }

    fn line(&mut self) -> Result<&[u8], SnapshotError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|&byte| byte == b'\n').ok_or_else(|| self.truncated())?;
        self.at += end + 1;
        Ok(&rest[..end])
    }

    fn drain(&mut self) -> Result<(), SnapshotError> {
        self.at = self.bytes.len();
        Ok(())
    }
}

/// The least number of bytes for which a reader gets room.
const STEP_BYTES: usize = 1 << 17;

/// The bytes of a reader.
pub(crate) struct ReaderInput<R> {
    reader: R,
    /// Bytes from `at` to `end` have been read and not yet been taken.
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    /// Bytes that were taken and are no longer in the buffer.
    gone: u64,
    /// The limit on the bytes of the reader.
    limit: u64,
}

impl<R: Read> ReaderInput<R> {
    /// Reads at most `limit` bytes.
    pub(crate) fn new(reader: R, limit: u64) -> Self {
        Self { reader, buffer: vec![0; 2 * STEP_BYTES], at: 0, end: 0, gone: 0, limit }
    }

    /// Reads more bytes; `false` at the end.
    fn more(&mut self) -> Result<bool, SnapshotError> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.gone += self.at as u64;
        (self.at, self.end) = (0, self.end - self.at);
        // A take that is longer than the buffer: the buffer grows with what has been read.
        if self.end + STEP_BYTES > self.buffer.len() {
            self.buffer.resize(self.end * 2 + STEP_BYTES, 0);
        }
        if self.gone + self.end as u64 > self.limit {
            return Err(SnapshotError::TooLarge { limit: self.limit });
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(SnapshotError::Compression(error)),
            }
        }
    }

    #[cold]
    fn fill(&mut self, count: u64) -> Result<(), SnapshotError> {
        while ((self.end - self.at) as u64) < count {
            if !self.more()? {
                return Err(self.truncated());
            }
        }
        Ok(())
    }

    fn truncated(&self) -> SnapshotError {
        SnapshotError::Truncated { offset: self.gone + self.end as u64 }
    }
}

impl<R: Read> PickleInput for ReaderInput<R> {
    fn offset(&self) -> u64 {
        self.gone + self.at as u64
    }

    #[inline]
    fn take(&mut self, count: u64) -> Result<&[u8], SnapshotError> {
        if ((self.end - self.at) as u64) < count {
            self.fill(count)?;
        }
        let taken = usize::try_from(count)
            .ok()
            .and_then(|count| self.buffer.get(self.at..self.end)?.get(..count))
            .ok_or(SnapshotError::Truncated { offset: self.gone })?;
        self.at += taken.len();
        Ok(taken)
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, SnapshotError> {
        if self.at >= self.end {
            self.fill(1)?;
        }
        let byte = self.buffer[self.at];
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn buffered(&self) -> &[u8] {
        self.buffer.get(self.at..self.end).unwrap_or_default()
    }

    #[inline]
    fn skip(&mut self, count: usize) {
        self.at = self.at.saturating_add(count).min(self.end);
    }

    fn line(&mut self) -> Result<&[u8], SnapshotError> {
        let mut looked_at = 0;
        loop {
            let rest = &self.buffer[self.at..self.end];
            if let Some(end) = rest[looked_at..].iter().position(|&byte| byte == b'\n') {
                let start = self.at;
                self.at += looked_at + end + 1;
                return Ok(&self.buffer[start..self.at - 1]);
            }
            looked_at = rest.len();
            if !self.more()? {
                return Err(self.truncated());
            }
        }
    }

    fn drain(&mut self) -> Result<(), SnapshotError> {
        loop {
            self.at = self.end;
            if !self.more()? {
                return Ok(());
            }
        }
    }
}
