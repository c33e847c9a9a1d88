//! Files with many of what a program has few of: every command answers in time that grows with the file, within 4 GiB.

use std::process::Command;

use floodmark_trace::{
    Batch, CodeRow, Device, Ending, EventKind, Micros, Row, StackRow, TextKind, TextRow,
    TraceWriter,
};

use crate::program::Folder;

const COMMANDS: [&str; 16] = [
    "info",
    "report",
    "report --by step",
    "report --by segment",
    "report --by tensor",
    "oom",
    "leaks",
    "simulate",
    "advise",
    "diff small.flood",
    "top --once",
    "export --to perfetto -o -",
    "export --to timeline -o -",
    "export --to torch-snapshot -o -",
    "export --to csv -o -",
    "export --to html -o -",
];

/// The file is this many times as large as the small one.
const TIMES: u32 = 8;
/// Time that grows with the square of the file would be 64 times as long.
const MOST_TIMES_AS_LONG: f64 = 24.0;
/// What a command needs at any size.
const START_SECONDS: f64 = 0.2;

fn write(folder: Folder, name: &str, batch: &Batch) -> Folder {
    let mut writer = TraceWriter::new(Vec::new(), &floodmark_testing::script::header()).unwrap();
    writer.write_batch(batch).unwrap();
    folder.with_bytes(name, &writer.finish(&Ending::default()).unwrap())
}

/// The CPU seconds of a command.
fn seconds(folder: &Folder, command: &str, name: &str) -> f64 {
    // Of what runs for ever there is an end too.
    let limited =
        "ulimit -v 4194304; ulimit -t 300; \"$0\" \"$@\" >/dev/null 2>errors; echo $?; times";
    let output = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_floodmark")])
        .args(command.split(' '))
        .arg(name)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let mut lines = stdout.lines();
    let status = lines.next().unwrap();
    let errors = std::fs::read_to_string(folder.path().join("errors")).unwrap();
    assert!(["0", "1"].contains(&status), "{command}: {status} {errors}");
    assert!(!errors.contains("panicked at"), "{command}: {errors}");
    let times = lines.nth(1).unwrap().split(' ');
    times
        .map(|time| {
            let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
            60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
        })
        .sum()
}

fn ask(batch: impl Fn(u32) -> Batch, large: u32) {
    let folder = write(Folder::new(), "small.flood", &batch(large / TIMES));
    let folder = write(folder, "large.flood", &batch(large));
    for command in COMMANDS {
        let small = seconds(&folder, command, "small.flood");
        let large = seconds(&folder, command, "large.flood");
        let most = MOST_TIMES_AS_LONG * small.max(START_SECONDS / 2.0) + START_SECONDS;
        assert!(large < most, "{command}: {small} s, and {large} s for {TIMES} times as much");
    }
}

fn event(kind: EventKind, number: u32, bytes: u64) -> Row {
    let row = Row::new(kind, Device::cuda(0), 0, Micros(number.into()));
    Row { addr: u64::from(number) << 21, bytes, stack: 1, ..row }
}

fn stacks() -> Batch {
    let file = "train.py".to_owned();
    Batch {
        codes: vec![CodeRow { id: 1, first_line: 1, file, name: "main".to_owned() }],
        stacks: vec![StackRow { id: 1, parent: 0, code: 1, line: 1, module: 0, flags: 0 }],
        ..Batch::default()
    }
}

#[test]
fn many_failed_allocations() {
    let batch = |many: u32| {
        // Some blocks become live between them.
        let rows = (0..many).flat_map(|number| {
            let failed = [event(EventKind::Oom, number, 1 << 40)];
            let live = [
                event(EventKind::SegmentAlloc, number, 2 << 20),
                event(EventKind::Alloc, number, 1 << 20),
            ];
            live.into_iter().filter(move |_| number % 8 == 0).chain(failed)
        });
        Batch { rows: rows.collect(), ..stacks() }
    };
    ask(batch, 200_000);
}

#[test]
fn many_pools_and_streams() {
    let batch = |many: u32| {
        let side = many.isqrt() + 1;
        let text = |kind| move |id: u32| TextRow { id, kind, text: format!("{id}") };
        let texts =
            (1..=side).map(text(TextKind::Stream)).chain((1..=side).map(text(TextKind::Pool)));
        let short = |number: u32| u16::try_from(number).unwrap();
        let place = |row: Row, at: u32| Row {
            stream: short(at % side + 1),
            pool: short(at / side + 1),
            ..row
        };
        let pair = |at: u32| {
            let segment = event(EventKind::SegmentAlloc, at, 2 << 20);
            [place(segment, at), place(event(EventKind::Alloc, at, 1 << 20), at)]
        };
        Batch { texts: texts.collect(), rows: (0..many).flat_map(pair).collect(), ..stacks() }
    };
    ask(batch, 100_000);
}
