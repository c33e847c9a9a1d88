//! The text of each answer: its sentences and its sheets.

mod advice;
pub mod annotation;
pub mod diff;
mod estimate;
mod leaks;
mod ledger;
mod oom;
mod oom_messages;
mod simulation;
