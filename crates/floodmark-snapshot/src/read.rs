//! From bytes to a trace: decompresses a file, and reads the pickle in it.

use std::io::Read;

use floodmark_trace::{DecompressionLimit, Trace};

use crate::contents::snapshot::Contents;
use crate::contents::value::Value;
use crate::error::{FLOOD, PACKED_FLOOD, SnapshotError};
use crate::import::import;
use crate::pickle::input::{ReaderInput, SliceInput};
use crate::unpickler::Unpickler;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const ZIP: &[u8] = b"PK\x03\x04";

/// The kind of a file, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Pickle,
    Gzip,
    Zstd,
    Other(&'static str),
}

/// Whether [`read_snapshot`] reads a file with these first bytes: a pickle, or a compressed
/// file, since floodmark reads no other compressed files.
pub fn is_snapshot(first_bytes: &[u8]) -> bool {
    matches!(kind(first_bytes), FileKind::Pickle | FileKind::Gzip | FileKind::Zstd)
}

/// Reads a snapshot: a pickle, or one that gzip or zstd compressed.
pub fn read_snapshot(bytes: &[u8]) -> Result<Trace, SnapshotError> {
    if kind(bytes) == FileKind::Pickle {
        let (value, contents) = Unpickler::new(SliceInput::new(bytes)).run()?;
        return import(value, contents);
    }
    read_snapshot_from(bytes, bytes.len() as u64, DecompressionLimit::default())
}

/// Reads a snapshot from a reader of `bytes` bytes, which are never in memory as a whole. A compressed file is read to its
/// end, so that its checksum is verified.
pub fn read_snapshot_from(
    reader: impl Read,
    bytes: u64,
    limit: DecompressionLimit,
) -> Result<Trace, SnapshotError> {
    let (start, reader) = peek(reader).map_err(SnapshotError::Compression)?;
    let limit = limit.for_file(bytes);
    let (value, contents) = match kind(&start) {
        FileKind::Pickle => Unpickler::new(ReaderInput::new(reader, u64::MAX)).run()?,
        FileKind::Gzip => read_decompressed(flate2::read::MultiGzDecoder::new(reader), limit)?,
        FileKind::Zstd => {
            let decoder = zstd::stream::read::Decoder::new(reader);
            read_decompressed(decoder.map_err(SnapshotError::Compression)?, limit)?
        }
        FileKind::Other(found) => return Err(SnapshotError::NotAPickle { found }),
    };
    import(value, contents)
}

/// Reads the pickle in a compressed file.
fn read_decompressed(decoder: impl Read, limit: u64) -> Result<(Value, Contents), SnapshotError> {
    let (start, decoder) = peek(decoder).map_err(SnapshotError::Compression)?;
    match kind(&start) {
        FileKind::Pickle => Unpickler::new(ReaderInput::new(decoder, limit)).run(),
        FileKind::Gzip | FileKind::Zstd => {
            Err(SnapshotError::NotAPickle { found: "a file that was compressed twice" })
        }
        FileKind::Other(FLOOD) => Err(SnapshotError::NotAPickle { found: PACKED_FLOOD }),
        FileKind::Other(found) => Err(SnapshotError::NotAPickle { found }),
    }
}

/// The first bytes of a reader, and a reader of all its bytes.
fn peek<R: Read>(mut reader: R) -> std::io::Result<(Vec<u8>, impl Read)> {
    let mut start = Vec::new();
    reader.by_ref().take(8).read_to_end(&mut start)?;
    Ok((start.clone(), std::io::Cursor::new(start).chain(reader)))
}

fn kind(bytes: &[u8]) -> FileKind {
    match bytes {
        [] => FileKind::Other("an empty file"),
        // A truncated file may be shorter than the magic bytes.
        _ if begins(bytes, GZIP) => FileKind::Gzip,
        _ if begins(bytes, ZSTD) => FileKind::Zstd,
        _ if bytes.starts_with(ZIP) => FileKind::Other("a zip file, as `torch.save` writes"),
        _ if bytes.starts_with(&floodmark_trace::frame::FILE_MAGIC) => FileKind::Other(FLOOD),
        // Protocols 0 and 1 have no `PROTO`: they begin with a dict or a list.
        [0x80] | [0x80, 0..=5, ..] | [b'}' | b']', ..] | [b'(', b'd' | b'l', ..] => {
            FileKind::Pickle
        }
        _ => FileKind::Other("something else"),
    }
}

/// Whether a file begins with `magic`, or with a part of it if the file is shorter.
fn begins(bytes: &[u8], magic: &[u8]) -> bool {
    bytes.starts_with(magic) || magic.starts_with(bytes)
}
