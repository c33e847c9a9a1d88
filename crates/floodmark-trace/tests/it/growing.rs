//! Reading a growing file gives the same trace as reading it at once.

use floodmark_trace::{GrowingReader, ReadError, Trace, read_trace};
use proptest::prelude::*;

use crate::recording::{any_program, batches, finished_file, journal, record, unfinished_file};

fn shown(trace: &Result<Trace, ReadError>) -> String {
    format!("{trace:?}")
}

/// Passes the unread part of the first `end` bytes to a reader.
fn take(reader: &mut GrowingReader, file: &[u8], end: usize) -> Result<(), ReadError> {
    reader.take(&file[usize::try_from(reader.taken()).unwrap()..end])
}

proptest! {
    /// For reads that end anywhere, also inside a frame.
    #[test]
    fn every_read_gives_the_trace_of_a_new_reader(
        program in any_program(),
        flush in 1..40_usize,
        looks in prop::collection::vec(0.0..1.0_f64, 0..12),
        written in 0..80_usize,
    ) {
        let entries = record(&program);
        let written = written.min(entries.len());
        let file = if written == entries.len() {
            finished_file(&batches(&entries, flush))
        } else {
            unfinished_file(&batches(&entries[..written], flush))
        };
        let segments = journal(&entries[written..]);
        let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a small file")]
        let mut ends: Vec<usize> = looks.iter().map(|look| (look * file.len() as f64) as usize).collect();
        ends.push(file.len());
        ends.sort_unstable();
        let mut reader = GrowingReader::default();
        for end in ends {
            let looked = take(&mut reader, &file, end).and_then(|()| reader.trace(&segments));
            let anew = read_trace(&file[..end], &segments);
            prop_assert_eq!(shown(&looked), shown(&anew));
        }
    }

    /// Damage is reported as in a whole file, once later bytes are written.
    #[test]
    fn damage_is_reported_in_the_end(program in any_program(), place in 8..4000_usize, look in 8..4000_usize) {
        let mut file = finished_file(&batches(&record(&program), 7));
        let place = place % file.len();
        file[place] ^= 0x55;
        let mut reader = GrowingReader::default();
        let _ = take(&mut reader, &file, look.min(file.len()));
        let whole = take(&mut reader, &file, file.len()).and_then(|()| reader.trace(&[]));
        prop_assert_eq!(shown(&whole), shown(&read_trace(&file, &[])));
    }
}

#[test]
fn nothing_is_taken_twice() {
    let file = finished_file(&[]);
    let mut reader = GrowingReader::default();
    take(&mut reader, &file, file.len()).unwrap();
    assert_eq!(reader.taken(), file.len() as u64);
    take(&mut reader, &file, file.len()).unwrap();
    assert!(reader.trace(&[]).unwrap().ending.is_some());
}
