//! A growing trace gives the same answers as the whole trace, at any time.

use floodmark_analysis::{
    At, By, GrowingIndex, LayerQuestion, LayerSource, Question, layers, levels_at_steps, report,
    summary,
};
use floodmark_testing::script;
use floodmark_trace::{Assembler, Batch, GrowingTrace, Trace};
use proptest::prelude::*;
use proptest::sample::select;

use crate::generation::generate;
use crate::timeline::long;

/// What a script records, in as many batches as there are sizes; the last one has the rest.
fn batches(script: &str, sizes: &[usize]) -> Vec<Batch> {
    let mut entries = script::entries(script).into_iter();
    let mut assembler = Assembler::default();
    let mut batches = Vec::new();
    for size in sizes.iter().copied().chain([usize::MAX]) {
        for entry in entries.by_ref().take(size) {
            assembler.push(&entry.record, &entry.payload);
        }
        batches.push(assembler.take_batch());
    }
    batches
}

/// The trace of all batches, read at once.
fn whole(batches: &[Batch]) -> Trace {
    let mut growing = GrowingTrace::default();
    for batch in batches {
        growing.push(batch.clone());
    }
    growing.complete(&script::header(), None).clone()
}

fn questions(trace: &Trace) -> Vec<Question> {
    let devices = trace.devices().into_iter().map(Some).chain([None]);
    let middle = trace.end().as_seconds() / 2.0;
    devices
        .flat_map(|device| [At::Peak, At::End, At::Oom, At::Seconds(middle)].map(|at| (device, at)))
        .flat_map(|(device, at)| {
            By::ALL.map(|by| Question { device, by, at, ..Question::default() })
        })
        .collect()
}

fn phases() -> LayerSource {
    LayerSource::Phases("lay".to_owned())
}

/// Compares all answers with those of the trace read at once.
fn check(index: &GrowingIndex, trace: &Trace, expected: &Trace, source: &LayerSource) {
    assert_eq!(index.summary(trace), summary(expected));
    for question in questions(expected) {
        let actual = index.report(trace, &question);
        assert_eq!(actual, report(expected, &question), "{question:?}");
    }
    for device in expected.devices() {
        let levels = levels_at_steps(expected, Some(device)).unwrap();
        for first in [0, levels.len() / 2, levels.len() + 1] {
            let actual = index.levels_at_steps(trace, Some(device), first).unwrap();
            assert_eq!(actual, levels.get(first..).unwrap_or_default());
        }
        for events in [5, 0, 3] {
            let (device, source, events) = (Some(device), source.clone(), Some(events));
            let question = LayerQuestion { device, source, events };
            let actual = index.layers(trace, &question);
            assert_eq!(actual, layers(expected, &question), "{question:?}");
        }
    }
}

/// Reads a script batch by batch, and asks after those that `asked` names.
fn check_script(script: &str, sizes: &[usize], asked: &[bool], source: &LayerSource) {
    check_batches(&batches(script, sizes), asked, source);
}

fn check_batches(batches: &[Batch], asked: &[bool], source: &LayerSource) {
    let mut growing = GrowingTrace::default();
    let mut index = GrowingIndex::default();
    for (at, batch) in batches.iter().enumerate() {
        growing.push(batch.clone());
        let is_last = at + 1 == batches.len();
        if is_last || asked.get(at).copied().unwrap_or(true) {
            let trace = growing.complete(&script::header(), None);
            index.extend(trace);
            check(&index, trace, &whole(&batches[..=at]), source);
        }
    }
}

