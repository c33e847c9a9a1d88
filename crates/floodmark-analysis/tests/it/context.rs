//! Steps, phases and categories.

use floodmark_analysis::{Context, category};
use floodmark_trace::{AllocationId, Trace};

use crate::trace;

/// One line per allocation: size, step, phase, category.
fn picture(trace: &Trace) -> String {
    let context = Context::new(trace);
    let mut text = String::new();
    for (at, allocation) in (0_u32..).zip(&trace.allocations) {
        let id = AllocationId(at);
        let step = context.step(allocation.made_at).map_or("-".into(), |step| step.to_string());
        let phase = context.phase(trace, id).map_or("-", |phase| phase.name(trace));
        let category = category(trace, &context, id).name();
        text += &format!("{} step {step} {phase} {category}\n", allocation.rounded);
    }
    text
}

#[test]
fn a_training_step_has_its_phases_and_categories() {
    let trace = trace(
        "alloc batch    cpu 1KiB at data.py:1
         alloc hidden   cpu 2KiB at model.py:1 in fc
         alloc scratch  cpu 3KiB at model.py:2 in fc
         free scratch
         alloc loss     cpu 4KiB at train.py:9
         backward alloc grad    cpu 5KiB at model.py:1 in fc
         backward alloc passing cpu 6KiB at model.py:1 in fc
         free passing
         free hidden
         free loss
         optimizer begin
         alloc state    cpu 7KiB at optim.py:1
         alloc update   cpu 8KiB at optim.py:2
         free update
         optimizer end
         free batch
         alloc log      cpu 9KiB at train.py:20",
    );
    insta::assert_snapshot!(picture(&trace), @"
    1.000 KiB step 0 outside input
    2.000 KiB step 0 forward activation
    3.000 KiB step 0 forward temporary
    4.000 KiB step 0 forward activation
    5.000 KiB step 0 backward unknown
    6.000 KiB step 0 backward temporary
    7.000 KiB step 0 optimizer optimizer state
    8.000 KiB step 0 optimizer temporary
    9.000 KiB step 1 outside unknown
    ");
}

#[test]
fn the_loss_is_forward_only_when_a_backward_follows() {
    let trace = trace(
        "alloc h1   cpu 1KiB at model.py:1 in fc
         alloc loss cpu 2KiB at train.py:9
         backward alloc g cpu 3KiB at model.py:1 in fc
         alloc log  cpu 4KiB at train.py:12
         step
         alloc h2   cpu 5KiB at model.py:1 in fc
         alloc seen cpu 6KiB at train.py:30
         step
         backward alloc late cpu 7KiB at model.py:1 in fc",
    );
    insta::assert_snapshot!(picture(&trace), @"
    1.000 KiB step 0 forward activation
    2.000 KiB step 0 forward activation
    3.000 KiB step 0 backward unknown
    4.000 KiB step 0 outside unknown
    5.000 KiB step 1 forward unknown
    6.000 KiB step 1 outside unknown
    7.000 KiB step 2 backward unknown
    ");
}

/// The loss failed, so no backward follows; that one would, autograd has shown by what it saved.
#[test]
fn the_loss_is_forward_where_it_failed() {
    let saved = "alloc h   cpu 1KiB at model.py:1 in fc
         save h
         alloc cast cpu 2KiB at train.py:9
         oom cpu 4KiB at train.py:9
         alloc log  cpu 3KiB at train.py:20";
    insta::assert_snapshot!(picture(&trace(saved)), @"
    1.000 KiB step - forward activation
    2.000 KiB step - forward unknown
    3.000 KiB step - outside unknown
    ");
    let evaluated = saved.replace("save h", "");
    insta::assert_snapshot!(picture(&trace(&evaluated)), @"
    1.000 KiB step - forward unknown
    2.000 KiB step - outside unknown
    3.000 KiB step - outside unknown
    ");
}

#[test]
fn another_thread_that_only_loads_data_is_outside() {
    let trace = trace(
        "alloc h    cpu 1KiB at model.py:1 in fc
         alloc next cpu 2KiB at data.py:1 thread 1
         backward alloc g cpu 3KiB at model.py:1 in fc
         free h
         step
         alloc h2   cpu 1KiB at model.py:1 in fc
         step
         free next",
    );
    insta::assert_snapshot!(picture(&trace), @"
    1.000 KiB step 0 forward activation
    2.000 KiB step 0 outside input
    3.000 KiB step 0 backward unknown
    1.000 KiB step 1 forward unknown
    ");
}

#[test]
fn saved_tensors_are_activations_or_inputs() {
    let trace = trace(
        "initial w cuda:0 1KiB
         initial batch cuda:0 2KiB
         alloc kept cuda:0 3KiB
         alloc other cuda:0 4KiB
         alloc h cuda:0 5KiB at model.py:1 in fc
         save batch
         save kept
         save h
         alloc t cuda:0 6KiB at model.py:2 in fc
         save t
         free t
         oom cuda:0 9GiB",
    );
    insta::assert_snapshot!(picture(&trace), @"
    1.000 KiB step - - unknown
    2.000 KiB step - - input
    3.000 KiB step - outside input
    4.000 KiB step - outside unknown
    5.000 KiB step - forward activation
    6.000 KiB step - forward temporary
    ");
}

#[test]
fn a_label_wins_and_a_name_of_the_user_is_the_phase() {
    let trace = trace(
        "initial old   cuda:0 1KiB
         initial w     cuda:0 2KiB
         label w parameter fc.weight
         alloc h    cuda:0 3KiB at model.py:1 in fc phase warmup
         backward alloc g cuda:0 4KiB at model.py:1 in fc phase warmup
         label g gradient fc.weight
         alloc ws   cuda:0 5KiB
         label ws workspace cublas",
    );
    insta::assert_snapshot!(picture(&trace), @"
    1.000 KiB step - - unknown
    2.000 KiB step - - parameter
    3.000 KiB step - warmup activation
    4.000 KiB step - warmup gradient
    5.000 KiB step - outside workspace
    ");
}

/// A wrapper may call the optimizer it wraps.
#[test]
fn a_nested_optimizer_ends_the_step_once() {
    let trace = trace(
        "alloc a cpu 1KiB at x.py:1
         optimizer begin
         optimizer begin
         alloc b cpu 1KiB at x.py:2
         optimizer end
         alloc c cpu 1KiB at x.py:3
         optimizer end
         alloc d cpu 1KiB at x.py:4
         alloc e cpu 1KiB at opt.py:1:step",
    );
    insta::assert_snapshot!(picture(&trace), @"
    1.000 KiB step 0 outside unknown
    1.000 KiB step 0 optimizer optimizer state
    1.000 KiB step 0 optimizer optimizer state
    1.000 KiB step 1 outside unknown
    1.000 KiB step 1 optimizer optimizer state
    ");
}

#[test]
fn without_steps_there_is_no_step_and_no_input() {
    let trace = trace(
        "alloc x cpu 1KiB at x.py:1
         alloc h cpu 1KiB at m.py:1 in fc
         free x",
    );
    insta::assert_snapshot!(picture(&trace), @"
    1.000 KiB step - outside unknown
    1.000 KiB step - forward unknown
    ");
}

/// Gradient accumulation: two passes before one optimizer step.
#[test]
fn each_pass_of_a_step_has_its_own_activations() {
    let trace = trace(
        "alloc h1 cpu 1KiB at m.py:1 in fc
         backward alloc g1 cpu 2KiB at m.py:1 in fc
         free h1
         alloc t2 cpu 3KiB at m.py:1 in fc
         free t2
         alloc h2 cpu 4KiB at m.py:2 in fc
         backward alloc g2 cpu 5KiB at m.py:1 in fc
         free h2
         free g2
         optimizer begin
         optimizer end",
    );
    insta::assert_snapshot!(picture(&trace), @"
    1.000 KiB step 0 forward activation
    2.000 KiB step 0 backward unknown
    3.000 KiB step 0 forward temporary
    4.000 KiB step 0 forward activation
    5.000 KiB step 0 backward temporary
    ");
}

/// `model.to(torch.bfloat16)`: every parameter is allocated again, and the old one freed.
#[test]
fn a_parameter_that_was_cast_is_one_too() {
    let others = "alloc o cpu 9KiB at x.py:1\nfree o\n".repeat(8);
    let script = format!(
        "alloc wide   cpu 2KiB at /torch/nn/modules/linear.py:109:Linear.__init__
         alloc passes cpu 3KiB at /torch/nn/modules/linear.py:110:Linear.__init__
         free passes
         {others}
         alloc narrow cpu 1KiB at /torch/nn/modules/module.py:940:Module._apply
         free wide
         alloc hidden cpu 4KiB at model.py:1 in fc"
    );
    let shown = picture(&trace(&script));
    let lines: Vec<_> = shown.lines().filter(|line| !line.starts_with("9.000")).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    2.000 KiB step - outside parameter
    3.000 KiB step - outside unknown
    1.000 KiB step - outside parameter
    4.000 KiB step - forward unknown
    ");
}

/// Frames of torch and of transformers name what no label names, also where there is no optimizer.
#[test]
fn frames_identify_collectives_caches_and_copies() {
    let trace = trace(
        "alloc shard    cpu 1KiB at /torch/_fully_shard/_fsdp_param.py:390:_init_sharded_param
         alloc average  cpu 2KiB at /lib/torch/nn/parameter.py:79:Parameter.__deepcopy__
         alloc bucket   cpu 3KiB at /torch/nn/parallel/distributed.py:1255:_ddp_init_helper
         alloc hidden   cpu 4KiB at model.py:1 in fc
         alloc keys     cpu 5KiB at /lib/transformers/cache_utils.py:146:DynamicLayer.update in fc
         free keys
         alloc gathered cpu 6KiB at /torch/_fully_shard/_fsdp_collectives.py:263:foreach_all_gather in fc
         free gathered
         backward alloc input  cpu 7KiB at /torch/_fully_shard/_fsdp_collectives.py:522:foreach_reduce
         backward alloc output cpu 8KiB at /torch/_fully_shard/_fsdp_collectives.py:537:foreach_reduce
         backward alloc cast   cpu 9KiB at /torch/_fully_shard/_fsdp_collectives.py:537:foreach_reduce
         free cast
         free input
         free hidden
         alloc pool     cpu 10KiB at runner.py:7:_allocate_kv_cache_tensors
         alloc copy     cpu 11KiB at /torch/distributed/utils.py:9:_to_kwargs
         step",
    );
    insta::assert_snapshot!(picture(&trace), @"
    1.000 KiB step 0 outside parameter
    2.000 KiB step 0 outside parameter
    3.000 KiB step 0 outside communication
    4.000 KiB step 0 forward activation
    5.000 KiB step 0 forward KV cache
    6.000 KiB step 0 forward communication
    7.000 KiB step 0 backward communication
    8.000 KiB step 0 backward gradient
    9.000 KiB step 0 backward communication
    10.00 KiB step 0 outside KV cache
    11.00 KiB step 0 outside unknown
    ");
}

/// The program catches the exception and trains on. Recordings say that the step ended right before the next one.
#[test]
fn an_optimizer_that_raised_ends_its_step() {
    let trace = trace(
        "optimizer begin
         alloc a cpu 1KiB at opt.py:1:step
         alloc h cpu 2KiB at m.py:1 in fc
         backward alloc g cpu 3KiB at m.py:1 in fc
         optimizer end
         optimizer begin
         alloc b cpu 4KiB at opt.py:1:step
         optimizer end
         alloc c cpu 5KiB at m.py:1 in fc
         optimizer begin
         alloc d cpu 6KiB at m.py:1 in fc
         optimizer begin
         optimizer end
         alloc e cpu 7KiB at m.py:1 in fc",
    );
    insta::assert_snapshot!(picture(&trace), @"
    1.000 KiB step 0 optimizer optimizer state
    2.000 KiB step 1 forward activation
    3.000 KiB step 1 backward unknown
    4.000 KiB step 1 optimizer optimizer state
    5.000 KiB step 2 forward unknown
    6.000 KiB step 3 forward unknown
    7.000 KiB step 4 forward unknown
    ");
}
