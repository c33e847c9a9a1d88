//! Which moment a question is about.

use std::borrow::Cow;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// Which moment is meant.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum At {
    /// When allocated bytes first reached their maximum.
    #[default]
    Peak,
    /// Right before the last failed allocation.
    Oom,
    /// After the last event.
    End,
    /// So many seconds after the recording began.
    Seconds(f64),
}

impl At {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Peak => "peak",
            Self::Oom => "oom",
            Self::End => "end",
            Self::Seconds(_) => "time",
        }
    }
}

/// The text names no moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a time is `peak`, `oom`, `end` or a number of seconds such as `1.25`")]
pub struct NotAMoment;

impl FromStr for At {
    type Err = NotAMoment;

    fn from_str(text: &str) -> Result<Self, NotAMoment> {
        match text {
            "peak" => Ok(Self::Peak),
            "oom" => Ok(Self::Oom),
            "end" => Ok(Self::End),
            other => match seconds(other) {
                Some(seconds) if seconds.is_finite() && seconds >= 0.0 => {
                    Ok(Self::Seconds(seconds))
                }
                Some(_) | None => Err(NotAMoment),
            },
        }
    }
}

/// A number, or a time as reports print it: `9.454 s`, `630 ms`.
fn seconds(text: &str) -> Option<f64> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    Some(number.trim_end().parse::<f64>().ok()? / unit)
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for At {
    fn schema_name() -> Cow<'static, str> {
        "At".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = [Self::Peak, Self::Oom, Self::End, Self::Seconds(0.0)].map(Self::name);
        json_schema!({ "type": "string", "enum": names, "description": "Which time an answer is about: `time` is one that the question chose." })
    }
}
