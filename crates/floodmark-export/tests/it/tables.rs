//! Tables, read again by the library that wrote them. Other engines read them in the tests of the Python package.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use floodmark_analysis::{Question, report};
use floodmark_export::{
    Coding, ExportError, Files, Options, write_ranks, write_tables, write_tensorboard,
};

use crate::{STEPS, on, trace};

/// Files that are kept in memory.
#[derive(Default)]
pub(crate) struct MemoryFiles(BTreeMap<String, Arc<Mutex<Vec<u8>>>>);

struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Files for MemoryFiles {
    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + Send>> {
        let bytes = Arc::default();
        let old = self.0.insert(name.to_owned(), Arc::clone(&bytes));
        assert!(old.is_none(), "{name} is written twice");
        Ok(Box::new(MemoryFile(bytes)))
    }
}

impl MemoryFiles {
    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        self.0[name].lock().unwrap().clone()
    }

    fn batches(&self, name: &str) -> Vec<arrow_array::RecordBatch> {
        let file = io::Cursor::new(self.bytes(name));
        let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
        reader.map(Result::unwrap).collect()
    }
}

fn tables(script: &str, options: &Options, coding: Coding) -> MemoryFiles {
    let mut files = MemoryFiles::default();
    let rows = write_tables(&trace(script), options, 3, coding, &mut files).unwrap();
    write_ranks(&rows, coding, &mut files).unwrap();
    files
}

#[test]
fn a_rank_is_a_folder() {
    let files = tables(STEPS, &Options::default(), Coding::Parquet);
    assert_eq!(
        files.names(),
        [
            "_ranks.parquet",
            "rank=3/allocations.parquet",
            "rank=3/events.parquet",
            "rank=3/frames.parquet",
            "rank=3/modules.parquet",
            "rank=3/phases.parquet",
            "rank=3/segments.parquet",
            "rank=3/stacks.parquet",
            "rank=3/steps.parquet",
        ]
    );
    for name in files.names() {
        let bytes = files.bytes(name);
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
    }
}

#[test]
fn live_allocations_at_the_peak_add_up_to_it() {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    let files = tables(STEPS, &on("cuda:0"), Coding::Arrow);
    let [batch] = &files.batches("rank=3/allocations.arrow")[..] else { panic!("one batch") };
    let bytes = batch.column_by_name("bytes").unwrap().as_primitive::<Int64Type>();
    let at_peak = batch.column_by_name("at_peak").unwrap().as_boolean();
    let sum: i64 = bytes
        .values()
        .iter()
        .zip(at_peak)
        .filter(|(_, is)| *is == Some(true))
        .map(|(b, _)| b)
        .sum();
    let question = Question { device: on("cuda:0").device, ..Question::default() };
    let peak = report(&trace(STEPS), &question).unwrap().allocated.0;
    assert_eq!(sum.cast_unsigned(), peak);
    let [ranks] = &files.batches("_ranks.arrow")[..] else { panic!("one batch") };
    let peaks = ranks.column_by_name("peak").unwrap().as_primitive::<Int64Type>();
    assert_eq!(peaks.values(), &[sum]);
}

#[test]
fn a_device_alone() {
    let mut files = MemoryFiles::default();
    let rows = write_tables(&trace(STEPS), &on("cpu"), 0, Coding::Arrow, &mut files).unwrap();
    assert_eq!(rows.len(), 1);
    let count: usize = files
        .batches("rank=0/allocations.arrow")
        .iter()
        .map(arrow_array::RecordBatch::num_rows)
        .sum();
    assert_eq!(count, 1);
    let error = write_tables(&trace(STEPS), &on("cuda:5"), 0, Coding::Arrow, &mut files);
    assert!(matches!(error, Err(ExportError::Question(_))));
}

#[test]
fn an_event_file_has_a_plain_name() {
    let mut files = MemoryFiles::default();
    write_tensorboard(&trace(STEPS), &Options::default(), "rank=3/", &mut files).unwrap();
    assert_eq!(files.names(), ["rank=3/events.out.tfevents.0000000000.host.0.floodmark"]);
}
