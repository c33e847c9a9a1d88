//! The error of options that are written as text.

/// A text is not a value of its option. The message lists the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(pub(crate) &'static str);
