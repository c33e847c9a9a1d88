//! Hostile pickles.

use floodmark_snapshot::{SnapshotError, read_snapshot};
use proptest::prelude::*;

use crate::sample::snapshot;

#[test]
fn a_length_allocates_nothing_before_its_bytes_are_read() {
    let huge = (1_u64 << 60).to_le_bytes();
    for opcode in [0x8d_u8, 0x8e] {
        let pickle = [b"\x80\x04".as_slice(), &[opcode], &huge, b"abc"].concat();
        assert!(matches!(read_snapshot(&pickle), Err(SnapshotError::Truncated { offset: 14 })));
    }
    for opcode in [b'X', b'B', b'T', 0x8b] {
        let pickle = [b"\x80\x04".as_slice(), &[opcode], &0x7fff_ffff_u32.to_le_bytes()].concat();
        assert!(matches!(read_snapshot(&pickle), Err(SnapshotError::Truncated { offset: 7 })));
    }
}

#[test]
fn deep_nesting_is_an_error() {
    for nested in [b"]".as_slice(), b"}", b"(", b"](", b"}(K\x01"] {
        let pickle = [b"\x80\x04".to_vec(), nested.repeat(1 << 20)].concat();
        let error = read_snapshot(&pickle).unwrap_err();
        assert!(matches!(error, SnapshotError::TooDeep { .. }), "{nested:?}: {error}");
    }
    let tuples = [b"\x80\x04)".to_vec(), b"\x85".repeat(1 << 20), b".".to_vec()].concat();
    assert!(matches!(read_snapshot(&tuples), Err(SnapshotError::NotASnapshot { .. })));
}

/// A few kilobytes that decompress to a hundred megabytes.
#[test]
fn a_small_file_that_decompresses_to_a_huge_one_is_refused() {
    let block = vec![0; 1 << 20];
    let mut pickle = vec![0x80, 4];
    for _ in 0..100 {
        pickle.extend_from_slice(b"B\0\0\x10\0");
        pickle.extend_from_slice(&block);
        pickle.push(b'0');
    }
    pickle.extend_from_slice(b"N.");
    assert!(matches!(read_snapshot(&pickle), Err(SnapshotError::NotASnapshot { .. })));
    let bomb = zstd::stream::encode_all(pickle.as_slice(), 1).unwrap();
    assert!(bomb.len() < 1 << 16);
    let error = read_snapshot(&bomb).unwrap_err();
    assert!(matches!(error, SnapshotError::TooLarge { limit: 0x400_0000 }), "{error:?}");
}

#[test]
fn a_memo_index_out_of_order_allocates_nothing() {
    let mut pickle = b"\x80\x04".to_vec();
    for number in (0..1000_u32).map(|number| u32::MAX - number * 4_000_000) {
        pickle.extend_from_slice(b"Nr");
        pickle.extend_from_slice(&number.to_le_bytes());
    }
    pickle.push(b'.');
    assert!(matches!(read_snapshot(&pickle), Err(SnapshotError::NotASnapshot { .. })));
}

/// `a = []; a.append(a)`, and a dict that is its own value, and a snapshot inside itself.
#[test]
fn containers_that_contain_themselves_are_read() {
    for pickle in [
        b"\x80\x04]\x94h\0a.".as_slice(),
        b"\x80\x04]\x94(h\0h\0e.",
        b"\x80\x04}\x94(\x8c\x06framesh\0u.",
        b"\x80\x04}\x94\x8c\x08segmentsh\0s.",
        b"\x80\x04]\x942a.",
        b"\x80\x04](}\x94(\x8c\x06actionh\0\x8c\x04addrh\0uh\0e.",
    ] {
        let _ = read_snapshot(pickle);
    }
    let inside = b"\x80\x04}\x94(\x8c\x08segmentsh\0\x8c\x0ddevice_tracesh\0u.";
    assert!(read_snapshot(inside).unwrap().events.is_empty());
}

/// The same list of events for both devices, the same event twice, blocks shared between segments.
#[test]
fn shared_values_count_once() {
    let event = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01u";
    let shared = [
        b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](](".as_slice(),
        event,
        b"q\x05h\x05h\x05eq\x06h\x06h\x06eu.",
    ]
    .concat();
    let trace = read_snapshot(&shared).unwrap();
    assert_eq!(trace.allocations.len(), 1);
    assert!(!trace.losses.is_empty());
}

#[test]
fn numbers_at_the_limits_are_read() {
    let int = |number: i64| [b"\x8a\x08".as_slice(), &number.to_le_bytes()].concat();
    for addr in [0, 1, i64::MAX, -1] {
        for size in [0, 1, i64::MAX, i64::MIN] {
            let mut pickle = b"\x80\x04}(\x8c\x08segments](}(\x8c\x07address".to_vec();
            pickle.extend_from_slice(&int(addr));
            pickle.extend_from_slice(b"\x8c\x0atotal_size");
            pickle.extend_from_slice(&int(size));
            pickle.extend_from_slice(b"ue\x8c\x0ddevice_traces](](");
            for action in [
                "alloc",
                "free_requested",
                "segment_free",
                "segment_alloc",
                "segment_unmap",
                "oom",
                "alloc",
            ] {
                pickle.extend_from_slice(b"}(\x8c\x06action\x8c");
                pickle.push(u8::try_from(action.len()).unwrap());
                pickle.extend_from_slice(action.as_bytes());
                for key in ["addr", "size", "time_us", "stream"] {
                    pickle.push(0x8c);
                    pickle.push(u8::try_from(key.len()).unwrap());
                    pickle.extend_from_slice(key.as_bytes());
                    pickle.extend_from_slice(&int(if key == "addr" { addr } else { size }));
                }
                pickle.push(b'u');
            }
            pickle.extend_from_slice(b"eeu.");
            let trace = read_snapshot(&pickle).unwrap();
            let mut again = Vec::new();
            floodmark_snapshot::write_snapshot(&trace, None, &mut again).unwrap();
            read_snapshot(&again).unwrap();
        }
    }
}

