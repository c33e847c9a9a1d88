//! The totals of the steps that the writer has processed, for programs that read them.
//!
//! The writer adds, the program takes; neither waits for the other without a time-out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use floodmark_trace::StepTotals;
use parking_lot::{Condvar, Mutex};

/// Rows that are kept until the integration reads them: one for each device in each step.
const MOST_ROWS: usize = 1 << 14;

/// Totals of steps, the last ones.
#[derive(Debug, Default)]
pub(crate) struct EndedSteps {
    rows: Mutex<VecDeque<StepTotals>>,
    changed: Condvar,
}

impl EndedSteps {
    /// Adds the totals of steps.
    pub(crate) fn add(&self, ended: &[StepTotals]) {
        if ended.is_empty() {
            return;
        }
        let mut rows = self.rows.lock();
        rows.extend(ended);
        let surplus = rows.len().saturating_sub(MOST_ROWS);
        rows.drain(..surplus);
        self.changed.notify_all();
    }

    /// Waits for `step`, at most `wait`.
    pub(crate) fn wait_for(&self, step: u32, wait: Duration) {
        let until = Instant::now() + wait;
        let mut rows = self.rows.lock();
        while rows.back().is_none_or(|last| last.step < step) {
            if self.changed.wait_until(&mut rows, until).timed_out() {
                return;
            }
        }
    }

    /// The rows of `first` and later steps. Older ones are forgotten.
    pub(crate) fn from(&self, first: u32) -> Vec<StepTotals> {
        let mut rows = self.rows.lock();
        rows.retain(|row| row.step >= first);
        rows.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use floodmark_trace::{Bytes, Device};

    use super::*;

    fn totals(step: u32) -> StepTotals {
        let (peak, end) = (Bytes(2), Bytes(1));
        let (reserved_peak, reserved) = (Bytes(0), Bytes(0));
        StepTotals { step, device: Device::CPU, peak, end, reserved_peak, reserved }
    }

    #[test]
    fn the_last_rows_stay_when_no_program_reads() {
        let ended = EndedSteps::default();
        let most = u32::try_from(MOST_ROWS).expect("a small number");
        (0..most + 3).for_each(|step| ended.add(&[totals(step)]));
        let rows = ended.from(0);
        assert_eq!(rows.len(), MOST_ROWS);
        assert_eq!((rows[0].step, rows[MOST_ROWS - 1].step), (3, most + 2));
    }

    #[test]
    fn taken_counts_are_cleared() {
        let ended = EndedSteps::default();
        ended.add(&[totals(0), totals(1)]);
        assert_eq!(ended.from(1), [totals(1)]);
        assert_eq!(ended.from(0), [totals(1)]);
    }

    #[test]
    fn a_wait_ends_with_the_step_or_after_its_limit() {
        let ended = EndedSteps::default();
        ended.wait_for(0, Duration::from_millis(1));
        std::thread::scope(|scope| {
            scope.spawn(|| ended.add(&[totals(0)]));
            ended.wait_for(0, Duration::from_mins(1));
        });
        assert_eq!(ended.from(0), [totals(0)]);
    }
}
