//! The time of a record, which also orders all records.
//!
//! A clock that counts nanoseconds orders threads by itself: passing a block from one thread to another takes
//! longer than a nanosecond. Where the system's clock is coarser, all threads share one counter, so that no two
//! records have the same time.

use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that moves in larger steps is too coarse to order threads.
const LARGEST_STEP_NANOS: u64 = 60;
/// How often the clock is read to find its step.
const TRIALS: usize = 1000;

/// The one word that all threads write where the clock is coarse, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shared(AtomicU64);

/// Nanoseconds since a recording began.
#[derive(Debug)]
pub(crate) struct Clock {
    started_nanos: u64,
    /// The last time that any thread got, where the system's clock is coarse.
    shared: Option<Box<Shared>>,
}

pub(crate) fn monotonic_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the one struct that is passed.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// The smallest step of a clock in a number of reads.
fn smallest_step(mut read: impl FnMut() -> u64) -> u64 {
    let mut last = read();
    let steps = (0..TRIALS).map(|_| {
        let now = read();
        now.saturating_sub(std::mem::replace(&mut last, now))
    });
    steps.filter(|&step| step > 0).min().unwrap_or(u64::MAX)
}

impl Clock {
    pub(crate) fn start() -> Self {
        let is_coarse = smallest_step(monotonic_nanos) > LARGEST_STEP_NANOS;
        Self { started_nanos: monotonic_nanos(), shared: is_coarse.then(Box::default) }
    }

    /// The time of the system's clock, as one of this clock.
    pub(crate) fn nanos_of(&self, monotonic_nanos: u64) -> u64 {
        monotonic_nanos.saturating_sub(self.started_nanos)
    }

    /// The current time, later than every record that could have caused this call.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        let now = self.nanos_of(monotonic_nanos());
        match &self.shared {
            None => now,
            Some(shared) => shared.next(now),
        }
    }
}

impl Shared {
    /// A unique time: `now`, or one more than the last.
    #[cold]
    fn next(&self, now: u64) -> u64 {
        let last = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(now.max(last + 1)));
        last.map_or(now, |last| now.max(last + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_clock_gives_every_thread_another_time() {
        let clock = Clock { started_nanos: 0, shared: Some(Box::default()) };
        let times = |_: usize| (0..1000).map(|_| clock.nanos()).collect::<Vec<_>>();
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|at| scope.spawn(move || times(at))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn the_step_of_a_clock_is_measured() {
        let mut reads = 0_u64;
        let step = smallest_step(|| {
            reads += 1;
            reads / 4 * 250
        });
        assert_eq!(step, 250);
        assert_eq!(smallest_step(|| 7), u64::MAX);
    }
}
