//! The cheapest changes with which a program fits, with few tries.
//!
//! The program as it is comes first, then every change alone. Those that save memory are combined, the cheapest
//! first: what costs nothing, then what costs time, then what changes results, each group by the memory it saves.
//! Combinations that cannot fit, by what each of their changes saves alone, are left out.
//! As soon as a combination fits, changes that it does not need are taken out again, and of the repeated blocks only
//! as many are checkpointed as it takes. Where none fits, all changes together and the pairs of the strongest are tried
//! with every kind of checkpointing, so that the least need is known. The search runs nothing itself: `attempt` gets a batch
//! of combinations, which may be tried at the same time.

use std::collections::BTreeMap;

use floodmark_trace::Bytes;

use crate::change::{Change, Checkpointed, HalfPrecision, HostCopies, StatesIn};
use crate::combination::{excludes, joined, with};
use crate::fewest_blocks::{BlockNeed, BlockSearch};
use crate::plan_need::{Alone, Combination, Cost, Need, Outcome};

/// So many of the changes that save most are combined in pairs where nothing fits.
const STRONGEST: usize = 4;

/// The outcome of a search.
#[derive(Debug, PartialEq)]
pub struct PlanSearch {
    /// Every combination that was asked for, with its outcome.
    pub tried: BTreeMap<Combination, Outcome>,
    /// The cheapest combination that fits; empty where the program fits as it is.
    pub plan: Option<Combination>,
}

/// Changes that are tried only where the user allows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Over how many GPUs the model may be sharded.
    pub gpus: u32,
    /// Whether the model may be compiled, which takes long.
    pub compile: bool,
    /// Other values of the program's arguments, of each argument in the order in which they are preferred.
    pub arguments: Vec<Change>,
}

/// The settings that are tried whatever a simulation says: with other changes, other memory is wasted.
const USUAL_SETTINGS: &str = "expandable_segments:True";

/// Every change that is tried alone.
fn candidates(allowed: &Allowed, unchanged: &Need) -> Vec<Change> {
    let others = unchanged.best_settings.clone().filter(|settings| settings != USUAL_SETTINGS);
    let mut all = vec![Change::Allocator(USUAL_SETTINGS.to_owned())];
    all.extend(others.map(Change::Allocator));
    all.extend([
        Change::Fused,
        Change::FreeGradients,
        Change::ChunkedLoss(8),
        Change::ForeachOff,
        Change::OptimizerInBackward(StatesIn::Gpu),
        Change::Checkpoint(Checkpointed::Selective),
        Change::Checkpoint(Checkpointed::All),
        Change::OffloadOptimizerStates,
        Change::OffloadActivations(HostCopies::Async),
        Change::OffloadActivations(HostCopies::InOrder),
        Change::Autocast(HalfPrecision::Bf16),
        Change::EightBitStates,
        Change::Bf16Parameters,
    ]);
    all.extend(allowed.compile.then_some(Change::Compile));
    let powers = std::iter::successors(Some(2_u32), |gpus| gpus.checked_mul(2));
    all.extend(powers.take_while(|gpus| *gpus <= allowed.gpus).map(Change::Fsdp));
    all.extend(allowed.arguments.iter().cloned());
    all
}

/// Searches the cheapest combination that fits into `capacity`, trying up to `width` at the same time. Stops at the
/// first try that fails to tell.
pub fn cheapest_that_fits<E>(
    capacity: Bytes,
    allowed: Allowed,
    width: usize,
    attempt: impl FnMut(&[Combination]) -> Result<Vec<Outcome>, E>,
) -> Result<PlanSearch, E> {
    let width = width.max(1);
    let mut search = Search { capacity, allowed, width, attempt, tried: BTreeMap::new() };
    let plan = search.run()?;
    Ok(PlanSearch { tried: search.tried, plan })
}

struct Search<F> {
    capacity: Bytes,
    allowed: Allowed,
    width: usize,
    attempt: F,
    tried: BTreeMap<Combination, Outcome>,
}

