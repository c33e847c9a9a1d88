//! Collects rows into batches of columns.

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int32Builder, Int64Builder, ListBuilder, StringBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::coding::Table;
use crate::options::ExportError;

/// A batch is written when it has this number of rows.
const BATCH_ROWS: usize = 1 << 15;
/// A batch is also written when it has this many bytes of text: a column of a batch must stay below 2 GiB.
const BATCH_TEXT_BYTES: usize = 64 << 20;

/// The type of a column. Every column may have nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Int,
    Real,
    Flag,
    Text,
    Ints,
}

/// The name and the type of a column.
pub(super) type Column = (&'static str, ColumnType);

/// One cell of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    Int(Option<i64>),
    Real(Option<f64>),
    Flag(Option<bool>),
    Text(Option<&'a str>),
    Ints(&'a [i32]),
}

/// An integer. No count of bytes or events is near the limit of 63 bits.
pub(super) fn int(number: u64) -> Cell<'static> {
    Cell::Int(Some(number.cast_signed()))
}

/// An integer that may be unknown.
pub(super) fn maybe_int(number: Option<u64>) -> Cell<'static> {
    Cell::Int(number.map(u64::cast_signed))
}

/// A text. An empty text becomes null.
pub(super) fn text(text: &str) -> Cell<'_> {
    Cell::Text((!text.is_empty()).then_some(text))
}

/// A text that may be missing.
pub(super) fn maybe_text(found: Option<&str>) -> Cell<'_> {
    text(found.unwrap_or_default())
}

/// A boolean.
pub(super) fn flag(value: bool) -> Cell<'static> {
    Cell::Flag(Some(value))
}

#[derive(Debug)]
enum Builder {
    Int(Int64Builder),
    Real(Float64Builder),
    Flag(BooleanBuilder),
    Text(StringBuilder),
    Ints(ListBuilder<Int32Builder>),
}

impl Builder {
    fn new(kind: ColumnType) -> Self {
        match kind {
            ColumnType::Int => Self::Int(Int64Builder::new()),
            ColumnType::Real => Self::Real(Float64Builder::new()),
            ColumnType::Flag => Self::Flag(BooleanBuilder::new()),
            ColumnType::Text => Self::Text(StringBuilder::new()),
            ColumnType::Ints => Self::Ints(ListBuilder::new(Int32Builder::new())),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::Real(builder) => Arc::new(builder.finish()),
            Self::Flag(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Ints(builder) => Arc::new(builder.finish()),
        }
    }
}

/// The columns of a table, as Arrow describes them.
pub(super) fn schema(columns: &[Column]) -> SchemaRef {
    let field = |&(name, kind): &Column| {
        let data = match kind {
            ColumnType::Int => DataType::Int64,
            ColumnType::Real => DataType::Float64,
            ColumnType::Flag => DataType::Boolean,
            ColumnType::Text => DataType::Utf8,
            ColumnType::Ints => DataType::new_list(DataType::Int32, true),
        };
        Field::new(name, data, true)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// A table to which rows are added.
pub(super) struct Sheet {
    table: Table,
    schema: SchemaRef,
    builders: Vec<Builder>,
    rows: usize,
    text_bytes: usize,
}

impl Sheet {
    pub(super) fn new(table: Table, columns: &[Column]) -> Self {
        let builders = columns.iter().map(|&(_, kind)| Builder::new(kind)).collect();
        Self { table, schema: schema(columns), builders, rows: 0, text_bytes: 0 }
    }

    /// Adds a row; its cells are those of the columns, in order.
    pub(super) fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), ExportError> {
        debug_assert_eq!(cells.len(), self.builders.len());
        for (builder, cell) in self.builders.iter_mut().zip(cells) {
            match (builder, *cell) {
                (Builder::Int(builder), Cell::Int(value)) => builder.append_option(value),
                (Builder::Real(builder), Cell::Real(value)) => builder.append_option(value),
                (Builder::Flag(builder), Cell::Flag(value)) => builder.append_option(value),
                (Builder::Text(builder), Cell::Text(value)) => {
                    self.text_bytes += value.map_or(0, str::len);
                    builder.append_option(value);
                }
                (Builder::Ints(builder), Cell::Ints(values)) => {
                    builder.append_value(values.iter().copied().map(Some));
                }
                (builder, cell) => unreachable!("{cell:?} is no cell of {builder:?}"),
            }
        }
        self.rows += 1;
        if self.rows == BATCH_ROWS || self.text_bytes >= BATCH_TEXT_BYTES {
            self.write_batch()?;
        }
        Ok(())
    }

    fn write_batch(&mut self) -> Result<(), ExportError> {
        let columns = self.builders.iter_mut().map(Builder::finish).collect();
        (self.rows, self.text_bytes) = (0, 0);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .expect("every row has a cell of each column");
        self.table.write(&batch)
    }

    /// Writes the rest, and ends the file.
    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        if self.rows > 0 {
            self.write_batch()?;
        }
        self.table.finish()
    }
}
