//! The blocks that a model runs one after another: the layers of a transformer, the stages of a network.
//!
//! In a recording they are modules of one class, or whose qualified names differ in numbers alone: `layers.0` to
//! `layers.23`. `docs/design/plan.md` has the rules, which `repeated_blocks.py` follows for the modules of a program.
//! A torch snapshot has no names. There a block lies between two runs of the same call stack, if the stacks with most
//! activations all recur equally often.

use std::collections::BTreeSet;

use floodmark_trace::{AllocationId, Category, Device, StackId, Trace};
use hashbrown::{HashMap, HashSet};

use crate::allocation::category::category;
use crate::allocation::context::{Context, Phase};
use crate::allocation::location::frame;

/// Two or three blocks are used only if no kind has more.
const LEAST_BLOCKS: [usize; 2] = [4, 2];
/// In a snapshot, two runs of a line may be chance.
const LEAST_RUNS: usize = 4;
/// The most names of containers that are listed.
const MOST_NAMES: usize = 4;

/// The names of blocks.
#[derive(Debug, Clone)]
pub(crate) enum BlocksName {
    /// Their qualified names, with `*` for the numbers: `layers.*`, or `layer1.*, layer2.*`.
    Modules(String),
    /// The line that calls them.
    CalledAt(String),
}

/// Blocks of one kind.
#[derive(Debug, Clone)]
pub(crate) struct RepeatedBlocks {
    /// Their name.
    pub(crate) name: BlocksName,
    /// Their class, where all have the same.
    pub(crate) class: Option<String>,
    /// How many there are.
    pub(crate) count: usize,
    block_of: HashMap<AllocationId, u32>,
}

impl RepeatedBlocks {
    /// The blocks that have the most activations among `live`.
    pub(crate) fn find(
        trace: &Trace,
        context: &Context,
        device: Device,
        live: &[AllocationId],
    ) -> Option<Self> {
        let is_activation = |id: &AllocationId| {
            category(trace, context, *id) == Category::Activation
                && context.work(*id) == Phase::Forward
        };
        let activations: Vec<AllocationId> = live.iter().copied().filter(is_activation).collect();
        if trace.header.is_snapshot() {
            by_stack(trace, context, device, &activations)
        } else {
            by_name(trace, device, &activations)
        }
    }

    /// The number of the block that made an allocation.
    pub(crate) fn block_of(&self, id: AllocationId) -> Option<u32> {
        self.block_of.get(&id).copied()
    }
}

/// Names of a module that differ in numbers alone: the pattern, and the numbers.
fn patterns(path: &str) -> Vec<(String, Vec<u32>)> {
    let mut found = Vec::new();
    let (mut pattern, mut numbers) = (String::new(), Vec::new());
    for part in path.split('.') {
        if !pattern.is_empty() {
            pattern.push('.');
        }
        if let Ok(number) = part.parse() {
            numbers.push(number);
            pattern.push('*');
            found.push((pattern.clone(), numbers.clone()));
        } else {
            pattern.push_str(part);
        }
    }
    found
}

/// Blocks of one class, or of one pattern where their class is unknown.
#[derive(Default)]
struct Group {
    bytes: u64,
    patterns: BTreeSet<String>,
    members: HashSet<(String, Vec<u32>)>,
    /// Whether they have modules of their own.
    has_modules: bool,
}

