//! The largest value that fits, with few tries.
//!
//! The needed memory grows almost in proportion to a batch size. So two values that fit predict the largest one, which is
//! tried together with the next. Where the prediction fails, the values between what fits and what does not are halved.
//! This finds the largest value if the needed memory grows with the value. It may not: so one more value above the first
//! that fails is tried, and if that fits, the search continues from there. The search runs nothing itself: `attempt` gets
//! a batch of values, which may be tried at the same time.

use std::collections::BTreeMap;

use floodmark_trace::Bytes;

/// Something that fits or does not.
pub trait Tried {
    /// The memory that it needs, if it fits.
    fn needed(&self) -> Option<Bytes>;

    /// Whether it fits.
    fn fits(&self) -> bool {
        self.needed().is_some()
    }
}

/// The outcome of a search.
#[derive(Debug)]
pub struct FitSearch<T> {
    /// Every index that was tried, with its outcome.
    pub tried: BTreeMap<usize, T>,
    /// The largest index that fits.
    pub largest: Option<usize>,
}

/// What limits a search.
#[derive(Debug, Clone, Copy)]
pub struct FitLimits {
    /// The memory of the GPU.
    pub capacity: Bytes,
    /// How many values are tried at a time.
    pub jobs: usize,
    /// Whether a value above the first that fails is tried, too.
    pub looks_further: bool,
}

/// The most predictions: then the rest is halved.
const MOST_PREDICTIONS: usize = 3;

/// Searches `values`, smallest first. Stops at the first try without an answer.
pub fn largest_that_fits<T: Tried, E>(
    values: &[u64],
    limits: FitLimits,
    attempt: impl FnMut(&[u64]) -> Result<Vec<T>, E>,
) -> Result<FitSearch<T>, E> {
    let mut search = Search { values, limits, attempt, tried: BTreeMap::new() };
    let mut largest = None;
    let mut start = 0;
    while start < values.len() {
        search.ask(&[start])?;
        if !search.fits(start) {
            break;
        }
        let (good, bad) = search.climb(start)?;
        largest = Some(good);
        if !limits.looks_further {
            break;
        }
        // The first failure may be an exception: a larger value decides.
        start = bad + 1;
    }
    Ok(FitSearch { tried: search.tried, largest })
}

struct Search<'a, T, F> {
    values: &'a [u64],
    limits: FitLimits,
    attempt: F,
    tried: BTreeMap<usize, T>,
}

