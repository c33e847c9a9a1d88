//! Comma-separated values.

use floodmark_export::{ExportError, Options, write_csv, write_steps_csv};

use crate::{STEPS, on, text, trace};

#[test]
fn events_with_the_levels_after_them() {
    let found = text(write_csv, &trace(STEPS), &on("cuda:0"));
    assert!(found.lines().all(|line| line.split(',').count() == 19));
    insta::assert_snapshot!(found.replace("\r\n", "\n"));
}

#[test]
fn without_a_device_all_devices_are_written() {
    let found = text(write_csv, &trace(STEPS), &Options::default());
    assert!(found.contains(",cpu,alloc,65536,"));
    assert!(found.contains(",cuda:0,alloc,8388608,"));
}

#[test]
fn a_row_for_each_step() {
    let found = text(write_steps_csv, &trace(STEPS), &on("cuda:0"));
    insta::assert_snapshot!(found.replace("\r\n", "\n"));
}

#[test]
fn what_would_break_a_line_is_quoted() {
    let found = text(write_csv, &trace("alloc a cpu 1KiB at x,\"y\".py:1:f"), &on("cpu"));
    assert!(found.contains(",\"x,\"\"y\"\".py\",1,f\r\n"), "{found}");
}

/// A spreadsheet would run such a name.
#[test]
fn a_name_that_is_a_formula_is_exact_or_guarded() {
    let trace = trace("alloc a cpu 1KiB at =1+2.py:1:@f");
    let exact = text(write_csv, &trace, &on("cpu"));
    assert!(exact.ends_with(",=1+2.py,1,@f\r\n"), "{exact}");
    let options = Options { guard_formulas: true, ..on("cpu") };
    let guarded = text(write_csv, &trace, &options);
    assert!(guarded.ends_with(",'=1+2.py,1,'@f\r\n"), "{guarded}");
    for (cell, expected) in [
        ("=1", "'=1"),
        ("+a", "'+a"),
        ("-a", "'-a"),
        ("@a", "'@a"),
        ("\ta", "'\ta"),
        ("\ra", "'\ra"),
        ("-12", "-12"),
        ("+1.5", "+1.5"),
        ("a=b", "a=b"),
        ("", ""),
    ] {
        assert_eq!(floodmark_export::guarded_cell(cell), expected);
    }
}

#[test]
fn an_unknown_device_is_an_error() {
    let error = write_csv(&trace(STEPS), &on("cuda:5"), &mut Vec::new()).unwrap_err();
    assert!(matches!(error, ExportError::Question(_)));
    assert_eq!(error.to_string(), "nothing was recorded on cuda:5; the trace has cpu, cuda:0");
}
