//! The cheapest changes with which a program fits, with few tries.
//!
//! The unchanged program is tried first. Its trace gives a model of what any combination of changes would need
//! ([`PeakModel`](crate::search::peak_model::PeakModel)), so all of them are guessed, and only promising ones are tried:
//! the cheapest that probably fits, again and again. What each try needed corrects the guesses of combinations like it. The search ends when nothing cheaper
//! than the best try that fits would probably fit too, or after a number of tries. Cheap is: without a cost, then time,
//! then GPUs, then results, then another training; of one kind the faster, then fewer changes. Where nothing would fit, the combinations that
//! probably need the least are tried, so that the least need is known. The search is greedy: a guess may be wrong, so a
//! cheaper combination may exist. It runs nothing itself: `attempt` gets a batch of combinations, which may be tried at
//! the same time.

use std::collections::BTreeMap;

use floodmark_trace::Bytes;

use crate::search::candidates::{Allowed, candidates};
use crate::search::change::Change;
use crate::search::choices::{Choice, Choices};
use crate::search::guesses::Guesses;
use crate::search::peak_model::Guess;
use crate::search::plan_need::{Combination, Cost, Need, Price, TryOutcome};

/// The most tries after that of the unchanged program, where one of them fits.
const MOST_TRIES: usize = 7;
/// The most tries where none fits.
const MOST_TRIES_IN_VAIN: usize = 18;
/// Where nothing would fit, this many further combinations of least need are tried.
const FLOOR_TRIES: usize = 3;
/// A guess may be wrong by this part: what needs so much less than there is surely fits.
const SAFE_ROOM: f64 = 0.06;

/// The outcome of a search.
#[derive(Debug, PartialEq)]
pub struct PlanSearch {
    /// Every combination that was tried, and every change that has nothing to apply to, with its outcome.
    pub tried: BTreeMap<Combination, TryOutcome>,
    /// The cheapest combination that fits; empty where the program fits as it is.
    pub plan: Option<Combination>,
}

/// Searches the cheapest combination that fits into `capacity`, trying up to `width` at the same time. Stops at the
/// first try without an answer.
pub fn cheapest_that_fits<E>(
    capacity: Bytes,
    allowed: &Allowed,
    width: usize,
    mut attempt: impl FnMut(&[Combination]) -> Result<Vec<TryOutcome>, E>,
) -> Result<PlanSearch, E> {
    let unchanged = attempt(&[Combination::new()])?.pop().unwrap_or(TryOutcome::NotTried);
    let mut tried = BTreeMap::from([(Combination::new(), unchanged.clone())]);
    let TryOutcome::Ran(unchanged) = unchanged else {
        return Ok(PlanSearch { tried, plan: None });
    };
    if unchanged.fits {
        return Ok(PlanSearch { tried, plan: Some(Combination::new()) });
    }
    let choices = Choices::new(candidates(allowed, &unchanged));
    let guesses = Guesses::new(&choices, &unchanged);
    let mut search =
        Search { capacity, width, attempt, choices, guesses, tried: &mut tried, count: 0 };
    let plan = search.run()?;
    Ok(PlanSearch { tried, plan })
}

struct Search<'a, F> {
    capacity: Bytes,
    width: usize,
    attempt: F,
    choices: Choices,
    guesses: Guesses,
    tried: &'a mut BTreeMap<Combination, TryOutcome>,
    /// How many tries there were.
    count: usize,
}

