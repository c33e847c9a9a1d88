//! What can be asked: the paths below `api/` and their parameters, as values.
//!
//! A saved page holds answers under the text of the request ([`Ask::request`]), so that text is the same for the same
//! question, however its parameters were ordered.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::str::FromStr;

use floodmark_analysis::{At, By, IcicleBy, PicturePoint, RangeBy, TimelineBy};
use floodmark_trace::Device;

use super::refusal::Refusal;

/// The rows of a report where the request does not say it.
const DEFAULT_ROWS: usize = 500;

/// The tensors of the view of lifetimes where the request does not say it.
const DEFAULT_TENSORS: usize = 400;

/// The lines that differ from rank to rank where the request does not say it.
const DEFAULT_LINES: usize = 50;

/// The lines and the modules of an explained failure where the request does not say it.
const DEFAULT_OWNERS: usize = 10;

/// A question to one or two of the traces that are shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ask {
    /// Which traces there are.
    Traces,
    /// The peaks of all traces.
    Ranks,
    /// Which lines differ from trace to trace.
    RankLines { top: usize },
    /// What grew between two traces.
    Diff { a: usize, b: usize, device: Option<Device>, by: By, top: usize },
    /// All of one allocation.
    Allocation { trace: usize, id: u32 },
    /// What filled a device at a moment.
    Report { of: Of, by: By, at: At, top: usize },
    /// Anything else about one device.
    OfDevice { of: Of, what: OfDevice },
}

/// A question to one device of a trace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OfDevice {
    /// Memory over time: what all parts of the picture have in common.
    Timeline { by: TimelineBy },
    /// A part of it.
    TimelineTile { by: TimelineBy, level: u32, tile: u64 },
    /// What the program did meanwhile.
    Bands,
    /// A part of the picture of single allocations.
    AllocationTile { level: u32, tile: u64 },
    /// The allocation at a point of the picture; of single allocations where `by` is none.
    Hit { by: Option<TimelineBy>, point: PicturePoint },
    /// What filled it at a moment, as a tree.
    Icicle { by: IcicleBy, at: At },
    /// The address space at a moment.
    Segments { at: At },
    /// The address space at a moment, had the allocator had other settings.
    SimulatedSegments { at: At, alloc_conf: String },
    /// Wasted memory over time.
    Fragmentation,
    /// The lives of its largest tensors between two times.
    Lifetimes { from: f64, to: f64, top: usize },
    /// What changed between two times.
    Range { from: f64, to: f64, by: RangeBy, top: usize },
    /// The steps, and what grows with them.
    Steps,
    /// Why the last allocation failed.
    Oom { top: usize },
    /// What to change.
    Advice,
    /// What other allocator settings would have done.
    Sweep,
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
            "ranks" => Self::Ranks,
            "ranks/lines" => {
                Self::RankLines { top: given.or("top", DEFAULT_LINES, "a number of lines")? }
            }
            "diff" => Self::Diff {
                a: given.needed("a", "the number of a trace")?,
                b: given.needed("b", "the number of a trace")?,
                device: given.device()?,
                by: given.grouping()?,
                top: given.rows()?,
            },
            "allocation" => Self::Allocation {
                trace: given.trace("trace")?,
                id: given.needed("id", "the number of an allocation")?,
            },
            "report" => Self::Report {
                of: given.trace_and_device()?,
                by: given.grouping()?,
                at: given.at()?,
                top: given.rows()?,
            },
            other => Self::OfDevice {
                what: OfDevice::parse(other, &given)?,
                of: given.trace_and_device()?,
            },
        })
    }

    /// The traces that the answer depends on; none means all of them.
    pub(crate) fn traces(&self) -> Vec<usize> {
        match self {
            Self::Traces | Self::Ranks | Self::RankLines { .. } => Vec::new(),
            Self::Report { of, .. } | Self::OfDevice { of, .. } => vec![of.trace],
            Self::Allocation { trace, .. } => vec![*trace],
            Self::Diff { a, b, .. } => vec![*a, *b],
        }
    }
}