impl<E, F: FnMut(&[Combination]) -> Result<Vec<Outcome>, E>> Search<F> {
    fn run(&mut self) -> Result<Option<Combination>, E> {
        let Some(unchanged) = self.need(&[])? else { return Ok(None) };
        if unchanged.fits {
            return Ok(Some(Vec::new()));
        }
        let alone = self.each_alone(unchanged)?;
        let fitting = match self.first_that_fits(&alone)? {
            Some(fitting) => fitting,
            None => match self.wider(&alone)? {
                Some(fitting) => fitting,
                None => return Ok(None),
            },
        };
        // What costs nothing stays until it is known how many blocks it spares.
        let needed = self.without_the_unneeded(fitting, &alone, Cost::Time)?;
        let fewest = self.with_fewest_gpus(needed)?;
        let fewest = self.with_first_values(fewest)?;
        let fewest = self.with_fewest_blocks(fewest, &alone)?;
        self.without_the_unneeded(fewest, &alone, Cost::Nothing).map(Some)
    }

    fn each_alone(&mut self, unchanged: Need) -> Result<Alone, E> {
        let all = candidates(&self.allowed, &unchanged);
        self.ask(all.iter().map(|change| vec![change.clone()]).collect())?;
        let (mut saving, mut neutral) = (Vec::new(), Vec::new());
        for change in all {
            if let Some(need) = self.need(std::slice::from_ref(&change))? {
                let saves = need.needed < unchanged.needed;
                if saves { &mut saving } else { &mut neutral }.push((change, need));
            }
        }
        saving.sort_by_key(|(_, need)| (need.cost(), need.needed));
        Ok(Alone { unchanged, saving, neutral })
    }

    /// Of each cost, one change alone if that is enough, otherwise more and more of them.
    fn first_that_fits(&mut self, alone: &Alone) -> Result<Option<Combination>, E> {
        let mut base = Combination::new();
        for cost in [Cost::Nothing, Cost::Time, Cost::Gpus, Cost::Results] {
            if cost == Cost::Gpus {
                // Where others have moved the peak, what saved nothing alone may save.
                let cheap = alone.neutral.iter().filter(|(_, need)| need.cost() < cost);
                let all = cheap.fold(base.clone(), |all, (change, _)| with(all, change));
                if self.need(&all)?.is_some_and(|need| need.fits) {
                    return Ok(Some(all));
                }
                base = self.lesser(base, all)?;
                if let Some(on_host) = with_states_on_the_host(&base, alone) {
                    if self.need(&on_host)?.is_some_and(|need| need.fits) {
                        return Ok(Some(on_host));
                    }
                    base = self.lesser(base, on_host)?;
                }
            }
            let of_cost: Vec<&(Change, Need)> =
                alone.saving.iter().filter(|(_, need)| need.cost() == cost).collect();
            // The fewest GPUs and the fastest first; of those that are equally fast, the one that does least.
            let mut fastest: Vec<&(Change, Need)> = of_cost.iter().rev().copied().collect();
            fastest.sort_by(|(_, a), (_, b)| {
                a.gpus.cmp(&b.gpus).then(a.slow_down.total_cmp(&b.slow_down))
            });
            let mut one_more: Vec<Combination> =
                fastest.iter().filter_map(|(change, _)| joined(&base, change)).collect();
            one_more.retain(|next| alone.may_fit(next, self.capacity));
            if let Some(fitting) = self.first_fitting(&one_more)? {
                return Ok(Some(fitting));
            }
            match self.more_and_more(base, &of_cost, alone)? {
                (grown, true) => return Ok(Some(grown)),
                (grown, false) => base = grown,
            }
        }
        Ok(None)
    }

    /// Adds changes, those that save most first, until it fits; and whether it does. What cannot fit is not tried.
    fn more_and_more(
        &mut self,
        base: Combination,
        changes: &[&(Change, Need)],
        alone: &Alone,
    ) -> Result<(Combination, bool), E> {
        let mut more: Vec<Combination> = Vec::new();
        for (change, _) in changes {
            let next = joined(more.last().unwrap_or(&base), change);
            more.extend(next);
        }
        let Some(last) = more.last().cloned() else { return Ok((base, false)) };
        let may_fit = more.iter().position(|next| alone.may_fit(next, self.capacity));
        let from = may_fit.unwrap_or(more.len() - 1);
        if let Some(fitting) = self.first_fitting(&more[from..])? {
            return Ok((fitting, true));
        }
        if self.need(&last)?.is_some() {
            return Ok((self.lesser(base, last)?, false));
        }
        // They do not go together: one after the other, without those that fail.
        let mut kept = base;
        for (change, _) in changes {
            let Some(next) = joined(&kept, change) else { continue };
            if self.need(&next)?.is_some_and(|need| need.fits) {
                return Ok((next, true));
            }
            kept = self.lesser(kept, next)?;
        }
        Ok((kept, false))
    }

