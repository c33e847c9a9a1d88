//! From bytes to a trace: what is around the pickle, then the pickle.

use std::io::Read;

use floodmark_trace::Trace;

use crate::error::{FLOOD, SnapshotError};
use crate::import::import;
use crate::machine::Machine;
use crate::parts::Parts;
use crate::source::{Slice, Stream};
use crate::value::Value;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const DAMAGED: &str = "a damaged file";
const ZIP: &[u8] = b"PK\x03\x04";

/// What a file is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pickle,
    Gzip,
    Zstd,
    Other(&'static str),
}

/// Whether a file with these first bytes (a few hundred are enough) is to be read with [`read_snapshot`]:
/// it is a pickle, or a compressed one.
pub fn is_snapshot(first_bytes: &[u8]) -> bool {
    let kind = match kind(first_bytes) {
        Kind::Gzip => kind_inside(gunzip(first_bytes)),
        Kind::Zstd => unzstd(first_bytes).map_or(Kind::Other(DAMAGED), kind_inside),
        outside => outside,
    };
    kind == Kind::Pickle
}

/// Reads a snapshot: a pickle, or one that gzip or zstd compressed, which is never held as a whole.
pub fn read_snapshot(bytes: &[u8]) -> Result<Trace, SnapshotError> {
    let (value, parts) = match kind(bytes) {
        Kind::Pickle => Machine::new(Slice::new(bytes)).run()?,
        Kind::Gzip => {
            refuse_other(kind_inside(gunzip(bytes)))?;
            Machine::new(Stream::new(gunzip(bytes), bytes.len() as u64)).run()?
        }
        Kind::Zstd => {
            let decoder = || unzstd(bytes).map_err(SnapshotError::Compression);
            refuse_other(kind_inside(decoder()?))?;
            Machine::new(Stream::new(decoder()?, bytes.len() as u64)).run()?
        }
        Kind::Other(found) => return Err(SnapshotError::NotAPickle { found }),
    };
    import(value, parts)
}

/// The same from a reader of `bytes` bytes: of what it hands out, no more than a part is held at a time.
pub fn read_snapshot_from(reader: impl Read, bytes: u64) -> Result<Trace, SnapshotError> {
    let (start, reader) = peek(reader).map_err(SnapshotError::Compression)?;
    let (value, parts) = match kind(&start) {
        Kind::Pickle => Machine::new(Stream::new(reader, bytes)).run()?,
        Kind::Gzip => run_inside(flate2::read::MultiGzDecoder::new(reader), bytes)?,
        Kind::Zstd => {
            let decoder = zstd::stream::read::Decoder::new(reader);
            run_inside(decoder.map_err(SnapshotError::Compression)?, bytes)?
        }
        Kind::Other(found) => return Err(SnapshotError::NotAPickle { found }),
    };
    import(value, parts)
}

/// Runs what a decompressor hands out.
fn run_inside(decoder: impl Read, bytes: u64) -> Result<(Value, Parts), SnapshotError> {
    let (start, decoder) = peek(decoder).map_err(SnapshotError::Compression)?;
    refuse_other(kind_inside(&start[..]))?;
    Machine::new(Stream::new(decoder, bytes)).run()
}

/// The first bytes of a reader, and a reader that begins with them.
fn peek<R: Read>(mut reader: R) -> std::io::Result<(Vec<u8>, impl Read)> {
    let mut start = Vec::new();
    reader.by_ref().take(8).read_to_end(&mut start)?;
    Ok((start.clone(), std::io::Cursor::new(start).chain(reader)))
}

fn gunzip(bytes: &[u8]) -> impl Read {
    flate2::read::MultiGzDecoder::new(bytes)
}

fn unzstd(bytes: &[u8]) -> std::io::Result<impl Read> {
    zstd::stream::read::Decoder::with_buffer(bytes)
}

/// What a compressed file holds.
fn kind_inside(decoder: impl Read) -> Kind {
    let mut start = Vec::new();
    let read = decoder.take(8).read_to_end(&mut start);
    match kind(&start) {
        Kind::Other(_) if read.is_err() => Kind::Other(DAMAGED),
        Kind::Gzip | Kind::Zstd => Kind::Other("a file that was compressed twice"),
        inside => inside,
    }
}

fn refuse_other(kind: Kind) -> Result<(), SnapshotError> {
    match kind {
        // Damage is met again, and reported, when the whole is read.
        Kind::Other(found) if found != DAMAGED => Err(SnapshotError::NotAPickle { found }),
        _ => Ok(()),
    }
}

fn kind(bytes: &[u8]) -> Kind {
    match bytes {
        [] => Kind::Other("an empty file"),
        _ if bytes.starts_with(GZIP) => Kind::Gzip,
        _ if bytes.starts_with(ZSTD) => Kind::Zstd,
        _ if bytes.starts_with(ZIP) => Kind::Other("a zip file, as `torch.save` writes"),
        _ if bytes.starts_with(&floodmark_trace::frame::FILE_MAGIC) => Kind::Other(FLOOD),
        // Protocols 0 and 1 begin with their first opcode: a dict or a list.
        [0x80, 0..=5, ..] | [b'}' | b']', ..] | [b'(', b'd' | b'l', ..] => Kind::Pickle,
        _ => Kind::Other("something else"),
    }
}
