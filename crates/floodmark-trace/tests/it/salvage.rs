//! A program that was killed: what its file lacks is in its journal.

use floodmark_trace::{Loss, StackId, Trace};
use proptest::prelude::*;

use crate::recording::{
    Act, SESSION, any_program, batches, finished_file, journal, read, record, unfinished_file,
};
use floodmark_trace::journal::segment_entries;

/// Losses that say what the program was like, not how the file was read.
fn own_losses(trace: &Trace) -> Vec<&Loss> {
    let is_own = |loss: &&Loss| matches!(loss, Loss::TotalsDisagree(_) | Loss::StacksLeftOut(_));
    trace.losses.0.iter().filter(is_own).collect()
}

proptest! {
    /// Wherever the file ends and the journal begins, together they are the whole recording.
    #[test]
    fn a_file_and_its_journal_read_as_the_whole_file(
        program in any_program(),
        flush in 1..40_usize,
        written in 0..80_usize,
        kept in 0..20_usize,
    ) {
        let entries = record(&program);
        let written = written.min(entries.len());
        let whole = read(&finished_file(&batches(&entries, flush)), &[]);

        let file = unfinished_file(&batches(&entries[..written], flush));
        // A journal may still hold what the file has already.
        let segments = journal(&entries[written.saturating_sub(kept)..]);
        let salvaged = read(&file, &segments);

        prop_assert_eq!(&salvaged.events, &whole.events);
        prop_assert_eq!(&salvaged.allocations, &whole.allocations);
        prop_assert_eq!(&salvaged.segments, &whole.segments);
        prop_assert_eq!(&salvaged.ooms, &whole.ooms);
        prop_assert_eq!(&salvaged.totals, &whole.totals);
        prop_assert_eq!(salvaged.devices(), whole.devices());
        prop_assert_eq!(own_losses(&salvaged), own_losses(&whole));
        for id in 0..whole.stack_count() {
            let id = StackId(u32::try_from(id).unwrap());
            prop_assert_eq!(salvaged.stack(id), whole.stack(id));
            prop_assert_eq!(salvaged.module_path(id), whole.module_path(id));
        }
        let rescued = entries.len() - written;
        let salvage = salvaged.losses.0.iter().find(|loss| matches!(loss, Loss::Salvaged { .. }));
        let expected = Loss::Salvaged { events: rescued as u64 };
        prop_assert_eq!(salvage, (rescued > 0).then_some(&expected));
    }

    /// The segment of a thread gives back its records in order.
    #[test]
    fn a_segment_holds_what_was_put_in(program in any_program()) {
        let mut entries = record(&program);
        entries.retain(|entry| entry.thread == 1);
        for segment in journal(&entries) {
            prop_assert_eq!(segment_entries(&segment, SESSION), Some(entries.clone()));
        }
    }
}

fn three_allocations() -> Vec<(Act, u16, i32)> {
    let alloc = |place| Act::Alloc { device: 1, place, bytes: 512, slack: 0, backward: false };
    (0..3).map(|place| (alloc(place), u16::from(place), 1000)).collect()
}

#[test]
fn a_record_that_never_arrived_is_missed() {
    let mut entries = record(&three_allocations());
    entries.remove(1);
    let trace = read(&unfinished_file(&[]), &journal(&entries));
    assert_eq!(trace.allocations.len(), 2);
    let told: Vec<String> = trace.losses.0.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|loss| loss.starts_with("1 records were being written")), "{told:?}");
}

#[test]
fn the_journal_of_another_recording_is_left_alone() {
    let entries = record(&three_allocations());
    let mut segments = journal(&entries);
    for segment in &mut segments {
        segment[8] ^= 1;
    }
    let trace = read(&unfinished_file(&batches(&entries[..1], 1)), &segments);
    assert_eq!((trace.allocations.len(), trace.losses.0.as_slice()), (1, &[Loss::Unfinished][..]));
}

#[test]
fn a_finished_file_needs_no_journal() {
    let entries = record(&three_allocations());
    let trace = read(&finished_file(&batches(&entries[..1], 1)), &journal(&entries));
    assert_eq!((trace.allocations.len(), trace.losses.is_empty()), (1, true));
}

/// The program died while a flush was being written: the journal still has all of it.
#[test]
fn a_half_written_flush_is_taken_from_the_journal() {
    let entries = record(&three_allocations());
    let whole = unfinished_file(&batches(&entries, 1));
    let one = unfinished_file(&batches(&entries, 1)[..1]).len();
    for cut in one..whole.len() {
        let trace = read(&whole[..cut], &journal(&entries));
        assert_eq!(trace.allocations.len(), 3);
        assert!(matches!(trace.losses.0[..], [Loss::Salvaged { .. }]), "{:?}", trace.losses);
    }
    let trace = read(&whole[..whole.len() - 1], &journal(&entries[..2]));
    assert_eq!(trace.losses.0, [Loss::Unfinished]);
}
