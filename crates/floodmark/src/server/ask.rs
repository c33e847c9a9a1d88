//! What can be asked: the paths below `api/` and their parameters, as values.
//!
//! A saved page holds answers under the text of the request ([`Ask::request`]), so that text is the same for the same
//! question, however its parameters were ordered.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::str::FromStr;

use floodmark_analysis::{At, By, TimelineBy};
use floodmark_trace::Device;

use super::refusal::Refusal;

/// How many rows a report has where nobody says it.
const DEFAULT_ROWS: usize = 500;

/// A question to one or two of the traces that are shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ask {
    /// Which traces there are.
    Traces,
    /// Memory over time: what all parts of the picture have in common.
    Timeline { of: Of, by: TimelineBy },
    /// A part of it.
    TimelineTile { of: Of, by: TimelineBy, level: u32, tile: u64 },
    /// What filled a device at a moment.
    Report { of: Of, by: By, at: At, top: usize },
    /// All of one allocation.
    Allocation { trace: usize, id: u32 },
    /// The steps, and what grows with them.
    Steps(Of),
    /// What grew between two traces.
    Diff { a: usize, b: usize, device: Option<Device>, by: By, top: usize },
    /// The peaks of all traces.
    Ranks,
    /// What to change.
    Advice(Of),
    /// What other allocator settings would have done.
    Sweep(Of),
}

/// A device of a trace; that with the highest peak where none is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Of {
    pub(crate) trace: usize,
    pub(crate) device: Option<Device>,
}

/// The parameters of a request.
pub(crate) type Parameters = BTreeMap<String, String>;

impl Ask {
    /// Understands a request: the path below `api/`, and its parameters.
    pub(crate) fn parse(path: &str, parameters: &Parameters) -> Result<Self, Refusal> {
        let given = Given(parameters);
        Ok(match path {
            "traces" => Self::Traces,
            "timeline" => Self::Timeline { of: given.of()?, by: given.stacked()? },
            "timeline/tile" => Self::TimelineTile {
                of: given.of()?,
                by: given.stacked()?,
                level: given.needed("level", "a level of enlargement")?,
                tile: given.needed("tile", "the number of a tile")?,
            },
            "report" => Self::Report {
                of: given.of()?,
                by: given.or("by", By::Line, "a grouping such as `line`")?,
                at: given.or("at", At::Peak, "`peak`, `oom`, `end` or seconds")?,
                top: given.rows()?,
            },
            "allocation" => Self::Allocation {
                trace: given.trace("trace")?,
                id: given.needed("id", "the number of an allocation")?,
            },
            "steps" => Self::Steps(given.of()?),
            "diff" => Self::Diff {
                a: given.needed("a", "the number of a trace")?,
                b: given.needed("b", "the number of a trace")?,
                device: given.device()?,
                by: given.or("by", By::Line, "a grouping such as `line`")?,
                top: given.rows()?,
            },
            "ranks" => Self::Ranks,
            "advice" => Self::Advice(given.of()?),
            "sweep" => Self::Sweep(given.of()?),
            other => return Err(Refusal::NoSuchPath { path: other.to_owned() }),
        })
    }

    /// The traces that the answer depends on; none stands for all of them.
    pub(crate) fn traces(&self) -> Vec<usize> {
        match self {
            Self::Traces | Self::Ranks => Vec::new(),
            Self::Report { of, .. }
            | Self::Timeline { of, .. }
            | Self::TimelineTile { of, .. }
            | Self::Steps(of)
            | Self::Advice(of)
            | Self::Sweep(of) => vec![of.trace],
            Self::Allocation { trace, .. } => vec![*trace],
            Self::Diff { a, b, .. } => vec![*a, *b],
        }
    }
}

/// The text of a request: the path below the token, and the parameters in the order of their names.
pub(crate) fn request(path: &str, parameters: &Parameters) -> String {
    let mut text = format!("api/{path}");
    for (at, (name, value)) in parameters.iter().enumerate() {
        let _ = write!(text, "{}{name}={value}", if at == 0 { '?' } else { '&' });
    }
    text
}

/// Parameters, each to be understood.
struct Given<'a>(&'a Parameters);

impl Given<'_> {
    fn get<T: FromStr>(
        &self,
        name: &'static str,
        wants: &'static str,
    ) -> Result<Option<T>, Refusal> {
        let Some(text) = self.0.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let wrong = |_| Refusal::WrongParameter { name, text: text.clone(), wants };
        text.parse().map(Some).map_err(wrong)
    }

    fn or<T: FromStr>(&self, name: &'static str, or: T, wants: &'static str) -> Result<T, Refusal> {
        Ok(self.get(name, wants)?.unwrap_or(or))
    }

    fn needed<T: FromStr>(&self, name: &'static str, wants: &'static str) -> Result<T, Refusal> {
        self.get(name, wants)?.ok_or(Refusal::MissingParameter { name, wants })
    }

    fn trace(&self, name: &'static str) -> Result<usize, Refusal> {
        self.or(name, 0, "the number of a trace")
    }

    fn device(&self) -> Result<Option<Device>, Refusal> {
        self.get("device", "a device such as `cuda:0` or `cpu`")
    }

    fn of(&self) -> Result<Of, Refusal> {
        Ok(Of { trace: self.trace("trace")?, device: self.device()? })
    }

    fn stacked(&self) -> Result<TimelineBy, Refusal> {
        self.or("by", TimelineBy::Category, "`category`, `module`, `phase` or `line`")
    }

    fn rows(&self) -> Result<usize, Refusal> {
        self.or("top", DEFAULT_ROWS, "a number of rows")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(text: &str) -> Parameters {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn a_request_without_parameters_means_the_first_trace() {
        let of = Of { trace: 0, device: None };
        assert_eq!(Ask::parse("steps", &Parameters::new()).unwrap(), Ask::Steps(of));
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        let refusal = Ask::parse("report", &parameters("by=colour")).unwrap_err();
        assert_eq!(refusal.to_string(), "`by` is `colour`, and must be a grouping such as `line`");
        let refusal = Ask::parse("allocation", &parameters("trace=0")).unwrap_err();
        assert_eq!(refusal.to_string(), "`id` is missing: the number of an allocation");
        let refusal = Ask::parse("../../etc/passwd", &Parameters::new()).unwrap_err();
        assert_eq!(refusal.to_string(), "nothing is answered at `api/../../etc/passwd`");
    }

    #[test]
    fn the_order_of_parameters_does_not_matter() {
        let one = request("report", &parameters("trace=0&by=line"));
        assert_eq!(one, request("report", &parameters("by=line&trace=0")));
        assert_eq!(one, "api/report?by=line&trace=0");
    }
}
