//! Which combinations of several values fit, with few tries.
//!
//! One value is searched with [`largest_that_fits`] for every combination of the others. Assumption: what a program needs
//! grows with each value, or shrinks with it, all the way and whatever the other values are. A range grows. Of a list,
//! which keeps its order, the first and the last entry are compared. So a combination that needs more than another one
//! fits up to the same value at most, and larger values are not tried.

use std::collections::BTreeMap;

use crate::search::fit_search::{FitLimits, FitSearch, Tried, largest_that_fits};

/// A value that is varied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimension {
    /// Its values: of a range smallest first, of a list in the order in which they were given.
    pub values: Vec<u64>,
    /// Whether it is a range.
    pub is_range: bool,
}

/// How the need of a program changes along a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It grows from the first value to the last.
    Grows,
    /// It shrinks from the first value to the last.
    Shrinks,
    /// There is one value, or the first and the last need the same.
    Level,
}

/// Indices of values, one for each dimension.
pub type Point = Vec<usize>;

/// The outcome of a search.
#[derive(Debug)]
pub struct Frontier<T> {
    /// Every point that was tried.
    pub tried: BTreeMap<Point, T>,
    /// For every combination of the other values that fits at all, the point with the largest value of `searched`.
    pub largest: Vec<Point>,
    /// The dimension whose largest value was searched; none where every point was tried.
    pub searched: Option<usize>,
    /// How the need changes along each dimension.
    pub directions: Vec<Direction>,
}

/// Searches the frontier. Stops at the first try without an answer.
pub fn frontier_that_fits<T: Tried + Clone, E>(
    dimensions: &[Dimension],
    limits: FitLimits,
    attempt: impl FnMut(&[Point]) -> Result<Vec<T>, E>,
) -> Result<Frontier<T>, E> {
    let mut search = Search { dimensions, limits, attempt, tried: BTreeMap::new() };
    let directions = search.directions()?;
    let searched = searched(dimensions, &directions);
    let largest = search.largest(&directions, searched)?;
    Ok(Frontier { tried: search.tried, largest, searched, directions })
}

/// The dimension with the most values of those that grow; a range before a list.
fn searched(dimensions: &[Dimension], directions: &[Direction]) -> Option<usize> {
    let can = |at: &usize| {
        let values = &dimensions[*at].values;
        directions[*at] == Direction::Grows && values.is_sorted_by(|less, more| less < more)
    };
    let key = |at: &usize| {
        let dimension = &dimensions[*at];
        (dimension.is_range, dimension.values.len(), std::cmp::Reverse(*at))
    };
    (0..dimensions.len()).filter(can).max_by_key(key)
}

struct Search<'a, T, F> {
    dimensions: &'a [Dimension],
    limits: FitLimits,
    attempt: F,
    tried: BTreeMap<Point, T>,
}

impl<T: Tried + Clone, E, F: FnMut(&[Point]) -> Result<Vec<T>, E>> Search<'_, T, F> {
    fn ask(&mut self, points: &[Point]) -> Result<Vec<T>, E> {
        let mut untried: Vec<Point> = Vec::new();
        for point in points {
            if !self.tried.contains_key(point) && !untried.contains(point) {
                untried.push(point.clone());
            }
        }
        if !untried.is_empty() {
            let outcomes = (self.attempt)(&untried)?;
            self.tried.extend(untried.into_iter().zip(outcomes));
        }
        Ok(points.iter().filter_map(|point| self.tried.get(point).cloned()).collect())
    }

    /// Compares the first and the last entry of every list, with the first of all others.
    fn directions(&mut self) -> Result<Vec<Direction>, E> {
        let first: Point = vec![0; self.dimensions.len()];
        let lists: Vec<usize> = (0..self.dimensions.len())
            .filter(|&at| !self.dimensions[at].is_range && self.dimensions[at].values.len() > 1)
            .collect();
        let last_of = |at: usize| {
            let mut point = first.clone();
            point[at] = self.dimensions[at].values.len() - 1;
            point
        };
        let mut asked = vec![first.clone()];
        asked.extend(lists.iter().map(|&at| last_of(at)));
        let tried = if lists.is_empty() { Vec::new() } else { self.ask(&asked)? };
        let mut found: Vec<Direction> = self
            .dimensions
            .iter()
            .map(|one| if one.values.len() > 1 { Direction::Grows } else { Direction::Level })
            .collect();
        for (&at, last) in lists.iter().zip(tried.iter().skip(1)) {
            found[at] = match (tried[0].needed(), last.needed()) {
                (Some(first), Some(last)) if first == last => Direction::Level,
                (Some(first), Some(last)) if last < first => Direction::Shrinks,
                (None, Some(_)) => Direction::Shrinks,
                // Where neither fits, it is taken as the order of a range.
                (Some(_), Some(_) | None) | (None, None) => Direction::Grows,
            };
        }
        Ok(found)
    }

    fn largest(
        &mut self,
        directions: &[Direction],
        searched: Option<usize>,
    ) -> Result<Vec<Point>, E> {
        let mut bounds: BTreeMap<Point, Option<usize>> = BTreeMap::new();
        let mut found = Vec::new();
        for point in self.others(directions, searched) {
            let ranks = self.ranks(&point, directions);
            // Combinations that need less in one dimension were searched before.
            let mut bound = Some(searched.map_or(0, |at| self.dimensions[at].values.len() - 1));
            for at in (0..point.len()).filter(|&at| Some(at) != searched && ranks[at] > 0) {
                if directions[at] == Direction::Level {
                    continue;
                }
                let mut less = ranks.clone();
                less[at] -= 1;
                let known = bounds.get(&less).copied().flatten();
                bound = bound.zip(known).map(|(bound, known)| bound.min(known));
            }
            let largest = match bound {
                Some(bound) => self.line(&point, searched, bound)?,
                None => None,
            };
            bounds.insert(ranks, largest);
            if let Some(index) = largest {
                let mut point = point;
                if let Some(at) = searched {
                    point[at] = index;
                }
                found.push(point);
            }
        }
        found.sort();
        Ok(found)
    }

    /// The largest index of the searched dimension that fits, up to `bound`.
    fn line(
        &mut self,
        point: &Point,
        searched: Option<usize>,
        bound: usize,
    ) -> Result<Option<usize>, E> {
        let Some(at) = searched else {
            let tried = self.ask(std::slice::from_ref(point))?;
            return Ok(tried.first().is_some_and(Tried::fits).then_some(0));
        };
        let values = self.dimensions[at].values[..=bound].to_vec();
        let is_alone = self.dimensions.len() == 1;
        let limits =
            FitLimits { looks_further: self.limits.looks_further && is_alone, ..self.limits };
        let FitSearch { largest, .. } = largest_that_fits(&values, limits, |batch| {
            let points: Vec<Point> = batch
                .iter()
                .map(|value| {
                    let mut one = point.clone();
                    one[at] = values.partition_point(|other| other < value);
                    one
                })
                .collect();
            self.ask(&points)
        })?;
        Ok(largest)
    }

    /// All combinations of the other dimensions, those that need least first.
    fn others(&self, directions: &[Direction], searched: Option<usize>) -> Vec<Point> {
        let mut points: Vec<Point> = vec![Vec::new()];
        for (at, dimension) in self.dimensions.iter().enumerate() {
            let count = if Some(at) == searched { 1 } else { dimension.values.len() };
            points = points
                .into_iter()
                .flat_map(|point| (0..count).map(move |index| [&point[..], &[index]].concat()))
                .collect();
        }
        points.sort_by_key(|point| {
            let ranks = self.ranks(point, directions);
            (ranks.iter().sum::<usize>(), ranks)
        });
        points
    }

    /// The place of each value in the order of what it needs.
    fn ranks(&self, point: &Point, directions: &[Direction]) -> Point {
        let rank = |(at, &index): (usize, &usize)| match directions[at] {
            Direction::Grows | Direction::Level => index,
            Direction::Shrinks => self.dimensions[at].values.len() - 1 - index,
        };
        point.iter().enumerate().map(rank).collect()
    }
}

