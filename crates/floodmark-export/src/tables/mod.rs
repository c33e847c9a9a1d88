//! A trace as tables, for engines that answer questions in SQL: Parquet, or Arrow's own files.
//!
//! Each rank has a folder (`rank=3/events.parquet`, …), named as a partition in Hive. DuckDB, Polars, Spark and pyarrow make a
//! column `rank` of it and read a thousand ranks as one table. `_ranks` has a row for each rank and device, which answers most
//! questions. Engines that read whole folders ignore names with `_`.
//!
//! Each table has a file here, with its columns and its rows. `sheet.rs` collects rows into batches, `coding.rs` writes the two
//! formats. Rows are in the order of time. All numbers are signed, because Spark has no unsigned ones.

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
struct TableInput<'a> {
    trace: &'a Trace,
    context: Context,
    /// The exported devices.
    devices: Vec<Device>,
    most_events: usize,
}

impl TableInput<'_> {
    fn has(&self, device: Device) -> bool {
        self.devices.contains(&device)
    }
}

/// The output of one rank.
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
    let input = TableInput {
        trace,
        context: Context::new(trace),
        devices: chosen_devices(trace, options.device)?,
        most_events: options.max_events.unwrap_or(usize::MAX),
    };
    let rows = ranks::rows(&input, rank);
    let mut out = Out { folder: format!("rank={rank}/"), coding, files };
    events::write(&input, &mut out)?;
    allocations::write(&input, &rows, &mut out)?;
    stacks::write(&input, &mut out)?;
    segments::write(&input, &mut out)?;
    steps::write(&input, &mut out)?;
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