/// Any opcodes, with arguments that are often valid.
fn any_opcodes() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "action",
        "alloc",
        "addr",
        "size",
        "frames",
        "filename",
        "segments",
        "device_traces",
        "blocks",
        "total_size",
        "state",
        "stage",
        "history",
        "time_us",
        "free_requested",
        "segment_map",
    ];
    let piece = prop_oneof![
        8 => prop::sample::select(&b"(.0122NaedltsuJK}])\x85\x86\x87\x88\x89\x8f\x90\x91\x94"[..]).prop_map(|byte| vec![byte]),
        6 => prop::sample::select(words.to_vec()).prop_map(|word| {
            [&[0x8c, u8::try_from(word.len()).unwrap()], word.as_bytes()].concat()
        }),
        3 => any::<u8>().prop_map(|number| vec![b'K', number]),
        3 => any::<[u8; 8]>().prop_map(|number| [b"\x8a\x08".as_slice(), &number].concat()),
        4 => (0..12_u8).prop_map(|number| vec![b'h', number]),
        2 => (0..12_u8).prop_map(|number| vec![b'q', number]),
        3 => Just(b"}(".to_vec()),
        3 => Just(b"](".to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..200).prop_map(|pieces| {
        let mut pickle = b"\x80\x04".to_vec();
        pickle.extend(pieces.concat());
        pickle
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read_snapshot(&bytes);
        let _ = read_snapshot(&[b"\x80\x04".as_slice(), &bytes].concat());
    }

    #[test]
    fn no_opcodes_panic(pickle in any_opcodes()) {
        if let Ok(trace) = read_snapshot(&[pickle.as_slice(), b"."].concat()) {
            let mut written = Vec::new();
            floodmark_snapshot::write_snapshot(&trace, None, &mut written).unwrap();
            read_snapshot(&written).unwrap();
        }
        let _ = read_snapshot(&pickle);
    }

    #[test]
    fn no_two_changed_bytes_panic(at in any::<prop::sample::Index>(), to in any::<u8>(), other in any::<prop::sample::Index>(), and in any::<u8>()) {
        for mut pickle in [snapshot().protocol_4(), snapshot().cpp(), snapshot().protocol_0()] {
            let (at, other) = (at.index(pickle.len()), other.index(pickle.len()));
            pickle[at] = to;
            pickle[other] = and;
            let _ = read_snapshot(&pickle);
        }
    }
}

/// A segment with an invalid device index belongs to no device.
#[test]
fn an_invalid_device_index_is_not_the_first_device() {
    // `segments` of the devices 0, -5, 1,000,000,000 and 3, 2 MiB each.
    let pickle =
        b"\x80\x02}q\x00(X\x08\x00\x00\x00segmentsq\x01]q\x02(}q\x03(X\x06\x00\x00\x00deviceq\x04K\
          \x00X\x07\x00\x00\x00addressq\x05J\x00\x00\x00@X\x0a\x00\x00\x00total_sizeq\x06J\x00\x00\
          \x20\x00X\x06\x00\x00\x00streamq\x07K\x00X\x0c\x00\x00\x00segment_typeq\x08X\x05\x00\x00\
          \x00smallq\x09X\x06\x00\x00\x00blocksq\x0a]q\x0bu}q\x0c(h\x04J\xfb\xff\xff\xffh\x05J\x00\
          \x00\x00@h\x06J\x00\x00\x20\x00h\x07K\x00h\x08h\x09h\x0a]q\x0du}q\x0e(h\x04J\x00\xca\x9a\
          ;h\x05J\x00\x00\x00@h\x06J\x00\x00\x20\x00h\x07K\x00h\x08h\x09h\x0a]q\x0fu}q\x10(h\x04K\
          \x03h\x05J\x00\x00\x00@h\x06J\x00\x00\x20\x00h\x07K\x00h\x08h\x09h\x0a]q\x11ueX\x0d\x00\
          \x00\x00device_tracesq\x12]q\x13u.";
    let trace = read_snapshot(pickle).unwrap();
    let totals: Vec<String> =
        trace.totals.iter().map(|total| format!("{} {}", total.device, total.reserved)).collect();
    assert_eq!(totals, ["cuda:0 2.000 MiB", "cuda:3 2.000 MiB"]);
    let losses: Vec<String> = trace.losses.0.iter().map(ToString::to_string).collect();
    let expected = "2 values of the pickle are not where torch puts them";
    assert!(losses.iter().any(|loss| loss == expected), "{losses:?}");
}
