//! All combinations of changes that go together, as sets of bits.

use crate::search::change::{Change, Checkpointed, StatesIn};
use crate::search::change_rows::usual_cost;
use crate::search::combination::excludes;
use crate::search::guesses::Guesses;
use crate::search::plan_need::{Combination, Cost, Price};

/// The most combinations that are considered; with more, those with fewer changes.
const MOST: usize = 1 << 17;

/// A combination of candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice {
    /// A bit for each candidate.
    pub(crate) changes: u64,
    /// How many blocks are checkpointed, where not all of them.
    pub(crate) blocks: Option<u32>,
}

/// The candidates, and the combinations of them.
pub(crate) struct Choices {
    candidates: Vec<Change>,
    /// The candidates of each cost, as [`Cost::ALL`] lists them.
    of_cost: [u64; Cost::ALL.len()],
    /// All combinations, by what they cost.
    all: [Vec<u64>; Cost::ALL.len()],
    /// The candidate that checkpoints all repeated blocks, which can be counted down.
    countable: u64,
    /// Candidates with which the program ran.
    work: u64,
    /// Candidates with nothing to apply to.
    left_out: u64,
}

impl Choices {
    pub(crate) fn new(mut candidates: Vec<Change>) -> Self {
        candidates.truncate(64);
        let mut all = vec![0];
        for (at, change) in candidates.iter().enumerate() {
            let others = (0..at).filter(|&other| excludes(&candidates[other], change));
            let excluded: u64 = others.map(|other| 1 << other).sum();
            let with: Vec<u64> = all
                .iter()
                .filter(|&&set: &&u64| set & excluded == 0)
                .map(|set| set | 1 << at)
                .collect();
            all.extend(with);
            if all.len() > MOST {
                all.sort_by_key(|set| set.count_ones());
                all.truncate(MOST);
            }
        }
        let bits = |is_meant: &dyn Fn(&Change) -> bool| -> u64 {
            let all = candidates.iter().enumerate().filter(|(_, change)| is_meant(change));
            all.map(|(at, _)| 1 << at).sum()
        };
        let of_cost = Cost::ALL.map(|cost| bits(&|change| usual_cost(change) == cost));
        let countable = bits(&|change| *change == Change::Checkpoint(Checkpointed::All));
        let mut choices =
            Self { candidates, of_cost, all: Default::default(), countable, work: 0, left_out: 0 };
        for changes in all.into_iter().filter(|set| *set != 0) {
            let cost = choices.cost(Choice { changes, blocks: None });
            choices.all[cost as usize].push(changes);
        }
        choices
    }

    /// The choices of a cost that can still be made.
    pub(crate) fn untried(&self, guesses: &Guesses, cost: Cost) -> impl Iterator<Item = Choice> {
        let all = self.all[cost as usize].iter().filter(|&&set| set & self.left_out == 0);
        let choices = all.map(|&changes| Choice { changes, blocks: None });
        choices.filter(|choice| !guesses.has(*choice))
    }

    /// The changes of a choice, as `--with` applies them.
    pub(crate) fn combination(&self, choice: Choice) -> Combination {
        let mut all: Combination =
            self.changes_in(choice).map(|change| counted(change, choice)).collect();
        all.sort();
        all
    }

    fn changes_in(&self, choice: Choice) -> impl Iterator<Item = &Change> {
        let is_in = move |at: usize| choice.changes >> at & 1 == 1;
        self.candidates.iter().enumerate().filter(move |(at, _)| is_in(*at)).map(|(_, one)| one)
    }

    /// The choice of a combination; none where it has other changes than the candidates.
    pub(crate) fn choice(&self, combination: &[Change]) -> Option<Choice> {
        let mut choice = Choice { changes: 0, blocks: None };
        for change in combination {
            let all = if let Change::Checkpoint(Checkpointed::Blocks(blocks)) = change {
                choice.blocks = Some(*blocks);
                &Change::Checkpoint(Checkpointed::All)
            } else {
                change
            };
            choice.changes |= 1 << self.candidates.iter().position(|one| one == all)?;
        }
        Some(choice)
    }

    /// Whether all repeated blocks can be counted down.
    pub(crate) fn checkpoints_all(&self, choice: Choice) -> bool {
        choice.changes & self.countable != 0
    }

