//! What to change: the bytes that each change saves, by arithmetic.

use std::collections::BTreeMap;

use floodmark_analysis::{Advice, AdviceKind, AdviceReport, CauseKind, advise};
use floodmark_trace::Bytes;

use crate::simulation::SPREAD;
use crate::trace;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn ask(script: &str) -> AdviceReport {
    advise(&trace(script), None).unwrap()
}

/// The only advice of a kind.
fn only(found: &AdviceReport, kind: AdviceKind) -> &Advice {
    let mut all = found.advice.iter().filter(|advice| advice.kind == kind);
    let one = all.next().unwrap_or_else(|| panic!("no {kind:?} in {found:?}"));
    assert_eq!(all.next(), None);
    one
}

/// What it saves, allocated and reserved, and what is left of both.
fn figures(advice: &Advice) -> [Option<Bytes>; 4] {
    let Advice { saves_allocated, saves_reserved, peak_allocated, peak_reserved, .. } = advice;
    [Some(*saves_allocated), *saves_reserved, Some(*peak_allocated), *peak_reserved]
}

#[test]
fn other_settings_save_the_bytes_they_do_not_reserve() {
    let found = ask(SPREAD);
    assert_eq!(found.is_reproduced, Some(true));
    assert_eq!(
        (found.peak_allocated, found.peak_reserved),
        (Bytes(40 * MIB), Some(Bytes(56 * MIB)))
    );
    let advice = only(&found, AdviceKind::AllocatorSettings);
    let mib = [0, 16, 40, 40].map(|mib| Some(Bytes(mib * MIB)));
    assert_eq!(figures(advice), mib);
    assert_eq!(advice.change, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    assert_eq!(found.notes, ["too few steps to look for leaks"]);
}

#[test]
fn a_failure_is_counted_as_if_it_had_been_met() {
    let found = ask(&format!("{SPREAD}\n oom cuda:0 32MiB"));
    assert_eq!(found.failed_requests, 1);
    assert_eq!(
        (found.peak_allocated, found.peak_reserved),
        (Bytes(72 * MIB), Some(Bytes(88 * MIB)))
    );
    // Expandable segments reserve 80 MiB for it, which is more than the recording could have.
    let settings = AdviceKind::AllocatorSettings;
    assert!(found.advice.iter().all(|advice| advice.kind != settings), "{found:?}");
    assert_eq!(found.notes[0], "none of the allocator settings that were tried avoids the failure");
}

#[test]
fn a_leak_saves_all_that_it_gained() {
    let mut script = "segment H cuda:0 16MiB\n".to_owned();
    for n in 0..6 {
        script += &format!(
            "alloc h{n} cuda:0 16MiB on H at m.py:1 in fc
             segment K{n} cuda:0 12MiB
             alloc k{n} cuda:0 12MiB on K{n} at train.py:9
             free h{n}
             optimizer begin
             optimizer end
             "
        );
    }
    let found = ask(&script);
    assert_eq!(found.peak_allocated, Bytes((16 + 6 * 12) * MIB));
    let advice = only(&found, AdviceKind::Leak);
    // The first step may keep its own.
    let mib = [5 * 12, 5 * 12, 16 + 12, 16 + 12].map(|mib| Some(Bytes(mib * MIB)));
    assert_eq!(figures(advice), mib);
    let finding = "train.py:9 (main) keeps 12.00 MiB more per step since step 1";
    assert_eq!(advice.finding, finding);
}

#[test]
fn idle_memory_is_advised_with_its_own_bytes() {
    let pause = "alloc p cuda:0 1KiB on S at p.py:1\nfree p\n".repeat(20);
    let found = ask(&format!(
        "segment S cuda:0 2MiB
         segment T cuda:0 40MiB
         alloc table cuda:0 40MiB on T at t.py:1
         {pause}
         segment P cuda:0 12MiB
         alloc peak cuda:0 12MiB on P at t.py:5
         free peak
         {pause}
         free table"
    ));
    let advice = only(&found, AdviceKind::Idle);
    let mib = [40, 40, 12, 14].map(|mib| Some(Bytes(mib * MIB)));
    assert_eq!(figures(advice), mib);
    assert!(advice.finding.starts_with("t.py:1 (main) retains 40.00 MiB through the peak"));
}

/// Optimizer state that is idle through the peak, in a program whose call stacks have a file of torch.
fn idle_state(device: &str, file: &str, ranks: u32) -> AdviceReport {
    let pause = "alloc p cuda:0 1KiB at p.py:1\nfree p\n".repeat(20);
    let script = format!(
        "alloc w cuda:0 4MiB at {file}:7:init_sharded_param
         label w parameter fc.weight
         optimizer begin
         alloc state cuda:0 40MiB at o.py:1:step
         label state optimizer-state fc.weight.exp_avg
         optimizer end
         {pause}
         alloc peak cuda:0 12MiB at t.py:5
         free peak
         {pause}"
    );
    let mut recorded = trace(&script.replace("cuda:0", device));
    recorded.header.world_size = Some(ranks);
    advise(&recorded, None).unwrap()
}

#[test]
fn a_sharded_model_gets_no_advice_to_shard() {
    let file = "/site-packages/torch/distributed/fsdp/_fully_shard/_fsdp_param.py";
    let found = idle_state("cuda:0", file, 8);
    let change = &only(&found, AdviceKind::Idle).change;
    assert!(change.starts_with("it is sharded already (FSDP, 8 ranks): use an optimizer with"));
    assert!(found.notes.iter().any(|note| note.contains("already shards its model")), "{found:?}");
    // A single rank shards nothing, and neither does another program.
    for (file, ranks) in [(file, 1), ("model.py", 8)] {
        let found = idle_state("cuda:0", file, ranks);
        assert!(only(&found, AdviceKind::Idle).change.contains("less state, shard it, or offload"));
        assert!(!found.notes.iter().any(|note| note.contains("shard")), "{found:?}");
    }
}

#[test]
fn host_memory_is_not_advised_to_move_to_the_host() {
    let found = idle_state("cpu", "model.py", 1);
    let change = &only(&found, AdviceKind::Idle).change;
    assert_eq!(change, "use an optimizer with less state, or shard it");
    for advice in &found.advice {
        assert!(!advice.change.contains("host memory"), "{advice:?}");
    }
}

/// A step whose gradients stay; no segments are recorded, so reserved bytes are unknown.
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
fn unread_gradients_are_advised_with_their_own_bytes() {
    let found = ask(&format!("{STEP}\nalloc h1 cuda:0 64KiB at m.py:1 in fc\nfree ga\nfree gb"));
    let advice = only(&found, AdviceKind::StaleGradients);
    let [saved, left] = [6, 65].map(|kib| Some(Bytes(kib * KIB)));
    assert_eq!(figures(advice), [saved, None, left, None]);
}

#[test]
fn temporaries_of_all_optimizer_steps_are_left_out() {
    let step = |n: u32, kib: u32| {
        format!(
            "optimizer begin
             alloc t{n} cuda:0 {kib}KiB at o.py:2:step
             free t{n}
             optimizer end
             "
        )
    };
    let found = ask(&format!("{STEP}{}{}", step(0, 60), step(1, 64)));
    let advice = only(&found, AdviceKind::OptimizerTemporaries);
    // Without those of the other step too: else its 60 KiB would be the peak.
    let [saved, left] = [64, 7].map(|kib| Some(Bytes(kib * KIB)));
    assert_eq!(figures(advice), [saved, None, left, None]);
}

#[test]
fn the_cpu_has_no_settings_to_change() {
    let found = ask("alloc a cpu 1MiB at t.py:1\nfree a");
    assert_eq!((found.peak_reserved, found.is_reproduced), (None, None));
    assert_eq!(found.notes[0], "cpu has no caching allocator whose settings could be changed");
}

/// Four blocks, each with 8 MiB that autograd saves and an output of 2 MiB, and their backward pass.
fn blocks(segments: bool) -> String {
    let on = |name: &str| if segments { format!("on {name}") } else { String::new() };
    let mut script = String::new();
    for n in 0..4 {
        if segments {
            script += &format!("segment A{n} cuda:0 12MiB\nsegment O{n} cuda:0 12MiB\n");
        }
        script += &format!(
            "alloc a{n} cuda:0 8MiB {} at m.py:1 in layers.{n}
             alloc o{n} cuda:0 2MiB {} at m.py:2 in layers.{n}
             ",
            on(&format!("A{n}")),
            on(&format!("O{n}")),
        );
    }
    if segments {
        script += "segment G cuda:0 12MiB\n";
    }
    for n in (0..4).rev() {
        script += &format!(
            "backward alloc g{n} cuda:0 2MiB {} at m.py:1 in layers.{n}
             free a{n}
             free o{n}
             free g{n}
             ",
            on("G")
        );
    }
    script
}

/// The outputs stay (8 MiB); the last block is allocated again (8 MiB) beside its gradient (2 MiB).
#[test]
fn checkpointed_blocks_are_live_one_at_a_time() {
    for segments in [false, true] {
        let found = ask(&blocks(segments));
        assert_eq!(found.peak_allocated, Bytes(42 * MIB));
        let advice = only(&found, AdviceKind::Checkpointing);
        assert_eq!(advice.peak_allocated, Bytes(18 * MIB), "segments: {segments}");
        assert_eq!(advice.finding, "activations of 4 blocks, layers.* (Layer): 40.00 MiB live");
        assert!(!advice.assumes.is_empty());
    }
}

/// The experts have nearly all bytes, and are still part of their layers; the two stages are too few.
#[test]
fn blocks_are_the_outermost_of_at_least_four() {
    let mut script = String::new();
    for n in 0..4 {
        for expert in 0..8 {
            script += &format!(
                "alloc e{n}_{expert} cuda:0 1MiB at m.py:1 in stages.{}.layers.{}.experts.{expert}.up\n",
                n / 2,
                n % 2
            );
        }
    }
    script += "backward alloc g cuda:0 1MiB at m.py:1 in head";
    let found = ask(&script);
    assert_eq!(found.causes[0].kind, CauseKind::BlockActivations);
    assert!(
        found.causes[0].name.contains("4 blocks, stages.*.layers.*"),
        "{}",
        found.causes[0].name
    );
}

#[derive(serde::Deserialize)]
struct Model {
    name: String,
    /// The class of every module. Those of torch's lists are never called.
    modules: BTreeMap<String, String>,
    blocks: Option<Blocks>,
}

#[derive(serde::Deserialize)]
struct Blocks {
    class: String,
    count: usize,
}

/// `test_repeated_blocks.py` finds the same ones in the modules themselves.
#[test]
fn the_blocks_of_a_trace_are_those_of_the_program() {
    let table = include_str!("../../../../fixtures/repeated_blocks.json");
    let models: Vec<Model> = serde_json::from_str(table).unwrap();
    for model in models {
        let mut script = String::new();
        for (at, (path, class)) in model.modules.iter().enumerate() {
            if class != "ModuleList" && class != "Sequential" {
                script += &format!("alloc a{at} cuda:0 1MiB at m.py:1 in {path}:{class}\n");
            }
        }
        script += "backward alloc g cuda:0 1MiB at m.py:1 in head:Head";
        let found = ask(&script);
        let mut causes = found.causes.iter();
        let blocks = causes.find(|cause| cause.kind == CauseKind::BlockActivations);
        match (blocks, model.blocks) {
            (Some(cause), Some(Blocks { class, count })) => {
                let name = &cause.name;
                assert!(name.contains(&format!("{count} blocks, ")), "{}: {name}", model.name);
                assert!(name.contains(&format!("({class})")), "{}: {name}", model.name);
            }
            (found, expected) => {
                assert!(found.is_none() && expected.is_none(), "{}: {found:?}", model.name);
            }
        }
    }
}

#[test]
fn every_live_byte_has_one_cause_and_the_largest_comes_first() {
    let found = ask(&format!(
        "alloc w cuda:0 3MiB at m.py:9:__init__
         label w parameter head.weight (4,4) bfloat16
         {}",
        blocks(false)
    ));
    let causes: Vec<_> = found.causes.iter().map(|cause| (cause.kind, cause.bytes)).collect();
    let expected = [
        (CauseKind::BlockActivations, Bytes(40 * MIB)),
        (CauseKind::Parameters, Bytes(3 * MIB)),
        (CauseKind::Temporaries, Bytes(2 * MIB)),
    ];
    assert_eq!(causes, expected);
    assert_eq!(found.causes[1].name, "parameters (bfloat16)");
}

/// They are the other ones only where some are of blocks or of the loss.
#[test]
fn activations_of_no_block_are_activations() {
    let found = ask("alloc a cuda:0 4MiB at m.py:1 in body\nlabel a activation a (1,) float32");
    let [cause] = &found.causes[..] else { panic!("{:?}", found.causes) };
    assert_eq!((cause.kind, &*cause.name), (CauseKind::Activations, "activations"));
}

/// 512 × 32,000 values of two bytes; the loss is none that torch has a function for.
#[test]
fn the_output_of_the_last_layer_is_logits_for_any_loss() {
    let ask_with = |class: &str, rows: u64| {
        let blocks = blocks(false);
        let (forward, backward) = blocks.split_once("backward").unwrap();
        ask(&format!(
            "alloc w cuda:0 1MiB at m.py:9:__init__
             label w parameter head.weight ({rows},768) bfloat16
             {forward}
             alloc logits cuda:0 32000KiB at m.py:3 in head:{class}
             alloc scores cuda:0 32000KiB at dpo.py:5
             backward alloc gradient cuda:0 32000KiB at dpo.py:5
             free scores
             free logits
             free gradient
             backward {backward}"
        ))
    };
    let found = ask_with("Linear", 32_000);
    assert_eq!(found.causes[0].kind, CauseKind::Logits);
    assert_eq!(found.causes[0].name, "logits and loss: 3 tensors of up to 31.25 MiB");
    for (class, rows) in [("Linear", 31_000), ("Linear", 500), ("Layer", 32_000)] {
        let causes = ask_with(class, rows).causes;
        assert!(causes.iter().all(|cause| cause.kind != CauseKind::Logits), "{class} {rows}");
    }
}

/// The logits, their cast and the gradient of both have one size or its half.
#[test]
fn a_chunked_loss_has_an_eighth_of_the_logits() {
    let found = ask("alloc h cuda:0 1MiB at m.py:1 in body
         alloc half cuda:0 32MiB at m.py:2 in head
         alloc whole cuda:0 64MiB at m.py:3:forward > torch/nn/functional.py:7:cross_entropy in head
         backward alloc gradient cuda:0 64MiB at m.py:3 in head
         free whole
         free gradient
         backward alloc g cuda:0 1MiB at m.py:1 in body
         free half
         free h
         free g");
    assert_eq!(found.causes[0].kind, CauseKind::Logits);
    assert_eq!(found.causes[0].name, "logits and loss: 3 tensors of up to 64.00 MiB");
    let advice = only(&found, AdviceKind::Logits);
    assert_eq!(advice.peak_allocated, Bytes((1 + 4 + 8 + 8) * MIB));
}

#[test]
fn the_failed_allocation_is_one_of_the_causes() {
    let found = ask("alloc a cuda:0 4MiB at t.py:1\noom cuda:0 32MiB at t.py:2");
    assert_eq!(found.causes[0].kind, CauseKind::FailedAllocation);
    assert_eq!(found.causes[0].location.as_deref(), Some("t.py:2 (main)"));
}
