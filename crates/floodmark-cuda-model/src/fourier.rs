//! The work area that cuFFT requests for a transform.
//!
//! The library does not document it, but every plan has it (`cufftXtMakePlanMany`). The rules here were derived from 5,275
//! plans of cuFFT 12 on an H200, for data without gaps. `tests/it/fourier.rs` compares them with a part of these. cuFFT
//! transforms dimension by dimension. Most lengths take one kernel and no work area. The others need a copy of the data, and
//! lengths with a large prime factor (Bluestein's method) about four.

/// The types of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transform {
    /// Whether one side is real (R2C and C2R). The last dimension `n` of the complex side is then `n / 2 + 1`.
    pub is_real: bool,
    /// The bytes of a complex number: 8 in single precision.
    pub complex_bytes: u64,
}

/// The largest prime factor for which cuFFT has kernels.
const LARGEST_RADIX: u64 = 127;

/// The bytes of the work area for `batch` transforms of these dimensions. The last dimension is contiguous.
pub fn work_bytes(dimensions: &[u64], batch: u64, transform: Transform) -> u64 {
    let Some((&last, outer)) = dimensions.split_last() else { return 0 };
    let rows = outer.iter().fold(batch.max(1), |rows, length| rows.saturating_mul(*length));
    let is_double = transform.complex_bytes > 8;
    let in_columns = outer.iter().map(|&length| copies_in_columns(length, is_double)).max();
    let in_columns = in_columns.unwrap_or(Quarters(0));
    if !transform.is_real {
        let copies = copies_in_rows(last, is_double).max(in_columns);
        return copies.copied(rows.saturating_mul(last)).saturating_mul(transform.complex_bytes);
    }
    let numbers = match real_row(last, is_double) {
        RealRow::Whole => rows.saturating_mul(last.saturating_mul(2).saturating_add(1)),
        RealRow::AtOnce | RealRow::Half if in_columns > Quarters(0) => {
            in_columns.copied(rows.saturating_mul(last / 2 + 1))
        }
        RealRow::Half if copies_in_rows(last / 2, is_double) > Quarters(0) => {
            rows.saturating_mul(last / 2 + 1)
        }
        RealRow::Half => rows.saturating_mul(last / 2),
        RealRow::AtOnce => 0,
    };
    numbers.saturating_mul(transform.complex_bytes)
}

/// Copies of the data, in quarters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Quarters(u64);

const NONE: Quarters = Quarters(0);
const ONE: Quarters = Quarters(4);
/// Bluestein's method: two arrays of at least twice the length.
const BLUESTEIN: Quarters = Quarters(16);

impl Quarters {
    fn copied(self, numbers: u64) -> u64 {
        (numbers / 4).saturating_mul(self.0) + numbers % 4 * self.0 / 4
    }
}

/// The work area of a complex transform of contiguous numbers.
fn copies_in_rows(length: u64, is_double: bool) -> Quarters {
    if needs_bluestein(length) {
        return BLUESTEIN;
    }
    let at_once = match (is_double, length) {
        (false, 12_000) | (true, 3000) => false,
        (true, 12_288 | 16_384) => true,
        (false, _) => length <= 20_480,
        (true, _) => length <= 10_000,
    };
    if at_once || (!is_smooth(length) && length <= 4096) { NONE } else { ONE }
}

/// The work area of a complex transform of strided numbers.
fn copies_in_columns(length: u64, is_double: bool) -> Quarters {
    if needs_bluestein(length) {
        return BLUESTEIN;
    }
    let at_once = match (is_double, length) {
        _ if !is_smooth(length) => length <= 4096 && !is_awkward(length),
        (false, 1080) => false,
        (false, _) => length <= 4096,
        (true, 800) => true,
        (true, _) => length <= 480 || (length.is_power_of_two() && length <= 2048),
    };
    if at_once { NONE } else { ONE }
}

/// The method for the last dimension of a real transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RealRow {
    /// Without a work area.
    AtOnce,
    /// As a complex transform of half the length.
    Half,
    /// As a complex transform of the whole length, in two copies.
    Whole,
}

fn real_row(length: u64, is_double: bool) -> RealRow {
    if !length.is_multiple_of(2) {
        let is_whole = largest_factor(length) > LARGEST_RADIX || is_awkward(length);
        return if is_whole && !is_smooth(length) { RealRow::Whole } else { RealRow::AtOnce };
    }
    let longest = if is_double { 4096 } else { 16_384 };
    let at_once = match length {
        1920 => true,
        3072 => !is_double,
        _ if length.is_power_of_two() => length <= longest,
        _ => length <= 1080,
    };
    if at_once { RealRow::AtOnce } else { RealRow::Half }
}

/// Whether the length has a prime factor without a kernel, and is too long for a kernel of its own.
fn needs_bluestein(length: u64) -> bool {
    length > 4096 && largest_factor(length) > LARGEST_RADIX
}

/// Whether the length is a product of 2, 3, 5 and 7.
fn is_smooth(length: u64) -> bool {
    largest_factor(length) <= 7
}

/// Whether the length has a prime factor above 11 and another one.
fn is_awkward(length: u64) -> bool {
    let largest = largest_factor(length);
    let mut rest = length;
    while largest > 1 && rest.is_multiple_of(largest) {
        rest /= largest;
    }
    largest > 11 && rest > 1
}

fn largest_factor(length: u64) -> u64 {
    let (mut rest, mut largest, mut factor) = (length.max(1), 1, 2);
    while factor <= rest / factor {
        while rest.is_multiple_of(factor) {
            (rest, largest) = (rest / factor, factor);
        }
        factor += 1;
    }
    largest.max(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLEX: Transform = Transform { is_real: false, complex_bytes: 8 };
    const REAL: Transform = Transform { is_real: true, complex_bytes: 8 };

    #[test]
    fn usual_lengths_need_no_work_area() {
        assert_eq!(work_bytes(&[4096], 100, COMPLEX), 0);
        assert_eq!(work_bytes(&[128, 128], 256, REAL), 0);
        assert_eq!(work_bytes(&[64, 64, 64], 4, COMPLEX), 0);
    }

    #[test]
    fn a_long_transform_needs_a_copy() {
        assert_eq!(work_bytes(&[1 << 20], 3, COMPLEX), 3 << 23);
        assert_eq!(work_bytes(&[1 << 20], 1, REAL), (1 << 22) + 8);
    }

    #[test]
    fn the_largest_factor_of_a_product_is_found() {
        assert_eq!([1, 2, 12, 97, 721, 4096].map(largest_factor), [1, 2, 3, 97, 103, 2]);
    }
}