    /// The first that fits; so many as can be are tried at the same time.
    fn first_fitting(&mut self, combinations: &[Combination]) -> Result<Option<Combination>, E> {
        for some in combinations.chunks(self.width) {
            self.ask(some.to_vec())?;
            for one in some {
                if self.need(one)?.is_some_and(|need| need.fits) {
                    return Ok(Some(one.clone()));
                }
            }
        }
        Ok(None)
    }

    /// The one that needs less.
    fn lesser(&mut self, base: Combination, other: Combination) -> Result<Combination, E> {
        let (before, after) = (self.need(&base)?, self.need(&other)?);
        let is_less = match (before, after) {
            (Some(before), Some(after)) => after.needed < before.needed,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        Ok(if is_less { other } else { base })
    }

    /// Where nothing fits: all changes that save together, and the pairs of the strongest ones, each with every kind of
    /// checkpointing. The cheapest that fits; without one, the least need of them is the floor.
    fn wider(&mut self, alone: &Alone) -> Result<Option<Combination>, E> {
        let is_checkpoint = |change: &Change| matches!(change, Change::Checkpoint(_));
        let mut strongest: Vec<&Change> = {
            let mut others: Vec<&(Change, Need)> =
                alone.saving.iter().filter(|(change, _)| !is_checkpoint(change)).collect();
            others.sort_by_key(|(_, need)| need.needed);
            others.into_iter().map(|(change, _)| change).collect()
        };
        let all = strongest.iter().fold(Combination::new(), |all, change| with(all, change));
        let others = alone.neutral.iter().map(|(change, _)| change);
        let everything = others.filter(|change| !is_checkpoint(change)).fold(all.clone(), with);
        strongest.truncate(STRONGEST);
        let mut bases = vec![all, everything];
        for (at, first) in strongest.iter().enumerate() {
            for second in &strongest[at + 1..] {
                let one = vec![(*first).clone()];
                bases.extend(joined(&one, second));
            }
        }
        for at in 0..2 {
            bases.extend(with_states_on_the_host(&bases[at], alone));
        }
        let all_changes = alone.saving.iter().map(|(change, _)| change);
        let levels = all_changes.filter(|change| is_checkpoint(change));
        let levels: Vec<Option<&Change>> = levels.map(Some).chain([None]).collect();
        let mut wider: Vec<Combination> = Vec::new();
        for base in &bases {
            for level in &levels {
                let next = level.map_or_else(|| Some(base.clone()), |level| joined(base, level));
                wider.extend(next.filter(|next| next.len() > 1));
            }
        }
        wider.sort();
        wider.dedup();
        self.ask(wider.clone())?;
        let mut fitting: Vec<(Need, Combination)> = Vec::new();
        for combination in wider {
            if let Some(need) = self.need(&combination)?.filter(|need| need.fits) {
                fitting.push((need, combination));
            }
        }
        let by_cost = |a: &Need, b: &Need| {
            let cost = (a.cost(), a.gpus).cmp(&(b.cost(), b.gpus));
            cost.then(a.slow_down.total_cmp(&b.slow_down))
        };
        fitting.sort_by(|(a, _), (b, _)| by_cost(a, b));
        Ok(fitting.into_iter().next().map(|(_, combination)| combination))
    }

    /// Takes out changes of this cost or more that are not needed, the most expensive first.
    fn without_the_unneeded(
        &mut self,
        fitting: Combination,
        alone: &Alone,
        least: Cost,
    ) -> Result<Combination, E> {
        let mut kept = fitting;
        let mut order: Vec<(Cost, Change)> = Vec::new();
        for change in &kept {
            let is_counted = matches!(change, Change::Checkpoint(Checkpointed::Blocks(_)));
            let cost = alone.need_of(change).map_or(Cost::Time, Need::cost);
            if !is_counted && cost >= least {
                order.push((cost, change.clone()));
            }
        }
        order.sort_by(|a, b| b.cmp(a));
        let without = |kept: &Combination, change: &Change| -> Combination {
            kept.iter().filter(|one| *one != change).cloned().collect()
        };
        while !order.is_empty() && kept.len() > 1 {
            let some: Vec<Change> =
                order.drain(..self.width.min(order.len())).map(|(_, change)| change).collect();
            let needed = self.need(&kept)?.map(|need| need.needed).unwrap_or_default();
            let mut asked = some.clone();
            // What costs nothing may stay without a proof.
            asked.retain(|change| !alone.is_surely_needed(change, needed, self.capacity));
            self.ask(asked.iter().map(|change| without(&kept, change)).collect())?;
            for change in asked {
                let fewer = without(&kept, &change);
                if kept.len() > 1 && self.need(&fewer)?.is_some_and(|need| need.fits) {
                    kept = fewer;
                }
            }
        }
        Ok(kept)
    }

    /// Shards over as few GPUs as it takes.
    fn with_fewest_gpus(&mut self, plan: Combination) -> Result<Combination, E> {
        let most = plan.iter().map(Change::gpus).max().unwrap_or(1);
        let powers = std::iter::successors(Some(2_u32), |gpus| gpus.checked_mul(2));
        for gpus in powers.take_while(|gpus| *gpus < most) {
            let fewer = |change: &Change| {
                let is_sharding = matches!(change, Change::Fsdp(_));
                if is_sharding { Change::Fsdp(gpus) } else { change.clone() }
            };
            let fewer: Combination = plan.iter().map(fewer).collect();
            if self.need(&fewer)?.is_some_and(|need| need.fits) {
                return Ok(fewer);
            }
        }
        Ok(plan)
    }

    /// Takes the first value of each argument with which it fits.
    fn with_first_values(&mut self, plan: Combination) -> Result<Combination, E> {
        let mut plan = plan;
        for at in 0..plan.len() {
            let values: Vec<Change> = self.allowed.arguments.clone();
            let earlier = values.iter().take_while(|value| **value != plan[at]);
            for value in earlier.filter(|value| excludes(value, &plan[at])) {
                let mut other = plan.clone();
                other[at] = value.clone();
                other.sort();
                if self.need(&other)?.is_some_and(|need| need.fits) {
                    plan = other;
                    break;
                }
            }
        }
        Ok(plan)
    }

    /// Checkpoints only as many blocks as it takes.
    fn with_fewest_blocks(&mut self, plan: Combination, alone: &Alone) -> Result<Combination, E> {
        let all = Change::Checkpoint(Checkpointed::All);
        let blocks = alone.need_of(&all).and_then(|need| need.blocks);
        let (true, Some(total)) = (plan.contains(&all), blocks) else { return Ok(plan) };
        let with = |count: u32| -> Combination {
            let blocks = Change::Checkpoint(Checkpointed::Blocks(count));
            let changed = |change: &Change| if *change == all { &blocks } else { change }.clone();
            plan.iter().map(changed).collect()
        };
        let Some(good) = self.need(&plan)? else { return Ok(plan) };
        let none: Combination = plan.iter().filter(|change| **change != all).cloned().collect();
        let bad = match self.tried.get(&none) {
            Some(Outcome::Ran(need)) => need.needed,
            _ => good.needed + alone.saved(&all),
        };
        let end = |blocks, needed, fits| BlockNeed { blocks, needed, fits };
        let (bad, good) = (end(0, bad, false), end(total, good.needed, true));
        let mut search = BlockSearch::new(bad, good, self.capacity);
        loop {
            let next = search.next(self.width);
            if next.is_empty() {
                break;
            }
            self.ask(next.iter().map(|&count| with(count)).collect())?;
            let mut learned = Vec::new();
            for count in next {
                let need = self.need(&with(count))?;
                learned.extend(need.map(|need| end(count, need.needed, need.fits)));
            }
            if learned.is_empty() {
                break;
            }
            search.learn(&learned);
        }
        let fewest = search.fewest();
        Ok(if fewest == total { plan } else { with(fewest) })
    }

    /// What a combination needs; none where that is unknown.
    fn need(&mut self, combination: &[Change]) -> Result<Option<Need>, E> {
        self.ask(vec![combination.to_vec()])?;
        Ok(match self.tried.get(combination) {
            Some(Outcome::Ran(need)) => Some(need.clone()),
            Some(Outcome::LeftOut(_) | Outcome::NotTried) | None => None,
        })
    }

    fn ask(&mut self, mut combinations: Vec<Combination>) -> Result<(), E> {
        combinations.retain(|one| !self.tried.contains_key(one));
        if combinations.is_empty() {
            return Ok(());
        }
        let outcomes = (self.attempt)(&combinations)?;
        self.tried.extend(combinations.into_iter().zip(outcomes));
        Ok(())
    }
}

/// The combination with updates in the backward pass and the states on the host, so that the GPU has neither all
/// gradients nor all states. None where updates in the backward pass do not suit the program: this change updates in the
/// first step already, before it could see that.
fn with_states_on_the_host(base: &Combination, alone: &Alone) -> Option<Combination> {
    alone.need_of(&Change::OptimizerInBackward(StatesIn::Gpu))?;
    let on_host = Change::OptimizerInBackward(StatesIn::Host);
    let is_kept = |change: &&Change| !excludes(change, &on_host);
    let others: Combination = base.iter().filter(is_kept).cloned().collect();
    joined(&others, &on_host)
}

#[cfg(test)]
mod tests {
    use floodmark_trace::Numerics;

