//! Runs a function on many items in threads: the tries of a plan, the traces of a folder of ranks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often progress is reported.
const REPORT_INTERVAL: Duration = Duration::from_millis(20);

/// The number of processors.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Applies `work` to each item, on up to `jobs` threads, and returns the results in the order of the items. Calls
/// `report` at intervals with the number of finished items.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    jobs: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut report: impl FnMut(usize),
) -> Vec<R> {
    let (next, (sender, results)) = (AtomicUsize::new(0), channel());
    let mut done: Vec<(usize, R)> = Vec::with_capacity(items.len());
    thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    let _ = sender.send((at, work(item)));
                }
            });
        }
        drop(sender);
        loop {
            match results.recv_timeout(REPORT_INTERVAL) {
                Ok(result) => done.push(result),
                Err(RecvTimeoutError::Timeout) => {}
                // All threads have ended.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            report(done.len());
        }
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// As [`in_parallel`], on all processors and without progress.
pub(crate) fn on_all_processors<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    in_parallel(processors(), items, work, |_| {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_have_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        let mut seen = 0;
        let doubled = in_parallel(4, &items, |item| item * 2, |done| seen = done);
        assert_eq!(doubled, (0..2000).step_by(2).collect::<Vec<_>>());
        assert_eq!(seen, 1000);
        assert!(in_parallel(4, &[] as &[u8], |item| *item, |_| {}).is_empty());
    }

    #[test]
    fn a_panic_is_passed_on() {
        let work = |item: &u8| assert_ne!(*item, 2);
        let found = std::panic::catch_unwind(|| in_parallel(2, &[1, 2, 3], work, |_| {}));
        assert!(found.is_err());
    }
}