    /// The candidates, each with the position of its value among those of the same argument.
    pub(crate) fn with_positions(&self) -> impl Iterator<Item = (&Change, u32)> {
        self.candidates.iter().map(|change| {
            let same = self.candidates.iter().filter(|other| {
                matches!((change, other), (Change::Argument { name, .. }, Change::Argument { name: of, .. }) if name == of)
            });
            let at = same.take_while(|other| *other != change).count();
            (change, u32::try_from(at).unwrap_or(0))
        })
    }

    /// What a choice probably costs.
    pub(crate) fn cost(&self, choice: Choice) -> Cost {
        let mut costs = Cost::ALL.into_iter().zip(self.of_cost).rev();
        let dearest = costs.find(|(_, of_cost)| choice.changes & of_cost != 0);
        dearest.map_or(Cost::Nothing, |(cost, _)| cost)
    }

    /// How a choice is compared with others.
    pub(crate) fn price(&self, choice: Choice, time: f64) -> Price {
        let gpus = self.changes_in(choice).map(Change::gpus).max().unwrap_or(1);
        let bold = Change::OptimizerInBackward(StatesIn::Host);
        let is_bold = self.changes_in(choice).any(|change| *change == bold);
        Price::new(self.cost(choice), gpus, time, choice.changes.count_ones(), is_bold)
    }

    /// The choice, without what must not be tried before something else has been: updates in the backward pass with states
    /// on the host begin in the first step already, before it could be seen that they do not suit the program.
    pub(crate) fn safe(&self, choice: Choice) -> Choice {
        let bit = |states| {
            let change = Change::OptimizerInBackward(states);
            self.candidates.iter().position(|one| *one == change).map_or(0, |at| 1_u64 << at)
        };
        let (gpu, host) = (bit(StatesIn::Gpu), bit(StatesIn::Host));
        if choice.changes & host == 0 || self.work & gpu != 0 {
            return choice;
        }
        Choice { changes: choice.changes & !host | gpu, ..choice }
    }

    /// A choice with all changes of this cost or less with which the program never ran, as far as they go together; none
    /// where there are none.
    pub(crate) fn with_untested(&self, base: Choice, cost: Cost) -> Option<Choice> {
        let mut with = base;
        for (at, change) in self.candidates.iter().enumerate() {
            let bit = 1_u64 << at;
            let is_untested = (self.work | self.left_out) & bit == 0 && usual_cost(change) <= cost;
            if is_untested && !self.changes_in(with).any(|other| excludes(other, change)) {
                with.changes |= bit;
            }
        }
        (with != base).then_some(with)
    }

    /// The program ran with these changes.
    pub(crate) fn work(&mut self, combination: &[Change]) {
        self.work |= self.choice(combination).map_or(0, |choice| choice.changes);
    }

    /// Those changes of a combination with which the program never ran.
    pub(crate) fn not_known_to_work(&self, combination: &[Change]) -> Vec<Change> {
        let Some(choice) = self.choice(combination) else { return Vec::new() };
        self.changes_in(Choice { changes: choice.changes & !self.work, blocks: None })
            .cloned()
            .collect()
    }

    /// A change has nothing to apply to. Updates in the backward pass do not suit the program with states on the host
    /// either.
    pub(crate) fn leave_out(&mut self, change: &Change) {
        let mut all = vec![change.clone()];
        if *change == Change::OptimizerInBackward(StatesIn::Gpu) {
            all.push(Change::OptimizerInBackward(StatesIn::Host));
        }
        if let Change::Checkpoint(Checkpointed::Blocks(_)) = change {
            all.push(Change::Checkpoint(Checkpointed::All));
        }
        for (at, one) in self.candidates.iter().enumerate() {
            if all.contains(one) {
                self.left_out |= 1 << at;
            }
        }
    }
}

/// A change with the number of blocks of a choice.
fn counted(change: &Change, choice: Choice) -> Change {
    match (change, choice.blocks) {
        (Change::Checkpoint(Checkpointed::All), Some(blocks)) => {
            Change::Checkpoint(Checkpointed::Blocks(blocks))
        }
        _ => change.clone(),
    }
}
