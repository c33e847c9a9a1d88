//! A killed program: its journal has the events that its file lacks.

use floodmark_trace::journal::state::{NOTE_LENGTH_OFFSET, NOTE_OFFSET, StopNote, new_state};
use floodmark_trace::{Loss, Micros, Outcome, StackId, Trace};
use proptest::prelude::*;

use crate::recording::{
    Act, SESSION, any_program, batches, finished_file, journal, read, record, unfinished_file,
};
use floodmark_trace::ReadError;
use floodmark_trace::journal::{
    CHUNK_BYTES, CHUNK_HEADER_BYTES, Entry, JournalWriter, LedgerLine, read_journal,
};

/// Losses that depend on the program, not on how the file was read.
fn own_losses(trace: &Trace) -> Vec<&Loss> {
    let is_own = |loss: &&Loss| {
        matches!(
            loss,
            Loss::TotalsDisagree(_)
                | Loss::StacksLeftOut(_)
                | Loss::NamesLeftOut(_)
                | Loss::ThreadsShareNumber(_)
        )
    };
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
        let chunks = journal(&entries[written.saturating_sub(kept)..]);
        let salvaged = read(&file, &chunks);

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
        let expected = Loss::Salvaged { events: rescued as u64, has_ended: false };
        let is_expected = rescued > 0 || !chunks.is_empty();
        prop_assert_eq!(salvage, is_expected.then_some(&expected));
    }

    /// A journal yields its records, those of each thread in order.
    #[test]
    fn a_journal_holds_what_was_put_in(program in any_program()) {
        let entries = record(&program);
        let files = journal(&entries);
        let mut found = read_journal(&slices(&files), SESSION).unwrap();
        found.entries.sort_by_key(|entry| entry.record.time_nanos);
        prop_assert_eq!(found.entries, entries);
        prop_assert_eq!((found.lost, found.is_ledger_damaged), (0, false));
    }

    /// With any damage, each record is read as it was written or counted as lost.
    #[test]
    fn damage_is_counted_to_the_record(
        program in any_program(),
        file in 1..8_usize,
        place in 0.0..1.0_f64,
        kind in 0..3_u8,
    ) {
        let entries = record(&program);
        let mut files = journal(&entries);
        prop_assume!(file < files.len());
        let length = files[file].len() - CHUNK_HEADER_BYTES;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a small file")]
        let place = CHUNK_HEADER_BYTES + (place * length as f64) as usize;
        match kind {
            0 => files[file][place] ^= 0x10,
            1 => files[file].truncate(place),
            _ => drop(files.remove(file)),
        }
        let found = read_journal(&slices(&files), SESSION).unwrap();
        prop_assert!(found.entries.iter().all(|entry| entries.contains(entry)));
        prop_assert_eq!(found.entries.len() as u64 + found.lost, entries.len() as u64);
    }
}

fn slices(files: &[Vec<u8>]) -> Vec<&[u8]> {
    files.iter().map(Vec::as_slice).collect()
}

fn three_allocations() -> Vec<(Act, u32, u32)> {
    let alloc = |block| Act::Alloc { device: 1, block, bytes: 512, slack: 0, backward: false };
    (0..3).map(|block| (alloc(block), u32::from(block), 1000)).collect()
}

fn shown(trace: &Trace) -> Vec<String> {
    trace.losses.0.iter().map(ToString::to_string).collect()
}

#[test]
fn a_damaged_record_is_a_lost_event() {
    let entries = record(&three_allocations());
    let mut files = journal(&entries);
    files[2][CHUNK_HEADER_BYTES + 40] ^= 1;
    let trace = read(&unfinished_file(&[]), &files);
    assert_eq!(trace.allocations.len(), 2);
    assert_eq!(trace.losses.events(), 1);
    assert!(shown(&trace).iter().any(|loss| loss.starts_with("1 event is missing")), "{trace:?}");
}

/// A lost chunk loses only records that are not in the file.
#[test]
fn a_damaged_record_that_was_flushed_is_not_lost() {
    let entries = record(&three_allocations());
    let mut journal = JournalWriter::new(SESSION);
    for entry in &entries {
        journal.push(0, entry);
    }
    let mut files = journal.files();
    let line = LedgerLine { flushed: 2, ..LedgerLine::read(&files[0], 0).unwrap() };
    files[0].splice(64..128, line.to_bytes());
    files[1][CHUNK_HEADER_BYTES + 40] ^= 1;
    let trace = read(&unfinished_file(&batches(&entries[..2], 1)), &files);
    assert_eq!(trace.losses.0, [Loss::Salvaged { events: 1, has_ended: false }]);
    assert_eq!(trace.allocations.len(), 3);
}

