//! One function with its callers and callees, at a time.
//!
//! Both are trees, as wide as the bytes: callees as in the [icicle](crate::icicle()), callers the other way round, the innermost
//! first. A function that calls itself is counted once, where it was called first.

use floodmark_trace::{AllocationId, Bytes, Stack, StackId, Trace};
use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Serialize;

use crate::allocation::framework::{FrameChoice, ShownFrames};
use crate::grouping::live_groups::Live;
use crate::grouping::live_tree::MOST_DEPTH;
use crate::index::TraceIndex;
use crate::index::moment_index::MomentIndex;
use crate::moment::Moment;
use crate::moment::at::At;
use crate::question_error::QuestionError;
use crate::report::icicle::{IcicleNode, Key, Nodes};

/// How many functions are listed.
const MOST_FUNCTIONS: usize = 200;

/// A function, and what is allocated in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FunctionBytes {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// What is allocated, with all that it calls.
    pub bytes: Bytes,
    /// What it allocated itself.
    pub own: Bytes,
    /// How many allocations, with all that it calls.
    pub count: u64,
}

/// One function with its callers and callees.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Sandwich {
    /// The moment.
    pub at: Moment,
    /// What is allocated.
    pub total: Bytes,
    /// The functions with most bytes of their own.
    pub functions: Vec<FunctionBytes>,
    /// The function; null where the trace has none.
    pub function: Option<FunctionBytes>,
    /// What called it: the function, then its callers, outwards.
    pub callers: IcicleNode,
    /// What it called.
    pub callees: IcicleNode,
}

/// File, function, line; outermost first.
type Path<'a> = Vec<(&'a str, &'a str, u32)>;

/// One function between what called it and what it called; the one with most bytes of its own where none is named by its
/// name and file. Both indexes must be of this trace.
pub fn sandwich(
    trace: &Trace,
    index: &TraceIndex,
    moments: &MomentIndex,
    frames: FrameChoice,
    at: At,
    function: Option<(&str, &str)>,
) -> Result<Sandwich, QuestionError> {
    let at = moments.moment(trace, &index.context, at)?;
    let live = Live::from_allocations(trace, &at, moments.live(trace, at.after));
    let mut paths = Paths { shown: ShownFrames::new(trace, frames), known: HashMap::new() };
    let stacks: Vec<(AllocationId, usize)> = live
        .allocations
        .iter()
        .filter(|&&id| !live.get(id).before_recording)
        .map(|&id| (id, paths.number(live.get(id).stack)))
        .collect();
    let all = paths.all(trace);
    let found = functions(&live, &stacks, &all);
    let requested = match function {
        Some((name, file)) => found.iter().find(|one| one.name == name && one.file == file),
        None => None,
    };
    let chosen = requested.or(found.first()).cloned();
    let Trees { callers, callees } = match &chosen {
        Some(one) => trees(&live, index, &stacks, &all, one),
        None => Trees::default(),
    };
    let functions = found.into_iter().take(MOST_FUNCTIONS).collect();
    Ok(Sandwich { total: at.allocated, at, functions, function: chosen, callers, callees })
}

/// The shown frames of every stack so far.
struct Paths<'a> {
    shown: ShownFrames<'a>,
    known: HashMap<StackId, (usize, Vec<(StackId, Stack)>)>,
}

impl<'a> Paths<'a> {
    fn number(&mut self, stack: StackId) -> usize {
        let next = self.known.len();
        let shown = &mut self.shown;
        self.known.entry(stack).or_insert_with(|| (next, shown.frames(stack))).0
    }

    fn all(self, trace: &'a Trace) -> Vec<Path<'a>> {
        let mut known: Vec<_> = self.known.into_values().collect();
        known.sort_unstable_by_key(|(number, _)| *number);
        let path = |frames: Vec<(StackId, Stack)>| -> Path<'a> {
            let frames = frames.into_iter().rev().take(MOST_DEPTH);
            frames
                .filter_map(|(_, frame)| {
                    let code = trace.code(frame.code)?;
                    Some((code.file.as_str(), code.name.as_str(), frame.line))
                })
                .collect()
        };
        known.into_iter().map(|(_, frames)| path(frames)).collect()
    }
}

/// Every function, that with most bytes of its own first.
fn functions(
    live: &Live<'_>,
    stacks: &[(AllocationId, usize)],
    all: &[Path<'_>],
) -> Vec<FunctionBytes> {
    let mut of_stack: Vec<(Bytes, u64)> = vec![(Bytes(0), 0); all.len()];
    for &(id, stack) in stacks {
        of_stack[stack].0 += live.get(id).rounded;
        of_stack[stack].1 += 1;
    }
    let mut found: HashMap<(&str, &str), FunctionBytes> = HashMap::new();
    for (path, (bytes, count)) in all.iter().zip(of_stack) {
        for (at, &(file, name, _)) in path.iter().enumerate() {
            let one = found.entry((file, name)).or_insert_with(|| FunctionBytes {
                name: name.to_owned(),
                file: file.to_owned(),
                bytes: Bytes(0),
                own: Bytes(0),
                count: 0,
            });
            let is_first = !path[..at].iter().any(|&(f, n, _)| (f, n) == (file, name));
            if is_first {
                one.bytes += bytes;
                one.count += count;
            }
            if at + 1 == path.len() {
                one.own += bytes;
            }
        }
    }
    let mut found: Vec<FunctionBytes> = found.into_values().collect();
    found.sort_by(|one, other| {
        (other.own, other.bytes, &one.name, &one.file).cmp(&(
            one.own,
            one.bytes,
            &other.name,
            &other.file,
        ))
    });
    found
}

/// Both halves.
#[derive(Default)]
struct Trees {
    callers: IcicleNode,
    callees: IcicleNode,
}

fn trees<'a>(
    live: &Live<'a>,
    index: &TraceIndex,
    stacks: &[(AllocationId, usize)],
    all: &[Path<'a>],
    chosen: &FunctionBytes,
) -> Trees {
    let [mut above, mut below] = [(), ()].map(|()| Nodes::new(chosen.name.clone()));
    // Where the function is in a path, and the node of each tree.
    let nodes: Vec<Option<(usize, usize)>> = all
        .iter()
        .map(|path| {
            let is_it = |&(file, name, _): &(&str, &str, u32)| {
                (file, name) == (chosen.file.as_str(), chosen.name.as_str())
            };
            let at = path.iter().position(is_it)?;
            let key = |&(file, name, line): &(&'a str, &'a str, u32)| Key::Frame(file, name, line);
            let outwards = path[..at].iter().rev().map(key);
            let inwards = path[at + 1..].iter().map(key);
            Some((
                outwards.fold(0, |node, key| above.child(node, key)),
                inwards.fold(0, |node, key| below.child(node, key)),
            ))
        })
        .collect();
    for &(id, stack) in stacks {
        let Some((outer, mut inner)) = nodes[stack] else { continue };
        let allocation = live.get(id);
        let category = index.category(id);
        if allocation.backward {
            inner = below.child(inner, Key::Text("backward"));
        }
        above.add(outer, id, allocation.rounded, category);
        below.add(inner, id, allocation.rounded, category);
    }
    Trees { callers: above.into_tree(), callees: below.into_tree() }
}
