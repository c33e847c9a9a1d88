//! A version of `PyTorch`: the allocator's rules differ between versions.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// A minor version of `PyTorch`, such as 2.11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TorchVersion {
    /// 2 in 2.11.
    pub major: u32,
    /// 11 in 2.11.
    pub minor: u32,
}

impl TorchVersion {
    /// The version whose rules were checked against recordings of a GPU.
    pub const CHECKED: Self = Self::new(2, 11);

    /// The version `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The last version in a text: `2.11.0+cu130` is 2.11, `2.8 to 2.9` is 2.9.
    pub fn last_in(text: &str) -> Option<Self> {
        let mut words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
        words.by_ref().filter_map(|word| word.parse().ok()).filter(|&v| v >= Self::new(1, 0)).last()
    }

    pub(crate) fn is_at_least(self, major: u32, minor: u32) -> bool {
        self >= Self::new(major, minor)
    }
}

impl FromStr for TorchVersion {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.');
        let mut number = || parts.next()?.parse().ok();
        let (major, minor) = (number().ok_or(())?, number().ok_or(())?);
        Ok(Self { major, minor })
    }
}

impl fmt::Display for TorchVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Serialize for TorchVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for TorchVersion {
    fn schema_name() -> Cow<'static, str> {
        "TorchVersion".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A version of torch: `2.11`." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_version_in_a_text_counts() {
        let last = TorchVersion::last_in;
        assert_eq!(last("2.11.0+cu130"), Some(TorchVersion::new(2, 11)));
        assert_eq!(last("2.8 to 2.9"), Some(TorchVersion::new(2, 9)));
        assert_eq!(last("2.15.0a0+git12345"), Some(TorchVersion::new(2, 15)));
        assert_eq!(last(""), None);
        assert_eq!(last("nightly"), None);
    }
}
