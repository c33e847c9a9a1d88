//! The rows of a report as an Arrow record batch: every column that the grouping has, with its type.
//!
//! The columns and their names are those of the report's JSON. What JSON has as an object within a row (frames, the
//! largest allocations, peaks of phases) is a list of structures here.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch,
    StringArray, StructArray, UInt32Array, UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use floodmark_analysis::{By, Detail, Frame, Report, Row, StepKind};
use floodmark_trace::Bytes;

/// A function from a row to one field of its grouping; `None` for a row of another grouping.
macro_rules! fact {
    ($kind:ident, $field:ident => $value:expr) => {
        |row: &Row| if let Detail::$kind { $field, .. } = &row.detail { $value } else { None }
    };
}
/// The rows of `report`, with a column for each field of its grouping.
pub fn report_columns(report: &Report) -> Result<RecordBatch, ArrowError> {
    let mut columns = Columns { rows: &report.rows, fields: Vec::new(), arrays: Vec::new() };
    columns.bytes("bytes", |row| Some(row.bytes));
    columns.bytes("cumulative", |row| Some(row.cumulative));
    columns.large("count", |row| Some(row.count));
    columns.bytes("median", |row| Some(row.median));
    columns.text("location", |row| Some(&row.location));
    match report.by {
        By::Line => columns.of_lines(),
        By::Stack => columns.of_stacks(),
        By::Module => columns.of_modules(),
        By::Op => columns.text("op", fact!(Op, op => op.as_deref())),
        By::OpCall => columns.of_op_calls(),
        By::Parameter => columns.of_parameters(),
        By::Phase => columns.of_phases(),
        By::Category => columns.of_categories(),
        By::Tensor => columns.of_tensors(),
        By::Step => columns.of_steps(),
        By::Segment => columns.of_segments(),
    }
    columns.finish()
}

