//! The peaks of the recording so far, for programs that show progress.

use std::time::{Duration, Instant};

use floodmark_trace::{Bytes, Device};
use parking_lot::{Condvar, Mutex};

/// The peak of each device, as of the writer's last round.
#[derive(Debug, Default)]
pub(crate) struct Peaks {
    /// How many rounds there were, and the peaks after the last one.
    rounds: Mutex<(u64, Vec<(Device, Bytes)>)>,
    changed: Condvar,
}

impl Peaks {
    /// Sets the peaks after a round of the writer.
    pub(crate) fn set(&self, peaks: impl Iterator<Item = (Device, Bytes)>) {
        let mut rounds = self.rounds.lock();
        rounds.0 += 1;
        rounds.1.clear();
        rounds.1.extend(peaks);
        self.changed.notify_all();
    }

    /// The peaks after the next round, or after the last one when that takes too long.
    pub(crate) fn after_next_round(&self, wait: Duration) -> Vec<(Device, Bytes)> {
        let until = Instant::now() + wait;
        let mut rounds = self.rounds.lock();
        let seen = rounds.0;
        while rounds.0 == seen && !self.changed.wait_until(&mut rounds, until).timed_out() {}
        rounds.1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_waits_for_a_round_at_most() {
        let peaks = Peaks::default();
        peaks.set([(Device::CPU, Bytes(1))].into_iter());
        assert_eq!(peaks.after_next_round(Duration::from_millis(1)), [(Device::CPU, Bytes(1))]);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| peaks.after_next_round(Duration::from_mins(1)));
            while !asked.is_finished() {
                peaks.set([(Device::CPU, Bytes(2))].into_iter());
            }
            assert_eq!(asked.join().unwrap(), [(Device::CPU, Bytes(2))]);
        });
    }
}
