//! GPUs as data, and the search for the largest value that fits on one.
//!
//! - [`GpuProfile`]: the figures of a GPU, from a TOML file of `profiles/` or of the user; [`find`] one by its name.
//! - [`PhantomMachine`]: the simulated machine of an estimate, and the settings that the phantom gets.
//! - [`Change`]: a change that is applied to a program while it runs.
//! - [`largest_that_fits`] and [`cheapest_that_fits`]: the searches of `floodmark fit` and `floodmark plan`, which run
//!   nothing themselves.
//! - [`Rates`]: how long a step takes on a GPU.

mod answer;
mod change;
mod combination;
mod fewest_blocks;
mod fit_search;
mod frontier;
mod machine;
mod objective;
mod plan_need;
mod plan_search;
mod profile;
mod roofline;

pub use answer::{ValueAt, ValueAtError};
pub use change::{
    CHANGE_NAMES, Change, ChangeError, Checkpointed, HalfPrecision, HostCopies, StatesIn,
};
pub use fit_search::{FitLimits, FitSearch, Tried, largest_that_fits};
pub use frontier::{Dimension, Direction, Frontier, Point, frontier_that_fits};
pub use machine::{LibraryVersions, PhantomMachine};
pub use objective::{Objective, ObjectiveError};
pub use plan_need::{Combination, Need, Outcome};
pub use plan_search::{Allowed, PlanSearch, cheapest_that_fits};
pub use profile::{GpuError, GpuProfile, find, profiles, source};
pub use roofline::{Rates, StepTime, flops, host_bytes};
