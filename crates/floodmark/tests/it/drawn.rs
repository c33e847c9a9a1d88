//! Answers for who looks at a terminal: bars, colours, and a width. Forced here, since a test has no terminal.

use insta::assert_snapshot;
use unicode_width::UnicodeWidthStr;

use crate::program::Folder;

const TRAINING: &str = "initial w cuda:0 6MiB
    label w parameter layers.0.weight (1024,1536) float32
    alloc x cuda:0 3MiB at train.py:31:main
    alloc h cuda:0 8MiB at model.py:12:forward in layers.0
    backward alloc g cuda:0 6MiB at model.py:12:forward in layers.0
    label g gradient layers.0.weight (1024,1536) float32
    free h
    alloc k0 cuda:0 1MiB at a/folder/that/has/quite/a/long/name/keep.py:7:keep
    optimizer begin
    alloc m cuda:0 12MiB at torch/optim/adam.py:40:step
    optimizer end
    alloc h cuda:0 8MiB at model.py:12:forward in layers.0
    free h
    alloc k1 cuda:0 1MiB at a/folder/that/has/quite/a/long/name/keep.py:7:keep
    optimizer begin
    optimizer end
    alloc k2 cuda:0 1MiB at a/folder/that/has/quite/a/long/name/keep.py:7:keep
    optimizer begin
    optimizer end
    alloc k3 cuda:0 1MiB at a/folder/that/has/quite/a/long/name/keep.py:7:keep
    optimizer begin
    optimizer end";

const COMMANDS: [&str; 9] = [
    "report a.flood",
    "report a.flood --by category",
    "report a.flood --by step",
    "report a.flood --by module",
    "report a.flood --by tensor",
    "diff b.flood a.flood",
    "leaks a.flood",
    "advise a.flood",
    "simulate s.flood --sweep",
];

/// What else has a table.
const NARROW: [&str; 9] = [
    "report a.flood --by stack",
    "report a.flood --by phase",
    "report a.flood --by op",
    "report s.flood --by segment",
    "diff b.flood a.flood --by tensor",
    "diff b.flood a.flood --by stack",
    "oom oom.flood",
    "info a.flood",
    "annotate a.flood model.py --all",
];

const SOURCE: &str = "def forward(x):\n    return x  # a comment that is longer than a narrow terminal is wide, by far\n";

const OOM: &str = "alloc x cuda:0 3MiB at a/folder/that/has/quite/a/long/name/keep.py:7:keep
    alloc h cuda:0 8MiB at model.py:12:forward in layers.0
    oom cuda:0 9MiB at train.py:31:main";

fn folder() -> Folder {
    let without = TRAINING.replace("alloc h cuda:0 8MiB", "alloc h cuda:0 2MiB");
    Folder::new()
        .with("a.flood", TRAINING)
        .with("b.flood", &without)
        .with("s.flood", crate::simulate::SPREAD)
}

/// stdout of a command that draws.
fn drawn(folder: &Folder, line: &str, columns: u32) -> String {
    let mut command = folder.command(line);
    command.env("CLICOLOR_FORCE", "1").env("COLUMNS", columns.to_string()).env_remove("NO_COLOR");
    let output = command.assert().success().get_output().clone();
    String::from_utf8(output.stdout).unwrap()
}

/// The text without its colours.
fn uncoloured(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut shown = parts.next().unwrap().to_owned();
    for part in parts {
        shown += part.split_once('m').expect("a colour").1;
    }
    shown
}

#[test]
fn tables_have_bars_beside_their_numbers() {
    let folder = folder();
    let shown =
        COMMANDS.map(|line| format!("$ {line}\n{}", uncoloured(&drawn(&folder, line, 100))));
    assert_snapshot!(shown.join("\n"));
}

#[test]
fn categories_have_their_colours() {
    let text = drawn(&folder(), "report a.flood --by category", 80);
    assert_snapshot!(text.replace('\x1b', "␛"));
}

/// Every table of the program, on narrow terminals: no line is longer, and no row loses its file and line.
#[test]
fn nothing_is_wider_than_the_terminal_and_rows_keep_their_file_and_line() {
    let folder = folder().with("oom.flood", OOM).with_bytes("model.py", SOURCE.as_bytes());
    for columns in [60, 80, 100, 140] {
        for line in COMMANDS.into_iter().chain(NARROW) {
            let text = uncoloured(&drawn(&folder, line, columns));
            for row in text.lines() {
                assert!(row.width() <= columns as usize, "{line} at {columns}:\n{text}");
            }
            let piped = folder.stdout(line);
            for place in ["keep.py:7", "model.py:12", "train.py:31", "adam.py:40"] {
                let counts = [&text, &piped].map(|shown| shown.matches(place).count());
                assert_eq!(counts[0], counts[1], "{place}, {line} at {columns}:\n{text}\n{piped}");
            }
        }
    }
}

#[test]
fn narrow_tables_put_columns_on_further_lines() {
    let folder = folder();
    let lines = ["report a.flood --by tensor", "report a.flood --by step", "leaks a.flood"];
    let shown = lines.map(|line| format!("$ {line}\n{}", uncoloured(&drawn(&folder, line, 60))));
    assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_pipe_gets_neither_bars_nor_colours() {
    let folder = folder();
    for line in COMMANDS {
        let shown = folder.stdout(line);
        assert!(!shown.contains(['\x1b', '█', '▏', '▌']), "{shown}");
        let mut command = folder.command(line);
        command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").env("COLUMNS", "60");
        let output = command.assert().success().get_output().stdout.clone();
        assert_eq!(String::from_utf8(output).unwrap(), shown);
    }
}

#[test]
fn a_name_is_no_command_to_the_terminal() {
    let hostile = "alloc a cuda:0 1MiB at \x1b[2J\x1b]0;owned\x07.py:3:\u{9b}31mf in m\x1b[5m
        alloc b cuda:0 1MiB at \u{202e}yp.x:3:g
        step";
    let folder = Folder::new().with("a.flood", hostile);
    for line in [
        "report a.flood",
        "report a.flood --by module",
        "report a.flood --by stack",
        "info a.flood",
    ] {
        for text in [folder.stdout(line), uncoloured(&drawn(&folder, line, 80))] {
            let is_obeyed =
                |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
            assert!(!text.contains(is_obeyed), "{text:?}");
        }
    }
    assert!(folder.stdout("report a.flood").contains("␛[2J␛]0;owned␇.py:3"));
}
