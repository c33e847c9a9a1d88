use std::collections::BTreeSet;

use floodmark_trace::{Numerics, PeakPart as Part};
use proptest::prelude::*;

use super::*;
use crate::search::change::Checkpointed;
use crate::search::change_rows::usual_cost;
use crate::search::peak_model::{Forecast, PeakModel};

const GIB: u64 = 1 << 30;

/// A program whose needs are those of its model, but for `error`.
#[derive(Debug, Clone)]
struct Program {
    capacity: u64,
    model: PeakModel,
    /// Changes that find nothing to apply to.
    unsuitable: Vec<&'static str>,
    /// A change with which it fails.
    fatal: &'static str,
    /// By how large a part a need is more or less than the model says; another one for each combination.
    error: f64,
    /// How much larger a GPU fits because torch frees cached blocks.
    cached: u64,
    asked: Vec<String>,
}

/// A transformer: blocks, logits, gradients, states, temporaries.
fn transformer(inner: u64, logits: u64, states: u64) -> PeakModel {
    let mib = |parts: &[(Part, u64)]| {
        let known = [(Part::Parameters, states / 2), (Part::OptimizerStates, states)];
        let all = known.iter().chain(parts);
        all.map(|&(part, mib)| (part, Bytes(mib << 20))).collect()
    };
    let half = states / 2;
    PeakModel {
        moments: vec![
            mib(&[
                (Part::InnerActivations, inner),
                (Part::BlockOutputs, inner / 20),
                (Part::Logits, logits),
            ]),
            mib(&[
                (Part::InnerActivations, inner),
                (Part::BlockOutputs, inner / 20),
                (Part::StaleGradients, half),
            ]),
            mib(&[(Part::Gradients, half), (Part::OptimizerTemporaries, half)]),
            mib(&[(Part::Gradients, half), (Part::InnerActivations, inner / 24)]),
        ],
        beside: Bytes(600 << 20),
        wasted: Bytes(100 << 20),
        is_half: false,
        trains: true,
        blocks: Some(24),
        steps_per_gib: Some(0.2),
    }
}

impl Program {
    fn new(model: PeakModel) -> Self {
        let (unsuitable, fatal, asked) = (vec!["optimizer-states=8bit"], "-", Vec::new());
        Self { capacity: 0, model, unsuitable, fatal, error: 0.0, cached: 0, asked }
    }

    /// One that has `percent` of what the program needs.
    fn with(mut self, percent: u64) -> Self {
        self.capacity = self.need(&Vec::new()).needed.0 / 100 * percent;
        self
    }

    fn need(&self, combination: &Combination) -> Need {
        let (mut not_applied, mut applied) = (Vec::new(), Vec::new());
        for change in combination {
            if self.unsuitable.contains(&&*change.to_string()) {
                not_applied.push((change.clone(), "nothing to apply to".to_owned()));
            } else {
                applied.push(change);
            }
        }
        let position = |change: &Change| {
            if let Change::Argument { value, .. } = change { value.ilog2() - 1 } else { 0 }
        };
        let with_positions = applied.iter().map(|change| (*change, position(change)));
        let guess = Forecast::new(&self.model, with_positions).guess(u64::MAX, None);
        let name = applied.iter().map(ToString::to_string).collect::<String>();
        let chance = name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
        let error = self.error * (f64::from(chance % 2001) / 1000.0 - 1.0);
        let error = if applied.is_empty() { 0.0 } else { error };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes")]
        let needed = Bytes((guess.needed * (1.0 + error)) as u64);
        let cost = applied.iter().map(|change| usual_cost(change)).max().unwrap_or(Cost::Nothing);
        let is_checkpoint = |change: &&&Change| matches!(change, Change::Checkpoint(_));
        Need {
            needed,
            fits: needed.0 <= self.capacity + self.cached,
            slows: cost >= Cost::Time,
            numerics: match cost {
                Cost::Nothing | Cost::Time | Cost::Gpus => Numerics::Same,
                Cost::Results => Numerics::Changed,
                Cost::Training => Numerics::Training,
            },
            slow_down: guess.time,
            blocks: applied.iter().find(is_checkpoint).and(self.model.blocks),
            gpus: applied.iter().map(|change| change.gpus()).max().unwrap_or(1),
            not_applied,
            best_settings: None,
            model: applied.is_empty().then(|| self.model.clone()),
        }
    }

