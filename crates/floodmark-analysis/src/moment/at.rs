//! The time that a question is about.

use std::borrow::Cow;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::invalid_value::InvalidValue;

/// A chosen time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum At {
    /// When allocated bytes first reached their maximum.
    #[default]
    Peak,
    /// Right before the last failed allocation.
    Oom,
    /// After the last event.
    End,
    /// This many seconds after the recording began.
    Seconds(f64),
    /// When allocated bytes were highest in a step, or in one phase of it.
    Step {
        /// The step, counted from 0.
        step: u32,
        /// The phase.
        phase: Option<StepPhase>,
    },
}

/// A phase that every step of a training may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepPhase {
    /// The model, or the loss after it.
    Forward,
    /// Autograd.
    Backward,
    /// An optimizer's `step`.
    Optimizer,
}

impl StepPhase {
    const ALL: [Self; 3] = [Self::Forward, Self::Backward, Self::Optimizer];

    /// Its name, as reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
        }
    }
}

impl At {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Peak => "peak",
            Self::Oom => "oom",
            Self::End => "end",
            Self::Seconds(_) => "time",
            Self::Step { .. } => "step",
        }
    }
}

/// The message for another text.
const EXPECTED: InvalidValue = InvalidValue(
    "a time is `peak`, `oom`, `end`, a step such as `step:3` or `step:3:backward`, or a number of seconds such as `1.25`",
);

impl FromStr for At {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "peak" => Ok(Self::Peak),
            "oom" => Ok(Self::Oom),
            "end" => Ok(Self::End),
            other if other.starts_with("step") => step(other).ok_or(EXPECTED),
            other => match seconds(other) {
                Some(seconds) if seconds.is_finite() && seconds >= 0.0 => {
                    Ok(Self::Seconds(seconds))
                }
                Some(_) | None => Err(EXPECTED),
            },
        }
    }
}

/// `step:3`, `step:3:backward`, or the same with spaces.
fn step(text: &str) -> Option<At> {
    let mut words = text.split([':', ' ', ',']).filter(|word| !word.is_empty());
    let (Some("step"), Some(number)) = (words.next(), words.next()) else { return None };
    let step = number.parse().ok()?;
    let phase = match words.next() {
        None => None,
        Some(name) => Some(StepPhase::ALL.into_iter().find(|phase| phase.name() == name)?),
    };
    words.next().is_none().then_some(At::Step { step, phase })
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
        let step = Self::Step { step: 0, phase: None };
        let names = [Self::Peak, Self::Oom, Self::End, Self::Seconds(0.0), step].map(Self::name);
        json_schema!({ "type": "string", "enum": names, "description": "Which time an answer is about: `time` is one that the question chose, `step` the peak of a step or of one phase of it." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_and_its_phase_are_named_as_reports_print_them() {
        let step = |step, phase| Ok(At::Step { step, phase });
        assert_eq!("step:3".parse(), step(3, None));
        assert_eq!("step 3".parse(), step(3, None));
        for text in ["step:3:backward", "step 3 backward", "step 3, backward"] {
            assert_eq!(text.parse(), step(3, Some(StepPhase::Backward)), "{text}");
        }
        for wrong in ["step", "step:", "step:x", "step:3:warm-up", "step:3:forward:0", "steps:3"] {
            assert_eq!(wrong.parse::<At>(), Err(EXPECTED), "{wrong}");
        }
    }
}
