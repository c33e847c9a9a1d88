use floodmark_trace::Numerics;

use super::*;

const BLOCKS: u32 = 24;
const UNCHANGED: u64 = 1000;

/// A program whose changes save what is listed, in a GPU of `capacity`.
struct Program {
    capacity: u64,
    saves: Vec<(&'static str, u64)>,
    /// The additional saving of a change once blocks are checkpointed.
    after_checkpointing: (&'static str, u64),
    /// In the order of the requests.
    asked: Vec<String>,
    best_settings: Option<&'static str>,
    /// The cached memory that torch can free when the GPU is full.
    cached: u64,
}

impl Program {
    fn new(capacity: u64, saves: &[(&'static str, u64)]) -> Self {
        let after_checkpointing = ("", 0);
        let (saves, asked, best_settings) = (saves.to_vec(), Vec::new(), None);
        Self { capacity, saves, after_checkpointing, asked, best_settings, cached: 0 }
    }

    fn saved(&self, change: &Change) -> Option<u64> {
        let of = |name: &str| self.saves.iter().find(|(known, _)| *known == name);
        if let Change::Checkpoint(Checkpointed::Blocks(count)) = change {
            let (_, all) = of("checkpoint=all")?;
            return Some(all * u64::from(*count) / u64::from(BLOCKS));
        }
        of(&change.to_string()).map(|(_, bytes)| *bytes)
    }

    fn attempt(&mut self, combination: &Combination) -> TryOutcome {
        let names: Vec<String> = combination.iter().map(ToString::to_string).collect();
        self.asked.push(names.join(" + "));
        let mut needed = UNCHANGED;
        let (mut slows, mut numerics, mut blocks) = (false, Numerics::Same, None);
        for change in combination {
            let Some(saved) = self.saved(change) else {
                return TryOutcome::LeftOut("nothing to apply to".to_owned());
            };
            needed -= saved;
            let (later, more) = self.after_checkpointing;
            let is_checkpoint = |change: &Change| matches!(change, Change::Checkpoint(_));
            if change.to_string() == later && combination.iter().any(is_checkpoint) {
                needed -= more;
            }
            match change {
                Change::Autocast(_) | Change::EightBitStates | Change::Bf16Parameters => {
                    numerics = Numerics::Changed;
                }
                Change::Allocator(_) | Change::Fused | Change::FreeGradients => {}
                Change::Compile | Change::ChunkedLoss(_) | Change::SdpaAttention => {
                    numerics = numerics.max(Numerics::Rounding);
                }
                Change::Checkpoint(_) => (slows, blocks) = (true, Some(BLOCKS)),
                Change::Fsdp(_)
                | Change::ForeachOff
                | Change::OptimizerInBackward(_)
                | Change::OffloadOptimizerStates
                | Change::OffloadActivations(_)
                | Change::Argument { .. } => {
                    slows = true;
                }
            }
        }
        let fits = needed <= self.capacity + self.cached;
        let slow_down = slow_down(combination, slows);
        let gpus = combination.iter().map(Change::gpus).max().unwrap_or(1);
        let needed = Bytes(needed);
        let best_settings = self.best_settings.map(str::to_owned);
        let need = Need { needed, fits, slows, numerics, slow_down, blocks, gpus, best_settings };
        TryOutcome::Ran(need)
    }

    fn plan(&mut self) -> Option<String> {
        self.plan_with(Allowed::default())
    }

    fn plan_with(&mut self, allowed: Allowed) -> Option<String> {
        let capacity = Bytes(self.capacity);
        let found = cheapest_that_fits(capacity, allowed, 2, |batch| {
            Ok::<_, ()>(batch.iter().map(|one| self.attempt(one)).collect())
        });
        let plan = found.unwrap().plan?;
        Some(plan.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "))
    }
}

/// States that are fetched one by one make a step slow, less so where one kernel updates a parameter.
fn slow_down(combination: &Combination, slows: bool) -> f64 {
    match (combination.contains(&Change::OffloadOptimizerStates), slows) {
        (true, _) if combination.contains(&Change::Fused) => 2.2,
        (true, _) => 4.3,
        (false, true) => 1.3,
        (false, false) => 1.0,
    }
}

const USUAL: [(&str, u64); 6] = [
    ("fused", 50),
    ("chunked-loss=8", 100),
    ("checkpoint=all", 480),
    ("checkpoint=selective", 120),
    ("offload-activations", 30),
    ("bf16-parameters", 200),
];

#[test]
fn a_program_that_fits_is_left_as_it_is() {
    let mut program = Program::new(1000, &USUAL);
    assert_eq!(program.plan().as_deref(), Some(""));
    assert_eq!(program.asked, [""]);
}

#[test]
fn free_changes_come_first() {
    assert_eq!(Program::new(960, &USUAL).plan().as_deref(), Some("fused"));
    assert_eq!(Program::new(900, &USUAL).plan().as_deref(), Some("chunked-loss=8"));
    assert_eq!(Program::new(860, &USUAL).plan().as_deref(), Some("fused + chunked-loss=8"));
}

#[test]
fn as_few_blocks_are_checkpointed_as_it_takes() {
    // 150 without a cost, 20 for each block.
    let mut program = Program::new(490, &USUAL);
    assert_eq!(program.plan().as_deref(), Some("fused + chunked-loss=8 + checkpoint=18"));
    assert!(program.asked.len() < 30, "{:?}", program.asked);
}

#[test]
fn results_are_changed_only_where_nothing_else_is_enough() {
    let plan = Program::new(100, &USUAL).plan();
    assert!(plan.is_none(), "{plan:?}");
    let plan = Program::new(200, &[("checkpoint=all", 480), ("bf16-parameters", 400)]).plan();
    assert_eq!(plan.as_deref(), Some("checkpoint=20 + bf16-parameters"));
}

#[test]
fn a_change_that_is_not_needed_is_taken_out_again() {
    let saves = [("fused", 50), ("free-gradients", 10), ("checkpoint=all", 480)];
    let plan = Program::new(945, &saves).plan();
    assert_eq!(plan.as_deref(), Some("fused + free-gradients"));
    let plan = Program::new(470, &saves).plan();
    assert_eq!(plan.as_deref(), Some("fused + checkpoint=all"));
}

#[test]
fn free_changes_stay_if_torch_would_have_to_free_its_cache() {
    let saves = [("fused", 10), ("checkpoint=all", 480)];
    assert_eq!(Program::new(540, &saves).plan().as_deref(), Some("checkpoint=23"));
    let mut program = Program::new(500, &saves);
    program.cached = 40;
    assert_eq!(program.plan().as_deref(), Some("fused + checkpoint=23"));
}

#[test]
fn free_changes_that_save_time_stay() {
    let saves = [("fused", 5), ("free-gradients", 10), ("offload-optimizer-states", 300)];
    let plan = Program::new(700, &saves).plan();
    assert_eq!(plan.as_deref(), Some("fused + offload-optimizer-states"));
}

#[test]
fn changes_that_save_nothing_alone_are_tried_after_the_peak_moved() {
    let saves = [("chunked-loss=8", 0), ("checkpoint=all", 480), ("bf16-parameters", 300)];
    let mut program = Program::new(400, &saves);
    program.after_checkpointing = ("chunked-loss=8", 150);
    assert_eq!(program.plan().as_deref(), Some("chunked-loss=8 + checkpoint=23"));
}

#[test]
fn a_plan_is_found_for_every_limit_that_all_changes_together_reach() {
    let floor = UNCHANGED - 50 - 100 - 480 - 30 - 200;
    for capacity in 0..UNCHANGED {
        let mut program = Program::new(capacity, &USUAL);
        let Some(plan) = program.plan() else {
            assert!(capacity < floor, "{capacity}");
            continue;
        };
        let changes = plan.split(" + ").map(|one| one.parse().unwrap()).collect();
        let TryOutcome::Ran(need) = program.attempt(&changes) else { panic!("{plan}") };
        assert!(need.fits && capacity >= floor, "{capacity}: {plan}");
    }
}

#[test]
fn where_nothing_fits_all_changes_were_tried_together() {
    let mut program = Program::new(1, &USUAL);
    assert_eq!(program.plan(), None);
    let all = "fused + chunked-loss=8 + checkpoint=all + offload-activations + bf16-parameters";
    assert!(program.asked.iter().any(|asked| asked == all), "{:#?}", program.asked);
    assert!(program.asked.len() < 60, "{}", program.asked.len());
}

#[test]
fn without_time_there_is_no_plan_but_what_was_tried() {
    let mut left = 3;
    let mut program = Program::new(490, &USUAL);
    let found = cheapest_that_fits(Bytes(490), Allowed::default(), 2, |batch| {
        let mut outcomes = Vec::new();
        for one in batch {
            outcomes.push(if left > 0 { program.attempt(one) } else { TryOutcome::NotTried });
            left -= i32::from(left > 0);
        }
        Ok::<_, ()>(outcomes)
    });
    let found = found.unwrap();
    assert_eq!(found.plan, None);
    assert!(found.tried.values().any(|one| *one == TryOutcome::NotTried));
}

#[test]
fn more_gpus_are_used_only_where_allowed_and_only_as_many_as_it_takes() {
    let saves = [
        ("checkpoint=all", 240),
        ("bf16-parameters", 300),
        ("fsdp=2", 300),
        ("fsdp=4", 400),
        ("fsdp=8", 450),
    ];
    let plan = |capacity, gpus| {
        let allowed = Allowed { gpus, ..Allowed::default() };
        Program::new(capacity, &saves).plan_with(allowed)
    };
    assert_eq!(plan(800, 8).as_deref(), Some("checkpoint=20"));
    assert_eq!(plan(600, 1).as_deref(), Some("checkpoint=10 + bf16-parameters"));
    assert_eq!(plan(600, 8).as_deref(), Some("checkpoint=10 + fsdp=2"));
    assert_eq!(plan(400, 8).as_deref(), Some("checkpoint=20 + fsdp=4"));
    assert_eq!(plan(400, 2).as_deref(), Some("fsdp=2 + bf16-parameters"));
    assert_eq!(plan(300, 1), None);
}

#[test]
fn gradients_and_states_leave_the_gpu_together_before_results_change() {
    let saves = [
        ("checkpoint=all", 240),
        ("optimizer-in-backward", 100),
        ("offload-optimizer-states", 200),
        ("optimizer-in-backward=offload", 350),
        ("bf16-parameters", 400),
    ];
    let on_host = "optimizer-in-backward=offload";
    let asked = |program: &Program| program.asked.iter().any(|one| one.contains(on_host));
    let mut program = Program::new(560, &saves);
    let plan = program.plan();
    assert_eq!(plan.as_deref(), Some("checkpoint=all + offload-optimizer-states"));
    assert!(!asked(&program), "{:?}", program.asked);
    let plan = Program::new(500, &saves).plan();
    assert_eq!(plan.as_deref(), Some("checkpoint=15 + optimizer-in-backward=offload"));
    // Where updates in the backward pass do not suit the program, this one is no candidate.
    let mut program = Program::new(500, &saves[2..]);
    assert_eq!(program.plan().as_deref(), Some("offload-optimizer-states + bf16-parameters"));
    assert!(!asked(&program), "{:?}", program.asked);
}

#[test]
fn settings_that_a_simulation_found_are_tried_too() {
    let saves =
        [("allocator=expandable_segments:True", 50), ("allocator=max_split_size_mb:64", 90)];
    assert_eq!(Program::new(920, &saves).plan(), None);
    let mut program = Program::new(920, &saves);
    program.best_settings = Some("max_split_size_mb:64");
    assert_eq!(program.plan().as_deref(), Some("allocator=max_split_size_mb:64"));
}

#[test]
fn of_an_argument_the_first_value_that_fits_is_taken() {
    let saves = [("checkpoint=all", 240), ("ACC=2", 250), ("ACC=4", 375), ("ACC=8", 435)];
    let plan = |capacity| {
        let value = |value| Change::Argument { name: "ACC".to_owned(), value };
        let arguments = [2, 4, 8].map(value).to_vec();
        let allowed = Allowed { arguments, ..Allowed::default() };
        let mut program = Program::new(capacity, &saves);
        (program.plan_with(allowed), program.asked)
    };
    assert_eq!(plan(800).0.as_deref(), Some("checkpoint=20"));
    assert_eq!(plan(755).0.as_deref(), Some("ACC=2"));
    assert_eq!(plan(520).0.as_deref(), Some("checkpoint=23 + ACC=2"));
    assert_eq!(plan(400).0.as_deref(), Some("checkpoint=23 + ACC=4"));
    let (none, asked) = plan(1);
    assert_eq!(none, None);
    assert!(!asked.iter().any(|one| one.contains("ACC=2 + ACC=4")), "{asked:?}");
}
