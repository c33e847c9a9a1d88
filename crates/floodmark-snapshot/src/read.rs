//! From bytes to a trace: what is around the pickle, then the pickle.

use std::io::Read;

use floodmark_trace::{DecompressionLimit, Trace};

use crate::contents::snapshot::SnapshotContents;
use crate::contents::value::Value;
use crate::error::{FLOOD, PACKED_FLOOD, SnapshotError};
use crate::import::import;
use crate::pickle::input::{ReaderInput, SliceInput};
use crate::unpickler::Unpickler;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const ZIP: &[u8] = b"PK\x03\x04";

/// What a file is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pickle,
    Gzip,
    Zstd,
    Other(&'static str),
}

/// Whether a file with these first bytes is to be read with [`read_snapshot`]: it is a pickle, or a compressed file, of
/// which nothing else is read.
pub fn is_snapshot(first_bytes: &[u8]) -> bool {
    matches!(kind(first_bytes), Kind::Pickle | Kind::Gzip | Kind::Zstd)
}

/// Reads a snapshot: a pickle, or one that gzip or zstd compressed, which is never in memory as a whole.
pub fn read_snapshot(bytes: &[u8]) -> Result<Trace, SnapshotError> {
    if kind(bytes) == Kind::Pickle {
        let (value, contents) = Unpickler::new(SliceInput::new(bytes)).run()?;
        return import(value, contents);
    }
    read_snapshot_from(bytes, bytes.len() as u64, DecompressionLimit::default())
}

/// The same from a reader of `bytes` bytes, which are never in memory all at once. A compressed file is read to its
/// end, so its checksum counts.
pub fn read_snapshot_from(
    reader: impl Read,
    bytes: u64,
    limit: DecompressionLimit,
) -> Result<Trace, SnapshotError> {
    let (start, reader) = peek(reader).map_err(SnapshotError::Compression)?;
    let limit = limit.for_file(bytes);
    let (value, contents) = match kind(&start) {
        Kind::Pickle => Unpickler::new(ReaderInput::new(reader, u64::MAX)).run()?,
        Kind::Gzip => run_inside(flate2::read::MultiGzDecoder::new(reader), limit)?,
        Kind::Zstd => {
            let decoder = zstd::stream::read::Decoder::new(reader);
            run_inside(decoder.map_err(SnapshotError::Compression)?, limit)?
        }
        Kind::Other(found) => return Err(SnapshotError::NotAPickle { found }),
    };
    import(value, contents)
}

/// Runs the output of a decompressor.
fn run_inside(decoder: impl Read, limit: u64) -> Result<(Value, SnapshotContents), SnapshotError> {
    let (start, decoder) = peek(decoder).map_err(SnapshotError::Compression)?;
    match kind(&start) {
        Kind::Pickle => Unpickler::new(ReaderInput::new(decoder, limit)).run(),
        Kind::Gzip | Kind::Zstd => {
            Err(SnapshotError::NotAPickle { found: "a file that was compressed twice" })
        }
        Kind::Other(FLOOD) => Err(SnapshotError::NotAPickle { found: PACKED_FLOOD }),
        Kind::Other(found) => Err(SnapshotError::NotAPickle { found }),
    }
}

/// The first bytes of a reader, and a reader that begins with them.
fn peek<R: Read>(mut reader: R) -> std::io::Result<(Vec<u8>, impl Read)> {
    let mut start = Vec::new();
    reader.by_ref().take(8).read_to_end(&mut start)?;
    Ok((start.clone(), std::io::Cursor::new(start).chain(reader)))
}

fn kind(bytes: &[u8]) -> Kind {
    match bytes {
        [] => Kind::Other("an empty file"),
        // A file that was cut may be shorter than what it is known by.
        _ if begins(bytes, GZIP) => Kind::Gzip,
        _ if begins(bytes, ZSTD) => Kind::Zstd,
        _ if bytes.starts_with(ZIP) => Kind::Other("a zip file, as `torch.save` writes"),
        _ if bytes.starts_with(&floodmark_trace::frame::FILE_MAGIC) => Kind::Other(FLOOD),
        // Protocols 0 and 1 begin with their first opcode: a dict or a list.
        [0x80] | [0x80, 0..=5, ..] | [b'}' | b']', ..] | [b'(', b'd' | b'l', ..] => Kind::Pickle,
        _ => Kind::Other("something else"),
    }
}

/// Whether a file begins with `magic`, or is shorter than it and could.
fn begins(bytes: &[u8], magic: &[u8]) -> bool {
    bytes.starts_with(magic) || magic.starts_with(bytes)
}
