//! `stacks`, `frames` and `modules`: the locations in the program.
//!
//! A row of `stacks` has the list of its frames' numbers, innermost first. Only stacks of allocations, segments and failed
//! requests have a row: a call tree has many more nodes.

use std::collections::BTreeMap;

use floodmark_trace::{CodeId, StackId, Trace, stack_flags};
use hashbrown::HashMap;

use super::sheet::{Cell, Column, ColumnType, flag, int, maybe_text, text};
use super::{Out, TableInput};
use crate::options::ExportError;

const STACKS: &[Column] = &[
    ("stack", ColumnType::Int),
    ("depth", ColumnType::Int),
    ("module", ColumnType::Text),
    ("frames", ColumnType::Ints),
];
const FRAMES: &[Column] = &[
    ("frame", ColumnType::Int),
    ("file", ColumnType::Text),
    ("line", ColumnType::Int),
    ("function", ColumnType::Text),
    ("is_torch", ColumnType::Flag),
];
const MODULES: &[Column] = &[("module", ColumnType::Text), ("class", ColumnType::Text)];

/// A function and a line of it.
type Frame = (CodeId, u32);

pub(super) fn write(input: &TableInput<'_>, out: &mut Out<'_>) -> Result<(), ExportError> {
    let trace = input.trace;
    let mut numbers: HashMap<Frame, i32> = HashMap::new();
    let mut frames: Vec<(Frame, bool)> = Vec::new();
    let mut modules: BTreeMap<&str, &str> = BTreeMap::new();
    let mut sheet = out.table("stacks", STACKS)?;
    let mut of_stack = Vec::new();
    for id in used(input) {
        of_stack.clear();
        for (_, node) in trace.frames(id).filter(|(_, node)| trace.code(node.code).is_some()) {
            let frame = (node.code, node.line);
            let is_torch = node.flags & stack_flags::LIBRARY != 0;
            of_stack.push(*numbers.entry(frame).or_insert_with(|| {
                frames.push((frame, is_torch));
                i32::try_from(frames.len() - 1).unwrap_or(i32::MAX)
            }));
        }
        let module = trace.module_path(id);
        if let Some(path) = module {
            modules.entry(path).or_insert_with(|| trace.module_class(id).unwrap_or_default());
        }
        sheet.row(&[
            int(id.0.into()),
            int(of_stack.len() as u64),
            maybe_text(module),
            Cell::Ints(&of_stack),
        ])?;
    }
    sheet.finish()?;
    write_frames(trace, &frames, out)?;
    let mut sheet = out.table("modules", MODULES)?;
    for (path, class) in modules {
        sheet.row(&[Cell::Text(Some(path)), text(class)])?;
    }
    sheet.finish()
}

fn write_frames(
    trace: &Trace,
    frames: &[(Frame, bool)],
    out: &mut Out<'_>,
) -> Result<(), ExportError> {
    let mut sheet = out.table("frames", FRAMES)?;
    for (number, &((code, line), is_torch)) in (0_u64..).zip(frames) {
        let Some(code) = trace.code(code) else { continue };
        sheet.row(&[
            int(number),
            text(&code.file),
            int(line.into()),
            text(&code.name),
            flag(is_torch),
        ])?;
    }
    sheet.finish()
}

/// The stacks of allocations, segments and failed requests.
fn used(input: &TableInput<'_>) -> Vec<StackId> {
    let trace = input.trace;
    let mut is_used = vec![false; trace.stack_count()];
    let of_allocations = trace.allocations.iter().filter(|one| input.has(one.device));
    let all = of_allocations
        .map(|allocation| allocation.stack)
        .chain(trace.segments.iter().map(|segment| segment.stack))
        .chain(trace.ooms.iter().map(|oom| oom.stack));
    for id in all {
        if let Some(found) = is_used.get_mut(id.index()) {
            *found = true;
        }
    }
    let ids = (0_u32..).map(StackId).zip(is_used);
    ids.filter(|&(_, is_used)| is_used).map(|(id, _)| id).collect()
}
