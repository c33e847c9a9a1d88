//! The least number of checkpointed blocks that fits, with few tries.
//!
//! The needed memory is close to linear in the number of blocks, so the first guess lies on the line between none and
//! all. The numbers beside it are tried at the same time: mostly it and the one below are the answer and its proof.
//! Where the need is not linear, the interval is halved.

use floodmark_trace::Bytes;

/// The needed memory with some number of blocks, and whether it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockNeed {
    pub(crate) blocks: u32,
    pub(crate) needed: Bytes,
    pub(crate) fits: bool,
}

/// The interval in which the answer lies: `bad` does not fit, `good` does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockSearch {
    bad: BlockNeed,
    good: BlockNeed,
    capacity: Bytes,
    /// Whether the last guess on the line left more than half of the interval.
    is_crooked: bool,
}

impl BlockSearch {
    pub(crate) fn new(bad: BlockNeed, good: BlockNeed, capacity: Bytes) -> Self {
        Self { bad, good, capacity, is_crooked: false }
    }

    /// The least number that is known to fit.
    pub(crate) fn fewest(&self) -> u32 {
        self.good.blocks
    }

    /// Up to `width` numbers to try at the same time, at least two where there are two; none when the answer is known.
    pub(crate) fn next(&self, width: usize) -> Vec<u32> {
        let (from, to) = (self.bad.blocks + 1, self.good.blocks);
        let guess = if self.is_crooked { u32::midpoint(from, to) } else { self.on_the_line() };
        let mut around: Vec<u32> = (from..to).collect();
        // The one below before the one above: it proves the guess.
        around.sort_by_key(|&blocks| (blocks.abs_diff(guess), blocks));
        around.truncate(width.max(2));
        around.sort_unstable();
        around
    }

    fn on_the_line(&self) -> u32 {
        let (bad, good) = (self.bad, self.good);
        let slope = bad.needed.0.saturating_sub(good.needed.0);
        let room = self.capacity.0.saturating_sub(good.needed.0);
        if slope == 0 || room > slope {
            return u32::midpoint(bad.blocks + 1, good.blocks);
        }
        let spared = u128::from(room) * u128::from(good.blocks - bad.blocks) / u128::from(slope);
        good.blocks - u32::try_from(spared).unwrap_or(0)
    }

    /// The results of some numbers.
    pub(crate) fn learn(&mut self, tried: &[BlockNeed]) {
        let before = self.good.blocks - self.bad.blocks;
        for &one in tried {
            if one.fits && one.blocks < self.good.blocks {
                self.good = one;
            } else if !one.fits && one.blocks > self.bad.blocks {
                self.bad = one;
            }
        }
        let after = self.good.blocks.saturating_sub(self.bad.blocks);
        self.is_crooked = after > before / 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with `needed` for each number of `total` blocks; the answer, and how many rounds that took.
    fn fewest(total: u32, capacity: u64, needed: impl Fn(u32) -> u64) -> (u32, u32) {
        let at = |blocks| BlockNeed {
            blocks,
            needed: Bytes(needed(blocks)),
            fits: needed(blocks) <= capacity,
        };
        let mut search = BlockSearch::new(at(0), at(total), Bytes(capacity));
        let mut rounds = 0;
        loop {
            let next = search.next(2);
            if next.is_empty() {
                return (search.fewest(), rounds);
            }
            rounds += 1;
            search.learn(&next.into_iter().map(at).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_linear_need_takes_one_round() {
        for capacity in (520..1000).step_by(7) {
            let (found, rounds) = fewest(24, capacity, |blocks| 1000 - 20 * u64::from(blocks));
            assert_eq!(u64::from(found), (1000 - capacity).div_ceil(20), "{capacity}");
            assert_eq!(rounds, 1, "{capacity}");
        }
    }

    #[test]
    fn any_falling_need_is_searched_in_few_rounds() {
        let shapes: [fn(u32) -> u64; 3] = [
            |blocks| 1000 - 500 * u64::from(blocks == 24),
            |blocks| if blocks < 3 { 1000 } else { 500 },
            |blocks| 500 + 500 / u64::from(blocks + 1),
        ];
        for needed in shapes {
            for capacity in [500, 520, 600, 700, 999] {
                let (found, rounds) = fewest(24, capacity, needed);
                let least = (0..=24).find(|&blocks| needed(blocks) <= capacity).unwrap_or(24);
                assert_eq!(found, least.max(1), "{capacity}");
                assert!(rounds <= 6, "{capacity}: {rounds}");
            }
        }
    }
}
