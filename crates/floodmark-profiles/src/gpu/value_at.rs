//! A value that the user gives for a line: `FILE:LINE=VALUE`.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The value that a line reads back from a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueAt {
    /// The file, or the end of its path.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The value; truth values are 0 and 1.
    pub value: f64,
}

/// Why a text is not a value at a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueAtError {
    /// It does not name a line.
    #[error("an answer is `FILE:LINE=VALUE`, such as `train.py:12=1`")]
    NoLine,
    /// The value cannot be read.
    #[error("the value of an answer is a number, `true` or `false`")]
    NoNumber,
}

impl fmt::Display for ValueAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}={}", self.file, self.line, self.value)
    }
}

impl FromStr for ValueAt {
    type Err = ValueAtError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (location, value) = text.rsplit_once('=').ok_or(ValueAtError::NoLine)?;
        let (file, line) = location.rsplit_once(':').ok_or(ValueAtError::NoLine)?;
        let line = line.parse().ok().filter(|line| *line > 0).ok_or(ValueAtError::NoLine)?;
        if file.trim().is_empty() || text.contains(['\n', '\r']) {
            return Err(ValueAtError::NoLine);
        }
        let value = match value.trim().to_ascii_lowercase().as_str() {
            "true" => 1.0,
            "false" => 0.0,
            number => number.parse().map_err(|_| ValueAtError::NoNumber)?,
        };
        Ok(Self { file: file.to_owned(), line, value })
    }
}

/// As it is written on a command line: JSON has no `nan`.
impl Serialize for ValueAt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ValueAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_line_and_a_number() {
        let read = |text: &str| {
            let ValueAt { file, line, value } = text.parse().unwrap();
            (file, line, value)
        };
        assert_eq!(read("train.py:12=1"), ("train.py".to_owned(), 12, 1.0));
        assert_eq!(read("a=b/c.py:3= True"), ("a=b/c.py".to_owned(), 3, 1.0));
        assert_eq!(read("C:/x.py:3=-2.5"), ("C:/x.py".to_owned(), 3, -2.5));
        let value_at: ValueAt = "train.py:12=2.50".parse().unwrap();
        assert_eq!(value_at.to_string(), "train.py:12=2.5");
        for wrong in ["", "x.py=1", "x.py:0=1", "x.py:a=1", ":3=1", "x.py:3=", "x.py:3=yes"] {
            assert!(wrong.parse::<ValueAt>().is_err(), "{wrong}");
        }
    }
}