struct Columns<'a> {
    rows: &'a [Row],
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl<'a> Columns<'a> {
    fn of_lines(&mut self) {
        self.text("file", fact!(Line, file => file.as_deref()));
        self.small("line", fact!(Line, line => *line));
        self.text("function", fact!(Line, function => function.as_deref()));
        self.text("module", fact!(Line, module => module.as_deref()));
        self.flag("backward", fact!(Line, backward => Some(*backward)));
    }

    fn of_stacks(&mut self) {
        self.frames();
        self.text("module", fact!(Stack, module => module.as_deref()));
        self.flag("backward", fact!(Stack, backward => Some(*backward)));
    }

    fn of_modules(&mut self) {
        self.bytes("own", fact!(Module, own => Some(*own)));
        self.small("depth", fact!(Module, depth => Some(*depth)));
        self.text("class_name", fact!(Module, class => class.as_deref()));
    }

    fn of_op_calls(&mut self) {
        self.small("call", fact!(OpCall, call => *call));
        self.text("op", fact!(OpCall, op => op.as_deref()));
        self.text("module", fact!(OpCall, module => module.as_deref()));
        self.small("step", fact!(OpCall, step => *step));
        self.text("phase", fact!(OpCall, phase => phase.as_deref()));
        self.time("seconds", fact!(OpCall, seconds => *seconds));
        self.bytes("peak", fact!(OpCall, peak => *peak));
        self.bytes("end", fact!(OpCall, end => *end));
        self.signed("growth", fact!(OpCall, growth => *growth));
    }

    fn of_parameters(&mut self) {
        self.text("parameter", fact!(Parameter, parameter => parameter.as_deref()));
        self.text("shape", fact!(Parameter, shape => shape.as_deref()));
        self.text("dtype", fact!(Parameter, dtype => dtype.as_deref()));
        self.bytes("weight", fact!(Parameter, weight => Some(*weight)));
        self.bytes("gradient", fact!(Parameter, gradient => Some(*gradient)));
        self.bytes("optimizer_state", fact!(Parameter, optimizer_state => Some(*optimizer_state)));
    }

    fn of_phases(&mut self) {
        self.text("phase", fact!(Phase, phase => phase.as_deref()));
        self.bytes("peak", fact!(Phase, peak => *peak));
        self.time("peak_seconds", fact!(Phase, peak_seconds => *peak_seconds));
    }

    fn of_categories(&mut self) {
        self.text("category", fact!(Category, category => Some(category)));
        self.bytes("peak", fact!(Category, peak => *peak));
        self.named_bytes("largest", ["location", "bytes"], |row| {
            let Detail::Category { largest, .. } = &row.detail else { return Vec::new() };
            largest.iter().map(|one| (one.location.as_str(), one.bytes)).collect()
        });
    }

    fn of_tensors(&mut self) {
        self.text("name", fact!(Tensor, name => name.as_deref()));
        self.text("shape", fact!(Tensor, shape => shape.as_deref()));
        self.text("dtype", fact!(Tensor, dtype => dtype.as_deref()));
        self.text("category", fact!(Tensor, category => Some(category)));
        self.text("module", fact!(Tensor, module => module.as_deref()));
        self.small("step", fact!(Tensor, step => *step));
        self.text("phase", fact!(Tensor, phase => phase.as_deref()));
        self.time("allocated_seconds", fact!(Tensor, allocated_seconds => *allocated_seconds));
        self.time("saved_seconds", fact!(Tensor, saved_seconds => *saved_seconds));
        self.time("last_use_seconds", fact!(Tensor, last_use_seconds => *last_use_seconds));
        self.time("freed_seconds", fact!(Tensor, freed_seconds => *freed_seconds));
    }

    fn of_steps(&mut self) {
        self.small("step", fact!(Step, step => *step));
        self.text("kind", fact!(Step, kind => kind.map(StepKind::name)));
        self.flag("is_finished", fact!(Step, is_finished => *is_finished));
        self.bytes("peak", fact!(Step, peak => *peak));
        self.bytes("end", fact!(Step, end => *end));
        self.signed("growth", fact!(Step, growth => *growth));
        self.bytes("reserved", fact!(Step, reserved => *reserved));
        self.named_bytes("phases", ["phase", "peak"], |row| {
            let Detail::Step { phases, .. } = &row.detail else { return Vec::new() };
            phases.iter().map(|(name, &peak)| (name.as_str(), peak)).collect()
        });
        self.named_bytes("categories", ["category", "bytes"], |row| {
            let Detail::Step { categories, .. } = &row.detail else { return Vec::new() };
            categories.iter().map(|(name, &bytes)| (*name, bytes)).collect()
        });
    }

    fn of_segments(&mut self) {
        self.large("address", fact!(Segment, address => Some(*address)));
        self.bytes("segment", fact!(Segment, segment => Some(*segment)));
        self.bytes("pending_free", fact!(Segment, pending_free => Some(*pending_free)));
        self.bytes("free", fact!(Segment, free => Some(*free)));
        self.bytes("largest_free", fact!(Segment, largest_free => Some(*largest_free)));
        self.text("picture", fact!(Segment, picture => Some(picture)));
    }

    fn bytes(&mut self, name: &str, of: impl Fn(&'a Row) -> Option<Bytes>) {
        self.large(name, |row| of(row).map(|bytes| bytes.0));
    }

    fn large(&mut self, name: &str, of: impl Fn(&'a Row) -> Option<u64>) {
        let values: UInt64Array = self.rows.iter().map(of).collect();
        self.push(name, DataType::UInt64, Arc::new(values));
    }

    fn signed(&mut self, name: &str, of: impl Fn(&'a Row) -> Option<i64>) {
        let values: Int64Array = self.rows.iter().map(of).collect();
        self.push(name, DataType::Int64, Arc::new(values));
    }

    fn small(&mut self, name: &str, of: impl Fn(&'a Row) -> Option<u32>) {
        let values: UInt32Array = self.rows.iter().map(of).collect();
        self.push(name, DataType::UInt32, Arc::new(values));
    }

    fn time(&mut self, name: &str, of: impl Fn(&'a Row) -> Option<f64>) {
        let values: Float64Array = self.rows.iter().map(of).collect();
        self.push(name, DataType::Float64, Arc::new(values));
    }

    fn text(&mut self, name: &str, of: impl Fn(&'a Row) -> Option<&'a str>) {
        let values: StringArray = self.rows.iter().map(of).collect();
        self.push(name, DataType::Utf8, Arc::new(values));
    }

    fn flag(&mut self, name: &str, of: impl Fn(&'a Row) -> Option<bool>) {
        let values: BooleanArray = self.rows.iter().map(of).collect();
        self.push(name, DataType::Boolean, Arc::new(values));
    }

    fn frames(&mut self) {
        let of = |row: &'a Row| -> &'a [Frame] {
            if let Detail::Stack { frames, .. } = &row.detail { frames } else { &[] }
        };
        let all = || self.rows.iter().flat_map(of);
        let parts = vec![
            text_part("file", all().map(|frame| frame.file.as_str()).collect()),
            (
                part("line", DataType::UInt32),
                Arc::new(all().map(|frame| Some(frame.line)).collect::<UInt32Array>()) as ArrayRef,
            ),
            text_part("function", all().map(|frame| frame.function.as_str()).collect()),
        ];
        let lengths = self.rows.iter().map(|row| of(row).len()).collect();
        self.lists("frames", parts, lengths);
    }

    /// A list of names with their bytes.
    fn named_bytes(
        &mut self,
        name: &str,
        names: [&str; 2],
        of: impl Fn(&'a Row) -> Vec<(&'a str, Bytes)>,
    ) {
        let lists: Vec<Vec<(&str, Bytes)>> = self.rows.iter().map(of).collect();
        let all = || lists.iter().flatten();
        let bytes: UInt64Array = all().map(|(_, bytes)| Some(bytes.0)).collect();
        let parts = vec![
            text_part(names[0], all().map(|(name, _)| *name).collect()),
            (part(names[1], DataType::UInt64), Arc::new(bytes) as ArrayRef),
        ];
        let lengths = lists.iter().map(Vec::len).collect();
        self.lists(name, parts, lengths);
    }

    /// A column of lists, whose elements are concatenated in `parts`.
    fn lists(&mut self, name: &str, parts: Vec<(Arc<Field>, ArrayRef)>, lengths: Vec<usize>) {
        let elements = StructArray::from(parts);
        let element = Arc::new(Field::new("item", elements.data_type().clone(), false));
        let lists =
            ListArray::new(element, OffsetBuffer::from_lengths(lengths), Arc::new(elements), None);
        self.push(name, lists.data_type().clone(), Arc::new(lists));
    }

    fn push(&mut self, name: &str, kind: DataType, array: ArrayRef) {
        self.fields.push(Field::new(name, kind, true));
        self.arrays.push(array);
    }

    fn finish(self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)
    }
}

fn part(name: &str, kind: DataType) -> Arc<Field> {
    Arc::new(Field::new(name, kind, false))
}

fn text_part(name: &str, texts: Vec<&str>) -> (Arc<Field>, ArrayRef) {
    (part(name, DataType::Utf8), Arc::new(StringArray::from(texts)))
}
