//! One trace's side of each row of a diff.

use floodmark_trace::{Bytes, Category, LabelId, StackId};

use crate::allocation::category::category;
use crate::allocation::context::Context;
use crate::allocation::framework::FrameChoice;
use crate::allocation::location::{
    BEFORE_RECORDING, Frame, Line, Lines, ShownStacks, frame, marked, user_node,
};
use crate::diff::DiffDetail;
use crate::diff::align::{Aligner, Side, Spot};
use crate::grouping::by::{By, Question};
use crate::grouping::by_phase::PhasePeaks;
use crate::grouping::live_groups::{Group, Live};
use crate::grouping::row::{Detail, Row};
use crate::grouping::{by_category, by_module, by_op, by_op_call, by_parameter, by_phase, by_step};

/// The key by which rows of two traces are aligned.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    spots: Vec<Spot>,
    words: Vec<String>,
    backward: bool,
}

/// One trace's side of a row.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) bytes: Bytes,
    pub(crate) count: u64,
    pub(crate) location: String,
    pub(crate) detail: DiffDetail,
}

/// Everything that is live, by its key. A key may occur more than once.
pub(crate) fn parts<'a>(
    live: &Live<'a>,
    context: &Context,
    question: &Question,
    side: Side,
    aligner: &mut Aligner<'a>,
) -> Vec<(Key, Part)> {
    let mut sorter = Sorter { live, side, aligner, frames: question.frames };
    match question.by {
        By::Line => sorter.by_line(),
        By::Stack => sorter.by_stack(),
        By::Tensor => sorter.by_tensor(context),
        By::Module => by_module::own(live).into_iter().map(named_group).collect(),
        By::Op => by_op::rows(live).into_iter().map(named_row).collect(),
        By::OpCall => {
            let (_, rows) = by_op_call::rows(live, context, usize::MAX);
            rows.into_iter().filter(|row| row.bytes > Bytes(0)).map(named_call).collect()
        }
        By::Parameter => by_parameter::rows(live, context).into_iter().map(named_row).collect(),
        By::Phase => {
            let peaks = PhasePeaks::find(live.trace, live.device, context);
            let rows = by_phase::rows(live, context, peaks).into_iter();
            rows.filter(|row| row.bytes > Bytes(0)).map(named_row).collect()
        }
        By::Category => by_category::rows(live, context).into_iter().map(named_row).collect(),
        By::Step => {
            let (_, rows) = by_step::rows(live, context, usize::MAX);
            rows.into_iter().map(named_row).collect()
        }
        // `diff` refuses it: segments have nothing but an address.
        By::Segment => Vec::new(),
    }
}

fn named_row(row: Row) -> (Key, Part) {
    named(row.location, row.bytes, row.count)
}

/// The calls of an operator at a line.
fn named_call(row: Row) -> (Key, Part) {
    let Detail::OpCall { op: Some(op), .. } = &row.detail else { return named_row(row) };
    named(format!("{op} {}", row.location), row.bytes, row.count)
}

fn named_group((path, group): (&str, Group<usize>)) -> (Key, Part) {
    named(path.to_owned(), group.bytes, group.members.len() as u64)
}

fn named(location: String, bytes: Bytes, count: u64) -> (Key, Part) {
    let key = Key { words: vec![location.clone()], ..Key::default() };
    (key, Part { bytes, count, location, detail: DiffDetail::Named {} })
}

/// A tensor with a name, or all of a category that one line made without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tensor {
    Labelled(LabelId),
    Unnamed(Line, Category),
}

/// Sorts what is live by its location in the program.
struct Sorter<'s, 'a> {
    live: &'s Live<'a>,
    side: Side,
    aligner: &'s mut Aligner<'a>,
    frames: FrameChoice,
}

