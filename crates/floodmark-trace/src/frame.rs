//! Frames: the checksummed parts of a file.
//!
//! ```text
//! file  = prelude frame*
//! prelude (8) = "FLOD"  version u16  zero u16
//! frame (16 + length) = magic u32  length u32  crc32 u32  kind u16  number u16  payload
//! ```
//!
//! Numbers are little-endian. The checksum covers `kind`, `number` and the payload. `number` counts
//! frames and wraps, so a reader can count the missing ones. After damage a reader looks for the next
//! magic whose frame has the right checksum.

/// The first four bytes of a file.
pub const FILE_MAGIC: [u8; 4] = *b"FLOD";
/// What this build writes, and the newest that it reads.
pub const FORMAT_VERSION: u16 = 1;
/// Bytes before the first frame.
pub const PRELUDE_BYTES: usize = 8;
/// The first four bytes of a frame.
pub const FRAME_MAGIC: [u8; 4] = [0xF1, 0x0D, b'F', b'R'];
/// Bytes before a frame's payload.
pub const FRAME_HEADER_BYTES: usize = 16;
/// A frame with a longer payload counts as damaged.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 30;
/// Bytes whose checksum may be computed without success while looking for the next frame of a small file.
const MIN_WASTED_BYTES: usize = 1 << 26;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum FrameKind {
    /// [`crate::Header`], as JSON.
    Header = 1,
    /// An Arrow message of the events table.
    Events = 2,
    /// An Arrow message of the call tree.
    Stacks = 3,
    /// An Arrow message of the functions.
    Codes = 4,
    /// An Arrow message of the modules.
    Modules = 5,
    /// An Arrow message of the labels.
    Labels = 6,
    /// An Arrow message of the texts.
    Texts = 7,
    /// The frames since the last checkpoint belong together and are complete.
    Checkpoint = 8,
    /// [`crate::Ending`], as JSON: the last frame of a finished file.
    Ending = 9,
    /// A copy of a source file: its path, and its text compressed.
    Source = 10,
    /// An answer of a command, as JSON compressed.
    Answer = 11,
    /// [`crate::GpuMemory`], a list of them as JSON compressed.
    GpuMemory = 12,
}

impl FrameKind {
    fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::Header,
            2 => Self::Events,
            3 => Self::Stacks,
            4 => Self::Codes,
            5 => Self::Modules,
            6 => Self::Labels,
            7 => Self::Texts,
            8 => Self::Checkpoint,
            9 => Self::Ending,
            10 => Self::Source,
            11 => Self::Answer,
            12 => Self::GpuMemory,
            _ => return None,
        })
    }
}

/// The first bytes of every file.
pub fn prelude() -> [u8; PRELUDE_BYTES] {
    let mut prelude = [0; PRELUDE_BYTES];
    prelude[..4].copy_from_slice(&FILE_MAGIC);
    prelude[4..6].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    prelude
}

fn checksum(kind: [u8; 2], number: [u8; 2], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&kind);
    crc.update(&number);
    crc.update(payload);
    crc.finalize()
}

/// Appends a frame to `out`.
///
/// # Panics
///
/// When the payload is longer than 4 GiB; a flush is far shorter.
pub fn append_frame(out: &mut Vec<u8>, kind: FrameKind, number: u16, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a payload is far below 4 GiB");
    let kind = (kind as u16).to_le_bytes();
    let number = number.to_le_bytes();
    out.extend_from_slice(&FRAME_MAGIC);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&checksum(kind, number, payload).to_le_bytes());
    out.extend_from_slice(&kind);
    out.extend_from_slice(&number);
    out.extend_from_slice(payload);
}

/// A complete frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its kind; `None` when a newer build wrote it.
    pub kind: Option<FrameKind>,
    /// Its number.
    pub number: u16,
    /// Its payload.
    pub payload: &'a [u8],
}

/// One part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A whole frame.
    Frame(Frame<'a>),
    /// Bytes that are not a frame: damage, or the end of a file that was cut or is being written.
    Damaged {
        /// Where they begin.
        offset: u64,
        /// How many there are.
        bytes: u64,
    },
}