impl Group {
    /// Whether blocks lie in blocks of another group.
    fn is_inside(&self, other: &Self) -> bool {
        let below = |own: &String, outer: &String| {
            own.strip_prefix(outer.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        !std::ptr::eq(self, other)
            && self.patterns.iter().any(|own| other.patterns.iter().any(|outer| below(own, outer)))
    }

    fn name(&self) -> String {
        let shown: Vec<&str> = self.patterns.iter().take(MOST_NAMES).map(String::as_str).collect();
        let more = if self.patterns.len() > MOST_NAMES { ", …" } else { "" };
        shown.join(", ") + more
    }
}

/// The outermost group with the most activations.
fn by_name(trace: &Trace, device: Device, activations: &[AllocationId]) -> Option<RepeatedBlocks> {
    let classes = classes(trace, activations);
    let mut groups: HashMap<String, Group> = HashMap::new();
    for id in activations {
        let allocation = &trace.allocations[id.index()];
        let path = trace.module_path(allocation.stack).unwrap_or_default();
        let mut seen: Vec<String> = Vec::new();
        for (pattern, numbers) in patterns(path) {
            let parts = pattern.split('.').count();
            let class = classes.get(&*first_parts(path, parts));
            let key = class.map_or_else(|| pattern.clone(), |class| (*class).to_owned());
            if seen.contains(&key) {
                // A block inside a block of its class.
                continue;
            }
            let group = groups.entry(key.clone()).or_default();
            seen.push(key);
            group.bytes += allocation.rounded.0;
            group.has_modules |= path.split('.').count() > parts;
            group.patterns.insert(pattern.clone());
            group.members.insert((pattern, numbers));
        }
    }
    let groups: Vec<Group> = groups.into_values().collect();
    let kinds = [true, false].into_iter().flat_map(|has| LEAST_BLOCKS.map(|least| (has, least)));
    let found = kinds.into_iter().find_map(|(has_modules, least)| {
        let is_large =
            |group: &&Group| group.members.len() >= least && (group.has_modules || !has_modules);
        let large = || groups.iter().filter(is_large);
        let outermost = large().filter(|group| !large().any(|other| group.is_inside(other)));
        outermost.max_by_key(|group| (group.bytes, group.members.len(), group.name()))
    })?;
    Some(with_patterns(trace, device, found))
}

/// The class of every module that was called on the way to an allocation, by its qualified name.
fn classes<'a>(trace: &'a Trace, activations: &[AllocationId]) -> HashMap<&'a str, &'a str> {
    let mut found = HashMap::new();
    let stacks: HashSet<StackId> =
        activations.iter().map(|id| trace.allocations[id.index()].stack).collect();
    for stack in stacks {
        for (here, one) in trace.frames(stack) {
            if let (Some(module), Some(path)) = (trace.module(one.module), trace.module_path(here))
            {
                found.insert(path, module.class.as_str());
            }
        }
    }
    found
}

fn first_parts(path: &str, count: usize) -> String {
    path.split('.').take(count).collect::<Vec<_>>().join(".")
}

fn with_patterns(trace: &Trace, device: Device, found: &Group) -> RepeatedBlocks {
    let mut numbers: HashMap<(String, Vec<u32>), u32> = HashMap::new();
    let mut block_of = HashMap::new();
    let mut classes = HashSet::new();
    for (id, allocation) in (0_u32..).map(AllocationId).zip(&trace.allocations) {
        if allocation.device != device {
            continue;
        }
        let Some(path) = trace.module_path(allocation.stack) else { continue };
        let own = patterns(path).into_iter().find(|(own, _)| found.patterns.contains(own));
        let Some(own) = own else { continue };
        if path.split('.').count() == own.0.split('.').count() {
            classes.extend(trace.module_class(allocation.stack));
        }
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        block_of.insert(id, *numbers.entry(own).or_insert(next));
    }
    let mut classes = classes.into_iter();
    let class = classes.next().filter(|_| classes.next().is_none()).map(str::to_owned);
    let name = BlocksName::Modules(found.name());
    RepeatedBlocks { name, class, count: numbers.len(), block_of }
}

fn by_stack(
    trace: &Trace,
    context: &Context,
    device: Device,
    activations: &[AllocationId],
) -> Option<RepeatedBlocks> {
    let stacks = repeated_stacks(trace, activations)?;
    let root = common_caller(trace, &stacks)?;
    let entry = stacks[0];
    let mut under: HashMap<StackId, bool> = HashMap::new();
    let mut block_of = HashMap::new();
    let (mut pass, mut last, mut block, mut count) = (None, None, 0_u32, 0_u32);
    for (id, allocation) in (0_u32..).map(AllocationId).zip(&trace.allocations) {
        if allocation.device != device || context.work(id) != Phase::Forward {
            continue;
        }
        let stack = allocation.stack;
        let is_under = *under
            .entry(stack)
            .or_insert_with(|| trace.frames(stack).any(|(caller, _)| caller == root));
        if !is_under {
            continue;
        }
        let own_pass = context.next_backward(allocation.made_at);
        if pass != Some(own_pass) {
            (pass, last, block) = (Some(own_pass), None, 0);
        }
        if stack == entry && last != Some(entry) {
            block += 1;
        }
        last = Some(stack);
        if block > 0 {
            block_of.insert(id, block - 1);
            count = count.max(block);
        }
    }
    let name = BlocksName::CalledAt(calling_line(trace, root)?);
    Some(RepeatedBlocks { name, class: None, count: count as usize, block_of })
}

/// The stacks that hold most activations and recur equally often, in the order in which they first run.
fn repeated_stacks(trace: &Trace, activations: &[AllocationId]) -> Option<Vec<StackId>> {
    let mut runs: HashMap<StackId, (usize, u64, usize)> = HashMap::new();
    let mut last = None;
    for (at, id) in activations.iter().enumerate() {
        let allocation = &trace.allocations[id.index()];
        let (count, bytes, _) = runs.entry(allocation.stack).or_insert((0, 0, at));
        *count += usize::from(last != Some(allocation.stack));
        *bytes += allocation.rounded.0;
        last = Some(allocation.stack);
    }
    let mut by_count: HashMap<usize, u64> = HashMap::new();
    let mut all: Vec<(usize, StackId, usize)> = Vec::new();
    for (stack, (count, bytes, first)) in runs {
        if count >= LEAST_RUNS {
            *by_count.entry(count).or_default() += bytes;
            all.push((first, stack, count));
        }
    }
    let (_, count) = by_count.into_iter().map(|(count, bytes)| (bytes, count)).max()?;
    all.retain(|&(_, _, own)| own == count);
    all.sort_unstable();
    Some(all.into_iter().map(|(_, stack, _)| stack).collect())
}

/// The innermost frame that all stacks have in common.
fn common_caller(trace: &Trace, stacks: &[StackId]) -> Option<StackId> {
    let (first, others) = stacks.split_first()?;
    let mut common: Vec<StackId> = trace.frames(*first).map(|(id, _)| id).collect();
    for &stack in others {
        let own: HashSet<StackId> = trace.frames(stack).map(|(id, _)| id).collect();
        common.retain(|id| own.contains(id));
    }
    common.first().copied()
}

/// The line that calls a block: the innermost `forward` around it.
fn calling_line(trace: &Trace, root: StackId) -> Option<String> {
    let frames = || trace.frames(root).filter_map(|(id, _)| frame(trace, id));
    let forward = frames().find(|frame| frame.function.rsplit('.').next() == Some("forward"));
    forward.or_else(|| frames().next()).map(|frame| frame.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_pattern_for_each_number() {
        let found = patterns("model.layers.3.experts.5.w1");
        let expected = [
            ("model.layers.*".to_owned(), vec![3]),
            ("model.layers.*.experts.*".to_owned(), vec![3, 5]),
        ];
        assert_eq!(found, expected);
        assert!(patterns("model.embed").is_empty());
    }
}