impl<E, F: FnMut(&[Combination]) -> Result<Vec<TryOutcome>, E>> Search<'_, F> {
    fn run(&mut self) -> Result<Option<Combination>, E> {
        let mut floor_tries = FLOOR_TRIES;
        loop {
            let best = self.best();
            let most = if best.is_some() { MOST_TRIES } else { MOST_TRIES_IN_VAIN };
            let left = most.saturating_sub(self.count);
            let mut next = self.promising(best.as_ref().map(|(price, _)| *price));
            if next.is_empty() && best.is_none() {
                next = self.least(&mut floor_tries);
            }
            next.truncate(left.min(self.width.max(1)));
            if next.is_empty() || !self.try_all(&next)? {
                return Ok(self.best().map(|(_, combination)| combination));
            }
        }
    }

    /// The cheapest try that fits.
    fn best(&self) -> Option<(Price, Combination)> {
        let fitting = self.tried.iter().filter_map(|(combination, outcome)| match outcome {
            TryOutcome::Ran(need) if need.fits => {
                Some((need.price(combination, self.capacity), combination.clone()))
            }
            TryOutcome::Ran(_) | TryOutcome::LeftOut(_) | TryOutcome::NotTried => None,
        });
        fitting.min_by(|(one, _), (other, _)| one.total_cmp(other))
    }

    /// The cheapest choice that probably fits and is cheaper than the best try; where none fits yet, also the cheapest that
    /// surely fits.
    fn promising(&self, best: Option<Price>) -> Vec<Choice> {
        #[expect(clippy::cast_precision_loss, reason = "a guess needs no more than 53 bits")]
        let capacity = self.capacity.0 as f64;
        let surely = || self.cheapest(best, capacity * (1.0 - SAFE_ROOM));
        let first = self.cheapest(best, capacity);
        let second = if best.is_none() && first.is_some() { surely() } else { None };
        first.into_iter().chain(second).collect()
    }

    /// The cheapest choice that probably needs at most `most` and is cheaper than the best try.
    fn cheapest(&self, best: Option<Price>, most: f64) -> Option<Choice> {
        // What costs less is guessed first: only where nothing of it fits, the rest is.
        Cost::ALL.into_iter().find_map(|cost| self.cheapest_of(cost, best, most))
    }

    fn cheapest_of(&self, cost: Cost, best: Option<Price>, most: f64) -> Option<Choice> {
        let mut found: Option<(Price, Choice)> = None;
        for choice in self.choices.untried(&self.guesses, cost) {
            let Some((choice, guess)) = self.guesses.fewest_blocks(&self.choices, choice, most)
            else {
                continue;
            };
            let price = self.choices.price(choice, guess.time);
            let is_cheaper = best.is_none_or(|best| price.is_worth_a_try(&best))
                && found.is_none_or(|(found, _)| price.total_cmp(&found).is_lt());
            if is_cheaper && !self.is_tried(choice) {
                found = Some((price, choice));
            }
        }
        found.map(|(_, choice)| choice)
    }

    /// Where nothing would fit, what probably needs the least: without changes that cost more, then with them.
    fn least(&self, further: &mut usize) -> Vec<Choice> {
        let mut guessed: Vec<(Guess, Choice)> = Vec::new();
        for cost in Cost::ALL {
            for choice in self.choices.untried(&self.guesses, cost) {
                guessed.push((self.guesses.guess(choice), choice));
            }
        }
        guessed.sort_by(|(one, a), (other, b)| {
            let count = |choice: &Choice| choice.changes.count_ones();
            let needed = one.needed.total_cmp(&other.needed);
            needed.then(one.time.total_cmp(&other.time)).then(count(a).cmp(&count(b)))
        });
        let all: Vec<(f64, Choice)> =
            guessed.into_iter().map(|(guess, choice)| (guess.needed, choice)).collect();
        let tried_least = self.guesses.least_tried();
        for cost in [Cost::Time, Cost::Gpus, Cost::Results, Cost::Training] {
            let of_cost = all.iter().find(|(_, choice)| self.choices.cost(*choice) <= cost);
            if let Some((needed, choice)) = of_cost
                && self.guesses.least_of(&self.choices, cost) > *needed
                && !self.is_tried(*choice)
            {
                return vec![*choice];
            }
        }
        // The trace may not tell what memory is for: a change may save what nothing says that it would.
        for cost in [Cost::Time, Cost::Results, Cost::Training] {
            let all = self.choices.with_untested(self.guesses.least_choice(), cost);
            if all.is_some_and(|choice| !self.is_tried(choice)) {
                return all.into_iter().collect();
            }
        }
        // The guesses were not that good: what is close to the least.
        if *further == 0 {
            return Vec::new();
        }
        *further -= 1;
        let close = |needed: f64| needed < tried_least * 1.02;
        let mut close =
            all.into_iter().filter(|(needed, choice)| close(*needed) && !self.is_tried(*choice));
        close.next().map(|(_, choice)| choice).into_iter().collect()
    }

    fn is_tried(&self, choice: Choice) -> bool {
        self.tried.contains_key(&self.choices.combination(choice))
    }

    /// Tries choices, and learns from them; whether all were tried.
    fn try_all(&mut self, next: &[Choice]) -> Result<bool, E> {
        let mut batch: Vec<Combination> = next
            .iter()
            .map(|choice| self.choices.combination(self.choices.safe(*choice)))
            .collect();
        batch.dedup();
        batch.retain(|one| !self.tried.contains_key(one));
        if batch.is_empty() {
            return Ok(false);
        }
        self.count += batch.len();
        let outcomes = (self.attempt)(&batch)?;
        let mut suspects = Vec::new();
        let mut is_over = false;
        for (combination, outcome) in batch.into_iter().zip(outcomes) {
            match &outcome {
                TryOutcome::Ran(need) => {
                    let ran = self.learn(&combination, need);
                    self.tried.entry(ran).or_insert(outcome);
                    continue;
                }
                TryOutcome::LeftOut(reason) => {
                    let unknown = self.choices.not_known_to_work(&combination);
                    if let [culprit] = unknown.as_slice() {
                        self.leave_out(culprit, reason);
                    } else {
                        suspects.extend(unknown);
                    }
                }
                TryOutcome::NotTried => is_over = true,
            }
            self.tried.insert(combination, outcome);
        }
        if is_over {
            return Ok(false);
        }
        self.find_culprits(suspects)
    }

    /// What a try says of its changes, and of others; the combination that it was a try of.
    fn learn(&mut self, combination: &Combination, need: &Need) -> Combination {
        for (change, reason) in &need.not_applied {
            self.leave_out(change, reason);
        }
        let is_applied =
            |change: &&Change| need.not_applied.iter().all(|(other, _)| other != *change);
        let ran: Combination = combination.iter().filter(is_applied).cloned().collect();
        self.choices.work(&ran);
        self.guesses.learn(&self.choices, &ran, need);
        ran
    }

    fn leave_out(&mut self, change: &Change, reason: &str) {
        self.choices.leave_out(change);
        let outcome = TryOutcome::LeftOut(reason.to_owned());
        self.tried.insert(vec![change.clone()], outcome);
    }

    /// The program fails with some of these changes: each is tried alone.
    fn find_culprits(&mut self, suspects: Vec<Change>) -> Result<bool, E> {
        let mut alone: Vec<Combination> = suspects.into_iter().map(|change| vec![change]).collect();
        alone.sort();
        alone.dedup();
        alone.retain(|one| !self.tried.contains_key(one));
        if alone.is_empty() {
            return Ok(true);
        }
        let outcomes = (self.attempt)(&alone)?;
        let mut is_over = false;
        for (combination, outcome) in alone.into_iter().zip(outcomes) {
            match &outcome {
                TryOutcome::Ran(need) => {
                    let ran = self.learn(&combination, need);
                    self.tried.entry(ran).or_insert(outcome);
                }
                TryOutcome::LeftOut(reason) => self.leave_out(&combination[0], &reason.clone()),
                TryOutcome::NotTried => {
                    is_over = true;
                    self.tried.insert(combination, outcome);
                }
            }
        }
        Ok(!is_over)
    }
}

#[cfg(test)]
mod tests;
