//! Gradients that are not read again, and temporaries of optimizers.

use floodmark_analysis::{
    At, Avoidable, Context, Moment, moment, optimizer_temporaries, stale_gradients,
};
use floodmark_trace::Trace;

use crate::trace;

type Question = fn(&Trace, &Context, &Moment) -> Avoidable;

/// KiB, and the numbers of the allocations.
fn ask(question: Question, script: &str, at: At) -> (u64, Vec<u32>) {
    let trace = trace(script);
    let context = Context::new(&trace);
    let moment = moment(&trace, &context, trace.devices()[0], at).unwrap();
    let found = question(&trace, &context, &moment);
    assert_eq!(found.count, found.allocations.len() as u64);
    (found.bytes.0 >> 10, found.allocations.iter().map(|id| id.0).collect())
}

/// One step; its gradients stay.
const STEP: &str = "
    alloc h0 cuda:0 1KiB at m.py:1 in fc
    backward alloc gb cuda:0 2KiB at m.py:2 in out
    label gb gradient out.weight
    backward alloc ga cuda:0 4KiB at m.py:1 in fc
    label ga gradient fc.weight
    free h0
    optimizer begin
    alloc state cuda:0 1KiB at o.py:1:step
    label state optimizer-state fc.weight.exp_avg
    optimizer end
    ";

#[test]
fn gradients_that_are_there_during_forward_are_stale() {
    let script = format!(
        "{STEP}
         alloc h1 cuda:0 64KiB at m.py:1 in fc
         free ga
         free gb
         free h1"
    );
    assert_eq!(ask(stale_gradients, &script, At::Peak), (6, vec![1, 2]));
}

#[test]
fn gradients_freed_before_forward_are_not_stale() {
    let script = format!("{STEP}\nfree ga\nfree gb\nalloc h1 cuda:0 64KiB at m.py:1 in fc");
    assert_eq!(ask(stale_gradients, &script, At::Peak), (0, vec![]));
}

/// Without `set_to_none` they live on, and backward adds to them module by module.
#[test]
fn gradients_are_stale_until_backward_reaches_their_module() {
    let script = format!(
        "{STEP}
         alloc h1 cuda:0 8KiB at m.py:1 in fc
         backward alloc nb cuda:0 64KiB at m.py:2 in out
         free nb"
    );
    assert_eq!(ask(stale_gradients, &script, At::Peak), (4, vec![2]));
    let further = script + "\nbackward alloc na cuda:0 128KiB at m.py:1 in fc";
    assert_eq!(ask(stale_gradients, &further, At::Peak), (0, vec![]));
}

/// Two passes before one optimizer step: what the first made is still needed.
#[test]
fn gradients_that_are_being_accumulated_are_not_stale() {
    let script = "
        alloc h0 cuda:0 1KiB at m.py:1 in fc
        backward alloc g cuda:0 4KiB at m.py:1 in fc
        label g gradient fc.weight
        free h0
        step
        alloc h1 cuda:0 64KiB at m.py:1 in fc";
    assert_eq!(ask(stale_gradients, script, At::Peak), (0, vec![]));
}

#[test]
fn an_optimizer_reads_its_gradients() {
    let script = format!(
        "{STEP}
         alloc h1 cuda:0 1KiB at m.py:1 in fc
         optimizer begin
         alloc t cuda:0 64KiB at o.py:2:step
         free t
         optimizer end"
    );
    assert_eq!(ask(stale_gradients, &script, At::Peak), (0, vec![]));
}

#[test]
fn temporaries_of_an_optimizer_are_those_it_frees() {
    let script = "
        alloc h cuda:0 64KiB at m.py:1 in fc
        optimizer begin
        alloc state cuda:0 1KiB at o.py:1:step
        label state optimizer-state fc.weight.exp_avg
        alloc kept cuda:0 1KiB at o.py:2:step
        alloc t1 cuda:0 4KiB at torch/foreach.py:3:step
        alloc t2 cuda:0 8KiB at torch/foreach.py:4:step
        free t1
        free t2
        alloc t3 cuda:0 2KiB at torch/foreach.py:5:step
        free t3
        optimizer end
        free kept";
    assert_eq!(ask(optimizer_temporaries, script, At::Peak), (12, vec![3, 4]));
    assert_eq!(ask(optimizer_temporaries, script, At::Seconds(0.001)), (0, vec![]));
}
