//! The peaks of the recording so far, for a program that shows how far it is.

use std::time::{Duration, Instant};

use floodmark_trace::{Bytes, Device};
use parking_lot::{Condvar, Mutex};

/// The peak of each device, as of the writer's last lap.
#[derive(Debug, Default)]
pub(crate) struct Peaks {
    /// How many laps there were, and the peaks after the last one.
    laps: Mutex<(u64, Vec<(Device, Bytes)>)>,
    came: Condvar,
}

impl Peaks {
    /// The writer has folded what there was.
    pub(crate) fn set(&self, peaks: impl Iterator<Item = (Device, Bytes)>) {
        let mut laps = self.laps.lock();
        laps.0 += 1;
        laps.1.clear();
        laps.1.extend(peaks);
        self.came.notify_all();
    }

    /// The peaks after the next lap, or after the last one when it takes too long.
    pub(crate) fn after_next_lap(&self, wait: Duration) -> Vec<(Device, Bytes)> {
        let until = Instant::now() + wait;
        let mut laps = self.laps.lock();
        let seen = laps.0;
        while laps.0 == seen && !self.came.wait_until(&mut laps, until).timed_out() {}
        laps.1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_waits_for_a_lap_and_not_for_ever() {
        let peaks = Peaks::default();
        peaks.set([(Device::CPU, Bytes(1))].into_iter());
        assert_eq!(peaks.after_next_lap(Duration::from_millis(1)), [(Device::CPU, Bytes(1))]);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| peaks.after_next_lap(Duration::from_mins(1)));
            while !asked.is_finished() {
                peaks.set([(Device::CPU, Bytes(2))].into_iter());
            }
            assert_eq!(asked.join().unwrap(), [(Device::CPU, Bytes(2))]);
        });
    }
}
