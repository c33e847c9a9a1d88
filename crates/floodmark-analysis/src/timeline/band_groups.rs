//! Which bands a stacked picture over time has: at most [`MOST_GROUPS`], the same for the whole recording.
//!
//! Categories, phases and lines are ranked by how high each ever stood; those that there is no room for are
//! one band `other`. Modules are a tree, and the tree is cut: from the roots downwards the largest module
//! gets a band of its own, out of that of the module around it, until there are enough. A module without
//! its separate parts is called `(rest)`.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::str::FromStr;

use floodmark_trace::{AllocationId, Bytes, Category, Device, Trace};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::index::TraceIndex;
use crate::invalid_value::InvalidValue;
use crate::timeline::band_keys::{Keys, for_each_around, peaks};

/// How many bands there are at most.
pub const MOST_GROUPS: usize = 14;

/// What the bands are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum TimelineBy {
    /// Parameters, gradients, activations, ….
    #[default]
    Category,
    /// Modules: a cut through their tree.
    Module,
    /// Forward, backward, optimizer, what the user named.
    Phase,
    /// Lines of the program.
    Line,
}

impl TimelineBy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Category, Self::Module, Self::Phase, Self::Line];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Category => "category",
            Self::Module => "module",
            Self::Phase => "phase",
            Self::Line => "line",
        }
    }
}

/// The message for another text.
const EXPECTED: InvalidValue =
    InvalidValue("a timeline is by `category`, `module`, `phase` or `line`");

impl FromStr for TimelineBy {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        Self::ALL.into_iter().find(|by| by.name() == text).ok_or(EXPECTED)
    }
}

impl Serialize for TimelineBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for TimelineBy {
    fn schema_name() -> Cow<'static, str> {
        "TimelineBy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = Self::ALL.map(Self::name);
        json_schema!({ "type": "string", "enum": names, "description": "What the bands of a timeline are." })
    }
}

/// A band of the picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelineGroup {
    /// Its subject.
    pub name: String,
    /// Its peak.
    pub peak: Bytes,
}

/// Which band each allocation of a device is in.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    pub(crate) shown: Vec<TimelineGroup>,
    /// Per allocation.
    of: Vec<u8>,
    /// The band of the bytes of no recorded allocation.
    pub(crate) unseen: usize,
}

impl Groups {
    pub(crate) fn new(trace: &Trace, index: &TraceIndex, device: Device, by: TimelineBy) -> Self {
        let keys = Keys::for_device(trace, index, device, by);
        let peaks = keys.peaks(trace, device);
        let chosen = if keys.parents.is_empty() {
            let (ranked, has_other) = rank(peaks.iter().copied().enumerate().collect());
            Chosen::new(peaks.len(), ranked, has_other)
        } else {
            chosen_keys(&keys, &peaks)
        };
        let of = keys.of.iter().map(|&key| chosen.group_of(&keys, key)).collect();
        let unseen = usize::from(chosen.group_of(&keys, keys.unseen));
        let mut groups = Self { shown: chosen.name(&keys), of, unseen };
        groups.rank(trace, device, by, chosen.other());
        groups
    }

    pub(crate) fn group_of(&self, id: AllocationId) -> usize {
        self.of.get(id.index()).map_or(0, |&group| usize::from(group))
    }

    /// Puts the highest first, of categories those that stay, and leaves out what nothing is in; `other` stays the last.
    fn rank(&mut self, trace: &Trace, device: Device, by: TimelineBy, other: Option<usize>) {
        let peaks =
            peaks(trace, device, self.shown.len(), self.unseen, |id| self.group_of(id), &[]);
        for (group, &peak) in self.shown.iter_mut().zip(&peaks) {
            group.peak = Bytes(peak);
        }
        let mut order: Vec<usize> = (0..peaks.len()).collect();
        let volatility = |at: usize| match by {
            TimelineBy::Category => volatility(&self.shown[at].name),
            TimelineBy::Module | TimelineBy::Phase | TimelineBy::Line => 0,
        };
        order.sort_by_key(|&at| (other == Some(at), volatility(at), Reverse(peaks[at])));
        order.retain(|&at| peaks[at] > 0 || peaks.len() == 1);
        let mut indexes = [0_u8; MOST_GROUPS];
        for (index, &at) in (0_u8..).zip(&order) {
            indexes[at] = index;
        }
        self.shown = order.iter().map(|&at| self.shown[at].clone()).collect();
        self.unseen = usize::from(indexes[self.unseen]);
        self.of.iter_mut().for_each(|group| *group = indexes[usize::from(*group)]);
    }
}

