//! `steps`: the peak of each step and its categories; `phases`: the peak of each phase of a step.

use floodmark_trace::{Bytes, Category};

use super::sheet::{Cell, Column, ColumnType, int, maybe_int, text};
use super::{Out, TableInput};
use crate::options::ExportError;
use crate::step_rows::step_rows;

const STEPS: &[Column] = &[
    ("step", ColumnType::Int),
    ("device", ColumnType::Text),
    ("ended_seconds", ColumnType::Real),
    ("peak", ColumnType::Int),
    ("allocated", ColumnType::Int),
    ("active", ColumnType::Int),
    ("reserved", ColumnType::Int),
    ("growth", ColumnType::Int),
    ("parameter", ColumnType::Int),
    ("buffer", ColumnType::Int),
    ("gradient", ColumnType::Int),
    ("optimizer_state", ColumnType::Int),
    ("activation", ColumnType::Int),
    ("input", ColumnType::Int),
    ("temporary", ColumnType::Int),
    ("workspace", ColumnType::Int),
    ("communication", ColumnType::Int),
    ("kv_cache", ColumnType::Int),
    ("unknown", ColumnType::Int),
];
const PHASES: &[Column] = &[
    ("step", ColumnType::Int),
    ("device", ColumnType::Text),
    ("phase", ColumnType::Text),
    ("peak", ColumnType::Int),
];

pub(super) fn write(input: &TableInput<'_>, out: &mut Out<'_>) -> Result<(), ExportError> {
    let mut sheet = out.table("steps", STEPS)?;
    let mut in_phases = Vec::new();
    for &device in &input.devices {
        let name = device.to_string();
        for row in step_rows(input.trace, device)? {
            let bytes = |bytes: Option<Bytes>| maybe_int(bytes.map(|bytes| bytes.0));
            let mut cells = vec![
                int(row.step.into()),
                text(&name),
                Cell::Real(row.ended_seconds),
                bytes(row.peak),
                bytes(row.allocated),
                bytes(row.active),
                bytes(row.reserved),
                Cell::Int(row.growth),
            ];
            let of = |category: &Category| row.categories.get(category.name()).copied();
            cells.extend(Category::ALL.iter().map(|one| int(of(one).unwrap_or_default().0)));
            sheet.row(&cells)?;
            let phases = row.phases.into_iter();
            in_phases.extend(phases.map(|(phase, peak)| (row.step, device, phase, peak)));
        }
    }
    sheet.finish()?;
    let mut sheet = out.table("phases", PHASES)?;
    for (step, device, phase, peak) in in_phases {
        let device = device.to_string();
        sheet.row(&[int(step.into()), text(&device), text(&phase), int(peak.0)])?;
    }
    sheet.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_has_a_column_of_its_name() {
        let columns: Vec<String> =
            STEPS[8..].iter().map(|(name, _)| name.replace('_', " ")).collect();
        let categories: Vec<String> =
            Category::ALL.iter().map(|category| category.name().to_lowercase()).collect();
        assert_eq!(columns, categories);
    }
}
