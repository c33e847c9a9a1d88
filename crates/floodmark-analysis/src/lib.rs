//! Questions about a trace; each answer is a plain value.
//!
//! One file per question. All of them take a [`Trace`](floodmark_trace::Trace) and give back structs
//! that serialise: their JSON is the contract of `--json`. Nothing here prints, opens a path or knows
//! how a table looks.
//!
//! - [`report()`]: what filled a device at a moment, grouped [`By`] line, module, tensor, ….
//! - [`summary()`]: the whole recording in a few numbers.
//! - [`Context`]: in which step and phase each allocation was made; [`category`]: what it is.
//! - [`Moment`]: the levels of a device at its peak, at a failed request, at the end, at a time.

mod at;
mod context;
mod level;
mod moment;
mod place;
mod question_error;
mod report;
mod row;
mod summary;

mod by_category;
mod by_line;
mod by_module;
mod by_op;
mod by_phase;
mod by_stack;
mod by_step;
mod by_tensor;
mod categories;
mod groups;

pub use at::{At, NotAMoment};
pub use categories::category;
pub use context::{Context, Phase};
pub use moment::{Moment, Request, default_device, moment};
pub use place::Frame;
pub use question_error::QuestionError;
pub use report::{By, FORMAT, NotAGrouping, Question, Report, report};
pub use row::{Detail, Largest, Row};
pub use summary::{DeviceSummary, Summary, summary};
