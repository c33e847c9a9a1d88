//! The largest value that fits, with few tries.
//!
//! Doubling first, so that no large value is tried on a small GPU, then bisection between what
//! fits and what does not. This finds the largest when what a program needs grows with the value. It need
//! not: so one more value above the first that fails is tried, and if that fits, the search goes on from
//! there.

use std::collections::BTreeMap;

/// Something that fits or does not.
pub trait Tried {
    /// Whether it fits.
    fn fits(&self) -> bool;
}

/// The outcome of a search.
#[derive(Debug)]
pub struct FitSearch<T> {
    /// Every index that was tried, with its outcome.
    pub tried: BTreeMap<usize, T>,
    /// The largest index that fits.
    pub largest: Option<usize>,
}

/// Searches `values`, smallest first. Stops at the first try that fails to tell.
pub fn largest_that_fits<T: Tried, E>(
    values: &[u64],
    mut attempt: impl FnMut(u64) -> Result<T, E>,
) -> Result<FitSearch<T>, E> {
    let mut tried: BTreeMap<usize, T> = BTreeMap::new();
    let mut fits = |at: usize| -> Result<bool, E> {
        if let Some(known) = tried.get(&at) {
            return Ok(known.fits());
        }
        let outcome = attempt(values[at])?;
        let fits = outcome.fits();
        tried.insert(at, outcome);
        Ok(fits)
    };
    let mut largest = None;
    let mut start = 0;
    while start < values.len() {
        if !fits(start)? {
            break;
        }
        let (good, bad) = climb(values, start, &mut fits)?;
        largest = Some(good);
        // The first failure may be an odd one: what lies above it decides.
        start = bad + 1;
    }
    Ok(FitSearch { tried, largest })
}

/// From an index that fits to the last before one that does not, and that one.
fn climb<E>(
    values: &[u64],
    from: usize,
    fits: &mut impl FnMut(usize) -> Result<bool, E>,
) -> Result<(usize, usize), E> {
    let last = values.len() - 1;
    let mut good = from;
    let mut bad = values.len();
    while good < last {
        let doubled = values.partition_point(|&value| value < values[good].saturating_mul(2));
        let next = doubled.clamp(good + 1, last);
        if fits(next)? {
            good = next;
        } else {
            bad = next;
            break;
        }
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok((good, bad))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Tried for bool {
        fn fits(&self) -> bool {
            *self
        }
    }

    fn search(values: &[u64], fits: impl Fn(u64) -> bool) -> (Option<u64>, Vec<u64>) {
        let mut order = Vec::new();
        let found = largest_that_fits(values, |value| {
            order.push(value);
            Ok::<_, ()>(fits(value))
        });
        (found.unwrap().largest.map(|at| values[at]), order)
    }

    /// Whatever the limit is, the answer is that of trying all, with few tries.
    #[test]
    fn the_answer_is_that_of_a_linear_search() {
        let values: Vec<u64> = (1..=512).collect();
        for limit in 0..=513 {
            let (largest, order) = search(&values, |value| value <= limit);
            assert_eq!(largest, (limit > 0).then_some(limit.min(512)), "limit {limit}");
            assert!(order.len() <= 20, "limit {limit}: {order:?}");
        }
        let coarse: Vec<u64> = (0..64).map(|at| 8 + 24 * at).collect();
        for limit in 0..1600 {
            let (largest, _) = search(&coarse, |value| value <= limit);
            assert_eq!(largest, coarse.iter().copied().rfind(|&value| value <= limit));
        }
    }

    #[test]
    fn it_doubles_then_bisects_then_looks_one_further() {
        let values: Vec<u64> = (1..=64).collect();
        let (largest, order) = search(&values, |value| value <= 11);
        assert_eq!(largest, Some(11));
        assert_eq!(order, [1, 2, 4, 8, 16, 12, 10, 11, 13]);
    }

    #[test]
    fn a_single_failure_is_stepped_over() {
        let values: Vec<u64> = (1..=64).collect();
        let (largest, _) = search(&values, |value| value != 16 && value <= 40);
        assert_eq!(largest, Some(40));
    }

    #[test]
    fn a_try_that_cannot_tell_ends_the_search() {
        let failed =
            largest_that_fits(&[1, 2, 3], |value| if value < 2 { Ok(true) } else { Err(value) });
        assert_eq!(failed.unwrap_err(), 2);
    }
}
