//! GPUs as data, and the search for the largest value that fits on one.
//!
//! - [`GpuProfile`]: the figures of a GPU, from a TOML file of `profiles/` or of the user; [`find`] one by its name.
//! - [`PhantomMachine`]: the simulated machine of an estimate, and the settings that the phantom gets.
//! - [`largest_that_fits`]: the search of `floodmark fit`, which runs nothing itself.

mod answer;
mod fit_search;
mod machine;
mod profile;

pub use answer::{ValueAt, ValueAtError};
pub use fit_search::{FitSearch, Tried, largest_that_fits};
pub use machine::{LibraryVersions, PhantomMachine};
pub use profile::{GpuError, GpuProfile, find, profiles, source};