    fn attempt(&mut self, combination: &Combination) -> TryOutcome {
        let names: Vec<String> = combination.iter().map(ToString::to_string).collect();
        self.asked.push(names.join(" + "));
        if names.iter().any(|name| name == self.fatal) {
            return TryOutcome::LeftOut("the program fails with it".to_owned());
        }
        TryOutcome::Ran(self.need(combination))
    }

    fn search(&mut self, allowed: &Allowed) -> PlanSearch {
        let capacity = Bytes(self.capacity);
        let found = cheapest_that_fits(capacity, allowed, 2, |batch| {
            Ok::<_, ()>(batch.iter().map(|one| self.attempt(one)).collect())
        });
        found.unwrap()
    }

    fn plan(&mut self) -> Option<String> {
        self.search(&Allowed::default()).plan.map(|plan| named(&plan))
    }

    /// The price of the cheapest combination that fits, of all that there are.
    fn exhaustive(&self) -> Option<Price> {
        let mut choices = Choices::new(candidates(&Allowed::default(), &self.need(&Vec::new())));
        for name in &self.unsuitable {
            choices.leave_out(&name.parse().unwrap());
        }
        let guesses = Guesses::new(&choices, &self.need(&Vec::new()));
        let price = |choice: Choice| {
            let combination = choices.combination(choice);
            let need = self.need(&combination);
            need.fits.then(|| need.price(&combination, Bytes(self.capacity)))
        };
        // What costs less is always cheaper.
        Cost::ALL.into_iter().find_map(|cost| {
            let of_cost = choices.untried(&guesses, cost);
            let counted = of_cost.flat_map(|choice| {
                let counts = 1..=if choices.checkpoints_all(choice) { 24 } else { 1 };
                counts.map(move |count| Choice { blocks: Some(count), ..choice })
            });
            counted.filter_map(price).min_by(Price::total_cmp)
        })
    }
}

fn named(plan: &Combination) -> String {
    plan.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ")
}

#[test]
fn a_program_that_fits_is_left_as_it_is() {
    let mut program = Program::new(transformer(4000, 2000, 2000)).with(100);
    assert_eq!(program.plan().as_deref(), Some(""));
    assert_eq!(program.asked, [""]);
}

#[test]
fn a_change_without_a_cost_that_is_enough_is_tried_first() {
    // Temporaries of the optimizer are the peak.
    let mut program = Program::new(transformer(500, 100, 4000)).with(90);
    assert_eq!(program.plan().as_deref(), Some("fused"));
    assert!(program.asked.len() <= 4, "{:?}", program.asked);
}

#[test]
fn as_few_blocks_are_checkpointed_as_it_takes() {
    let program = Program::new(transformer(8000, 100, 1000)).with(60);
    let plan = program.clone().search(&Allowed::default()).plan.unwrap();
    let blocks = |change: &Change| {
        let Change::Checkpoint(Checkpointed::Blocks(blocks)) = change else { return None };
        Some(*blocks)
    };
    let count = plan.iter().find_map(blocks).unwrap();
    let fewer = plan.iter().map(|change| match blocks(change) {
        Some(_) => Change::Checkpoint(Checkpointed::Blocks(count - 1)),
        None => change.clone(),
    });
    assert!(program.need(&plan).fits && !program.need(&fewer.collect()).fits, "{plan:?}");
}

