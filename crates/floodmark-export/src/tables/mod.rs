//! A trace as tables, for engines that answer questions in SQL: Parquet, or Arrow's own files.
//!
//! One folder for each rank (`rank=3/events.parquet`, …), as Hive names partitions: DuckDB, Polars, Spark and pyarrow
//! make a column `rank` of it and read a thousand ranks as one table. `_ranks` has a row for each rank and device, so that
//! most questions open no other file; engines that read whole folders leave names with `_` aside.
//!
//! Every table is a file here: its columns, and how a row of it comes to be. `sheet.rs` gathers rows into batches,
//! `coding.rs` writes the two formats. Rows are in the order of time. All numbers are signed, because Spark has no others.

mod allocations;
mod coding;
mod events;
mod ranks;
mod segments;
mod sheet;
mod stacks;
mod steps;

pub use coding::Coding;
pub use ranks::RankRow;

use floodmark_analysis::Context;
use floodmark_trace::{Device, Trace};

use crate::files::Files;
use crate::options::{ExportError, Options, chosen_devices};
use coding::Table;
use sheet::{Column, Sheet};

/// The input of every table.
struct Source<'a> {
    trace: &'a Trace,
    context: Context,
    /// Of which devices.
    devices: Vec<Device>,
    most_events: usize,
}

impl Source<'_> {
    fn has(&self, device: Device) -> bool {
        self.devices.contains(&device)
    }
}

/// The files of one rank, and where they go.
struct Out<'a> {
    folder: String,
    coding: Coding,
    files: &'a mut dyn Files,
}

impl Out<'_> {
    fn table(&mut self, name: &str, columns: &'static [Column]) -> Result<Sheet, ExportError> {
        let name = format!("{}{name}.{}", self.folder, self.coding.ending());
        let table = Table::new(self.coding, columns, self.files.create(&name)?)?;
        Ok(Sheet::new(table, columns))
    }
}

/// Writes the tables of one rank, and returns its rows of the summary.
pub fn write_tables(
    trace: &Trace,
    options: &Options,
    rank: u32,
    coding: Coding,
    files: &mut dyn Files,
) -> Result<Vec<RankRow>, ExportError> {
    let source = Source {
        trace,
        context: Context::new(trace),
        devices: chosen_devices(trace, options.device)?,
        most_events: options.max_events.unwrap_or(usize::MAX),
    };
    let rows = ranks::rows(&source, rank);
    let mut out = Out { folder: format!("rank={rank}/"), coding, files };
    events::write(&source, &mut out)?;
    allocations::write(&source, &rows, &mut out)?;
    stacks::write(&source, &mut out)?;
    segments::write(&source, &mut out)?;
    steps::write(&source, &mut out)?;
    Ok(rows)
}

/// Writes the summary of all ranks.
pub fn write_ranks(
    rows: &[RankRow],
    coding: Coding,
    files: &mut dyn Files,
) -> Result<(), ExportError> {
    ranks::write(rows, &mut Out { folder: String::new(), coding, files })
}
