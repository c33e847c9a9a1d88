//! The boundary between the process and the phantom, the library of a simulated CUDA device.
//!
//! The phantom is a shared library of its own, so that its symbols can take the place of CUDA's. This crate has the types
//! that cross its boundary, [`Settings`] on the way in and [`Account`] on the way out, and [`PhantomLibrary`], which
//! loads it and calls its functions. Both sides use the same types, and are always built together.

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