impl<T: Tried, E, F: FnMut(&[u64]) -> Result<Vec<T>, E>> Search<'_, T, F> {
    fn ask(&mut self, indices: &[usize]) -> Result<(), E> {
        let mut untried: Vec<usize> =
            indices.iter().copied().filter(|at| !self.tried.contains_key(at)).collect();
        untried.dedup();
        if untried.is_empty() {
            return Ok(());
        }
        let values: Vec<u64> = untried.iter().map(|&at| self.values[at]).collect();
        let outcomes = (self.attempt)(&values)?;
        self.tried.extend(untried.into_iter().zip(outcomes));
        Ok(())
    }

    fn fits(&self, at: usize) -> bool {
        self.tried.get(&at).is_some_and(Tried::fits)
    }

    /// From an index that fits to the last before one that does not, and that one.
    fn climb(&mut self, from: usize) -> Result<(usize, usize), E> {
        let (mut good, mut bad) = (from, self.values.len());
        let mut predictions = 0;
        while bad - good > 1 {
            let predicted = self.predicted(from, good);
            // Without a prediction and without a failure, values are doubled.
            let is_doubling = predicted.is_none() && bad == self.values.len();
            let next = match predicted {
                Some(at) if predictions < MOST_PREDICTIONS => {
                    predictions += 1;
                    at.clamp(good, bad - 1)
                }
                None if is_doubling => self.doubled(good),
                Some(_) | None => good + (bad - good) / 2,
            };
            // A prediction is proven by the next value, which does not fit.
            let mut batch: Vec<usize> = [next, next + 1]
                .into_iter()
                .filter(|&at| good < at && at < bad)
                .take(self.limits.jobs.max(1))
                .collect();
            if self.limits.jobs > 1 && is_doubling {
                batch = vec![next, self.doubled(next)];
            }
            self.ask(&batch)?;
            for at in batch {
                if self.fits(at) {
                    good = good.max(at);
                } else {
                    bad = bad.min(at);
                }
            }
            if good > bad {
                // A larger value fits than one that does not: larger values decide.
                bad = self.failure_above(good);
            }
        }
        Ok((good, bad))
    }

    fn failure_above(&self, good: usize) -> usize {
        let mut failures = self.tried.range(good + 1..).filter(|(_, tried)| !tried.fits());
        failures.next().map_or(self.values.len(), |(&at, _)| at)
    }

    /// The index whose value is twice as large.
    fn doubled(&self, at: usize) -> usize {
        let value = self.values[at].saturating_mul(2);
        let doubled = self.values.partition_point(|&other| other < value);
        doubled.max(at + 1).min(self.values.len() - 1)
    }

    /// The largest index that should fit, by the two largest that do; none where only one does, or need does not grow.
    fn predicted(&self, from: usize, good: usize) -> Option<usize> {
        let needed = |at: usize| self.tried.get(&at).and_then(Tried::needed);
        let below = (from..good).rev().find(|&at| needed(at).is_some())?;
        let (less, more) = (needed(below)?.0, needed(good)?.0);
        let grown = more.checked_sub(less).filter(|grown| *grown > 0)?;
        let distance = self.values[good] - self.values[below];
        let left = u128::from(self.limits.capacity.0.saturating_sub(more));
        let further = left * u128::from(distance) / u128::from(grown);
        let value = u128::from(self.values[good]) + further;
        Some(self.values.partition_point(|&other| u128::from(other) <= value).saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs this many bytes, or does not fit.
    impl Tried for Option<u64> {
        fn needed(&self) -> Option<Bytes> {
            self.map(Bytes)
        }
    }

    fn limits(capacity: u64, jobs: usize) -> FitLimits {
        FitLimits { capacity: Bytes(capacity), jobs, looks_further: true }
    }

    /// Searches where a value needs `of(value)` bytes of `capacity`; the largest, and the order of the tries.
    fn search(
        values: &[u64],
        limits: FitLimits,
        of: impl Fn(u64) -> u64,
    ) -> (Option<u64>, Vec<u64>) {
        let mut order = Vec::new();
        let found = largest_that_fits(values, limits, |batch| {
            order.extend(batch);
            let needed = |&value: &u64| Some(of(value)).filter(|&bytes| bytes <= limits.capacity.0);
            Ok::<_, ()>(batch.iter().map(needed).collect())
        });
        (found.unwrap().largest.map(|at| values[at]), order)
    }

    /// For any limit, the answer is that of trying all values, with few tries.
    #[test]
    fn the_answer_is_that_of_a_linear_search() {
        let values: Vec<u64> = (1..=512).collect();
        let coarse: Vec<u64> = (0..64).map(|at| 8 + 24 * at).collect();
        let needs: [fn(u64) -> u64; 3] =
            [|value| 1000 + 10 * value, |value| value * value, |value| 500 + value.isqrt()];
        for of in needs {
            for jobs in [1, 2, 16] {
                for limit in (0..=513).step_by(7) {
                    let (largest, order) = search(&values, limits(of(limit), jobs), of);
                    assert_eq!(
                        largest,
                        values.iter().copied().rfind(|&value| of(value) <= of(limit)),
                        "limit {limit}"
                    );
                    assert!(order.len() <= 26, "limit {limit}: {order:?}");
                    let (largest, _) = search(&coarse, limits(of(limit), jobs), of);
                    assert_eq!(
                        largest,
                        coarse.iter().copied().rfind(|&value| of(value) <= of(limit)),
                        "limit {limit}"
                    );
                }
            }
        }
    }

    #[test]
    fn two_values_that_fit_predict_the_largest() {
        let values: Vec<u64> = (1..=64).collect();
        let (largest, order) = search(&values, limits(1113, 1), |value| 1000 + 10 * value);
        assert_eq!(largest, Some(11));
        assert_eq!(order, [1, 2, 11, 12, 13]);
        let (_, order) = search(&values, limits(1113, 2), |value| 1000 + 10 * value);
        assert_eq!(order, [1, 2, 4, 11, 12, 13]);
    }

    #[test]
    fn one_or_two_values_are_searched_too() {
        for jobs in [1, 2] {
            for (count, limit) in [(1, 0), (1, 9), (2, 1), (2, 9), (3, 9)] {
                let values: Vec<u64> = (1..=count).collect();
                let (largest, _) = search(&values, limits(limit, jobs), |value| value);
                assert_eq!(largest, values.iter().copied().rfind(|&value| value <= limit));
            }
        }
    }

    #[test]
    fn a_single_failure_is_stepped_over() {
        let values: Vec<u64> = (1..=64).collect();
        let odd = |value| if value == 40 { 5000 } else { 1000 + 10 * value };
        let (largest, _) = search(&values, limits(1400, 1), odd);
        assert_eq!(largest, Some(39));
        let (largest, _) = search(&values, limits(1500, 1), odd);
        assert_eq!(largest, Some(50));
    }

    #[test]
    fn a_try_without_an_answer_ends_the_search() {
        let failed = largest_that_fits(&[1, 2, 3], limits(9, 1), |batch| {
            if batch[0] < 2 { Ok(vec![Some(1_u64)]) } else { Err(batch[0]) }
        });
        assert_eq!(failed.unwrap_err(), 2);
    }
}