impl OfDevice {
    fn parse(path: &str, given: &Given<'_>) -> Result<Self, Refusal> {
        let level = || given.needed("level", "a level of enlargement");
        let tile = || given.needed("tile", "the number of a tile");
        Ok(match path {
            "timeline" => Self::Timeline { by: given.stacked()? },
            "timeline/tile" => {
                Self::TimelineTile { by: given.stacked()?, level: level()?, tile: tile()? }
            }
            "bands" => Self::Bands,
            "allocations/tile" => Self::AllocationTile { level: level()?, tile: tile()? },
            "hit" => Self::Hit { by: given.stacked_or_not()?, point: given.point()? },
            "icicle" => Self::Icicle {
                by: given.or("by", IcicleBy::Stack, "`stack` or `module`")?,
                at: given.at()?,
            },
            "segments" => Self::Segments { at: given.at()? },
            "segments/simulated" => Self::SimulatedSegments {
                at: given.at()?,
                alloc_conf: given.or("conf", String::new(), "a setting of the allocator")?,
            },
            "fragmentation" => Self::Fragmentation,
            "lifetimes" => Self::Lifetimes {
                from: given.seconds("from")?.unwrap_or(0.0),
                to: given.seconds("to")?.unwrap_or(f64::MAX),
                top: given.or("top", DEFAULT_TENSORS, "a number of tensors")?,
            },
            "range" => Self::Range {
                from: given.seconds("from")?.unwrap_or(0.0),
                to: given.seconds("to")?.unwrap_or(f64::MAX),
                by: given.or("by", RangeBy::Line, "`line`, `module` or `category`")?,
                top: given.rows()?,
            },
            "steps" => Self::Steps,
            "oom" => Self::Oom { top: given.or("top", DEFAULT_OWNERS, "a number of rows")? },
            "advice" => Self::Advice,
            "sweep" => Self::Sweep,
            other => return Err(Refusal::NoSuchPath { path: other.to_owned() }),
        })
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

    fn trace_and_device(&self) -> Result<Of, Refusal> {
        Ok(Of { trace: self.trace("trace")?, device: self.device()? })
    }

    fn stacked(&self) -> Result<TimelineBy, Refusal> {
        self.or("by", TimelineBy::Category, "`category`, `module`, `phase` or `line`")
    }

    /// None for the picture of single allocations.
    fn stacked_or_not(&self) -> Result<Option<TimelineBy>, Refusal> {
        let is_of_allocations = self.0.get("by").is_some_and(|by| by == "allocation");
        if is_of_allocations { Ok(None) } else { self.stacked().map(Some) }
    }

    fn seconds(&self, name: &'static str) -> Result<Option<f64>, Refusal> {
        let wants = "a number of seconds";
        let seconds: Option<f64> = self.get(name, wants)?;
        match seconds.filter(|seconds| !seconds.is_finite() || *seconds < 0.0) {
            Some(wrong) => Err(Refusal::WrongParameter { name, text: wrong.to_string(), wants }),
            None => Ok(seconds),
        }
    }

    fn point(&self) -> Result<PicturePoint, Refusal> {
        let seconds = self.seconds("seconds")?;
        let seconds = seconds
            .ok_or(Refusal::MissingParameter { name: "seconds", wants: "a number of seconds" })?;
        let bytes = self.needed("bytes", "a number of bytes")?;
        Ok(PicturePoint { seconds, bytes, level: self.get("level", "a level of enlargement")? })
    }

    fn grouping(&self) -> Result<By, Refusal> {
        self.or("by", By::Line, "a grouping such as `line`")
    }

    fn at(&self) -> Result<At, Refusal> {
        self.or("at", At::Peak, "`peak`, `oom`, `end` or seconds")
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
        let ask = Ask::OfDevice { of, what: OfDevice::Steps };
        assert_eq!(Ask::parse("steps", &Parameters::new()).unwrap(), ask);
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        let refusal = Ask::parse("report", &parameters("by=colour")).unwrap_err();
        assert_eq!(refusal.to_string(), "`by` is `colour`; it must be a grouping such as `line`");
        let refusal = Ask::parse("allocation", &parameters("trace=0")).unwrap_err();
        assert_eq!(refusal.to_string(), "`id` is missing: the number of an allocation");
        let refusal = Ask::parse("../../etc/passwd", &Parameters::new()).unwrap_err();
        assert_eq!(refusal.to_string(), "there is no `api/../../etc/passwd`");
    }

    #[test]
    fn the_order_of_parameters_does_not_matter() {
        let one = request("report", &parameters("trace=0&by=line"));
        assert_eq!(one, request("report", &parameters("by=line&trace=0")));
        assert_eq!(one, "api/report?by=line&trace=0");
    }
}
