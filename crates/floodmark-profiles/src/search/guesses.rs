//! Guesses of what combinations need, corrected by what was tried.

use crate::search::change::Change;
use crate::search::choices::{Choice, Choices};
use crate::search::peak_model::{Forecast, Guess, PeakModel};
use crate::search::plan_need::{Cost, Need};

/// The most numbers of blocks of which the fastest is looked for.
const MOST_COUNTS: u32 = 32;

/// What a try needed, beside what was guessed.
struct Correction {
    choice: Choice,
    cost: Cost,
    needed: f64,
    time: f64,
    guess: Guess,
}

/// The guesses for all choices.
pub(crate) struct Guesses {
    model: PeakModel,
    forecast: Forecast,
    corrections: Vec<Correction>,
}

impl Guesses {
    pub(crate) fn new(choices: &Choices, unchanged: &Need) -> Self {
        let model = unchanged.model.clone().unwrap_or_default();
        let forecast = Forecast::new(&model, choices.with_positions());
        let mut guesses = Self { model, forecast, corrections: Vec::new() };
        guesses.learn(choices, &[], unchanged);
        guesses
    }

    fn uncorrected(&self, choice: Choice) -> Guess {
        self.forecast.guess(choice.changes, choice.blocks)
    }

    /// Takes a try into account.
    pub(crate) fn learn(&mut self, choices: &Choices, ran: &[Change], need: &Need) {
        let Some(choice) = choices.choice(ran) else { return };
        if need.blocks.is_some() && need.blocks != self.model.blocks {
            self.model.blocks = need.blocks;
            self.forecast = Forecast::new(&self.model, choices.with_positions());
            for at in 0..self.corrections.len() {
                self.corrections[at].guess = self.uncorrected(self.corrections[at].choice);
            }
        }
        let guess = self.uncorrected(choice);
        #[expect(clippy::cast_precision_loss, reason = "a guess needs no more than 53 bits")]
        let needed = need.needed.0 as f64;
        let (cost, time) = (need.cost(), need.slow_down);
        self.corrections.push(Correction { choice, cost, needed, time, guess });
    }

    /// Whether a choice with all blocks was tried.
    pub(crate) fn has(&self, choice: Choice) -> bool {
        // With fewer blocks, it is another one.
        self.blocks().is_none() && self.corrections.iter().any(|one| one.choice == choice)
    }

    fn blocks(&self) -> Option<u32> {
        self.model.blocks.filter(|blocks| *blocks > 1)
    }

    /// What a choice probably needs.
    pub(crate) fn guess(&self, choice: Choice) -> Guess {
        self.corrected(choice, self.uncorrected(choice))
    }

    /// As much more or less as the most similar try.
    fn corrected(&self, choice: Choice, guess: Guess) -> Guess {
        let all = self.blocks().unwrap_or(1);
        let distance = |one: &Correction| {
            let blocks = |choice: Choice| choice.blocks.unwrap_or(all);
            let apart = blocks(choice).abs_diff(blocks(one.choice));
            // A change that only the try had says little about this choice.
            let missing = (choice.changes & !one.choice.changes).count_ones();
            let foreign = (one.choice.changes & !choice.changes).count_ones();
            f64::from(missing + 2 * foreign) + f64::from(apart) / f64::from(2 * all)
        };
        // Of equally similar ones the latest.
        let nearest = self
            .corrections
            .iter()
            .rev()
            .min_by(|one, other| distance(one).total_cmp(&distance(other)));
        let Some(nearest) = nearest else { return guess };
        let needed = guess.needed + nearest.needed - nearest.guess.needed;
        let time = guess.time * nearest.time / nearest.guess.time;
        Guess { needed: needed.max(0.0), time }
    }

    /// The choice with as few checkpointed blocks as it takes to need at most `most`, or more where that is faster, and its
    /// guess; none where it needs more.
    pub(crate) fn fewest_blocks(
        &self,
        choices: &Choices,
        choice: Choice,
        most: f64,
    ) -> Option<(Choice, Guess)> {
        let whole = self.guess(choice);
        if whole.needed > most {
            return None;
        }
        let (true, Some(all)) = (choices.checkpoints_all(choice), self.blocks()) else {
            return Some((choice, whole));
        };
        let with = |blocks| Choice { blocks: Some(blocks), ..choice };
        let (mut too_few, mut enough) = (0, all);
        let mut found = (choice, whole);
        while too_few + 1 < enough {
            let middle = u32::midpoint(too_few, enough);
            let guess = self.guess(with(middle));
            if guess.needed <= most {
                (enough, found) = (middle, (with(middle), guess));
            } else {
                too_few = middle;
            }
        }
        // Fewer recomputed blocks take less time, unless what they keep is copied to the host.
        let more = (enough..all).step_by(all.div_ceil(MOST_COUNTS) as usize);
        let others = more.map(|blocks| (with(blocks), self.guess(with(blocks))));
        let fitting = others.filter(|(_, guess)| guess.needed <= most);
        let fastest = fitting.min_by(|(_, one), (_, other)| one.time.total_cmp(&other.time));
        fastest.filter(|(_, guess)| guess.time < found.1.time).or(Some(found))
    }

    /// The least that a try needed.
    pub(crate) fn least_tried(&self) -> f64 {
        self.corrections.iter().map(|one| one.needed).fold(f64::INFINITY, f64::min)
    }

    /// The try that needed the least, with all of its blocks.
    pub(crate) fn least_choice(&self) -> Choice {
        let least =
            self.corrections.iter().min_by(|one, other| one.needed.total_cmp(&other.needed));
        Choice { changes: least.map_or(0, |one| one.choice.changes), blocks: None }
    }

    /// The least that a try of this cost or less needed.
    pub(crate) fn least_of(&self, choices: &Choices, cost: Cost) -> f64 {
        let is_of = |one: &&Correction| one.cost.max(choices.cost(one.choice)) <= cost;
        self.corrections.iter().filter(is_of).map(|one| one.needed).fold(f64::INFINITY, f64::min)
    }
}
