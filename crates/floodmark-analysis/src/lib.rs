//! Questions about a trace; each answer is a plain value.
//!
//! All questions take a [`Trace`](floodmark_trace::Trace) and return structs that serialise: their JSON is the
//! contract of `--json`. Nothing here prints, opens a path or formats a table.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it. Questions about one trace are 6,
//! those that combine the answers of others are 7 and 8.
//!
//! 1. `question_error`: why a question has no answer; `invalid_value`: the error of a text that names no grouping,
//!    axis or time; `json_format`: the version of the answers' JSON.
//! 2. `allocation`: facts about one allocation: [`category`], [`Context`] (step and phase), location, module, [`allocation_card()`].
//! 3. `moment`: a device at a time: its totals and [`Levels`], a [`Moment`] chosen with [`At`], [`summary()`], [`category_peaks()`].
//! 4. `grouping`: live allocations as rows and trees, grouped [`By`] line, module, tensor and so on; `time_axis`: the [`Axis`] of
//!    pictures over time; `allocator`: torch's caching allocator replayed or simulated: [`simulation()`], [`FragmentationReport`];
//!    `layers`: what each layer of a model allocated: [`layers()`].
//! 5. `index`: what repeated questions share: [`TraceIndex`], [`MomentIndex`]; of a trace that grows, [`GrowingIndex`].
//! 6. `report`: what filled a device at a time: [`report()`]; [`icicle()`] as a tree; [`sandwich()`] around a function; [`annotate()`]
//!    beside the lines of a source file, [`source_files()`] by file;
//!    `timeline`: memory over time, at any zoom: [`TimelineIndex`], [`allocation_tile()`], [`hit()`], [`lifetimes()`], [`curve()`],
//!    [`range_changes()`] between two times;
//!    `segments`: blocks in the address space: [`segments()`], [`simulated_segments()`];
//!    `steps`: from step to step: [`steps()`], and the lines that grow, [`leaks()`];
//!    `diff`: several traces: [`diff()`] of two, also as a picture ([`diff_curves()`], [`diff_tree()`]), [`ranks()`] side by side;
//!    `ledger`: all memory of a GPU by owner: [`ledger()`];
//!    `live_summary`: a running program now: [`live_summary()`], [`history()`];
//!    `oom_message`: torch's out-of-memory messages in a text, without a trace: [`explain_oom()`], [`OomLogReader`].
//! 7. `oom`: why an allocation failed: [`oom()`]; `advice`: what to change, with the bytes saved: [`advise()`], [`idle()`],
//!    [`stale_gradients()`], [`optimizer_temporaries()`].
//! 8. `estimate`: whether a program fits on a simulated GPU: [`estimate()`], [`estimate_processes()`].

mod advice;
mod allocation;
mod allocator;
mod diff;
mod estimate;
mod grouping;
mod index;
mod invalid_value;
mod json_format;
mod layers;
mod ledger;
mod live_summary;
mod moment;
mod oom;
mod oom_message;
mod question_error;
mod report;
mod segments;
mod steps;
mod time_axis;
mod timeline;