    use super::*;

    const BLOCKS: u32 = 24;
    const UNCHANGED: u64 = 1000;

    /// A program whose changes save what is listed, in a GPU of `capacity`.
    struct Program {
        capacity: u64,
        saves: Vec<(&'static str, u64)>,
        /// What a change saves besides, once blocks are checkpointed.
        after_checkpointing: (&'static str, u64),
        /// In the order in which they were asked for.
        asked: Vec<String>,
        best_settings: Option<&'static str>,
    }

    impl Program {
        fn new(capacity: u64, saves: &[(&'static str, u64)]) -> Self {
            let after_checkpointing = ("", 0);
            let (saves, asked, best_settings) = (saves.to_vec(), Vec::new(), None);
            Self { capacity, saves, after_checkpointing, asked, best_settings }
        }

        fn saved(&self, change: &Change) -> Option<u64> {
            let of = |name: &str| self.saves.iter().find(|(known, _)| *known == name);
            if let Change::Checkpoint(Checkpointed::Blocks(count)) = change {
                let (_, all) = of("checkpoint=all")?;
                return Some(all * u64::from(*count) / u64::from(BLOCKS));
            }
            of(&change.to_string()).map(|(_, bytes)| *bytes)
        }

        fn attempt(&mut self, combination: &Combination) -> Outcome {
            let names: Vec<String> = combination.iter().map(ToString::to_string).collect();
            self.asked.push(names.join(" + "));
            let mut needed = UNCHANGED;
            let (mut slows, mut numerics, mut blocks) = (false, Numerics::Same, None);
            for change in combination {
                let Some(saved) = self.saved(change) else {
                    return Outcome::LeftOut("nothing to apply to".to_owned());
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
                    Change::Compile | Change::ChunkedLoss(_) => {
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
            let fits = needed <= self.capacity;
            let slow_down = if slows { 1.3 } else { 1.0 };
            let gpus = combination.iter().map(Change::gpus).max().unwrap_or(1);
            let needed = Bytes(needed);
            let best_settings = self.best_settings.map(str::to_owned);
            let need =
                Need { needed, fits, slows, numerics, slow_down, blocks, gpus, best_settings };
            Outcome::Ran(need)
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
    fn what_costs_nothing_comes_first() {
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
    fn what_saves_nothing_alone_is_tried_once_the_peak_is_elsewhere() {
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
            let Outcome::Ran(need) = program.attempt(&changes) else { panic!("{plan}") };
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
                outcomes.push(if left > 0 { program.attempt(one) } else { Outcome::NotTried });
                left -= i32::from(left > 0);
            }
            Ok::<_, ()>(outcomes)
        });
        let found = found.unwrap();
        assert_eq!(found.plan, None);
        assert!(found.tried.values().any(|one| *one == Outcome::NotTried));
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
}
