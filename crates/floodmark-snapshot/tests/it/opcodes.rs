//! Every opcode, in a pickle that is a snapshot only if the opcode was read correctly.

use floodmark_snapshot::{SnapshotError, read_snapshot};

/// A snapshot of one segment, whose size is the pickled `value`.
fn with_size(value: &[u8]) -> Vec<u8> {
    let mut pickle =
        b"\x80\x05}(\x8c\x08segments](}(\x8c\x07addressM\0\x10\x8c\x0atotal_size".to_vec();
    pickle.extend_from_slice(value);
    pickle.extend_from_slice(b"ueu.");
    pickle
}

fn reserved(pickle: &[u8]) -> Result<u64, SnapshotError> {
    read_snapshot(pickle).map(|trace| trace.totals[0].reserved.0)
}

#[test]
fn integers_are_read_in_every_encoding() {
    let cases: [(&[u8], u64); 16] = [
        (b"K\x07", 7),
        (b"M\x01\x02", 513),
        (b"J\x01\x02\x03\x04", 0x0403_0201),
        (b"J\xff\xff\xff\xff", 0),
        (b"\x8a\x00", 0),
        (b"\x8a\x02\xff\x00", 255),
        (b"\x8a\x09\x01\0\0\0\0\0\0\0\0", 1),
        (b"\x8b\x03\0\0\0\x01\x02\x03", 0x0003_0201),
        (b"I42\n", 42),
        (b"I42\r\n", 42),
        (b"I01\n", 1),
        (b"L42L\n", 42),
        (b"L-42L\n", 0),
        (b"\x88", 1),
        (b"\x89", 0),
        (b"N", 0),
    ];
    for (value, expected) in cases {
        assert_eq!(reserved(&with_size(value)).unwrap(), expected, "{value:?}");
    }
}

/// Each pickle uses an opcode and leaves one 7 on the stack.
#[test]
fn other_values_do_not_change_a_value() {
    let cases: [&[u8]; 38] = [
        b"K\x07q\x05h\x05",
        b"K\x070K\x07",
        b"K\x07(K\x011",
        b"K\x07(0",
        b"K\x07K\x010",
        b"K\x072" as &[u8],
        b"K\x07\x94" as &[u8],
        b"K\x07r\x05\0\0\0" as &[u8],
        b"K\x07p5\n",
        b"F1.5\n0K\x07",
        b"G\0\0\0\0\0\0\0\x000K\x07",
        b"S'text'\n0K\x07",
        b"S\"text\"\n0K\x07",
        b"Vt\\u00e9xt\n0K\x07",
        b"U\x04text0K\x07",
        b"T\x04\0\0\0text0K\x07",
        b"X\x04\0\0\0text0K\x07",
        b"\x8d\x04\0\0\0\0\0\0\0text0K\x07",
        b"\x8c\x04text0K\x07",
        b"C\x04text0K\x07",
        b"B\x04\0\0\0text0K\x07",
        b"\x8e\x04\0\0\0\0\0\0\0text0K\x07",
        b")0K\x07",
        b"K\x01\x850K\x07",
        b"K\x01K\x02\x860K\x07",
        b"K\x01K\x02K\x03\x870K\x07",
        b"(K\x01K\x02K\x03K\x04t0K\x07",
        b"(t0K\x07",
        b"]K\x01a0K\x07",
        b"](K\x01K\x02e0K\x07",
        b"(K\x01K\x02l0K\x07",
        b"(l0K\x07",
        b"}K\x01K\x02s0K\x07",
        b"}(K\x01K\x02u0K\x07",
        b"(K\x01K\x02d0K\x07",
        b"\x8f(K\x01K\x02\x900K\x07",
        b"(K\x01K\x02\x910K\x07",
        b"\x95\0\0\0\0\0\0\0\0\x80\x02K\x07",
    ];
    for value in cases {
        let mut value = value.to_vec();
        // DUP leaves two values: POP removes the second.
        if value.ends_with(b"2") {
            value.push(b'0');
        }
        // A get from the memo leaves two values too.
        if value.ends_with(b"h\x05") {
            value.push(b'0');
        }
        assert_eq!(reserved(&with_size(&value)).unwrap(), 7, "{value:?}");
    }
}

