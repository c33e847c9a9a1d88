//! How the level moves from step to step.

use floodmark_analysis::{By, Detail, Question, report};

use crate::trace;

const THREE_STEPS: &str = "
    initial w cpu 1KiB
    alloc h0 cpu 4KiB at m.py:1 in fc
    backward alloc g0 cpu 2KiB at m.py:1 in fc
    free h0
    optimizer begin
    alloc s cpu 1KiB at o.py:1
    optimizer end
    free g0
    alloc h1 cpu 4KiB at m.py:1 in fc
    alloc leak1 cpu 1KiB at t.py:1
    free h1
    optimizer begin
    optimizer end
    alloc leak2 cpu 1KiB at t.py:1
    optimizer begin
    optimizer end
    free leak2";

fn table(top: Option<usize>) -> String {
    let question = Question { by: By::Step, top, ..Question::default() };
    let mut text = String::new();
    for row in report(&trace(THREE_STEPS), &question).unwrap().rows {
        let Detail::Step { peak, end, growth, phases, .. } = &row.detail else { panic!("no step") };
        let kib = |bytes: Option<floodmark_trace::Bytes>| bytes.map(|bytes| bytes.0 >> 10);
        let phases: Vec<String> =
            phases.iter().map(|(phase, bytes)| format!("{phase} {}", bytes.0 >> 10)).collect();
        text += &format!(
            "{}: made {} peak {:?} end {:?} growth {growth:?} [{}]\n",
            row.location,
            row.bytes.0 >> 10,
            kib(*peak),
            kib(*end),
            phases.join(", ")
        );
    }
    text
}

#[test]
fn a_step_has_peak_end_and_growth() {
    insta::assert_snapshot!(table(None), @"
    before recording: made 1 peak None end None growth None []
    step 0: made 6 peak Some(7) end Some(4) growth None [backward 7, forward 5, optimizer 4]
    step 1: made 0 peak Some(7) end Some(3) growth Some(-1024) [forward 6, outside 7]
    step 2: made 0 peak Some(4) end Some(4) growth Some(1024) [outside 4]
    ");
}

#[test]
fn a_step_says_whether_it_ended() {
    let question = Question { by: By::Step, ..Question::default() };
    let ended = |script: &str| -> Vec<Option<bool>> {
        let rows = report(&trace(script), &question).unwrap().rows.into_iter();
        let ended = rows.map(|row| {
            let Detail::Step { is_finished, .. } = row.detail else { panic!("no step") };
            is_finished
        });
        ended.collect()
    };
    let open = format!("{THREE_STEPS}\nalloc h3 cpu 4KiB at m.py:1 in fc");
    assert_eq!(ended(THREE_STEPS), [None, Some(true), Some(true), Some(true)]);
    assert_eq!(ended(&open), [None, Some(true), Some(true), Some(true), Some(false)]);
}

#[test]
fn when_not_all_steps_are_shown_the_last_ones_are() {
    insta::assert_snapshot!(table(Some(1)), @"step 2: made 0 peak Some(4) end Some(4) growth Some(1024) [outside 4]");
}

#[test]
fn the_categories_of_a_step_are_those_of_its_peak() {
    let trace = trace(THREE_STEPS);
    let by_step = report(&trace, &Question { by: By::Step, ..Question::default() }).unwrap();
    let by_category =
        report(&trace, &Question { by: By::Category, ..Question::default() }).unwrap();
    let at_peak: Vec<_> =
        by_category.rows.iter().map(|row| (row.location.as_str(), row.bytes)).collect();
    let mut text = String::new();
    for row in &by_step.rows {
        let Detail::Step { step, peak, categories, .. } = &row.detail else { panic!("no step") };
        if peak.is_some() {
            assert_eq!(Some(categories.values().copied().sum()), *peak);
        }
        if *step == by_category.at.step {
            let mut of_step: Vec<_> =
                categories.iter().map(|(&name, &bytes)| (name, bytes)).collect();
            of_step.sort_by_key(|&(name, _)| {
                at_peak.iter().position(|&(location, _)| location == name)
            });
            assert_eq!(of_step, at_peak);
        }
        let kib = categories.iter().map(|(name, bytes)| format!("{name} {}", bytes.0 >> 10));
        text += &format!("{}: {}\n", row.location, kib.collect::<Vec<_>>().join(", "));
    }
    insta::assert_snapshot!(text, @"
    before recording: 
    step 0: activation 4, unknown 3
    step 1: optimizer state 1, temporary 4, unknown 2
    step 2: optimizer state 1, unknown 3
    ");
}
