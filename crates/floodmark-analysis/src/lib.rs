//! Questions about a trace; each answer is a plain value.
//!
//! All questions take a [`Trace`](floodmark_trace::Trace) and return structs that serialise: their JSON is the
//! contract of `--json`. Nothing here prints, opens a path or decides how a table looks.
//!
//! | folder | questions |
//! |---|---|
//! | `report/` | What filled a device at a moment: [`report()`], grouped [`By`] line, module, tensor, …; [`icicle()`] as a tree; [`sandwich()`] around a function; [`annotate()`] beside the lines of a source file, [`source_files()`] by file. |
//! | `moment/` | Totals at a time: [`Moment`] chosen with [`At`], [`summary()`], [`live_summary()`] of a running program, [`category_peaks()`]. |
//! | `timeline/` | Memory over time, at any zoom: [`TimelineIndex`], [`allocation_tile()`], [`hit()`], [`lifetimes()`], [`curve()`]; [`range_changes()`] between two times. |
//! | `allocation/` | Facts about one allocation: [`category`], [`Context`] (step and phase), location, module, [`allocation_card()`]. |
//! | `allocator/` | Answers that need torch's caching allocator: [`segments()`], [`FragmentationReport`], [`oom()`], [`simulation()`]. |
//! | `oom_message/` | What torch's out-of-memory messages in a text mean, without a trace: [`explain_oom()`], [`OomLogReader`]. |
//! | `steps/` | From step to step: [`steps()`], and the lines that grow, [`leaks()`]. |
//! | `advice/` | What to change, with the bytes saved: [`advise()`], [`idle()`], [`stale_gradients()`], [`optimizer_temporaries()`]. |
//! | `diff/` | Several traces: [`diff()`] of two, also as a picture ([`diff_curves()`], [`diff_tree()`]), [`ranks()`] side by side. |
//! | `estimate/` | Whether a program fits on a simulated GPU: [`estimate()`], [`estimate_processes()`]. |
//! | `layers/` | What each layer of a model allocated: [`layers()`]. |
//! | `index/` | What repeated questions share: [`TraceIndex`], [`MomentIndex`]; of a trace that grows, [`GrowingIndex`]. |

mod advice;
mod allocation;
mod allocator;
mod diff;
mod estimate;
mod index;
mod layers;
mod moment;
mod oom_message;
mod question_error;
mod report;
mod steps;
mod timeline;

pub use advice::avoidable::{Avoidable, optimizer_temporaries, stale_gradients};
pub use advice::causes::{Cause, CauseKind};
pub use advice::idle::{Idle, IdleLine, idle};
pub use advice::{Advice, AdviceKind, AdviceReport, advise};
pub use allocation::card::{AllocationCard, CardFrame, Partner, PartnerKind, allocation_card};
pub use allocation::category::category;
pub use allocation::context::{Context, Phase};
pub use allocation::framework::{FrameChoice, NotFrames, ShownFrames};
pub use allocation::line::{AllocationLine, AllocationLines};
pub use allocation::location::Frame;
pub use allocation::main_script::{main_script, program_folder};
pub use allocation::short_location::{below_packages, fitting_form, is_location, shorter_forms};
pub use allocation::tensor_module::TensorModules;
pub use allocator::block_owners::BlockOwner;
pub use allocator::fragmentation::{Fragmentation, FragmentationAt, FragmentationReport};
pub use allocator::fragmentation_curve::{
    FragmentationCurve, FragmentationPoint, fragmentation_curve,
};
pub use allocator::oom::{OomReason, OomReport, Proof, oom};
pub use allocator::segments::{
    SegmentBlock, SegmentBlockState, SegmentRow, SegmentTotals, Segments, SegmentsIndex, segments,
};
pub use allocator::simulated_segments::{SimulatedSegments, simulated_segments};
pub use allocator::simulation::{
    FailedRequest, RecordedRun, SimulatedRun, Simulation, SimulationError, SimulationQuestion,
    simulation, simulation_with,
};
pub use diff::align::Side;
pub use diff::curves::{DiffCurve, DiffCurves, DiffPoint, diff_curves};
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
pub use index::TraceIndex;
pub use index::growing_index::GrowingIndex;
pub use index::moment_index::MomentIndex;
pub use layers::{Layer, LayerEvent, LayerEventKind, LayerQuestion, LayerSource, Layers, layers};
pub use moment::at::{At, NotAMoment, StepPhase};
pub use moment::category_peaks::{CategoryPeak, category_peaks};
pub use moment::live_summary::{
    CategoryBytes, LiveDevice, LiveSummary, history, history_by_category, live_summary,
};
pub use moment::summary::{DeviceSummary, Summary, summary};
pub use moment::{Moment, Request, default_device, moment};
pub use oom_message::{
    NoOomMessage, OomLogReader, OomMessage, OomMessageReason, OomMessages, OomRemedy, OomSource,
    ProcessMemory, explain_oom,
};
pub use question_error::QuestionError;
pub use report::annotation::{AnnotatedLine, Annotation, AnnotationError, annotate, annotate_with};
pub use report::icicle::{Icicle, IcicleBy, IcicleNode, NotAnIcicle, icicle};
pub use report::row::{Detail, Largest, Row};
pub use report::sandwich::{FunctionBytes, Sandwich, sandwich};
pub use report::source_files::{SourceFileBytes, SourceFiles, source_files};
pub use report::{
    By, FORMAT, NotAGrouping, Question, Report, add_category_peaks, report, report_with,
};
pub use steps::leaks::{Leak, Leaks, leaks};
pub use steps::{PhasePeak, Step, Steps, steps};
pub use timeline::allocation_tile::{AllocationTile, Ribbon, allocation_tile};
pub use timeline::axis::{Axis, AxisBreak, AxisBy, AxisKnot, NotAnAxis};
pub use timeline::background::{Bands, StepSpan, bands};
pub use timeline::band_groups::{MOST_GROUPS, NotATimeline, TimelineBy, TimelineGroup};
pub use timeline::category_levels::CategoryLevels;
pub use timeline::curve::{
    Curve, Levels, Marker, MarkerKind, Stretch, curve, levels, levels_at_steps,
};
pub use timeline::hit::{Hit, PicturePoint, hit, hit_allocation};
pub use timeline::lifetimes::{
    LeftOut, Lifetime, LifetimeRow, Lifetimes, TensorLifetime, lifetimes, tensor_lifetimes,
};
pub use timeline::range_changes::{
    Amount, Change, ChangeRow, NotARange, RangeBy, RangeChanges, range_changes,
};
pub use timeline::tile_grid::COLUMNS;
pub use timeline::{Timeline, TimelineIndex, TimelineTile};