pub use advice::avoidable::{Avoidable, optimizer_temporaries, stale_gradients};
pub use advice::causes::{Cause, CauseKind};
pub use advice::idle::{Idle, IdleLine, idle};
pub use advice::peak_parts::PeakParts;
pub use advice::{Advice, AdviceKind, AdviceReport, advise};
pub use allocation::card::{AllocationCard, CardFrame, Partner, PartnerKind, allocation_card};
pub use allocation::category::category;
pub use allocation::context::{Context, Phase};
pub use allocation::framework::{FrameChoice, ShownFrames};
pub use allocation::generation::StepKind;
pub use allocation::line::{AllocationLine, AllocationLines};
pub use allocation::location::Frame;
pub use allocation::main_script::{main_script, program_folder};
pub use allocation::short_location::{below_packages, fitting_form, is_location, shorter_forms};
pub use allocation::tensor_module::TensorModules;
pub use allocator::fragmentation::{Fragmentation, FragmentationAt, FragmentationReport};
pub use allocator::fragmentation_curve::{
    FragmentationCurve, FragmentationPoint, fragmentation_curve,
};
pub use allocator::simulation::{
    FailedRequest, RecordedRun, SimulatedRun, Simulation, SimulationError, SimulationQuestion,
    simulation, simulation_with,
};
pub use diff::align::Side;
pub use diff::curves::{DiffCurve, DiffCurves, DiffPoint, diff_curves};
pub use diff::first_difference::{DifferentAllocation, FirstDifference, first_difference};
pub use diff::rank_lines::{RankLine, RankLines, lines_of_rank, rank_lines};
pub use diff::ranks::{Rank, Ranks, Recording, ranks};
pub use diff::tree::{DiffKind, DiffNode, DiffTree, diff_tree};
pub use diff::{
    Both, Diff, DiffDetail, DiffError, DiffRow, DiffSides, Limit, Peaks, Total, diff, diff_between,
};
pub use estimate::processes::{ProgramEnd, estimate_processes};
pub use estimate::{
    DeviceEstimate, Estimate, Process, SharedGpu, StepPeaks, Unknown, WholeRun, estimate,
};
pub use grouping::by::{By, Question};
pub use grouping::live_tree::IcicleBy;
pub use grouping::row::{Detail, Largest, Row};
pub use index::TraceIndex;
pub use index::growing_index::GrowingIndex;
pub use index::moment_index::MomentIndex;
pub use invalid_value::InvalidValue;
pub use json_format::FORMAT;
pub use layers::{Layer, LayerEvent, LayerEventKind, LayerQuestion, LayerSource, Layers, layers};
pub use ledger::growth::OutsideGrowth;
pub use ledger::{Ledger, LedgerOwner, LedgerPoint, LedgerRow, ledger};
pub use live_summary::{
    CategoryBytes, LiveDevice, LiveSummary, history, history_by_category, live_summary,
};
pub use moment::at::{At, StepPhase};
pub use moment::category_levels::CategoryLevels;
pub use moment::category_peaks::{CategoryPeak, category_peaks};
pub use moment::levels::{Levels, levels};
pub use moment::summary::{DeviceSummary, Summary, summary};
pub use moment::{Moment, Request, default_device, moment};
pub use oom::{OomReason, OomReport, Proof, oom};
pub use oom_message::{
    NoOomMessage, OomLogReader, OomMessage, OomMessageReason, OomMessages, OomRemedy, OomSource,
    ProcessMemory, explain_oom,
};
pub use question_error::QuestionError;
pub use report::annotation::{AnnotatedLine, Annotation, AnnotationError, annotate, annotate_with};
pub use report::icicle::{Icicle, IcicleNode, icicle};
pub use report::sandwich::{FunctionBytes, Sandwich, sandwich};
pub use report::source_files::{SourceFileBytes, SourceFiles, source_files};
pub use report::{Report, add_category_peaks, report, report_with};
pub use segments::block_owners::BlockOwner;
pub use segments::simulated_segments::{SimulatedSegments, simulated_segments};
pub use segments::{
    SegmentBlock, SegmentBlockState, SegmentRow, SegmentTotals, Segments, SegmentsIndex, segments,
};
pub use steps::leaks::{Leak, Leaks, leaks};
pub use steps::{PhasePeak, Step, Steps, steps};
pub use time_axis::{Axis, AxisBreak, AxisBy, AxisKnot};
pub use timeline::allocation_tile::{AllocationTile, Ribbon, allocation_tile};
pub use timeline::background::{Bands, StepSpan, bands};
pub use timeline::band_groups::{MOST_GROUPS, TimelineBy, TimelineGroup};
pub use timeline::curve::{Curve, Marker, MarkerKind, Stretch, curve, levels_at_steps};
pub use timeline::hit::{Hit, PicturePoint, hit, hit_allocation};
pub use timeline::lifetimes::{
    LeftOut, Lifetime, LifetimeRow, Lifetimes, TensorLifetime, lifetimes, tensor_lifetimes,
};
pub use timeline::range_changes::{
    Amount, Change, ChangeRow, RangeBy, RangeChanges, range_changes,
};
pub use timeline::tile_grid::COLUMNS;
pub use timeline::{Timeline, TimelineIndex, TimelineTile};
