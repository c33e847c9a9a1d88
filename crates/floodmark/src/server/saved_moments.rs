//! The times of a device for which a saved page has answers: the most used ones first, then a grid that becomes finer.

use floodmark_analysis::{At, moment, steps};
use floodmark_trace::Device;

use super::shown::Version;

/// The most times.
const MOST: usize = 60;
/// The most times that belong to steps.
const MOST_OF_STEPS: usize = 32;

/// Seconds since the recording began, the most important first: the peak, a failed request, the end, peaks and ends of
/// steps, and an even grid that becomes finer.
pub(crate) fn moments(now: &Version<'_>, device: Device) -> Vec<f64> {
    let context = now.index().context();
    let find = |at| moment(&now.trace, context, device, at).ok().map(|found| found.seconds);
    let mut found: Vec<f64> = [At::Peak, At::Oom, At::End].into_iter().filter_map(find).collect();
    let steps =
        steps(&now.trace, context, Some(device)).map(|found| found.steps).unwrap_or_default();
    let of_steps = steps.iter().flat_map(|step| [step.peak_seconds, step.to]);
    found.extend(spread(&of_steps.collect::<Vec<_>>(), MOST_OF_STEPS));
    let end = now.trace.end().as_seconds();
    found.extend(grid().map(|share| share * end));
    let mut kept: Vec<f64> = Vec::new();
    for at in found {
        // Round to microseconds, the resolution of a trace.
        let at = ((at * 1e6).round() / 1e6).min(end);
        if kept.len() < MOST && !kept.contains(&at) {
            kept.push(at);
        }
    }
    kept
}

/// At most `most` of them, evenly chosen, the last included.
fn spread(all: &[f64], most: usize) -> Vec<f64> {
    if all.len() <= most {
        return all.to_vec();
    }
    (0..most).map(|at| all[(at + 1) * all.len() / most - 1]).collect()
}

/// 1/2, 1/4, 3/4, 1/8, 3/8, …: the first N are about evenly spread, for any N.
fn grid() -> impl Iterator<Item = f64> {
    (1_u32..=6).flat_map(|level| {
        let parts = 1_u32 << level;
        (1..parts).step_by(2).map(move |at| f64::from(at) / f64::from(parts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_becomes_finer() {
        let grid: Vec<f64> = grid().take(7).collect();
        assert_eq!(grid, [0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875]);
    }

    #[test]
    fn a_choice_is_even_and_has_the_last() {
        let all: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(spread(&all, 4), [24.0, 49.0, 74.0, 99.0]);
        assert_eq!(spread(&all[..3], 4), [0.0, 1.0, 2.0]);
    }
}
