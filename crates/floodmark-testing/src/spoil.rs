//! Wrong values in files with correct checksums: values of a batch are replaced before it is written.

use floodmark_trace::{
    AllocationId, Batch, Bytes, Category, Device, EventKind, Micros, TextKind, Total,
};

/// Values at the limits of ids, counts and sizes.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    127,
    128,
    255,
    32_767,
    65_535,
    1 << 20,
    1 << 31,
    (1 << 32) - 2,
    (1 << 32) - 1,
    1 << 40,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Replaces one value of one row, or of the checkpoint. `choose(n)` returns a number below `n`.
pub fn spoil(batch: &mut Batch, choose: &mut dyn FnMut(usize) -> usize) {
    match choose(10) {
        0..=3 => spoil_row(batch, choose),
        4 | 5 => spoil_stack(batch, choose),
        6 => spoil_code(batch, choose),
        7 => spoil_module(batch, choose),
        8 => spoil_name(batch, choose),
        _ => spoil_checkpoint(batch, choose),
    }
}

fn number(old: u64, choose: &mut dyn FnMut(usize) -> usize) -> u64 {
    match choose(4) {
        0 => old ^ 1 << choose(64),
        1 => old.wrapping_add(1),
        2 => old.wrapping_sub(1),
        _ => EDGES[choose(EDGES.len())],
    }
}

#[expect(clippy::cast_possible_truncation, reason = "any number of that width will do")]
fn number_u32(old: u32, choose: &mut dyn FnMut(usize) -> usize) -> u32 {
    number(u64::from(old), choose) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "any number of that width will do")]
fn number_u16(old: u16, choose: &mut dyn FnMut(usize) -> usize) -> u16 {
    number(u64::from(old), choose) as u16
}

fn device(choose: &mut dyn FnMut(usize) -> usize) -> Device {
    let [kind, index] = number_u16(1, choose).to_le_bytes();
    Device { kind: kind.cast_signed(), index: index.cast_signed() }
}

fn text(choose: &mut dyn FnMut(usize) -> usize) -> String {
    const NAMES: [&str; 9] =
        ["", ".", "a.b", "a.", "\u{1b}]0;x\u{7}", "\u{202e}", "x.<y>", "<", "my.Net"];
    match choose(NAMES.len() + 1) {
        0 => "x".repeat(70_000),
        name => NAMES[name - 1].to_owned(),
    }
}

fn one<'a, T>(rows: &'a mut [T], choose: &mut dyn FnMut(usize) -> usize) -> Option<&'a mut T> {
    let count = rows.len();
    if count == 0 { None } else { rows.get_mut(choose(count)) }
}

fn spoil_row(batch: &mut Batch, choose: &mut dyn FnMut(usize) -> usize) {
    let Some(row) = one(&mut batch.rows, choose) else { return };
    match choose(13) {
        0 => row.kind = EventKind::ALL[choose(EventKind::ALL.len())],
        1 => row.device = device(choose),
        2 => row.thread = number_u16(row.thread, choose),
        3 => row.time = Micros(number(row.time.0, choose)),
        4 => row.addr = number(row.addr, choose),
        5 => row.bytes = number(row.bytes, choose),
        6 => row.slack = number(row.slack, choose),
        7 => row.stack = number_u32(row.stack, choose),
        8 => row.allocation = AllocationId(number_u32(row.allocation.0, choose)),
        9 => row.op = number_u32(row.op, choose),
        10 => row.phase = number_u32(row.phase, choose),
        11 => row.stream = number_u16(row.stream, choose),
        _ => row.pool = number_u16(row.pool, choose),
    }
}

fn spoil_stack(batch: &mut Batch, choose: &mut dyn FnMut(usize) -> usize) {
    let Some(row) = one(&mut batch.stacks, choose) else { return };
    match choose(5) {
        0 => row.id = number_u32(row.id, choose),
        1 => row.parent = number_u32(row.parent, choose),
        2 => row.code = number_u32(row.code, choose),
        3 => row.module = number_u32(row.module, choose),
        _ => row.line = number_u32(row.line, choose),
    }
}

fn spoil_code(batch: &mut Batch, choose: &mut dyn FnMut(usize) -> usize) {
    let Some(row) = one(&mut batch.codes, choose) else { return };
    match choose(4) {
        0 => row.id = number_u32(row.id, choose),
        1 => row.first_line = number_u32(row.first_line, choose),
        2 => row.file = text(choose),
        _ => row.name = text(choose),
    }
}

fn spoil_module(batch: &mut Batch, choose: &mut dyn FnMut(usize) -> usize) {
    let Some(row) = one(&mut batch.modules, choose) else { return };
    match choose(4) {
        0 => row.id = number_u32(row.id, choose),
        1 => row.root = number_u32(row.root, choose),
        2 => row.class = text(choose),
        _ => row.name = text(choose),
    }
}

fn spoil_name(batch: &mut Batch, choose: &mut dyn FnMut(usize) -> usize) {
    if choose(2) == 0 {
        let Some(row) = one(&mut batch.texts, choose) else { return };
        match choose(3) {
            0 => row.id = number_u32(row.id, choose),
            1 => row.kind = TextKind::ALL[choose(TextKind::ALL.len())],
            _ => row.text = text(choose),
        }
    } else {
        let Some(row) = one(&mut batch.labels, choose) else { return };
        match choose(5) {
            0 => row.id = number_u32(row.id, choose),
            1 => row.category = Category::ALL[choose(Category::ALL.len())],
            2 => row.name = text(choose),
            3 => row.shape = text(choose),
            _ => row.dtype = text(choose),
        }
    }
}

fn spoil_checkpoint(batch: &mut Batch, choose: &mut dyn FnMut(usize) -> usize) {
    match choose(4) {
        0 => batch.first_allocation = number_u32(batch.first_allocation, choose),
        1 => batch.start = Micros(number(batch.start.0, choose)),
        2 => batch.through_nanos = number(batch.through_nanos, choose),
        _ => batch.totals.push(Total {
            device: device(choose),
            allocated: Bytes(number(0, choose)),
            reserved: Bytes(number(0, choose)),
        }),
    }
}
