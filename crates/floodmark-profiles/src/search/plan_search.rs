//! The cheapest changes with which a program fits, with few tries.
//!
//! The unchanged program is tried first, then every change alone. Those that save memory are combined, the cheapest
//! first: changes without a cost, then those that cost time, then those that change results, each group by the memory
//! it saves. Combinations that cannot fit, by what each of their changes saves alone, are left out. As soon as a
//! combination fits, changes that it does not need are taken out again, and of the repeated blocks only as many are
//! checkpointed as it takes. Of what fits at the same cost, a noticeably faster combination is preferred. Where none
//! fits, all changes together and the pairs of the strongest are tried with every kind of checkpointing, so that the
//! least need is known. The search runs nothing itself: `attempt` gets a batch of combinations, which may be tried at
//! the same time.

use std::collections::BTreeMap;

use floodmark_trace::Bytes;

use crate::search::change::{
    Change, Checkpointed, HalfPrecision, HostCopies, LossChunks, StatesIn,
};
use crate::search::combination::{excludes, joined, with};
use crate::search::fewest_blocks::{BlockNeed, BlockSearch};
use crate::search::plan_need::{Alone, Combination, Cost, Need, TryOutcome};

/// A step that takes longer by this factor is worth another change: less may be chance where the host limits a step.
const NOTICEABLY_SLOWER: f64 = 1.3;
/// The number of changes that are combined in pairs if nothing fits: those that save most.
const STRONGEST: usize = 4;

/// The outcome of a search.
#[derive(Debug, PartialEq)]
pub struct PlanSearch {
    /// Every requested combination, with its outcome.
    pub tried: BTreeMap<Combination, TryOutcome>,
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

/// The settings that are always tried: with other changes, other memory is wasted than in the
/// simulation.
const USUAL_SETTINGS: &str = "expandable_segments:True";

/// Every change that is tried alone.
fn candidates(allowed: &Allowed, unchanged: &Need) -> Vec<Change> {
    let others = unchanged.best_settings.clone().filter(|settings| settings != USUAL_SETTINGS);
    let mut all = vec![Change::Allocator(USUAL_SETTINGS.to_owned())];
    all.extend(others.map(Change::Allocator));
    all.extend([
        Change::Fused,
        Change::FreeGradients,
        Change::ChunkedLoss(LossChunks::Head),
        Change::ChunkedLoss(LossChunks::Rows(8)),
        Change::SdpaAttention,
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
/// first try without an answer.
pub fn cheapest_that_fits<E>(
    capacity: Bytes,
    allowed: Allowed,
    width: usize,
    attempt: impl FnMut(&[Combination]) -> Result<Vec<TryOutcome>, E>,
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
    tried: BTreeMap<Combination, TryOutcome>,
}

impl<E, F: FnMut(&[Combination]) -> Result<Vec<TryOutcome>, E>> Search<F> {
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
        // Changes without a cost stay until the number of blocks that they save is known.
        let needed = self.without_the_unneeded(fitting, &alone, Cost::Time)?;
        let fewest = self.with_fewest_gpus(needed)?;
        let fewest = self.with_first_values(fewest)?;
        let fewest = self.with_fewest_blocks(fewest, &alone)?;
        let fastest = self.fastest_of_its_cost(fewest)?;
        self.without_the_unneeded(fastest, &alone, Cost::Nothing).map(Some)
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
                // Once others have moved the peak, changes that saved nothing alone may save.
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

    /// Adds changes, those that save most first, until it fits; and whether it does. Combinations
    /// that cannot fit are not tried.
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

    /// The first that fits; as many as allowed are tried at the same time.
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
            let Some(now) = self.need(&kept)? else { return Ok(kept) };
            let needed = now.needed;
            let mut asked = some;
            // Changes without a cost may stay without a proof.
            asked.retain(|change| !alone.is_surely_needed(change, needed, self.capacity));
            self.ask(asked.iter().map(|change| without(&kept, change)).collect())?;
            for change in asked {
                let fewer = without(&kept, &change);
                let is_free =
                    alone.need_of(&change).is_some_and(|need| need.cost() == Cost::Nothing);
                // What saves memory for nothing stays where torch would otherwise free cached blocks to fit, which waits for
                // the GPU; what saves time for nothing stays anyway.
                let most = self.capacity.max(needed);
                let is_as_good = |need: &Need| {
                    need.needed <= most && need.slow_down < now.slow_down * NOTICEABLY_SLOWER
                };
                let is_enough = |need: Need| need.fits && (!is_free || is_as_good(&need));
                if kept.len() > 1 && self.need(&fewer)?.is_some_and(is_enough) {
                    kept = fewer;
                }
            }
        }
        Ok(kept)
    }

    /// The fastest of all tried combinations that fit at the same cost, if noticeably faster.
    fn fastest_of_its_cost(&mut self, plan: Combination) -> Result<Combination, E> {
        let Some(need) = self.need(&plan)? else { return Ok(plan) };
        let is_as_cheap = |other: &Need| {
            (other.fits, other.cost(), other.gpus) == (true, need.cost(), need.gpus)
                && other.needed <= self.capacity.max(need.needed)
        };
        let ran = self.tried.iter().filter_map(|(combination, outcome)| match outcome {
            TryOutcome::Ran(other) if is_as_cheap(other) => Some((other.slow_down, combination)),
            TryOutcome::Ran(_) | TryOutcome::LeftOut(_) | TryOutcome::NotTried => None,
        });
        let fastest = ran.min_by(|(a, _), (b, _)| a.total_cmp(b));
        let is_noticeable = |slow_down: f64| slow_down * NOTICEABLY_SLOWER <= need.slow_down;
        Ok(match fastest {
            Some((slow_down, combination)) if is_noticeable(slow_down) => combination.clone(),
            _ => plan,
        })
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
            Some(TryOutcome::Ran(need)) => need.needed,
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

    /// The need of a combination; `None` if unknown.
    fn need(&mut self, combination: &[Change]) -> Result<Option<Need>, E> {
        self.ask(vec![combination.to_vec()])?;
        Ok(match self.tried.get(combination) {
            Some(TryOutcome::Ran(need)) => Some(need.clone()),
            Some(TryOutcome::LeftOut(_) | TryOutcome::NotTried) | None => None,
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
mod tests;
