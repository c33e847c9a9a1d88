//! The searches of `floodmark fit` and `floodmark plan`, and the changes of a program. They run nothing themselves.

mod candidates;
mod change;
mod change_rows;
mod choices;
mod combination;
mod fit_search;
mod frontier;
mod guesses;
mod objective;
mod peak_model;
mod plan_need;
mod plan_search;

pub use candidates::Allowed;
pub use change::{
    CHANGE_NAMES, Change, ChangeError, Checkpointed, HalfPrecision, HostCopies, StatesIn,
};
pub use fit_search::{FitLimits, FitSearch, Tried, largest_that_fits};
pub use frontier::{Dimension, Direction, Frontier, Point, frontier_that_fits};
pub use objective::{Objective, ObjectiveError};
pub use peak_model::PeakModel;
pub use plan_need::{Combination, Need, TryOutcome};
pub use plan_search::{PlanSearch, cheapest_that_fits};
