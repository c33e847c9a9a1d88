//! Copies and fills with CUDA's checks: arguments first, then the work.
//!
//! The rules follow the results of wrong calls on an H200 (`fixtures/cuda_errors.json`). Where it ended
//! the program with a signal, for the host's memory that cannot be read or written, the result here is
//! "invalid value".

use crate::machine::{Extent, machine};
use crate::status::{INVALID_DIRECTION, INVALID_PITCH, INVALID_VALUE, SUCCESS};
use crate::transfer;

/// Which sides of a copy must be memory that is known to CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Direction {
    is_to_known: bool,
    is_from_known: bool,
}

impl Direction {
    /// Decided by the addresses.
    pub(crate) const ANY: Self = Self { is_to_known: false, is_from_known: false };
    pub(crate) const TO_DEVICE: Self = Self { is_to_known: true, is_from_known: false };
    pub(crate) const FROM_DEVICE: Self = Self { is_to_known: false, is_from_known: true };
    pub(crate) const ON_DEVICES: Self = Self { is_to_known: true, is_from_known: true };

    /// From `cudaMemcpyKind`. "Host to host" requires neither.
    pub(crate) fn from_kind(kind: i32) -> Option<Self> {
        match kind {
            0 | 4 => Some(Self::ANY),
            1 => Some(Self::TO_DEVICE),
            2 => Some(Self::FROM_DEVICE),
            3 => Some(Self::ON_DEVICES),
            _ => None,
        }
    }
}

/// One side of a copy of several rows: its address and the bytes from one row to the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) addr: u64,
    pub(crate) pitch: u64,
}

/// `cudaMemcpy`.
pub(crate) fn copy_of_kind(to: u64, from: u64, bytes: u64, kind: i32) -> i32 {
    match Direction::from_kind(kind) {
        _ if bytes == 0 => SUCCESS,
        Some(direction) => copy(to, from, bytes, direction),
        None => INVALID_DIRECTION,
    }
}

/// A copy whose direction is known to be one.
pub(crate) fn copy(to: u64, from: u64, bytes: u64, direction: Direction) -> i32 {
    if bytes == 0 {
        return SUCCESS;
    }
    let is_fine = is_side(to, bytes, direction.is_to_known)
        && is_side(from, bytes, direction.is_from_known)
        && transfer::copy(to, from, bytes);
    if is_fine { SUCCESS } else { INVALID_VALUE }
}

/// `cudaMemcpy2D`.
pub(crate) fn copy_rows(to: Rows, from: Rows, width: u64, height: u64, kind: i32) -> i32 {
    if width == 0 || height == 0 {
        return SUCCESS;
    }
    let Some(direction) = Direction::from_kind(kind) else { return INVALID_DIRECTION };
    if to.pitch < width || from.pitch < width {
        return INVALID_PITCH;
    }
    for (side, must_be_known) in [(to, direction.is_to_known), (from, direction.is_from_known)] {
        let is_fine = extent_of_rows(side.pitch, width, height)
            .is_some_and(|bytes| is_side(side.addr, bytes, must_be_known));
        if !is_fine {
            return INVALID_VALUE;
        }
    }
    let is_copied = (0..height)
        .all(|row| transfer::copy(to.addr + row * to.pitch, from.addr + row * from.pitch, width));
    if is_copied { SUCCESS } else { INVALID_VALUE }
}

/// `cudaMemset`: only memory that is known to CUDA can be filled.
pub(crate) fn fill(to: u64, value: u8, bytes: u64) -> i32 {
    if bytes == 0 {
        return SUCCESS;
    }
    let is_filled = is_side(to, bytes, true) && transfer::fill(to, value, bytes);
    if is_filled { SUCCESS } else { INVALID_VALUE }
}

/// `cudaMemset2D`.
pub(crate) fn fill_rows(to: Rows, value: u8, width: u64, height: u64) -> i32 {
    if width == 0 || height == 0 {
        return SUCCESS;
    }
    let bytes = extent_of_rows(to.pitch, width, height).filter(|_| to.pitch >= width);
    if !bytes.is_some_and(|bytes| is_side(to.addr, bytes, true)) {
        return INVALID_VALUE;
    }
    let is_filled = (0..height).all(|row| transfer::fill(to.addr + row * to.pitch, value, width));
    if is_filled { SUCCESS } else { INVALID_VALUE }
}

/// `cuMemsetD16` and `cuMemsetD32`. As in CUDA, a count whose bytes do not fit 64 bits wraps around.
pub(crate) fn fill_numbers(to: u64, number: &[u8], count: u64) -> i32 {
    let width = number.len() as u64;
    let bytes = count.wrapping_mul(width);
    if bytes == 0 {
        return SUCCESS;
    }
    if !to.is_multiple_of(width) || !is_side(to, bytes, true) {
        return INVALID_VALUE;
    }
    if number.iter().all(|byte| *byte == number[0]) {
        return fill(to, number[0], bytes);
    }
    crate::contents::contents().forget(to, bytes);
    SUCCESS
}

/// From the first byte of the first row to the last of the last.
fn extent_of_rows(pitch: u64, width: u64, height: u64) -> Option<u64> {
    (height - 1).checked_mul(pitch)?.checked_add(width)
}

/// Whether a range may be a side of a copy. Memory that is unknown to CUDA is the host's: using it shows
/// whether it is valid.
fn is_side(addr: u64, bytes: u64, must_be_known: bool) -> bool {
    let Some(machine) = machine() else { return false };
    if addr == 0 || addr.checked_add(bytes).is_none() {
        return false;
    }
    match machine.extent(addr, bytes) {
        Extent::Within => true,
        Extent::Past | Extent::Void => false,
        Extent::Unknown => !must_be_known,
    }
}
