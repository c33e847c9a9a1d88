//! Laws that hold for every program.

use floodmark_analysis::{At, DiffRow, Question, Row, diff, report};
use floodmark_trace::Bytes;
use proptest::prelude::*;
use proptest::sample::select;

use crate::{groupings, trace};

/// The text of a script that makes sense: what is freed was allocated, and only once.
pub(crate) fn program() -> impl Strategy<Value = String> {
    let stack = select(vec![
        "",
        "at a.py:1",
        "at a.py:2 > torch/x.py:1",
        "at a.py:1 in layers.0.fc",
        "at b.py:1:step",
        "at b.py:2 in layers.1",
        "op mm",
        "at c.py:1 phase eval",
    ]);
    let device = select(vec!["cpu", "cuda:0", "cuda:1"]);
    let label =
        select(vec!["", "parameter layers.0.fc.weight", "gradient layers.1.bias", "workspace w"]);
    let action = (0..12_u8, device, 1..9_u64, stack, label, any::<prop::sample::Index>());
    prop::collection::vec(action, 1..60).prop_map(|actions| {
        let mut script =
            String::from("unseen cuda:0 64KiB\ninitial b0 cuda:0 2KiB\ninitial b1 cpu 3KiB\n");
        let mut live = vec!["b0".to_owned(), "b1".to_owned()];
        let mut unseen = 64;
        for (number, (what, device, kib, stack, label, which)) in actions.into_iter().enumerate() {
            match what {
                0..=4 => {
                    let backward = if what == 0 { "backward " } else { "" };
                    script += &format!("{backward}alloc n{number} {device} {kib}KiB {stack}\n");
                    if !label.is_empty() {
                        script += &format!("label n{number} {label}\n");
                    }
                    live.push(format!("n{number}"));
                }
                5..=8 if !live.is_empty() => {
                    let freed = live.swap_remove(which.index(live.len()));
                    script += &format!("free {freed}\n");
                }
                9 if unseen >= kib => {
                    unseen -= kib;
                    script += &format!("free-unknown cuda:0 {kib}KiB\n");
                }
                10 => script += "optimizer begin\noptimizer end\n",
                _ => script += "step\n",
            }
        }
        script
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However the bytes are grouped, none is lost and none is counted twice.
    #[test]
    fn rows_add_up_to_what_is_allocated(script in program(), at in 0..=8_u32) {
        let trace = trace(&script);
        let end = trace.end().as_seconds();
        let moments = [At::Peak, At::End, At::Seconds(end * f64::from(at) / 8.0)];
        for device in trace.devices() {
            for by in groupings() {
                for at in moments {
                    let question = Question { device: Some(device), by, at, ..Question::default() };
                    let report = report(&trace, &question).unwrap();
                    let sum: Bytes = report.rows.iter().map(Row::own_bytes).sum();
                    prop_assert_eq!(sum, report.allocated, "{:?} {}\n{}", by, device, script);
                    prop_assert_eq!(report.rows.last().map_or(Bytes(0), |row| row.cumulative), sum);
                    prop_assert_eq!(report.rows.len(), report.total_rows);
                }
            }
        }
    }

    /// No moment is higher than the peak.
    #[test]
    fn the_peak_is_the_highest_moment(script in program(), at in 0..=8_u32) {
        let trace = trace(&script);
        let at = At::Seconds(trace.end().as_seconds() * f64::from(at) / 8.0);
        for device in trace.devices() {
            let ask = |at| report(&trace, &Question { device: Some(device), at, ..Question::default() });
            prop_assert!(ask(at).unwrap().allocated <= ask(At::Peak).unwrap().allocated);
        }
    }

    /// Leaving rows out changes no other row, and reports the omitted bytes.
    #[test]
    fn rows_left_out_are_counted(script in program(), top in 0..6_usize) {
        let trace = trace(&script);
        for by in groupings() {
            let whole = report(&trace, &Question { by, ..Question::default() }).unwrap();
            let part = report(&trace, &Question { by, top: Some(top), ..Question::default() }).unwrap();
            prop_assert_eq!(part.rows.len(), top.min(whole.rows.len()));
            let shown: Bytes = part.rows.iter().map(Row::own_bytes).sum();
            prop_assert_eq!(part.left_out(), (whole.rows.len() - part.rows.len(), part.allocated.saturating_sub(shown)));
        }
    }

    /// However two traces are aligned, the changes of the rows are the change of the total, and the way
    /// back undoes it.
    #[test]
    fn changes_add_up_to_the_change_of_the_total(a in program(), b in program()) {
        let (one, other) = (trace(&a), trace(&b));
        for by in groupings() {
            for at in [At::Peak, At::End] {
                let question = Question { by, at, device: Some("cuda:0".parse().unwrap()), ..Question::default() };
                let there = diff(&one, &other, &question).unwrap();
                let sum: i64 = there.rows.iter().map(|row| row.change).sum();
                prop_assert_eq!(sum, there.allocated.change, "{:?}\n{}\n---\n{}", by, a, b);
                let back = diff(&other, &one, &question).unwrap();
                let changes = |rows: &[DiffRow], sign: i64| {
                    let mut all: Vec<i64> = rows.iter().map(|row| sign * row.change).collect();
                    all.sort_unstable();
                    all
                };
                prop_assert_eq!(changes(&there.rows, 1), changes(&back.rows, -1));
                prop_assert_eq!(there.unchanged_rows, back.unchanged_rows);
            }
        }
    }
}