#[test]
fn results_are_changed_only_where_nothing_else_is_enough() {
    let is_changing = |plan: &str| plan.contains("bf16") || plan.contains("8bit");
    let mut seen = BTreeSet::new();
    for percent in 5..100 {
        let mut program = Program::new(transformer(4000, 2000, 2000)).with(percent);
        let Some(plan) = program.plan() else { continue };
        seen.insert(is_changing(&plan));
        assert!(!(seen.contains(&false) && is_changing(&plan)), "{percent}: {plan}");
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_change_that_finds_nothing_to_apply_to_costs_no_try_of_its_own() {
    let mut program = Program::new(transformer(4000, 2000, 2000)).with(55);
    program.unsuitable.extend(["free-gradients", "chunked-loss=8", "offload-activations=async"]);
    let found = program.search(&Allowed::default());
    let plan = named(&found.plan.unwrap());
    assert!(
        !program.unsuitable.iter().any(|name| plan.split(" + ").any(|one| one == *name)),
        "{plan}"
    );
    assert!(program.asked.len() <= 12, "{:?}", program.asked);
}

#[test]
fn a_change_is_tried_before_it_is_given_up_even_if_nothing_says_that_it_saves() {
    // The trace of a program without modules does not tell what is temporary.
    let mut program = Program::new(transformer(100, 100, 6000)).with(80);
    let capacity = Bytes(program.capacity);
    let found = cheapest_that_fits(capacity, &Allowed::default(), 2, |batch| {
        let without_model = |one: &Combination| match program.attempt(one) {
            TryOutcome::Ran(need) => TryOutcome::Ran(Need { model: None, ..need }),
            other @ (TryOutcome::LeftOut(_) | TryOutcome::NotTried) => other,
        };
        Ok::<_, ()>(batch.iter().map(without_model).collect())
    });
    assert!(program.need(&found.unwrap().plan.unwrap()).fits);
}

#[test]
fn a_change_with_which_the_program_fails_is_found_and_left_out() {
    for fatal in ["fused", "chunked-loss=8", "allocator=expandable_segments:True"] {
        let mut program = Program::new(transformer(4000, 3000, 2000)).with(50);
        program.fatal = fatal;
        let plan = program.plan().unwrap();
        assert!(!plan.contains(fatal), "{plan}");
    }
}

#[test]
fn states_leave_the_gpu_within_the_backward_pass_only_after_updates_in_it_suited_the_program() {
    let host = "optimizer-in-backward=offload";
    let asked = |program: &Program| program.asked.iter().position(|one| one.contains(host));
    let mut program = Program::new(transformer(1000, 200, 9000)).with(40);
    let plan = program.plan().unwrap();
    assert!(plan.contains(host), "{plan}");
    let gpu = |one: &String| one.split(" + ").any(|one| one == "optimizer-in-backward");
    assert!(program.asked.iter().position(gpu) < asked(&program), "{:?}", program.asked);
    let mut program = Program::new(transformer(1000, 200, 9000)).with(40);
    program.unsuitable.push("optimizer-in-backward");
    program.plan();
    assert_eq!(asked(&program), None);
}

#[test]
fn more_gpus_are_used_only_where_allowed_and_only_as_many_as_it_takes() {
    let plan = |percent, gpus| {
        let allowed = Allowed { gpus, ..Allowed::default() };
        let mut program = Program::new(transformer(2000, 500, 9000)).with(percent);
        program.unsuitable.extend([
            "bf16-parameters",
            "autocast=bf16",
            "optimizer-in-backward",
            "offload-optimizer-states",
            "adapters=lora:16",
            "adapters=qlora:16",
            "optimizer=adafactor",
        ]);
        program.search(&allowed).plan.map(|plan| named(&plan))
    };
    let gpus = |percent| {
        let plan = plan(percent, 8).unwrap_or_default();
        plan.split("fsdp=").nth(1).map_or(1, |rest| rest[..1].parse::<u32>().unwrap())
    };
    // The less memory, the more of them.
    let counts: Vec<u32> = [90, 45, 30, 20].map(gpus).into();
    assert_eq!(counts[0], 1);
    assert!(counts.is_sorted() && counts[3] > 1, "{counts:?}");
    assert_eq!(plan(20, 1), None);
}

#[test]
fn settings_that_a_simulation_found_are_tried_too() {
    let mut model = transformer(4000, 2000, 2000);
    (model.beside, model.wasted) = (Bytes(4 * GIB), Bytes(4 * GIB));
    let mut program = Program::new(model).with(85);
    program.unsuitable.push("allocator=expandable_segments:True");
    let capacity = Bytes(program.capacity);
    let found = cheapest_that_fits(capacity, &Allowed::default(), 2, |batch| {
        let with_settings = |one: &Combination| match program.attempt(one) {
            TryOutcome::Ran(need) => TryOutcome::Ran(Need {
                best_settings: Some("max_split_size_mb:64".to_owned()),
                ..need
            }),
            other @ (TryOutcome::LeftOut(_) | TryOutcome::NotTried) => other,
        };
        Ok::<_, ()>(batch.iter().map(with_settings).collect())
    });
    let plan = named(&found.unwrap().plan.unwrap());
    assert!(plan.contains("allocator=max_split_size_mb:64"), "{plan}");
}

#[test]
fn of_an_argument_the_first_value_that_fits_is_taken() {
    let value = |value| Change::Argument { name: "ACC".to_owned(), value };
    let arguments = [2, 4, 8].map(value).to_vec();
    let allowed = Allowed { arguments, ..Allowed::default() };
    let plan = |percent| {
        let mut program = Program::new(transformer(100, 9000, 500)).with(percent);
        program.unsuitable.push("chunked-loss=head");
        let found = program.search(&allowed);
        assert!(!program.asked.iter().any(|one| one.contains("ACC=2 + ACC=4")));
        named(&found.plan.unwrap())
    };
    assert!(plan(57).contains("ACC=2"), "{}", plan(57));
    assert!(plan(37).contains("ACC=4"), "{}", plan(37));
}

#[test]
fn without_time_there_is_no_plan_but_what_was_tried() {
    let mut program = Program::new(transformer(4000, 2000, 2000)).with(55);
    program.error = 0.3;
    let mut left = 1;
    let found = cheapest_that_fits(Bytes(program.capacity), &Allowed::default(), 2, |batch| {
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

/// Copies that are slower than the model says make no other change slower.
#[test]
fn a_slow_try_says_nothing_about_choices_without_its_slow_change() {
    let program = Program::new(transformer(1500, 3500, 2000));
    let unchanged = program.need(&Vec::new());
    let choices = Choices::new(candidates(&Allowed::default(), &unchanged));
    let mut guesses = Guesses::new(&choices, &unchanged);
    let changes =
        |names: [&str; 2]| -> Combination { names.map(|name| name.parse().unwrap()).into() };
    let other = choices.choice(&changes(["chunked-loss=head", "checkpoint=all"])).unwrap();
    let before = guesses.guess(other);
    let ran = changes(["chunked-loss=head", "offload-activations=async"]);
    guesses.learn(&choices, &ran, &Need { slow_down: 5.0, ..program.need(&ran) });
    assert_eq!(guesses.guess(other), before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Where the model is right, the plan costs no more than the cheapest of all combinations.
    #[test]
    fn a_plan_is_the_cheapest_that_there_is_where_guesses_are_right(
        inner in 200_u64..9000, logits in 100_u64..9000, states in 200_u64..9000, percent in 20_u64..99,
    ) {
        let program = Program::new(transformer(inner, logits, states)).with(percent);
        let plan = program.clone().search(&Allowed::default()).plan;
        let price = plan.map(|plan| program.need(&plan).price(&plan, Bytes(program.capacity)));
        prop_assert_eq!(price, program.exhaustive());
    }

    /// However wrong guesses are: a plan was tried and fits, and at most a dozen runs make and prove it where they are
    /// wrong by little.
    #[test]
    fn a_plan_was_tried_and_takes_few_runs(
        inner in 200_u64..9000, logits in 100_u64..9000, states in 200_u64..9000, percent in 20_u64..99,
        error in 0.0..0.3_f64,
    ) {
        let mut program = Program::new(transformer(inner, logits, states)).with(percent);
        program.error = error;
        let found = program.search(&Allowed::default());
        prop_assert!(program.asked.len() <= 1 + MOST_TRIES_IN_VAIN, "{:?}", program.asked);
        if let Some(plan) = found.plan {
            let fits = matches!(&found.tried[&plan], TryOutcome::Ran(need) if need.fits);
            prop_assert!(fits && program.need(&plan).fits);
            // One more run proves it.
            prop_assert!(error > 0.05 || program.asked.len() <= 1 + MOST_TRIES, "{:?}", program.asked);
        } else if error < 0.05 {
            // A plan may be missed only where it is close to the least that there is: the search is greedy.
            let mut roomier = program.clone();
            roomier.capacity -= roomier.capacity / 8;
            prop_assert!(roomier.exhaustive().is_none(), "{:?}", program.asked);
        }
    }
}
