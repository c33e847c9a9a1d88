//! The two formats of tables: Parquet, and Arrow's IPC files. Both are compressed with zstd.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::WriterProperties;

use super::sheet::{Column, schema};
use crate::options::ExportError;

/// The size of a row group. Engines skip row groups outside the queried range of time.
const GROUP_ROWS: usize = 1 << 18;

/// The format of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Parquet: small, for engines.
    Parquet,
    /// Arrow's IPC files, which engines map into memory.
    Arrow,
}

impl Coding {
    /// The ending of its files.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }
}

type Sink = Box<dyn Write + Send>;

/// A file to which batches are written.
pub(super) enum Table {
    Parquet(Box<ArrowWriter<Sink>>),
    Arrow(Box<FileWriter<Sink>>),
}

impl Table {
    pub(super) fn new(coding: Coding, columns: &[Column], out: Sink) -> Result<Self, ExportError> {
        let schema = schema(columns);
        Ok(match coding {
            Coding::Parquet => {
                let options = ArrowWriterOptions::new()
                    .with_properties(properties())
                    .with_skip_arrow_metadata(true);
                let writer = ArrowWriter::try_new_with_options(out, schema, options);
                Self::Parquet(Box::new(writer.map_err(io::Error::from)?))
            }
            Coding::Arrow => {
                let options = IpcWriteOptions::default()
                    .try_with_compression(Some(CompressionType::ZSTD))
                    .map_err(io::Error::other)?;
                let writer = FileWriter::try_new_with_options(out, &schema, options);
                Self::Arrow(Box::new(writer.map_err(io::Error::other)?))
            }
        })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        match self {
            Self::Parquet(writer) => writer.write(batch).map_err(io::Error::from)?,
            Self::Arrow(writer) => writer.write(batch).map_err(io::Error::other)?,
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), ExportError> {
        let mut out = match self {
            Self::Parquet(writer) => writer.into_inner().map_err(io::Error::from)?,
            Self::Arrow(writer) => writer.into_inner().map_err(io::Error::other)?,
        };
        Ok(out.flush()?)
    }
}

fn properties() -> WriterProperties {
    // The rows of every table are sorted by its first column.
    let sorting = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
    WriterProperties::builder()
        .set_created_by(concat!("floodmark ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_sorting_columns(Some(vec![sorting]))
        .build()
}
