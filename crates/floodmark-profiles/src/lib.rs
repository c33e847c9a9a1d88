//! GPUs as data, and the searches for what fits on one.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`gpu`]: GPU profiles from TOML files, the simulated machine with the settings that the phantom gets, how long a
//!    step takes; [`search`]: the largest values and the cheapest changes that fit, and the changes themselves.

pub mod gpu;
pub mod search;

pub use gpu::{
    GpuError, GpuProfile, LibraryVersions, PhantomMachine, Rates, StepTime, ValueAt, ValueAtError,
    find, flops, host_bytes, profiles, source,
};
pub use search::{
    Allowed, CHANGE_NAMES, Change, ChangeError, Checkpointed, Combination, Dimension, Direction,
    FitLimits, FitSearch, Frontier, HalfPrecision, HostCopies, Need, Objective, ObjectiveError,
    PeakModel, PlanSearch, Point, StatesIn, Tried, TryOutcome, cheapest_that_fits,
    frontier_that_fits, largest_that_fits,
};