/// The order of categories in a stack: those that change slowly come first, so that the lower bands
/// are level.
fn volatility(category: &str) -> usize {
    const STAYING_FIRST: [Category; 10] = [
        Category::Parameter,
        Category::Buffer,
        Category::OptimizerState,
        Category::Gradient,
        Category::KvCache,
        Category::Input,
        Category::Communication,
        Category::Workspace,
        Category::Unknown,
        Category::Activation,
    ];
    let at = STAYING_FIRST.iter().position(|one| one.name() == category);
    at.unwrap_or(STAYING_FIRST.len())
}

const OTHER: &str = "other";

/// The keys that get a band.
struct Chosen {
    /// Per key: its band.
    band: Vec<Option<u8>>,
    keys: Vec<usize>,
    has_other: bool,
}

impl Chosen {
    /// There is always a band, also when there is nothing to show in it.
    fn new(count: usize, keys: Vec<usize>, has_other: bool) -> Self {
        let has_other = has_other || keys.is_empty();
        let mut band = vec![None; count];
        for (number, &key) in (0_u8..).zip(&keys) {
            band[key] = Some(number);
        }
        Self { band, keys, has_other }
    }

    /// The band of allocations without their own band.
    fn other(&self) -> Option<usize> {
        self.has_other.then_some(self.keys.len())
    }

    /// The band of a key: that of the nearest around it that has one, else the last.
    fn group_of(&self, keys: &Keys, key: u32) -> u8 {
        let mut next = Some(key);
        while let Some(key) = next {
            if let Some(band) = self.band.get(key as usize).copied().flatten() {
                return band;
            }
            next = keys.parents.get(key as usize).copied().flatten();
        }
        u8::try_from(self.keys.len()).unwrap_or(u8::MAX).saturating_sub(u8::from(!self.has_other))
    }

    fn name(&self, keys: &Keys) -> Vec<TimelineGroup> {
        let mut is_cut = vec![false; keys.names.len()];
        for &key in &self.keys {
            if let Some(parent) = keys.parents.get(key).copied().flatten() {
                for_each_around(parent as usize, &keys.parents, |around| is_cut[around] = true);
            }
        }
        let rest = |key: usize| if is_cut[key] { " (rest)" } else { "" };
        let names = self.keys.iter().map(|&key| format!("{}{}", keys.names[key], rest(key)));
        let names = names.chain(self.has_other.then(|| OTHER.to_owned()));
        names.map(|name| TimelineGroup { name, peak: Bytes(0) }).collect()
    }
}

/// Of keys with their peaks those that stood highest, and whether there are others.
fn rank(mut keys: Vec<(usize, u64)>) -> (Vec<usize>, bool) {
    keys.retain(|&(_, peak)| peak > 0);
    keys.sort_by_key(|&(key, peak)| (Reverse(peak), key));
    let has_other = keys.len() > MOST_GROUPS;
    keys.truncate(if has_other { MOST_GROUPS - 1 } else { MOST_GROUPS });
    (keys.into_iter().map(|(key, _)| key).collect(), has_other)
}

/// A cut through a tree: the largest get a band of their own, out of that around them.
fn chosen_keys(keys: &Keys, peaks: &[u64]) -> Chosen {
    let count = peaks.len();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut roots = Vec::new();
    for (key, parent) in keys.parents.iter().enumerate().filter(|&(key, _)| peaks[key] > 0) {
        match parent {
            Some(parent) => children[*parent as usize].push(key),
            None => roots.push((key, peaks[key])),
        }
    }
    let (mut taken, has_other) = rank(roots);
    if has_other {
        return Chosen::new(count, taken, true);
    }
    let mut has_own = vec![false; count];
    keys.of.iter().for_each(|&key| has_own[key as usize] = true);
    has_own[keys.unseen as usize] = true;
    let mut left: Vec<usize> = children.iter().map(Vec::len).collect();
    let mut waiting: BinaryHeap<(u64, Reverse<usize>)> = BinaryHeap::new();
    let offer = |waiting: &mut BinaryHeap<_>, key: usize| {
        waiting.extend(children[key].iter().map(|&child| (peaks[child], Reverse(child))));
    };
    for &key in &taken {
        offer(&mut waiting, key);
    }
    // Modules of which nothing is left when all inside them have bands have none themselves.
    let mut emptied = vec![false; count];
    let mut bands = taken.len();
    while let Some((_, Reverse(key))) = waiting.pop() {
        let Some(parent) = keys.parents[key].map(|parent| parent as usize) else { continue };
        let is_last_part = left[parent] == 1 && !has_own[parent];
        if bands == MOST_GROUPS && !is_last_part {
            break;
        }
        left[parent] -= 1;
        emptied[parent] = is_last_part;
        bands += usize::from(!is_last_part);
        taken.push(key);
        offer(&mut waiting, key);
    }
    taken.retain(|&key| !emptied[key]);
    Chosen::new(count, taken, false)
}
