//! The requests of the page: the paths below `api/` and their parameters, as types.
//!
//! A saved page stores answers by the text of the request ([`request_text`]), which sorts the parameters.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::str::FromStr;

use floodmark_analysis::{
    At, AxisBy, Both, By, DiffSides, FrameChoice, IcicleBy, PicturePoint, RangeBy, TimelineBy,
};
use floodmark_trace::Device;

use super::refusal::Refusal;

/// Default number of rows of a report.
const DEFAULT_ROWS: usize = 500;

/// Default number of tensors in the view of lifetimes.
const DEFAULT_TENSORS: usize = 400;

/// Default number of lines that differ between ranks.
const DEFAULT_LINES: usize = 50;

/// Default number of lines and of modules of an explained failure.
const DEFAULT_OWNERS: usize = 10;

/// The expected form of a device, for messages.
const DEVICE: &str = "a device such as `cuda:0` or `cpu`";

/// A request about the shown traces.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ApiRequest {
    /// The list of traces.
    Traces,
    /// The peaks of all traces.
    Ranks,
    /// The lines that differ between traces.
    RankLines { top: usize },
    /// What grew between two traces.
    Diff { of: TwoTraces, what: DiffRequest },
    /// The plan stored in a trace.
    Plan { trace: usize },
    /// The details of one allocation.
    Allocation { trace: usize, id: u32 },
    /// What filled a device at a moment.
    Report { of: TraceDevice, by: By, at: At, top: usize, frames: FrameChoice },
    /// Another request about one device.
    Device { of: TraceDevice, what: DeviceRequest },
}

/// A request about two traces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DiffRequest {
    /// The rows that changed.
    Rows { by: By, top: usize, frames: FrameChoice },
    /// Both traces over time.
    Curves,
    /// Both traces as one tree.
    Tree { by: IcicleBy, frames: FrameChoice },
}

/// Two traces, each on a device and at a time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TwoTraces {
    pub(crate) a: usize,
    pub(crate) b: usize,
    pub(crate) sides: DiffSides,
}

/// A request about one device of a trace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DeviceRequest {
    /// Memory over time: what all tiles of the picture share.
    Timeline { by: TimelineBy, axis: Option<AxisBy> },
    /// A tile of it.
    TimelineTile { by: TimelineBy, axis: Option<AxisBy>, level: u32, tile: u64 },
    /// The bands below it: steps, phases, modules.
    Bands,
    /// A tile of the picture of single allocations.
    AllocationTile { axis: Option<AxisBy>, level: u32, tile: u64 },
    /// The allocation at a point of the picture; `by` is `None` for the picture of single allocations.
    Hit { by: Option<TimelineBy>, point: PicturePoint },
    /// The allocated bytes at a time, as a tree.
    Icicle { by: IcicleBy, frames: FrameChoice, at: At },
    /// One function with its callers and callees; by its name and file, or the one with the most bytes of its own.
    Sandwich { frames: FrameChoice, at: At, function: Option<(String, String)> },
    /// The address space at a moment.
    Segments { at: At },
    /// The address space at a moment, simulated with other allocator settings.
    SimulatedSegments { at: At, alloc_conf: String },
    /// Wasted memory over time.
    Fragmentation,
    /// The lifetimes of its largest tensors between two times.
    Lifetimes { from: f64, to: f64, top: usize },
    /// The changes between two times.
    Range { from: f64, to: f64, by: RangeBy, top: usize },
    /// The steps, and the lines that grow with them.
    Steps,
    /// Why the last allocation failed.
    Oom { top: usize },
    /// The source files with allocated bytes.
    SourceFiles { at: At },
    /// A source file with the bytes of its lines; reads its text from this machine if allowed and the trace has no
    /// copy.
    Source { at: At, file: String, reads_disk: bool },
    /// Advice.
    Advice,
    /// The simulation of other allocator settings.
    Sweep,
}

/// A device of a trace; `None` for the one with the highest peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceDevice {
    pub(crate) trace: usize,
    pub(crate) device: Option<Device>,
}

/// The parameters of a request.
pub(crate) type Parameters = BTreeMap<String, String>;

impl ApiRequest {
    /// Parses a request: the path below `api/`, and its parameters.
    pub(crate) fn parse(path: &str, parameters: &Parameters) -> Result<Self, Refusal> {
        let given = ParameterReader(parameters);
        Ok(match path {
            "traces" => Self::Traces,
            "ranks" => Self::Ranks,
            "ranks/lines" => {
                Self::RankLines { top: given.or("top", DEFAULT_LINES, "a number of lines")? }
            }
            "diff" => {
                let (by, top, frames) = (given.grouping()?, given.rows()?, given.frames()?);
                Self::Diff { of: given.two()?, what: DiffRequest::Rows { by, top, frames } }
            }
            "diff/curves" => Self::Diff { of: given.two()?, what: DiffRequest::Curves },
            "diff/tree" => {
                let (by, frames) = (given.tree()?, given.frames()?);
                Self::Diff { of: given.two()?, what: DiffRequest::Tree { by, frames } }
            }
            "plan" => Self::Plan { trace: given.trace("trace")? },
            "allocation" => Self::Allocation {
                trace: given.trace("trace")?,
                id: given.needed("id", "the number of an allocation")?,
            },
            "report" => Self::Report {
                of: given.trace_and_device()?,
                by: given.grouping()?,
                at: given.at()?,
                top: given.rows()?,
                frames: given.frames()?,
            },
            other => Self::Device {
                what: DeviceRequest::parse(other, &given)?,
                of: given.trace_and_device()?,
            },
        })
    }

