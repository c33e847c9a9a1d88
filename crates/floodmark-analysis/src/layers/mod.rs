//! The memory of each layer of a model: how often it allocated, and the peaks of the device while it ran.
//!
//! A layer is what a phase of a chosen name marks ([`LayerSource::Phases`]): it runs from the beginning of the phase to its
//! end. Or it is a module on the stacks of allocations ([`LayerSource::Modules`]): then it runs from its first allocation
//! until its thread allocates elsewhere. Layers are nested; an event of one also belongs to the layers around it.
//!
//! What the backward pass allocates belongs to the layer whose forward pass caused it, where call stacks were recorded.
//!
//! Counts are of the layer's own thread. Peaks are of the whole device.

pub(crate) mod runs;

use floodmark_trace::{Bytes, Device, Losses, Trace};
use serde::Serialize;

use crate::layers::runs::Runs;
use crate::moment::chosen_device;
use crate::question_error::QuestionError;

/// Where the layers of a recording are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LayerSource {
    /// The modules on the stacks.
    #[default]
    Modules,
    /// Named phases: the name of a layer follows this text.
    Phases(String),
}

impl LayerSource {
    /// The layer that a phase marks.
    fn name_of_phase<'a>(&self, phase: Option<&'a str>) -> Option<&'a str> {
        match self {
            Self::Modules => None,
            Self::Phases(prefix) => phase?.strip_prefix(&**prefix),
        }
    }
}

/// The question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerQuestion {
    /// Of which device; [`default_device`](crate::default_device) when none is named.
    pub device: Option<Device>,
    /// What a layer is.
    pub source: LayerSource,
    /// The number of latest events to return; all if none is given.
    pub events: Option<usize>,
}

/// The figures of a layer, over all of its runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layer {
    /// Its qualified name.
    pub name: String,
    /// How long it ran, in all.
    pub seconds: f64,
    /// Allocations while it ran.
    pub allocations: u64,
    /// Frees while it ran, also of blocks that others allocated.
    pub frees: u64,
    /// The peak of allocated bytes of the device while it ran.
    pub peak_allocated: Bytes,
    /// The peak of reserved bytes meanwhile; what was allocated, where nothing is reserved.
    pub peak_reserved: Bytes,
    /// The part of what was reserved that was not allocated, the average of its events.
    pub fragmentation: f64,
}

/// What an event of a device was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerEventKind {
    /// A block was allocated.
    Alloc,
    /// A block was freed.
    Free,
    /// Nothing: the first and the last levels.
    Snapshot,
    /// A layer begins.
    LayerEnter,
    /// A layer ends.
    LayerExit,
}

/// Something that happened, with the levels after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerEvent {
    /// When.
    pub seconds: f64,
    /// What.
    pub kind: LayerEventKind,
    /// What was allocated or freed, rounded by the allocator: the change of `allocated`.
    pub bytes: Bytes,
    /// The layer, as an index into [`Layers::layers`]; null outside of all.
    pub layer: Option<u32>,
    /// What was allocated on the device.
    pub allocated: Bytes,
    /// What was reserved; what was allocated, where nothing is reserved.
    pub reserved: Bytes,
}

impl LayerEvent {
    /// The part of what is reserved that is not allocated, 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn fragmentation(&self) -> f64 {
        if self.reserved == Bytes(0) {
            return 0.0;
        }
        self.reserved.saturating_sub(self.allocated).0 as f64 / self.reserved.0 as f64
    }
}

/// The figures of each layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layers {
    /// The device.
    pub device: Device,
    /// What the recording misses.
    pub losses: Losses,
    /// Peak of allocated bytes.
    pub peak_allocated: Bytes,
    /// The peak of reserved bytes; what was allocated, where nothing is reserved.
    pub peak_reserved: Bytes,
    /// What was live when the recording began.
    pub at_start: Bytes,
    /// All that was allocated since.
    pub allocated_bytes: Bytes,
    /// The layers, in the order in which they first ran.
    pub layers: Vec<Layer>,
    /// What happened.
    pub events: Vec<LayerEvent>,
}

/// Returns the figures of each layer.
pub fn layers(trace: &Trace, question: &LayerQuestion) -> Result<Layers, QuestionError> {
    let device = chosen_device(trace, question.device)?;
    let most_events = question.events.unwrap_or(usize::MAX);
    let mut runs = Runs::at_start(trace, device, &question.source);
    runs.extend(trace, most_events);
    Ok(runs.layers(trace, most_events))
}
