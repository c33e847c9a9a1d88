//! Facts about one allocation: its category, location, module, step and phase, and the times it was used.
//!
//! The other questions build on these; [`card`] collects them all for one allocation.

pub(crate) mod card;
pub(crate) mod category;
pub(crate) mod context;
pub(crate) mod derived_category;
pub(crate) mod frame_rules;
pub(crate) mod framework;
pub(crate) mod generation;
pub(crate) mod line;
pub(crate) mod location;
pub(crate) mod main_script;
pub(crate) mod short_location;
pub(crate) mod tensor_module;
pub(crate) mod use_times;