impl<'a> Sorter<'_, 'a> {
    fn by_line(&mut self) -> Vec<(Key, Part)> {
        let mut lines = Lines::new(self.live.trace, self.frames.is_native());
        let groups = self
            .live
            .group_by_with_unseen(Line::BeforeRecording, |_, allocation| lines.line_of(allocation));
        let parts = groups.into_iter().map(|group| {
            let (key, frame, location) = self.line(&lines, group.key);
            let detail = DiffDetail::Line {
                file: frame.as_ref().map(|frame| frame.file.clone()),
                line: frame.as_ref().map(|frame| frame.line),
                function: frame.map(|frame| frame.function),
                backward: group.key.is_backward(),
            };
            (key, part(&group, location, detail))
        });
        parts.collect()
    }

    /// The key of a line, its frame if it has one, and its name.
    fn line(&mut self, lines: &Lines<'a>, line: Line) -> (Key, Option<Frame>, String) {
        let trace = self.live.trace;
        let backward = line.is_backward();
        let node = lines.node(line);
        let spot = node.and_then(|node| self.aligner.spot(self.side, trace, node));
        let frame = node.and_then(|node| frame(trace, node));
        if let (Some(spot), Some(shown)) = (spot, &frame) {
            let location = marked(shown.to_string(), backward);
            return (Key { spots: vec![spot], words: Vec::new(), backward }, frame, location);
        }
        let location = line.location(trace);
        (Key { spots: Vec::new(), words: vec![location.clone()], backward }, frame, location)
    }

    fn by_stack(&mut self) -> Vec<(Key, Part)> {
        let mut stacks = ShownStacks::new(self.live.trace, self.frames);
        let groups = self.live.group_by_with_unseen(None, |_, allocation| {
            let stack = (stacks.shown(allocation.stack), allocation.backward);
            (!allocation.before_recording).then_some(stack)
        });
        let parts = groups.into_iter().map(|group| match group.key {
            None => {
                let detail = DiffDetail::Stack { frames: Vec::new(), backward: false };
                let key = Key { words: vec![BEFORE_RECORDING.to_owned()], ..Key::default() };
                (key, part(&group, BEFORE_RECORDING.to_owned(), detail))
            }
            Some((stack, backward)) => {
                let location = self.stack_location(stack, backward);
                let trace = self.live.trace;
                let nodes: Vec<StackId> =
                    stacks.frames(stack).into_iter().map(|(node, _)| node).collect();
                let frames = nodes.iter().filter_map(|&node| frame(trace, node)).collect();
                let spots =
                    nodes.into_iter().filter_map(|node| self.aligner.spot(self.side, trace, node));
                let module = trace.module_path(stack).map(str::to_owned);
                let key =
                    Key { spots: spots.collect(), words: module.into_iter().collect(), backward };
                (key, part(&group, location, DiffDetail::Stack { frames, backward }))
            }
        });
        parts.collect()
    }

    fn stack_location(&self, stack: StackId, backward: bool) -> String {
        let trace = self.live.trace;
        let user =
            user_node(trace, stack, self.frames.is_native()).and_then(|node| frame(trace, node));
        let location = user.map_or_else(|| "no Python frame".to_owned(), |frame| frame.to_string());
        marked(location, backward)
    }

    fn by_tensor(&mut self, context: &Context) -> Vec<(Key, Part)> {
        let (live, trace) = (self.live, self.live.trace);
        let mut lines = Lines::new(trace, self.frames.is_native());
        let unseen = Tensor::Unnamed(Line::BeforeRecording, Category::Unknown);
        let groups = live.group_by_with_unseen(unseen, |id, allocation| {
            if live.name(id).is_some() {
                return Tensor::Labelled(allocation.label);
            }
            Tensor::Unnamed(lines.line_of(allocation), category(trace, context, id))
        });
        let parts = groups.into_iter().map(|group| match group.key {
            Tensor::Labelled(label) => labelled(live, label, &group),
            Tensor::Unnamed(made_by, category) => {
                let (mut key, _, location) = self.line(&lines, made_by);
                key.words.push(category.name().to_owned());
                let [name, shape, dtype] = [None, None, None];
                let detail = DiffDetail::Tensor { name, shape, dtype, category: category.name() };
                (key, part(&group, location, detail))
            }
        });
        parts.collect()
    }
}

/// A shape may change from trace to trace: it is shown, not compared.
fn labelled(live: &Live<'_>, label: LabelId, group: &Group<Tensor>) -> (Key, Part) {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (category, name, shape, dtype) =
        live.trace.label(label).map_or((Category::Unknown, "", "", ""), |label| {
            (label.category, label.name.as_str(), label.shape.as_str(), label.dtype.as_str())
        });
    let key = Key {
        words: vec![category.name().to_owned(), "named".to_owned(), name.to_owned()],
        ..Key::default()
    };
    let detail = DiffDetail::Tensor {
        name: known(name),
        shape: known(shape),
        dtype: known(dtype),
        category: category.name(),
    };
    (key, part(group, name.to_owned(), detail))
}

fn part<K>(group: &Group<K>, location: String, detail: DiffDetail) -> Part {
    Part { bytes: group.bytes, count: group.members.len() as u64, location, detail }
}