/// Whether `bytes`, the last of a file, are the beginning of a frame whose rest is missing or not yet written.
pub(crate) fn is_cut(bytes: &[u8]) -> bool {
    let magic = &bytes[..bytes.len().min(FRAME_MAGIC.len())];
    if !FRAME_MAGIC.starts_with(magic) {
        return false;
    }
    let length = bytes.get(4..8).and_then(|length| length.try_into().ok());
    let length = length.map_or(0, |length| u32::from_le_bytes(length) as usize);
    length <= MAX_PAYLOAD_BYTES && bytes.len() < FRAME_HEADER_BYTES + length
}

/// The pieces of a file, after its prelude, in order.
///
/// A file of frame beginnings alone would have its checksum computed once per beginning. So the work
/// is bounded by a few times the length of the file, and the rest counts as damaged.
pub fn pieces(file: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    pieces_from(file, PRELUDE_BYTES.min(file.len()))
}

/// The pieces of a part of a file from a position on, at which a frame begins.
pub(crate) fn pieces_from(file: &[u8], mut at: usize) -> impl Iterator<Item = Piece<'_>> {
    let mut wasted = 0_usize;
    let most_wasted = file.len().saturating_mul(4).saturating_add(MIN_WASTED_BYTES);
    std::iter::from_fn(move || {
        if at >= file.len() {
            return None;
        }
        if let Some((frame, end)) = frame_at(file, at) {
            at = end;
            return Some(Piece::Frame(frame));
        }
        let start = at;
        loop {
            wasted = wasted.saturating_add(payload_at(file, at).map_or(0, <[u8]>::len));
            at = find_magic(&file[at + 1..]).map_or(file.len(), |next| at + 1 + next);
            if wasted > most_wasted {
                at = file.len();
            }
            if at == file.len() || frame_at(file, at).is_some() {
                break;
            }
        }
        Some(Piece::Damaged { offset: start as u64, bytes: (at - start) as u64 })
    })
}

fn find_magic(bytes: &[u8]) -> Option<usize> {
    bytes.windows(FRAME_MAGIC.len()).position(|window| window == FRAME_MAGIC)
}

/// The payload of a possible frame, not checked yet.
fn payload_at(file: &[u8], at: usize) -> Option<&[u8]> {
    let header = file.get(at..at + FRAME_HEADER_BYTES)?;
    let length = u32::from_le_bytes(header[4..8].try_into().ok()?) as usize;
    if header[..4] != FRAME_MAGIC || length > MAX_PAYLOAD_BYTES {
        return None;
    }
    let start = at + FRAME_HEADER_BYTES;
    file.get(start..start + length)
}

fn frame_at(file: &[u8], at: usize) -> Option<(Frame<'_>, usize)> {
    let payload = payload_at(file, at)?;
    let header = file.get(at..at + FRAME_HEADER_BYTES)?;
    let crc = u32::from_le_bytes(header[8..12].try_into().ok()?);
    let kind: [u8; 2] = header[12..14].try_into().ok()?;
    let number: [u8; 2] = header[14..16].try_into().ok()?;
    if checksum(kind, number, payload) != crc {
        return None;
    }
    let kind = FrameKind::from_number(u16::from_le_bytes(kind));
    let end = at + FRAME_HEADER_BYTES + payload.len();
    Some((Frame { kind, number: u16::from_le_bytes(number), payload }, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_skipped_up_to_the_next_whole_frame() {
        let mut file = prelude().to_vec();
        append_frame(&mut file, FrameKind::Header, 0, b"first");
        let damaged_at = file.len();
        append_frame(&mut file, FrameKind::Events, 1, b"second");
        let third_at = file.len();
        append_frame(&mut file, FrameKind::Ending, 2, b"third");
        file[damaged_at + FRAME_HEADER_BYTES] ^= 1;
        let found: Vec<_> = pieces(&file).collect();
        assert_eq!(
            found,
            [
                Piece::Frame(Frame { kind: Some(FrameKind::Header), number: 0, payload: b"first" }),
                Piece::Damaged { offset: damaged_at as u64, bytes: (third_at - damaged_at) as u64 },
                Piece::Frame(Frame { kind: Some(FrameKind::Ending), number: 2, payload: b"third" }),
            ]
        );
    }
}