/// A program that makes sense, and has some facts late: names of tensors, steps, the loss, what a stream still uses.
fn program() -> impl Strategy<Value = String> {
    let stack = select(vec![
        "",
        "at a.py:1",
        "at a.py:2 > torch/x.py:1",
        "at a.py:1 in layers.0.fc",
        "at b.py:1:step",
        "at b.py:2 in layers.1",
        "at b.py:3 thread 2",
        "op mm",
        "at c.py:1 phase eval",
    ]);
    let device = select(vec!["cpu", "cuda:0", "cuda:1"]);
    let label = select(vec![
        "parameter layers.0.fc.weight",
        "gradient layers.1.bias",
        "optimizer-state layers.0.fc.weight.exp_avg",
        "workspace w",
    ]);
    let action = (0..20_u8, device, 1..9_u64, stack, label, any::<prop::sample::Index>());
    prop::collection::vec(action, 1..80).prop_map(|actions| {
        let mut script =
            String::from("unseen cuda:0 64KiB\ninitial b0 cuda:0 2KiB\ninitial b1 cpu 3KiB\n");
        let mut live = vec!["b0".to_owned(), "b1".to_owned()];
        let mut awaited: Vec<String> = Vec::new();
        let mut unseen = 64;
        for (number, (what, device, kib, stack, label, which)) in actions.into_iter().enumerate() {
            let one = (!live.is_empty()).then(|| live[which.index(live.len())].clone());
            match (what, one) {
                (0..=6, _) => {
                    let backward = if what == 0 { "backward " } else { "" };
                    script += &format!("{backward}alloc n{number} {device} {kib}KiB {stack}\n");
                    live.push(format!("n{number}"));
                }
                (7..=10, Some(one)) => {
                    let is_deferred = what == 7 && device != "cpu";
                    let how = if is_deferred { " deferred" } else { "" };
                    script += &format!("free {one}{how}\n");
                    live.retain(|each| *each != one);
                    awaited.extend(is_deferred.then_some(one));
                }
                (11, _) if !awaited.is_empty() => {
                    let done = awaited.swap_remove(which.index(awaited.len()));
                    script += &format!("complete {done}\n");
                }
                (12, Some(one)) => script += &format!("label {one} {label}\n"),
                (13, Some(one)) => script += &format!("save {one}\n"),
                (14, _) if unseen >= kib => {
                    unseen -= kib;
                    script += &format!("free-unknown cuda:0 {kib}KiB\n");
                }
                (15, _) if kib > 4 => script += "phase begin layer1\n",
                (16, _) if kib > 4 => script += "phase end\n",
                (15, _) => script += "optimizer begin\n",
                (16, _) => script += "optimizer end\n",
                (17, _) => script += &format!("oom {device} 1GiB at b.py:2 in layers.1\n"),
                (18, _) if kib == 1 => script += &format!("unseen cuda:1 {kib}KiB\n"),
                (_, _) => script += "step\n",
            }
        }
        script
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For any cut into batches, and questions at any time.
    #[test]
    fn answers_of_a_growing_trace_equal_those_of_the_whole_trace(
        script in program(),
        sizes in prop::collection::vec(1..24_usize, 0..8),
        asked in prop::collection::vec(any::<bool>(), 8),
        has_phases in any::<bool>(),
    ) {
        let source = if has_phases { phases() } else { LayerSource::Modules };
        check_script(&script, &sizes, &asked, &source);
    }
}

/// Long enough for several lists of what is live, and for totals in between.
#[test]
fn a_long_trace_is_read_on() {
    check_script(&long(), &[1000, 1, 5000, 100, 3000], &[], &LayerSource::Modules);
}

/// Allocations between forward and backward are outside until the backward pass begins.
#[test]
fn a_late_backward_pass_changes_the_phase_of_the_loss() {
    let script = "
        alloc a cpu 1KiB at m.py:1 in net
        alloc loss cpu 9KiB at m.py:2
        free loss
        alloc other cpu 4KiB at m.py:3
        backward alloc g cpu 1KiB at m.py:1 in net
        alloc after cpu 9KiB at m.py:2";
    check_script(script, &[7, 4, 1, 1, 1, 1, 1], &[], &LayerSource::Modules);
}

/// Until then the optimizer ended the steps.
#[test]
fn a_late_explicit_step_replaces_those_of_the_optimizer() {
    let script = "
        alloc a cpu 1KiB at m.py:1
        optimizer begin
        optimizer end
        alloc b cpu 1KiB at m.py:1
        step
        alloc c cpu 1KiB at m.py:1";
    check_script(script, &[3, 1, 1, 1, 1], &[], &LayerSource::Modules);
}

/// Until then the module has no name.
#[test]
fn a_module_that_is_named_late_has_its_name_in_older_rows() {
    let script = "
        alloc a cpu 1KiB at m.py:1 in layers.0
        alloc b cpu 1KiB at m.py:1 in layers.1
        alloc c cpu 1KiB at m.py:1 in Net";
    let mut batches = batches(script, &[4, 4]);
    let late = batches.iter_mut().find(|batch| !batch.modules.is_empty()).unwrap();
    let names = std::mem::take(&mut late.modules);
    batches.last_mut().unwrap().modules.splice(0..0, names);
    check_batches(&batches, &[], &LayerSource::Modules);
}

/// The stack of an allocation shows the phase of the program.
#[test]
fn a_stack_that_is_defined_late_changes_the_phase() {
    let script = "
        alloc a cpu 1KiB at m.py:1 in layers.0
        alloc b cpu 1KiB at m.py:2
        backward alloc c cpu 1KiB at m.py:3";
    let mut batches = batches(script, &[6, 3]);
    let stacks = std::mem::take(&mut batches[0].stacks);
    batches.last_mut().unwrap().stacks.splice(0..0, stacks);
    check_batches(&batches, &[], &LayerSource::Modules);
}

/// A first decode step shows that a forward before it was a prefill; an optimizer shows that the program trains.
#[test]
fn steps_of_generation_come_late_and_go_when_training_begins() {
    let script = generate("a", 4)
        + &generate("b", 3)
        + "optimizer begin
           optimizer end
           alloc after cpu 1KiB at m.py:1";
    check_script(&script, &[3; 60], &[], &LayerSource::Modules);
    check_script(&script, &[11; 20], &[], &LayerSource::Modules);
}
