//! What to do about an error, shown below it.

/// An error that knows a way out.
pub trait Hint {
    /// One sentence that says what to do; `None` where nothing helps.
    fn hint(&self) -> Option<&'static str>;
}

/// The system's own text says what is wrong.
impl Hint for std::io::Error {
    fn hint(&self) -> Option<&'static str> {
        None
    }
}

/// The text names the line and the column.
impl Hint for serde_json::Error {
    fn hint(&self) -> Option<&'static str> {
        None
    }
}