#[cfg(test)]
mod tests {
    use floodmark_trace::Bytes;

    use super::*;

    fn range(last: u64) -> Dimension {
        Dimension { values: (1..=last).collect(), is_range: true }
    }

    fn list(values: &[u64]) -> Dimension {
        Dimension { values: values.to_vec(), is_range: false }
    }

    /// Batch, length and checkpointing of a model, as they need memory.
    fn need(values: &[u64]) -> u64 {
        let per_token = if values.get(2) == Some(&1) { 1 } else { 4 };
        10_000 + values[0] * values[1] * per_token
    }

    fn search(dimensions: &[Dimension], capacity: u64) -> (Frontier<Option<u64>>, usize) {
        let limits = FitLimits { capacity: Bytes(capacity), jobs: 2, looks_further: true };
        let found = frontier_that_fits(dimensions, limits, |points| {
            let tried = points.iter().map(|point| {
                let values: Vec<u64> =
                    point.iter().zip(dimensions).map(|(&at, one)| one.values[at]).collect();
                Some(need(&values)).filter(|&bytes| bytes <= capacity)
            });
            Ok::<_, ()>(tried.collect())
        });
        let found = found.unwrap();
        let tries = found.tried.len();
        (found, tries)
    }

    /// For every limit the frontier is that of trying all.
    #[test]
    fn the_frontier_is_that_of_trying_all() {
        let dimensions = [range(64), list(&[1024, 2048, 4096]), list(&[0, 1])];
        for capacity in (10_000..600_000).step_by(9_999) {
            let (found, tries) = search(&dimensions, capacity);
            let mut expected = Vec::new();
            for (at, length) in [1024, 2048, 4096].into_iter().enumerate() {
                for checkpointed in 0..2 {
                    let fits = |batch: &u64| need(&[*batch, length, checkpointed]) <= capacity;
                    if let Some(batch) = (1..=64).rfind(fits) {
                        expected.push(vec![
                            usize::try_from(batch).unwrap() - 1,
                            at,
                            usize::try_from(checkpointed).unwrap(),
                        ]);
                    }
                }
            }
            expected.sort();
            assert_eq!(found.largest, expected, "{capacity}");
            assert!(tries <= 40, "{capacity}: {tries} of 384");
        }
    }

    #[test]
    fn a_list_that_needs_less_at_its_end_is_known_by_its_ends() {
        let (found, _) = search(&[range(64), list(&[1024, 2048]), list(&[0, 1])], 200_000);
        assert_eq!(found.searched, Some(0));
        assert_eq!(found.directions, [Direction::Grows, Direction::Grows, Direction::Shrinks]);
    }

    #[test]
    fn where_one_combination_does_not_fit_those_that_need_more_are_not_tried() {
        let (found, tries) = search(&[range(64), list(&[1024, 2048, 4096, 8192])], 11_000);
        assert!(found.largest.is_empty());
        assert_eq!(tries, 2);
    }

    #[test]
    fn lists_alone_are_searched_along_the_longest() {
        let (found, _) = search(&[list(&[1, 2, 4]), list(&[1024, 2048, 4096, 8192])], 30_000);
        assert_eq!(found.searched, Some(1));
        assert_eq!(found.largest, [[0, 2], [1, 1], [2, 0]]);
    }
}
