//! Which line an instruction belongs to: CPython's line tables.
//!
//! Follows `Objects/lnotab_notes.txt` (3.10) and `Objects/locations.md` (3.11 and later).

/// The line of the instruction at byte `offset` of the code, from the table of 3.11 and later.
pub(crate) fn line_at(table: &[u8], first_line: u32, offset: usize) -> u32 {
    let mut bytes = table.iter().copied().peekable();
    let mut line = i64::from(first_line);
    let mut end = 0;
    let mut last = line;
    while let Some(head) = bytes.next() {
        let (code, units) = ((head >> 3) & 15, (head & 7) + 1);
        let mut has_line = true;
        match code {
            // Short and one-line forms carry columns in one or two more bytes.
            0..=9 => {}
            10..=12 => line += i64::from(code - 10),
            13 | 14 => line += signed_varint(&mut bytes),
            _ => has_line = false,
        }
        // Every entry begins with a byte whose top bit is set; no other byte has it.
        while bytes.next_if(|byte| byte & 0x80 == 0).is_some() {}
        if has_line {
            last = line;
        }
        end += usize::from(units) * 2;
        if offset < end {
            break;
        }
    }
    u32::try_from(last).unwrap_or(first_line)
}

fn signed_varint(bytes: &mut impl Iterator<Item = u8>) -> i64 {
    let mut value = 0_i64;
    let mut shift = 0;
    for byte in bytes {
        value |= i64::from(byte & 63) << shift;
        shift += 6;
        if byte & 64 == 0 || shift > 36 {
            break;
        }
    }
    if value & 1 == 1 { -(value >> 1) } else { value >> 1 }
}

/// The same for 3.10: pairs of a bytecode and a line delta; a delta of −128 means no line.
pub(crate) fn line_at_310(table: &[u8], first_line: u32, offset: usize) -> u32 {
    let mut line = i64::from(first_line);
    let mut last = line;
    let mut end = 0;
    for pair in table.chunks_exact(2) {
        end += usize::from(pair[0]);
        let delta = pair[1].cast_signed();
        if delta != -128 {
            line += i64::from(delta);
            last = line;
        }
        if offset < end {
            break;
        }
    }
    u32::try_from(last).unwrap_or(first_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_every_form_are_followed() {
        // RESUME: one unit, no columns, delta 0; then delta +2 in long form; then one-line +1.
        let table = [0xe8, 0, 0xf0 | 1, 4, 0, 0, 0, 0x80 | (11 << 3) | 1, 0, 5];
        assert_eq!([0, 2, 5, 6, 9].map(|at| line_at(&table, 10, at)), [10, 12, 12, 13, 13]);
    }

    #[test]
    fn the_old_table_is_followed() {
        let table = [4, 1, 6, 0x80, 2, 2];
        assert_eq!([0, 4, 10].map(|at| line_at_310(&table, 5, at)), [6, 6, 8]);
    }
}