/// A file holds several chunks. One whose header is damaged costs its own records and no others.
#[test]
fn chunks_of_one_file_are_read_each_by_itself() {
    let entries = record(&three_allocations());
    let files = journal(&entries);
    assert_eq!(files.len(), 4, "a ledger and three chunks");
    let mut together = Vec::new();
    for chunk in &files[1..] {
        together.extend_from_slice(chunk);
        together.resize(together.len().next_multiple_of(CHUNK_BYTES), 0);
    }
    let mut two = [files[0].clone(), together];
    let found = read_journal(&slices(&two), SESSION).unwrap();
    assert_eq!(found, read_journal(&slices(&files), SESSION).unwrap());
    assert_eq!((found.entries.len(), found.lost), (entries.len(), 0));

    two[1][CHUNK_BYTES] ^= 1;
    let of_second = LedgerLine::read(&files[0], 1).unwrap().records;
    let found = read_journal(&slices(&two), SESSION).unwrap();
    assert_eq!(found.lost, u64::from(of_second));
    assert_eq!(found.entries.len(), entries.len() - of_second as usize);
}

#[test]
fn a_journal_without_its_ledger_is_read_and_reported() {
    let entries = record(&three_allocations());
    let trace = read(&unfinished_file(&[]), &journal(&entries)[1..]);
    assert_eq!(trace.allocations.len(), 3);
    assert!(trace.losses.0.contains(&Loss::LedgerDamaged), "{:?}", trace.losses);
}

/// The line of a chunk that was used before: only the records themselves show that it has records.
#[test]
fn a_ledger_of_zeros_is_reported() {
    let entries = record(&three_allocations());
    let mut files = journal(&entries);
    let mut line = LedgerLine::read(&files[0], 0).unwrap();
    line.first_ordinal = 0_u32.wrapping_sub(9);
    files[0][64..128].copy_from_slice(&line.to_bytes());
    assert!(shown(&read(&unfinished_file(&[]), &files))[0].starts_with("1 event is missing"));
    files[0][64..128].fill(0);
    let trace = read(&unfinished_file(&[]), &files);
    assert_eq!((trace.allocations.len(), trace.losses.events()), (3, 0));
}

#[test]
fn a_journal_of_another_version_is_an_error() {
    let entries = record(&three_allocations());
    let mut files = journal(&entries);
    files[0][7] = b'1';
    let error = floodmark_trace::read_trace(&unfinished_file(&[]), &slices(&files)).unwrap_err();
    assert!(matches!(error, ReadError::JournalVersion { found: '1' }), "{error}");
    assert!(floodmark_trace::read_trace(&finished_file(&[]), &slices(&files)).is_ok());
}

#[test]
fn a_lost_chunk_is_as_many_lost_events_as_it_had() {
    let entries: Vec<Entry> = record(&three_allocations());
    let mut files = journal(&entries);
    files.remove(2);
    let trace = read(&unfinished_file(&[]), &files);
    assert_eq!((trace.allocations.len(), trace.losses.events()), (2, 1));
}

#[test]
fn the_journal_of_another_recording_is_left_alone() {
    let entries = record(&three_allocations());
    let mut chunks = journal(&entries);
    for chunk in &mut chunks {
        chunk[8] ^= 1;
    }
    let trace = read(&unfinished_file(&batches(&entries[..1], 1)), &chunks);
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

/// The ending as read, with and without a state file.
#[test]
fn a_state_says_how_the_recording_ended() {
    let entries = record(&three_allocations());
    let file = unfinished_file(&batches(&entries[..1], 1));
    let mut files = journal(&entries);
    files.push(new_state(SESSION, 42, true).to_vec());
    let mut trace = read(&file, &files);
    let events = entries.len() as u64 - 1;
    assert_eq!(trace.outcome(), Outcome::Unfinished);
    assert_eq!(trace.losses.0, [Loss::Salvaged { events, has_ended: true }]);
    trace.note_running();
    assert_eq!(trace.outcome(), Outcome::Running);
    assert!(matches!(trace.losses.0[..], [Loss::StillRunning { .. }]), "{:?}", trace.losses);

    let note = StopNote { reason: "the disk is full".to_owned(), at_micros: 9_000_000 };
    let (length, rest) = note.to_bytes();
    let state = files.last_mut().unwrap();
    state[NOTE_OFFSET..][..rest.len()].copy_from_slice(&rest);
    state[NOTE_LENGTH_OFFSET..][..4].copy_from_slice(&length.to_le_bytes());
    let mut trace = read(&file, &files);
    trace.note_running();
    assert_eq!((trace.outcome(), trace.end()), (Outcome::StoppedEarly, Micros(9_000_000)));
    let reason = note.reason.clone();
    assert_eq!(trace.losses.0, [Loss::StoppedEarly { reason, at: Micros(9_000_000) }]);

    // Of another recording.
    files.last_mut().unwrap()[8] ^= 1;
    assert_eq!(read(&file, &files).losses.0, [Loss::Salvaged { events, has_ended: false }]);
}