#[test]
fn memo_references_are_read_in_every_encoding() {
    let cases: [&[u8]; 4] = [
        b"K\x01\x94h\x00",
        b"\x8c\x01xq\x07h\x07",
        b"\x8c\x01xr\x07\x01\0\0j\x07\x01\0\0",
        b"\x8c\x01xp9\ng9\n",
    ];
    for value in cases {
        // The reference and its value are popped, and an integer follows.
        let value = [value, b"00K\x07"].concat();
        assert_eq!(reserved(&with_size(&value)).unwrap(), 7, "{value:?}");
    }
}

#[test]
fn opcodes_that_could_run_code_are_named() {
    let cases: [(&[u8], &str); 16] = [
        (b"cos\nsystem\n", "GLOBAL"),
        (b"\x8c\x02os\x8c\x06system\x93", "STACK_GLOBAL"),
        (b"(ios\nsystem\n", "INST"),
        (b"(o", "OBJ"),
        (b"))\x81", "NEWOBJ"),
        (b")))\x92", "NEWOBJ_EX"),
        (b"))R", "REDUCE"),
        (b"))b", "BUILD"),
        (b"\x82\x01", "EXT1"),
        (b"\x83\x01\0", "EXT2"),
        (b"\x84\x01\0\0\0", "EXT4"),
        (b"Pid\n", "PERSID"),
        (b")Q", "BINPERSID"),
        (b"\x96\0\0\0\0\0\0\0\0", "BYTEARRAY8"),
        (b"\x97", "NEXT_BUFFER"),
        (b"\x98", "READONLY_BUFFER"),
    ];
    for (value, name) in cases {
        let error = reserved(&with_size(value)).unwrap_err();
        let SnapshotError::AsksToRunCode { opcode, offset } = error else { panic!("{error:?}") };
        assert_eq!(opcode, name);
        assert!(offset >= 42, "{name} at {offset}");
    }
}

#[test]
fn a_lone_surrogate_is_part_of_a_string() {
    assert_eq!(reserved(&with_size(b"\x8c\x03\xed\xb3\xbf0K\x07")).unwrap(), 7);
}

#[test]
fn invalid_opcodes_are_named() {
    let cases: [(&[u8], &str); 14] = [
        (b"\xff", "byte 42 is no pickle opcode: 0xff"),
        (b"\x80\x09", "pickle protocol 9 is not known"),
        (b"Iseven\n", "opcode INT at byte 42 has an invalid argument"),
        (b"Lseven\n", "opcode LONG at byte 42 has an invalid argument"),
        (b"Fseven\n", "opcode FLOAT at byte 42 has an invalid argument"),
        (b"Sseven\n", "opcode STRING at byte 42 has an invalid argument"),
        (b"gseven\n", "opcode GET at byte 42 has an invalid argument"),
        (b"\x8c\x01\xff", "opcode SHORT_BINUNICODE at byte 42 has an invalid argument"),
        (b"\x8b\xff\xff\xff\xff", "opcode LONG4 at byte 42 has an invalid argument"),
        (b"T\xff\xff\xff\xff", "opcode BINSTRING at byte 42 has an invalid argument"),
        (b"h\x09", "byte 42 refers to memo 9, which is empty"),
        (b"(a", "opcode APPEND at byte 43 needs values that the stack does not have"),
        (b"K\x01K\x02a", "opcode APPEND at byte 46 has an invalid argument"),
        (b"K\x01K\x02K\x03s", "opcode SETITEM at byte 48 has an invalid argument"),
    ];
    for (value, message) in cases {
        assert_eq!(reserved(&with_size(value)).unwrap_err().to_string(), message);
    }
}
