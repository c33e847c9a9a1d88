//! The data that other ranks would send, if each had the data of this rank.

use std::ffi::c_int;

use crate::contents::{Certainty, Contents};

/// The most numbers that are kept: data that control a program are short, and weights are not.
const MOST_INTEGER_BYTES: u64 = 32 << 20;
const MOST_FLOAT_BYTES: u64 = 1 << 20;

/// `ncclDataType_t`, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A whole number of this many bytes. Signs do not matter: sums and products are the same.
    Integer(u64),
    /// A number that the host can compute with.
    Float32,
    Float64,
    /// The upper half of a `Float32`.
    Bfloat16,
    /// Another type, of this many bytes.
    ShortFloat(u64),
}

impl Kind {
    pub(super) fn from_number(number: c_int) -> Option<Self> {
        Some(match number {
            0 | 1 => Self::Integer(1),
            2 | 3 => Self::Integer(4),
            4 | 5 => Self::Integer(8),
            6 => Self::ShortFloat(2),
            7 => Self::Float32,
            8 => Self::Float64,
            9 => Self::Bfloat16,
            10 | 11 => Self::ShortFloat(1),
            _ => return None,
        })
    }

    /// Bytes of one number.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Integer(bytes) | Self::ShortFloat(bytes) => bytes,
            Self::Bfloat16 => 2,
            Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    /// How many bytes of it one collective may leave behind with a value.
    pub(super) fn most_bytes(self) -> u64 {
        match self {
            Self::Integer(_) => MOST_INTEGER_BYTES,
            Self::Float32 | Self::Float64 | Self::Bfloat16 | Self::ShortFloat(_) => {
                MOST_FLOAT_BYTES
            }
        }
    }
}

/// `ncclRedOp_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    Sum,
    Product,
    /// The largest, smallest or mean of equal numbers is each of them.
    Same,
    /// One that the program made, with a factor that may lie on the device.
    Own,
}

impl Reduction {
    pub(super) fn from_number(number: c_int) -> Self {
        match number {
            0 => Self::Sum,
            1 => Self::Product,
            2..=4 => Self::Same,
            _ => Self::Own,
        }
    }
}

/// Copies bytes that have a value, and removes the value of the rest. The certainty is at most
/// `most`.
pub(super) fn bring(contents: &mut Contents, to: u64, from: u64, length: u64, most: Certainty) {
    let pieces = contents.pieces(from, length);
    contents.forget(to, length);
    for (start, length, certainty) in pieces {
        let target = to + (start - from);
        if let Ok(bytes) = usize::try_from(length) {
            // SAFETY: bytes with a value lie in memory of a device, which is ours; both ranges are parts
            // of buffers that the caller of NCCL guarantees.
            unsafe { std::ptr::copy(start as *const u8, target as *mut u8, bytes) };
        }
        contents.set(target, length, certainty.min(most));
    }
}

/// The buffer becomes what a reduction over `ranks` equal ones would leave in it.
pub(super) fn reduce(
    contents: &mut Contents,
    addr: u64,
    length: u64,
    (kind, reduction): (Kind, Reduction),
    ranks: u64,
) {
    let pieces = contents.pieces(addr, length);
    contents.forget(addr, length);
    if reduction == Reduction::Own {
        return;
    }
    let unit = kind.bytes();
    for (start, length, certainty) in pieces {
        // A piece may begin or end in the middle of a number, which then has no value.
        let first = addr + (start - addr).next_multiple_of(unit);
        let count = (start + length).saturating_sub(first) / unit;
        let has_value = (0..count).all(|at| reduce_one(first + at * unit, kind, reduction, ranks));
        if has_value {
            contents.set(first, count * unit, certainty.min(Certainty::Assumed));
        }
    }
}

/// One number of a reduction; `false` when the host cannot compute it.
fn reduce_one(addr: u64, kind: Kind, reduction: Reduction, ranks: u64) -> bool {
    if reduction == Reduction::Same {
        return true;
    }
    match kind {
        Kind::Integer(bytes) => {
            let mut number = [0; 8];
            let bytes = usize::try_from(bytes).unwrap_or(8).min(8);
            // SAFETY: the number has a value, so it lies in memory of a device, which is ours.
            unsafe { std::ptr::copy(addr as *const u8, number.as_mut_ptr(), bytes) };
            let one = u64::from_le_bytes(number);
            let all = if reduction == Reduction::Sum {
                one.wrapping_mul(ranks)
            } else {
                one.wrapping_pow(u32::try_from(ranks).unwrap_or(u32::MAX))
            };
            // SAFETY: the same.
            unsafe { std::ptr::copy(all.to_le_bytes().as_ptr(), addr as *mut u8, bytes) };
            true
        }
        Kind::Float32 if reduction == Reduction::Sum => {
            let at = addr as *mut f32;
            // SAFETY: the same; a number of torch is aligned, but nothing depends on it.
            unsafe { at.write_unaligned(at.read_unaligned() * count_of(ranks)) };
            true
        }
        Kind::Float64 if reduction == Reduction::Sum => {
            let at = addr as *mut f64;
            // SAFETY: the same.
            unsafe { at.write_unaligned(at.read_unaligned() * f64::from(count_of(ranks))) };
            true
        }
        Kind::Bfloat16 if reduction == Reduction::Sum => {
            let at = addr as *mut u16;
            // SAFETY: the same.
            unsafe { at.write_unaligned(bfloat16_times(at.read_unaligned(), ranks)) };
            true
        }
        Kind::Float32 | Kind::Float64 | Kind::Bfloat16 | Kind::ShortFloat(_) => false,
    }
}

/// The bits of a `bfloat16` times the number of ranks, rounded to the nearest even.
fn bfloat16_times(bits: u16, ranks: u64) -> u16 {
    let product = f32::from_bits(u32::from(bits) << 16) * count_of(ranks);
    let bits = product.to_bits();
    let half = 0x7fff + (bits >> 16 & 1);
    let rounded = if product.is_finite() { bits + half } else { bits };
    u16::try_from(rounded >> 16).unwrap_or(u16::MAX)
}

/// How many ranks there are; a world has fewer than 2^24, so it is exact.
#[expect(clippy::cast_precision_loss, reason = "the number of ranks is far smaller")]
fn count_of(ranks: u64) -> f32 {
    ranks as f32
}
