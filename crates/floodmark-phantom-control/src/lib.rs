//! The boundary between the process and the phantom, the library of a simulated CUDA device.
//!
//! The phantom is a shared library of its own, so that its symbols can take the place of CUDA's. This crate has the types
//! that cross its boundary, [`Settings`] on the way in and [`Account`] on the way out, and [`PhantomLibrary`], which
//! loads it and calls its functions. Both sides use the same types, and are always built together.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`account`]: what the phantom reports; [`answer_kind`]: what a thread reads where no value is known; [`certainty`]: how
//!    certain a value is; [`settings`]: the simulated machine.
//! 2. [`library`]: loads the phantom and calls it.

mod account;
mod answer_kind;
mod certainty;
mod library;
mod settings;

pub use account::{Account, DeviceAccount, UnsupportedCall};
pub use answer_kind::AnswerKind;
pub use certainty::Certainty;
pub use library::{LoadError, PhantomLibrary};
pub use settings::{MOST_DEVICES, Settings, SettingsError};
