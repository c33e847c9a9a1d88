//! From bytes to a trace: what is around the pickle, then the pickle.

use std::io::Read;

use floodmark_trace::Trace;

use crate::error::{FLOOD, SnapshotError};
use crate::import::import;
use crate::machine::Machine;
use crate::source::{Slice, Stream};

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

/// Whether a file with these first bytes (a few hundred are enough) is to be read with [`read_snapshot`]:
/// it is a pickle, or a compressed one.
pub fn is_snapshot(first_bytes: &[u8]) -> bool {
    let mut start = [0; 2];
    let kind = match kind(first_bytes) {
        Kind::Gzip => {
            let read = flate2::read::MultiGzDecoder::new(first_bytes).read_exact(&mut start);
            read.map_or(Kind::Other(""), |()| self::kind(&start))
        }
        Kind::Zstd => {
            let read = zstd::stream::read::Decoder::with_buffer(first_bytes)
                .and_then(|mut decoder| decoder.read_exact(&mut start));
            read.map_or(Kind::Other(""), |()| self::kind(&start))
        }
        other => other,
    };
    kind == Kind::Pickle
}

/// Reads a snapshot: a pickle, or one that gzip or zstd compressed, which is never held as a whole.
pub fn read_snapshot(bytes: &[u8]) -> Result<Trace, SnapshotError> {
    let (value, parts) = match kind(bytes) {
        Kind::Pickle => Machine::new(Slice::new(bytes)).run()?,
        Kind::Gzip => Machine::new(Stream::new(flate2::read::MultiGzDecoder::new(bytes))).run()?,
        Kind::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(bytes);
            Machine::new(Stream::new(decoder.map_err(SnapshotError::Compression)?)).run()?
        }
        Kind::Other(found) => return Err(SnapshotError::NotAPickle { found }),
    };
    import(value, parts)
}

fn kind(bytes: &[u8]) -> Kind {
    match bytes {
        [] => Kind::Other("an empty file"),
        _ if bytes.starts_with(GZIP) => Kind::Gzip,
        _ if bytes.starts_with(ZSTD) => Kind::Zstd,
        _ if bytes.starts_with(ZIP) => Kind::Other("a zip file, as `torch.save` writes"),
        _ if bytes.starts_with(&floodmark_trace::frame::FILE_MAGIC) => Kind::Other(FLOOD),
        [0x80, 0..=5, ..] => Kind::Pickle,
        // Protocols 0 and 1 begin with their first opcode: a dict or a list.
        [b'}' | b']', ..] => Kind::Pickle,
        [b'(', b'd' | b'l', ..] => Kind::Pickle,
        _ => Kind::Other("something else"),
    }
}
