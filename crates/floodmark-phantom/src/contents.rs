//! Tracks which bytes of the devices have a value, and its certainty.
//!
//! Kernels do not run, so most computed data have no value. Data that were copied in, set or computed
//! on the host (by the Python front, for operators on integers) have one, stored at the device's
//! address. This file stores these bytes as ranges that do not overlap.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use floodmark_phantom_control::Certainty;

/// Ranges of bytes that have a value: start, and end with certainty.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    ranges: BTreeMap<u64, (u64, Certainty)>,
}

static CONTENTS: Mutex<Contents> = Mutex::new(Contents { ranges: BTreeMap::new() });

/// The contents of all devices.
pub(crate) fn contents() -> MutexGuard<'static, Contents> {
    CONTENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Contents {
    /// Sets the certainty of these bytes.
    pub(crate) fn set(&mut self, addr: u64, length: u64, certainty: Certainty) {
        self.forget(addr, length);
        if length == 0 || certainty == Certainty::Nothing {
            return;
        }
        let (mut start, mut end) = (addr, addr + length);
        if let Some((&before, &(to, same))) = self.ranges.range(..addr).next_back()
            && to == addr
            && same == certainty
        {
            start = before;
        }
        if let Some(&(to, same)) = self.ranges.get(&end)
            && same == certainty
        {
            self.ranges.remove(&end);
            end = to;
        }
        self.ranges.insert(start, (end, certainty));
    }

    /// Removes the value of these bytes.
    pub(crate) fn forget(&mut self, addr: u64, length: u64) {
        if length == 0 || self.ranges.is_empty() {
            return;
        }
        let end = addr + length;
        if let Some((&before, &(to, certainty))) = self.ranges.range(..addr).next_back()
            && to > addr
        {
            self.ranges.insert(before, (addr, certainty));
            if to > end {
                self.ranges.insert(end, (to, certainty));
                return;
            }
        }
        while let Some((&start, &(to, certainty))) = self.ranges.range(addr..end).next() {
            self.ranges.remove(&start);
            if to > end {
                self.ranges.insert(end, (to, certainty));
            }
        }
    }

    /// The certainty of a range: that of its least certain byte.
    pub(crate) fn certainty(&self, addr: u64, length: u64) -> Certainty {
        let (mut at, end) = (addr, addr + length);
        let mut least = Certainty::Known;
        while at < end {
            match self.ranges.range(..=at).next_back() {
                Some((_, &(to, certainty))) if to > at => {
                    least = least.min(certainty);
                    at = to;
                }
                _ => return Certainty::Nothing,
            }
        }
        least
    }

    /// The pieces of a range whose bytes are a value: start, length, certainty.
    pub(crate) fn pieces(&self, addr: u64, length: u64) -> Vec<(u64, u64, Certainty)> {
        let end = addr + length;
        let first = self.ranges.range(..addr).next_back();
        first
            .into_iter()
            .chain(self.ranges.range(addr..end))
            .filter(|(_, (_, certainty))| *certainty != Certainty::Sampled)
            .filter_map(|(&start, &(to, certainty))| {
                let (start, to) = (start.max(addr), to.min(end));
                (start < to).then(|| (start, to - start, certainty))
            })
            .collect()
    }

    /// How many ranges there are.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Certainty::{Assumed, Known, Nothing, Random, Sampled};

    #[test]
    fn the_least_certain_byte_counts() {
        let mut contents = Contents::default();
        contents.set(100, 50, Known);
        contents.set(150, 50, Assumed);
        assert_eq!(contents.certainty(100, 50), Known);
        assert_eq!(contents.certainty(100, 100), Assumed);
        assert_eq!(contents.certainty(100, 101), Nothing);
        assert_eq!(contents.certainty(99, 2), Nothing);
        assert_eq!(contents.certainty(120, 0), Known);
    }

    #[test]
    fn ranges_of_one_certainty_that_touch_are_one() {
        let mut contents = Contents::default();
        contents.set(0, 8, Known);
        contents.set(16, 8, Known);
        contents.set(8, 8, Known);
        assert_eq!(contents.count(), 1);
        contents.set(4, 8, Assumed);
        assert_eq!(contents.pieces(0, 24), [(0, 4, Known), (4, 8, Assumed), (12, 12, Known)]);
    }

    #[test]
    fn bytes_of_a_sample_are_not_a_value() {
        let mut contents = Contents::default();
        contents.set(0, 8, Sampled);
        contents.set(8, 8, Random);
        assert_eq!(contents.pieces(0, 16), [(8, 8, Random)]);
        assert_eq!(contents.certainty(0, 16), Sampled);
    }

    /// Against an array of bytes, with every short range of a small space.
    #[test]
    fn ranges_agree_with_an_array() {
        let mut contents = Contents::default();
        let mut bytes = [Nothing; 40];
        let mut seed = 7_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..3000 {
            let (start, length) = (random(36), 1 + random(4));
            let certainty = Certainty::from_number(i32::try_from(random(5)).expect("it is small"));
            contents.set(start, length, certainty);
            for at in start..start + length {
                bytes[usize::try_from(at).expect("it is small")] = certainty;
            }
            for (at, &byte) in bytes.iter().enumerate() {
                assert_eq!(contents.certainty(at as u64, 1), byte);
            }
            let all: u64 = contents.pieces(0, 40).iter().map(|piece| piece.1).sum();
            let kept = bytes.iter().filter(|&&byte| byte != Nothing && byte != Sampled);
            assert_eq!(all, kept.count() as u64);
        }
    }
}
