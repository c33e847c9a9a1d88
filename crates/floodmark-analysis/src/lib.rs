//! Questions about a trace; each answer is a plain value.
//!
//! One file per question. All of them take a [`Trace`](floodmark_trace::Trace) and give back structs
//! that serialise: their JSON is the contract of `--json`. Nothing here prints, opens a path or knows
//! how a table looks.
//!
//! - [`report()`]: what filled a device at a moment, grouped [`By`] line, module, tensor, ….
//! - [`diff()`]: what grew between two traces.
//! - [`leaks()`]: which lines hold more from step to step.
//! - [`estimate()`]: whether a program fits on the card that it was not run on.
//! - [`idle()`], [`stale_gradients()`], [`optimizer_temporaries()`]: what was there at a moment and might
//!   not have been; with the ids of the allocations, for whoever asks what would be without them.
//! - [`layers()`]: what each layer of a model did to memory; [`curve()`]: how the levels moved.
//! - [`category_peaks()`]: how high each category stood by itself.
//! - [`steps()`]: how high each step rose; [`ranks()`]: which of several recordings stand out.
//! - [`allocation_card()`]: all that is known of one allocation.
//! - [`pulse()`]: how a program that runs stands now; [`history()`]: how it came there.
//! - [`summary()`]: the whole recording in a few numbers.
//! - [`AllocationLines`], [`CategoryLevels`]: the same of every allocation and event, for who writes them all down.
//! - [`Context`]: in which step and phase each allocation was made; [`category`]: what it is.
//! - [`TimelineIndex`]: memory over time in stacked bands, at any enlargement.
//! - [`bands()`]: what lies behind it; [`allocation_tile()`]: single allocations over time; [`hit()`]: who lies
//!   at a place of such a picture.
//! - [`icicle()`]: what is there as a tree; [`segments()`]: how it lies; [`lifetimes()`]: since when, and until when.
//! - [`TraceIndex`], [`MomentIndex`]: what questions that are asked again and again share.
//! - [`Moment`]: the levels of a device at its peak, at a failed request, at the end, at a time.

mod advice;
mod align;
mod allocation_card;
mod allocation_line;
mod at;
mod avoidable;
mod bands;
mod context;
mod curve;
mod diff;
mod estimate;
mod estimate_processes;
mod fragmentation;
mod grid;
mod hit;
mod icicle;
mod idle;
mod index;
mod layer_runs;
mod layers;
mod leaks;
mod level;
mod lifetime;
mod lifetimes;
mod moment;
mod moment_index;
mod oom;
mod place;
mod pulse;
mod question_error;
mod ranks;
mod report;
mod ribbons;
mod row;
mod segments;
mod simulation;
mod steps;
mod summary;
mod tensor_module;
mod timeline;
mod timeline_groups;
mod timeline_keys;

mod by_category;
mod by_line;
mod by_module;
mod by_op;
mod by_phase;
mod by_segment;
mod by_stack;
mod by_step;
mod by_tensor;
mod categories;
mod category_levels;
mod category_peaks;
mod diff_rows;
mod groups;

pub use advice::{Advice, AdviceKind, AdviceReport, advise};
pub use align::Side;
pub use allocation_card::{AllocationCard, Partner, PartnerKind, allocation_card};
pub use allocation_line::{AllocationLine, AllocationLines};
pub use at::{At, NotAMoment};
pub use avoidable::{Avoidable, optimizer_temporaries, stale_gradients};
pub use bands::{Bands, StepSpan, bands};
pub use categories::category;
pub use category_levels::CategoryLevels;
pub use category_peaks::{CategoryPeak, category_peaks};
pub use context::{Context, Phase};
pub use curve::{Curve, Levels, Marker, MarkerKind, Stretch, curve, levels, levels_at_steps};
pub use diff::{Both, Diff, DiffDetail, DiffError, DiffRow, Limit, Peaks, Total, diff};
pub use estimate::{DeviceEstimate, Estimate, Process, SharedGpu, Unknown, estimate};
pub use estimate_processes::{ProgramEnd, estimate_processes};
pub use fragmentation::{Fragmentation, FragmentationAt, FragmentationReport};
pub use grid::COLUMNS;
pub use hit::{Hit, Place, hit, hit_allocation};
pub use icicle::{Icicle, IcicleBy, IcicleNode, NotAnIcicle, icicle};
pub use idle::{Idle, IdleLine, idle};
pub use index::TraceIndex;
pub use layers::{Layer, LayerEvent, LayerEventKind, LayerQuestion, LayerSource, Layers, layers};
pub use leaks::{Leak, Leaks, leaks};
pub use lifetimes::{
    LeftOut, Lifetime, LifetimeRow, Lifetimes, TensorLifetime, lifetimes, tensor_lifetimes,
};
pub use moment::{Moment, Request, default_device, moment};
pub use moment_index::MomentIndex;
pub use oom::{OomClass, OomReport, Proof, oom};
pub use place::Frame;
pub use pulse::{DevicePulse, Pulse, history, pulse};
pub use question_error::QuestionError;
pub use ranks::{Rank, Ranks, Recording, ranks};
pub use report::{By, FORMAT, NotAGrouping, Question, Report, report, report_with};
pub use ribbons::{AllocationTile, Ribbon, allocation_tile};
pub use row::{Detail, Largest, Row};
pub use segments::{
    SegmentBlock, SegmentBlockState, SegmentRow, SegmentTotals, Segments, SegmentsIndex, segments,
};
pub use simulation::{
    FailedRequest, RecordedRun, SimulatedRun, Simulation, SimulationError, SimulationQuestion,
    simulation, simulation_with,
};
pub use steps::{PhasePeak, Step, Steps, steps};
pub use summary::{DeviceSummary, Summary, summary};
pub use tensor_module::TensorModules;
pub use timeline::{Timeline, TimelineIndex, TimelineTile};
pub use timeline_groups::{MOST_GROUPS, NotATimeline, TimelineBy, TimelineGroup};
