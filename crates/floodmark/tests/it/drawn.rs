//! Answers for who looks at a terminal: bars, colours, and a width. Forced here, since a test has no terminal.

use insta::assert_snapshot;

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

#[test]
fn rows_fit_the_terminal() {
    let folder = folder();
    for columns in [80, 100, 140] {
        // Many columns leave no room for words in 80.
        let is_wide = |line: &str| line.starts_with("leaks") || line.ends_with("tensor");
        for line in COMMANDS.iter().filter(|line| columns > 80 || !is_wide(line)) {
            let text = uncoloured(&drawn(&folder, line, columns));
            // Sentences stand above the rows, and are wrapped by the terminal.
            let rows = text.lines().filter(|line| line.contains("keep.py") || line.contains("→"));
            let longest = rows.map(|row| row.chars().count()).max().unwrap_or(0);
            assert!(longest <= columns as usize, "{line} at {columns}:\n{text}");
        }
    }
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
