//! What failed, why, what to do; exit status 1.

use crate::program::Folder;

fn one_line() -> Folder {
    Folder::new().with("x.flood", "alloc a cpu 1KiB at a.py:1")
}

#[test]
fn a_file_that_is_no_trace_is_distinguished_from_a_missing_one() {
    let folder = Folder::new().with_bytes("x.flood", b"hello, world");
    insta::assert_snapshot!(folder.run("report x.flood"), @"
    exit 1
    --- stderr
    error: Failed to read `x.flood`
      Caused by: this is a text file, not a recording

    hint: record a script with `floodmark run script.py`; `floodmark oom` reads a log with torch's message
    ");
    insta::assert_snapshot!(folder.run("report y.flood"), @"
    exit 1
    --- stderr
    error: Failed to read `y.flood`
      Caused by: there is no such file

    hint: record one with `floodmark run -o FILE script.py`
    ");
    insta::assert_snapshot!(folder.run("info ."), @"
    exit 1
    --- stderr
    error: Failed to read `./x.flood`
      Caused by: this is a text file, not a recording

    hint: record a script with `floodmark run script.py`; `floodmark oom` reads a log with torch's message
    ");
    let folder = Folder::new().with_bytes("x.flood", b"");
    insta::assert_snapshot!(folder.run("info x.flood"), @"
    exit 1
    --- stderr
    error: Failed to read `x.flood`
      Caused by: the file is empty

    hint: was the program stopped before it began? record it again
    ");
    let folder = Folder::new();
    insta::assert_snapshot!(folder.run("report ."), @"
    exit 1
    --- stderr
    error: Failed to read `.`
      Caused by: the folder has no trace (`*.flood`)

    hint: record one with `floodmark run script.py`
    ");
}

/// What would be read for ever, or not at all, is refused by every command, at once.
#[test]
fn only_regular_files_are_read() {
    let folder = one_line();
    std::fs::create_dir(folder.path().join("inside")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe.flood")).status();
    assert!(made.unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    let commands = [
        "report",
        "info",
        "diff x.flood",
        "leaks",
        "oom",
        "simulate",
        "advise",
        "top --once",
        "metrics --once",
        "view --no-open",
        "view --follow --no-open",
        "export --to csv",
        "export --to html",
    ];
    for (name, kind) in [
        ("/dev/zero", "a character device"),
        ("pipe.flood", "a pipe (FIFO)"),
        ("socket", "a socket"),
        ("-", "stdin"),
    ] {
        // `oom -` reads messages from stdin.
        let reads_stdin = |command: &&str| *command == "oom" && name == "-";
        for command in commands.into_iter().filter(|command| !reads_stdin(command)) {
            let output = folder
                .command(&format!("{command} {name}"))
                .timeout(std::time::Duration::from_secs(600))
                .output()
                .unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            let expected = format!("  Caused by: it is {kind}, not a regular file\n\nhint: ");
            assert_eq!(output.status.code(), Some(1), "{command} {name}: {stderr}");
            assert!(stderr.contains(&expected), "{command} {name}: {stderr}");
        }
    }
    insta::assert_snapshot!(folder.run("report -"), @"
    exit 1
    --- stderr
    error: Failed to read `-`
      Caused by: it is stdin, not a regular file

    hint: write the data into a file first; a file named `-` is `./-`
    ");
}

/// To open it would wait for a writer for ever.
#[test]
fn a_pipe_in_a_journal_is_passed_over() {
    let folder = Folder::new().with_killed("x.flood", "alloc a cpu 1KiB at a.py:1");
    let made = std::process::Command::new("mkfifo")
        .arg(folder.path().join("x.flood.journal/0-1.chunk"))
        .status();
    assert!(made.unwrap().success());
    let report = folder.stdout("report x.flood");
    assert!(report.contains("  a.py:1 (main)\n"), "{report}");
}

#[test]
fn a_short_file_names_the_problem() {
    let whole = floodmark_testing::script::file("alloc a cpu 1KiB");
    let gzip = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, bytes).unwrap();
        gzip.finish().unwrap()
    };
    let folder = Folder::new()
        .with_bytes("three.flood", &whole[..3])
        .with_bytes("twenty.flood", &whole[..20])
        .with_bytes("one.pickle", &[0x80])
        .with_bytes("cut.pickle.gz", &gzip(b"\x80\x04}.")[..9])
        .with_bytes("packed.flood.gz", &gzip(&whole));
    let cause = |name: &str| {
        let shown = folder.run(&format!("info {name}"));
        shown.split_once("Caused by: ").unwrap().1.to_owned()
    };
    insta::assert_snapshot!(cause("three.flood"), @"
    the file ends within its header, after 3 bytes

    hint: the program ended before it wrote more, or the copy is not complete
    ");
    insta::assert_snapshot!(cause("twenty.flood"), @"
    the file ends within its header, after 20 bytes

    hint: the program ended before it wrote more, or the copy is not complete
    ");
    insta::assert_snapshot!(cause("one.pickle"), @"
    the pickle ends at byte 1, before it is complete

    hint: the file is not complete: copy it again, or let the program finish writing it
    ");
    insta::assert_snapshot!(cause("cut.pickle.gz"), @"
    the file cannot be decompressed
      Caused by: unexpected end of file

    hint: the file is not complete: copy it again, or let the program finish writing it
    ");
    insta::assert_snapshot!(cause("packed.flood.gz"), @"
    this is a compressed floodmark trace, not a memory snapshot

    hint: decompress it first: a `.flood` file is compressed already
    ");
}

#[test]
fn what_decompression_may_take_has_a_limit_that_can_be_raised() {
    let folder = Folder::new()
        .with("x.flood", "alloc a cpu 1KiB at a.py:1")
        .with_recording("x.pickle.gz", "zoo/lstm.pickle.gz");
    let with_limit = |limit: &str, name: &str| {
        let mut command = folder.command(&format!("info {name}"));
        let output = command.env("FLOODMARK_MAX_DECOMPRESSED", limit).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for name in ["x.flood", "x.pickle.gz"] {
        let (status, stderr) = with_limit("64", name);
        assert_eq!(status, Some(1));
        assert!(
            stderr.contains("Caused by: the file decompresses to more than 64 bytes"),
            "{stderr}"
        );
        assert!(stderr.contains("hint: if you trust the file, allow more with"), "{stderr}");
        assert!(stderr.contains("`FLOODMARK_MAX_DECOMPRESSED=16GiB`"), "{stderr}");
        assert_eq!(with_limit("1GiB", name).0, Some(0));
        let (status, stderr) = with_limit("plenty", name);
        assert_eq!(status, Some(1));
        assert!(
            stderr.contains("`FLOODMARK_MAX_DECOMPRESSED` is `plenty`, which is not a size"),
            "{stderr}"
        );
    }
}

#[test]
fn a_trace_of_a_newer_floodmark_asks_for_an_upgrade() {
    let mut bytes = floodmark_testing::script::file("alloc a cpu 1KiB");
    bytes[4] = 200;
    let folder = Folder::new().with_bytes("x.flood", &bytes);
    insta::assert_snapshot!(folder.run("report x.flood"), @"
    exit 1
    --- stderr
    error: Failed to read `x.flood`
      Caused by: trace format 200 is newer than this build, which reads up to 1

    hint: read it with the floodmark that recorded it, or install that version here
    ");
}

#[test]
fn a_trace_that_is_cut_says_so_above_its_rows() {
    let mut bytes = floodmark_testing::script::file("alloc a cpu 1KiB at a.py:1");
    bytes.truncate(bytes.len() - 3);
    let folder = Folder::new().with_bytes("x.flood", &bytes);
    insta::assert_snapshot!(folder.run("report x.flood"), @"
    exit 0
    --- stdout
    Peak of cpu: 1.000 KiB allocated, outside forward/backward/optimizer, at 0.001 s
    ! the recording is not finished: what came after the last flush is not in the file
        Bytes  Cumulative     Median  Count  Location
    1.000 KiB   1.000 KiB  1.000 KiB      1  a.py:1 (main)
    ");
}

/// CSV and other tools' formats have no field for losses.
#[test]
fn formats_without_a_field_for_losses_get_them_on_stderr() {
    let mut bytes = floodmark_testing::script::file("alloc a cpu 1KiB at a.py:1");
    bytes.truncate(bytes.len() - 3);
    let folder = Folder::new()
        .with_bytes("x.flood", &bytes)
        .with_bytes("ranks/rank-0000.flood", &bytes)
        .with("whole.flood", "alloc a cpu 1KiB at a.py:1");
    let loss = "the recording is not finished: what came after the last flush is not in the file\n";
    for (words, name) in [
        ("report --csv x.flood", ""),
        ("diff --csv whole.flood x.flood", "B: "),
        ("diff --csv x.flood whole.flood", "A: "),
        ("export --to csv -o - x.flood", ""),
        ("export --to csv x.flood", ""),
        ("export --to html x.flood", "x.flood: "),
        ("export --to parquet ranks", "rank 0: "),
    ] {
        let output = folder.command(words).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(&format!("! {name}{loss}")), "{words}: {stderr}");
        assert!(output.status.success(), "{words}: {stderr}");
    }
    assert!(folder.stdout("metrics --once x.flood").contains("\nfloodmark_losses 1\n"));
    let whole = folder.run("report --csv whole.flood");
    assert!(!whole.contains("--- stderr"), "{whole}");
}

#[test]
fn a_question_that_makes_no_sense_is_answered_with_what_does() {
    let folder = one_line();
    insta::assert_snapshot!(folder.run("report x.flood --device cuda:1"), @"
    exit 1
    --- stderr
    error: Failed to report on `x.flood`
      Caused by: nothing was recorded on cuda:1; the trace has cpu

    hint: choose one of them with `--device`
    ");
    insta::assert_snapshot!(folder.run("report x.flood --device gpu"), @"
    exit 1
    --- stderr
    error: invalid value 'gpu' for '--device <DEVICE>': a device is `cpu` or a kind and a number such as `cuda:0`

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(folder.run("report x.flood --at yesterday"), @"
    exit 1
    --- stderr
    error: invalid value 'yesterday' for '--at <MOMENT>': a time is `peak`, `oom`, `end`, a step such as `step:3` or `step:3:backward`, or a number of seconds such as `1.25`

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(folder.run("report x.flood --at 99"), @"
    exit 1
    --- stderr
    error: Failed to report on `x.flood`
      Caused by: 99 s is after the end of the recording, which is 0.001 s long

    hint: `--at end` shows the end
    ");
    insta::assert_snapshot!(folder.run("report x.flood --at oom"), @"
    exit 1
    --- stderr
    error: Failed to report on `x.flood`
      Caused by: no allocation failed in this trace

    hint: `floodmark report --at peak` shows the peak
    ");
    insta::assert_snapshot!(folder.run("report x.flood --by colour"), @"
    exit 1
    --- stderr
    error: invalid value 'colour' for '--by <BY>'
      [possible values: line, stack, module, op, op-call, parameter, phase, category, tensor, step, segment]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(folder.run("report x.flood --rank 1"), @"
    exit 1
    --- stderr
    error: Failed to read `x.flood`
      Caused by: `--rank` chooses from a folder of traces, and this is a single one

    hint: leave `--rank` out
    ");
    insta::assert_snapshot!(folder.run("report x.flood --json --csv"), @"
    exit 1
    --- stderr
    error: the argument '--json' cannot be used with '--csv'

    Usage: floodmark report --json <TRACE>

    For more information, try '--help'.
    ");
}

#[test]
fn a_program_that_does_not_exist_is_not_run() {
    let folder = one_line();
    insta::assert_snapshot!(folder.run("run missing.py --epochs 3"), @"
    exit 1
    --- stderr
    error: Failed to run `missing.py`
      Caused by: there is no such file

    hint: check the path; to run a module by its name, write `-m` before the name
    ");
    insta::assert_snapshot!(folder.run("run --max-memory lots x.py"), @"
    exit 1
    --- stderr
    error: invalid value 'lots' for '--max-memory <SIZE>': a size is a number of bytes, or one with a unit such as `256MiB`

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(folder.run("run --max-memory 8MiB x.py"), @"
    exit 1
    --- stderr
    error: invalid value '8MiB' for '--max-memory <SIZE>': the recorder needs 16MiB or more

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(folder.run("run --devices cpu,gpu x.py"), @"
    exit 1
    --- stderr
    error: invalid value 'cpu,gpu' for '--devices <DEVICES>': a device is `cpu` or a kind and a number such as `cuda:0`

    For more information, try '--help'.
    ");
}

/// Recording happens in Python; the program only passes the words on.
#[test]
fn a_run_is_handed_to_python() {
    let folder = one_line().with_bytes("train.py", b"");
    let python = folder.path().join("python3");
    std::fs::write(&python, "#!/bin/sh\necho python3 \"$@\"\nexit 7\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&python, mode).unwrap();
    let mut command = folder.command("run -o y.flood train.py --quiet -m x");
    let output = command.env("PATH", folder.path()).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(stdout, "python3 -m floodmark run -o y.flood train.py --quiet -m x\n");
    assert_eq!(output.status.code(), Some(7));

    let output = folder.command("run train.py").env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"
    error: Failed to start `python3 -m floodmark`
      Caused by: No such file or directory (os error 2)

    hint: activate the environment into which you installed floodmark with `pip`
    ");
}

#[test]
fn the_help_states_what_belongs_to_whom_and_what_a_path_means() {
    let folder = Folder::new();
    for command in ["run", "estimate", "fit"] {
        let help = folder.stdout(&format!("{command} --help"));
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("followed by its own arguments"), "{help}");
        let rule = "a file if it ends in `.flood`, otherwise a folder with a file for each rank";
        assert_eq!(help.contains(rule), command != "fit", "{help}");
    }
}

#[test]
fn help_is_no_failure() {
    let folder = Folder::new();
    for line in [
        "--help",
        "--version",
        "run --help",
        "report --help",
        "info --help",
        "diff --help",
        "leaks --help",
    ] {
        folder.command(line).assert().success();
    }
    folder.command("").assert().code(1);
}

/// Names come from files, folders and the command line: a terminal must obey none of them.
#[test]
fn an_error_has_nothing_that_a_terminal_obeys() {
    let folder = one_line();
    let title = "\u{1b}]0;owned\u{7}";
    let output = folder.command("annotate x.flood").arg(format!("a{title}.py")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("a␛]0;owned␇.py") && !stderr.contains('\u{1b}'), "{stderr:?}");
    let folder = Folder::new()
        .with("ranks/rank-0000.flood", "alloc a cpu 1KiB at a.py:1")
        .with_bytes(&format!("ranks/rank-0001{title}.flood"), b"FLODdamaged");
    for line in ["info ranks", "report ranks", "export ranks --to csv -o out"] {
        let output = folder.command(line).output().unwrap();
        let output = [output.stdout, output.stderr].concat();
        let output = String::from_utf8(output).unwrap();
        assert!(output.contains("␛]0;owned␇") && !output.contains('\u{1b}'), "{line}: {output:?}");
    }
}

#[test]
fn what_is_no_recording_is_called_by_its_name() {
    let folder = Folder::new()
        .with_bytes("model.pt", b"PK\x03\x04\x00\x00archive/data.pkl")
        .with_bytes("config.json", b"{\"hidden\": 768}")
        .with_bytes("train.py", b"import torch\n");
    insta::assert_snapshot!(folder.run("report model.pt"), @"
    exit 1
    --- stderr
    error: Failed to read `model.pt`
      Caused by: this is a checkpoint (zip), not a recording

    hint: floodmark reads recordings (`.flood`) and torch's memory snapshots (`.pickle`); record one with `floodmark run script.py`
    ");
    insta::assert_snapshot!(folder.run("info config.json"), @"
    exit 1
    --- stderr
    error: Failed to read `config.json`
      Caused by: this is JSON, not a recording

    hint: floodmark reads recordings (`.flood`) and torch's memory snapshots (`.pickle`); record one with `floodmark run script.py`
    ");
    insta::assert_snapshot!(folder.run("report train.py"), @"
    exit 1
    --- stderr
    error: Failed to read `train.py`
      Caused by: this is a text file, not a recording

    hint: record a script with `floodmark run script.py`; `floodmark oom` reads a log with torch's message
    ");
}
