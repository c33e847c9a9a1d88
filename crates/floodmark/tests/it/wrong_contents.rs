//! Files with right checksums and wrong contents: every command answers within 4 GiB, and says what is wrong.

use std::process::Command;

use floodmark_trace::{
    Batch, Category, CodeRow, Device, Ending, EventKind, LabelRow, Micros, ModuleRow, Row,
    StackRow, TextKind, TextRow, TraceWriter,
};

use crate::program::Folder;

const COMMANDS: [&str; 12] = [
    "info",
    "report",
    "report --by stack --json",
    "report --by module",
    "report --by tensor",
    "report --by segment",
    "leaks",
    "simulate",
    "advise",
    "top --once",
    "export --to collapsed -o -",
    "export --to html -o -",
];

fn alloc(stack: u32) -> Row {
    let row = Row::new(EventKind::Alloc, Device::cuda(0), 0, Micros(1));
    Row { addr: u64::from(stack) << 20, bytes: 1 << 20, stack, ..row }
}

fn code(name: &str) -> CodeRow {
    CodeRow { id: 1, first_line: 1, file: "train.py".to_owned(), name: name.to_owned() }
}

fn stack(id: u32, parent: u32) -> StackRow {
    StackRow { id, parent, code: 1, line: 1, module: 0, flags: 0 }
}

/// Answers of all commands; each must end with an answer or an error, and all must contain `expected`.
fn ask(batch: &Batch, expected: &str) {
    let mut writer = TraceWriter::new(Vec::new(), &floodmark_testing::script::header()).unwrap();
    writer.write_batch(batch).unwrap();
    let file = writer.finish(&Ending::default()).unwrap();
    let folder = Folder::new().with_bytes("x.flood", &file);
    for command in COMMANDS {
        let output = Command::new("sh")
            .args(["-c", "ulimit -v 4194304; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_floodmark")])
            .args(command.split(' '))
            .arg("x.flood")
            .current_dir(folder.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{command}: {:?} {stderr}",
            output.status
        );
        assert!(!stderr.contains("panicked at"), "{command}: {stderr}");
        let is_said = [&output.stdout, &output.stderr]
            .into_iter()
            .any(|text| String::from_utf8_lossy(text).contains(expected));
        let is_error = output.status.code() == Some(1);
        assert!(is_said || is_error || command.starts_with("export"), "{command}: {stderr}");
    }
}

#[test]
fn a_function_that_is_not_in_the_file() {
    let batch = Batch {
        codes: vec![code("main")],
        stacks: vec![StackRow { code: u32::MAX, ..stack(1, 0) }],
        rows: vec![alloc(1)],
        ..Batch::default()
    };
    ask(&batch, "1 reference to a stack, function, module or name that is not in the file");
}

#[test]
fn a_deep_stack_for_each_allocation() {
    let batch = Batch {
        codes: vec![code("main")],
        stacks: (1..=5_000).map(|id| stack(id, id - 1)).collect(),
        rows: (1..=5_000).map(alloc).collect(),
        ..Batch::default()
    };
    ask(&batch, "frames: outer frames are left out");
}

#[test]
fn a_device_for_every_number() {
    let device = |number: u16| {
        let [kind, index] = number.to_le_bytes();
        Device { kind: kind.cast_signed(), index: index.cast_signed() }
    };
    let rows = (0..=u16::MAX).map(|number| Row { device: device(number), ..alloc(0) });
    let batch = Batch { rows: rows.collect(), ..Batch::default() };
    ask(&batch, "rows of the file are left out");
}

#[test]
fn names_that_no_screen_can_show() {
    let long = "x".repeat(70_000);
    let label = Row { stack: 1, ..Row::new(EventKind::Label, Device::cuda(0), 0, Micros(2)) };
    let batch = Batch {
        codes: vec![code(&long)],
        modules: vec![ModuleRow { id: 1, root: 1, class: long.clone(), name: String::new() }],
        stacks: vec![StackRow { module: 1, ..stack(1, 0) }],
        labels: vec![LabelRow {
            id: 1,
            category: Category::Parameter,
            name: long.clone(),
            shape: long.clone(),
            dtype: long.clone(),
        }],
        texts: vec![TextRow { id: 1, kind: TextKind::Phase, text: long }],
        rows: vec![Row { phase: 1, op: 1, ..alloc(1) }, label],
        ..Batch::default()
    };
    ask(&batch, "6 names are longer than 4096 bytes");
}
