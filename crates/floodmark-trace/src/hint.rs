//! What to do about an error, shown below it.

/// An error with advice.
pub trait Hint {
    /// One sentence of advice; `None` where there is none.
    fn hint(&self) -> Option<&'static str>;
}

/// The system's own text is enough.
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