    /// The traces that the answer depends on; empty for all of them.
    pub(crate) fn traces(&self) -> Vec<usize> {
        match self {
            Self::Traces | Self::Ranks | Self::RankLines { .. } => Vec::new(),
            Self::Report { of, .. } | Self::Device { of, .. } => vec![of.trace],
            Self::Allocation { trace, .. } | Self::Plan { trace } => vec![*trace],
            Self::Diff { of, .. } => vec![of.a, of.b],
        }
    }
}

impl DeviceRequest {
    fn parse(path: &str, given: &ParameterReader<'_>) -> Result<Self, Refusal> {
        let level = || given.needed("level", "a level of enlargement");
        let tile = || given.needed("tile", "the number of a tile");
        Ok(match path {
            "timeline" => Self::Timeline { by: given.stacked()?, axis: given.axis()? },
            "timeline/tile" => {
                let (by, axis) = (given.stacked()?, given.axis()?);
                Self::TimelineTile { by, axis, level: level()?, tile: tile()? }
            }
            "bands" => Self::Bands,
            "allocations/tile" => {
                Self::AllocationTile { axis: given.axis()?, level: level()?, tile: tile()? }
            }
            "hit" => Self::Hit { by: given.stacked_or_not()?, point: given.point()? },
            "icicle" => {
                Self::Icicle { by: given.tree()?, frames: given.frames()?, at: given.at()? }
            }
            "sandwich" => {
                let name = given.get("function", "the name of a function")?;
                let function = match name {
                    Some(name) => Some((name, given.needed("file", "the file of the function")?)),
                    None => None,
                };
                Self::Sandwich { frames: given.frames()?, at: given.at()?, function }
            }
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
            "source/files" => Self::SourceFiles { at: given.at()? },
            "source" => Self::Source {
                at: given.at()?,
                file: given.needed("file", "a file that the trace names")?,
                reads_disk: given.or("disk", true, "`true` or `false`")?,
            },
            "advice" => Self::Advice,
            "sweep" => Self::Sweep,
            other => return Err(Refusal::NoSuchPath { path: other.to_owned() }),
        })
    }
}

/// The text of a request: the path below the token, and the parameters in the order of their names.
pub(crate) fn request_text(path: &str, parameters: &Parameters) -> String {
    let mut text = format!("api/{path}");
    for (at, (name, value)) in parameters.iter().enumerate() {
        let _ = write!(text, "{}{name}={value}", if at == 0 { '?' } else { '&' });
    }
    text
}

/// Reads the parameters of a request.
struct ParameterReader<'a>(&'a Parameters);

impl ParameterReader<'_> {
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
        self.get("device", DEVICE)
    }

    fn trace_and_device(&self) -> Result<TraceDevice, Refusal> {
        Ok(TraceDevice { trace: self.trace("trace")?, device: self.device()? })
    }

    fn stacked(&self) -> Result<TimelineBy, Refusal> {
        self.or("by", TimelineBy::Category, "`category`, `module`, `phase` or `line`")
    }

    /// `None` for the picture of single allocations.
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
        self.at_named("at")
    }

    fn at_named(&self, name: &'static str) -> Result<At, Refusal> {
        self.or(name, At::Peak, "`peak`, `oom`, `end` or seconds")
    }

    fn tree(&self) -> Result<IcicleBy, Refusal> {
        self.or("by", IcicleBy::Stack, "`stack` or `module`")
    }

    fn frames(&self) -> Result<FrameChoice, Refusal> {
        self.or("frames", FrameChoice::Program, "`program` or `all`")
    }

    fn axis(&self) -> Result<Option<AxisBy>, Refusal> {
        self.get("axis", "`time`, `events` or `steps`")
    }

    fn two(&self) -> Result<TwoTraces, Refusal> {
        let device = |name| self.get(name, DEVICE);
        Ok(TwoTraces {
            a: self.needed("a", "the number of a trace")?,
            b: self.needed("b", "the number of a trace")?,
            sides: DiffSides {
                device: Both { a: device("device_a")?, b: device("device_b")? },
                at: Both { a: self.at_named("at_a")?, b: self.at_named("at_b")? },
                renamed: Vec::new(),
            },
        })
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
        let of = TraceDevice { trace: 0, device: None };
        let request = ApiRequest::Device { of, what: DeviceRequest::Steps };
        assert_eq!(ApiRequest::parse("steps", &Parameters::new()).unwrap(), request);
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        let refusal = ApiRequest::parse("report", &parameters("by=colour")).unwrap_err();
        assert_eq!(refusal.to_string(), "`by` is `colour`; it must be a grouping such as `line`");
        let refusal = ApiRequest::parse("allocation", &parameters("trace=0")).unwrap_err();
        assert_eq!(refusal.to_string(), "`id` is missing: the number of an allocation");
        let refusal = ApiRequest::parse("../../etc/passwd", &Parameters::new()).unwrap_err();
        assert_eq!(refusal.to_string(), "there is no `api/../../etc/passwd`");
    }

    #[test]
    fn the_order_of_parameters_does_not_matter() {
        let one = request_text("report", &parameters("trace=0&by=line"));
        assert_eq!(one, request_text("report", &parameters("by=line&trace=0")));
        assert_eq!(one, "api/report?by=line&trace=0");
    }
}
