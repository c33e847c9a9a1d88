//! GPUs as data: profiles, the simulated machine, and how long a step takes.

mod machine;
mod profile;
mod roofline;
mod value_at;

pub use machine::{LibraryVersions, PhantomMachine};
pub use profile::{GpuError, GpuProfile, find, profiles, source};
pub use roofline::{Rates, StepTime, flops, host_bytes};
pub use value_at::{ValueAt, ValueAtError};
