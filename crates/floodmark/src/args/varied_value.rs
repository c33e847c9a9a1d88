//! A value that `floodmark fit` or `floodmark plan` varies: its name, and its values.

use std::collections::BTreeSet;
use std::str::FromStr;

/// Limit on the values of one name.
const MOST_VALUES: usize = 1 << 20;

/// A name and its values: a range from the smallest on, a list in its own order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VariedValue {
    pub(crate) name: String,
    pub(crate) values: Vec<u64>,
    pub(crate) is_range: bool,
    /// The values as the user wrote them.
    pub(crate) written: String,
}

impl VariedValue {
    /// Replaces the name in braces in a text by a value: `--batch {BATCH}` becomes `--batch 8`.
    pub(crate) fn put(&self, text: &str, value: u64) -> String {
        text.replace(&self.placeholder(), &value.to_string())
    }

    pub(crate) fn placeholder(&self) -> String {
        format!("{{{}}}", self.name)
    }
}

impl FromStr for VariedValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write it as `BATCH=1..512`, `BATCH=8..512:8` or `BATCH=8,12,20`".to_owned();
        let (name, written) = text.split_once('=').ok_or_else(wrong)?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err("a name has letters, digits and `_` alone".to_owned());
        }
        let values = match written.split_once("..") {
            Some((from, rest)) => range(from, rest),
            None => written.split(',').map(|value| value.trim().parse().ok()).collect(),
        };
        let mut values: Vec<u64> = values.ok_or_else(wrong)?;
        let is_range = written.contains("..");
        if !is_range {
            let mut seen = BTreeSet::new();
            values.retain(|value| seen.insert(*value));
        }
        if values.len() > MOST_VALUES {
            return Err(format!("these are more than {MOST_VALUES} values"));
        }
        if values.is_empty() {
            return Err("the range has no value".to_owned());
        }
        Ok(Self { name: name.to_owned(), values, is_range, written: written.to_owned() })
    }
}

/// Parses `1..512`, `8..512:8` or `1..512:x2`; the end is included.
fn range(from: &str, rest: &str) -> Option<Vec<u64>> {
    let (to, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let (from, to): (u64, u64) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
    let (factor, step) = match step.trim().strip_prefix('x') {
        Some(factor) => (Some(factor.parse().ok().filter(|&factor: &u64| factor > 1)?), 0),
        None => (None, step.trim().parse().ok().filter(|&step: &u64| step > 0)?),
    };
    let next = |&value: &u64| match factor {
        Some(factor) => value.max(1).checked_mul(factor),
        None => value.checked_add(step),
    };
    let values = std::iter::successors(Some(from), next).take_while(|&value| value <= to);
    Some(values.take(MOST_VALUES + 1).collect())
}

/// An environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                Ok(Self { key: key.to_owned(), value: value.to_owned() })
            }
            _ => Err("write it as `KEY=VALUE`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<u64> {
        text.parse::<VariedValue>().unwrap().values
    }

    #[test]
    fn values_are_a_range_or_a_list() {
        assert_eq!(values("B=1..4"), [1, 2, 3, 4]);
        assert_eq!(values("B=8..33:8"), [8, 16, 24, 32]);
        assert_eq!(values("B=1..9:x2"), [1, 2, 4, 8]);
        assert_eq!(values("B=20, 8,12,8"), [20, 8, 12]);
        for wrong in [
            "",
            "B",
            "B=",
            "=1..2",
            "B=4..1",
            "B=1..4:0",
            "B=1..4:x1",
            "B=a..b",
            "B-C=1",
            "B=1..9999999",
        ] {
            assert!(wrong.parse::<VariedValue>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_value_goes_wherever_the_name_stands() {
        let varied: VariedValue = "BATCH=1..4".parse().unwrap();
        assert_eq!(
            varied.put("--batch={BATCH} {BATCH} {OTHER} BATCH", 3),
            "--batch=3 3 {OTHER} BATCH"
        );
    }
}
