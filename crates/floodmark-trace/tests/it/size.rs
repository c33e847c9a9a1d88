//! How many bytes an event takes.

use floodmark_testing::training_loop::write_loop;
use floodmark_trace::read_trace;

/// The documented limit.
const MOST_BYTES_PER_EVENT: usize = 12;

/// Also with the small flushes of a program that allocates slowly.
#[test]
fn an_event_of_a_training_loop_takes_at_most_twelve_bytes() {
    for flush_rows in [4_000, 64_000] {
        let (file, events) = write_loop(200, flush_rows);
        assert!(events > 400_000, "{events} events are too few for a verdict");
        assert!(
            file.len() <= events * MOST_BYTES_PER_EVENT,
            "{} bytes for {events} events, flushed every {flush_rows}",
            file.len()
        );
        let trace = read_trace(&file, &[]).unwrap();
        assert_eq!((trace.events.len(), trace.losses.0.as_slice()), (events, &[][..]));
    }
}
