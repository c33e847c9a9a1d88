//! The causes of the peak, by what could be changed: every live byte has one cause.

use std::collections::BTreeMap;

use floodmark_trace::{AllocationId, Bytes, Category, Trace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::advice::logits::Logits;
use crate::advice::repeated_blocks::{BlocksName, RepeatedBlocks};
use crate::allocation::category::category;
use crate::allocation::context::{Context, Phase};
use crate::allocation::location::allocation_location;
use crate::grouping::live_groups::Live;
use crate::moment::Moment;

/// The cause of a part of the peak.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// Logits, and the loss's other tensors.
    Logits,
    /// Activations of blocks that a model runs one after another.
    BlockActivations,
    /// Other activations.
    Activations,
    /// Parameters.
    Parameters,
    /// Gradients of parameters.
    Gradients,
    /// State of optimizers.
    OptimizerState,
    /// Temporaries of an optimizer's `step`.
    OptimizerTemporaries,
    /// Other temporaries.
    Temporaries,
    /// Inputs.
    Inputs,
    /// Buffers.
    Buffers,
    /// Workspaces of libraries.
    Workspaces,
    /// Buffers and buckets of collectives.
    Communication,
    /// The KV cache.
    KvCache,
    /// The request that failed.
    FailedAllocation,
    /// What is not known.
    Unknown,
}

impl CauseKind {
    /// Its name.
    fn name(self) -> &'static str {
        match self {
            Self::Logits => "logits and loss",
            Self::BlockActivations => "activations",
            Self::Activations => "other activations",
            Self::Parameters => "parameters",
            Self::Gradients => "gradients",
            Self::OptimizerState => "optimizer state",
            Self::OptimizerTemporaries => "temporaries of the optimizer",
            Self::Temporaries => "temporaries",
            Self::Inputs => "inputs",
            Self::Buffers => "buffers",
            Self::Workspaces => "workspaces",
            Self::Communication => "communication",
            Self::KvCache => "KV cache",
            Self::FailedAllocation => "the failed allocation",
            Self::Unknown => "unknown",
        }
    }
}

/// A part of what is live at the peak.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// What it is.
    pub kind: CauseKind,
    /// How much.
    pub bytes: Bytes,
    /// How many allocations.
    pub count: u64,
    /// Its description.
    pub name: String,
    /// The location with most of its bytes.
    pub location: Option<String>,
}

/// The facts from which the causes of a peak are found.
pub(crate) struct CauseContext<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) context: &'a Context,
    pub(crate) blocks: Option<&'a RepeatedBlocks>,
    pub(crate) logits: Option<&'a Logits>,
}

impl CauseContext<'_> {
    /// The causes of live memory at a time, the largest first.
    pub(crate) fn causes_at(&self, moment: &Moment) -> Vec<Cause> {
        let live = Live::at(self.trace, moment);
        let groups = live.group_by_with_unseen(CauseKind::Unknown, |id, _| self.kind(id));
        let mut causes: Vec<Cause> = groups
            .into_iter()
            .map(|group| Cause {
                kind: group.key,
                bytes: group.bytes,
                count: group.members.len() as u64,
                name: self.name(group.key, &group.members),
                location: self.largest_location(&group.members),
            })
            .collect();
        if let Some(request) = &moment.request {
            let kind = CauseKind::FailedAllocation;
            causes.push(Cause {
                kind,
                bytes: request.bytes,
                count: 1,
                name: kind.name().to_owned(),
                location: request.location.clone(),
            });
        }
        causes.sort_by_key(|cause| (std::cmp::Reverse(cause.bytes), cause.kind));
        causes
    }

    /// The cause of an allocation.
    pub(crate) fn kind(&self, id: AllocationId) -> CauseKind {
        if self.logits.is_some_and(|logits| logits.allocations.binary_search(&id).is_ok()) {
            return CauseKind::Logits;
        }
        let is_in_block = || self.blocks.is_some_and(|blocks| blocks.block_of(id).is_some());
        match category(self.trace, self.context, id) {
            Category::Activation if is_in_block() => CauseKind::BlockActivations,
            Category::Activation => CauseKind::Activations,
            Category::Parameter => CauseKind::Parameters,
            Category::Gradient => CauseKind::Gradients,
            Category::OptimizerState => CauseKind::OptimizerState,
            Category::Temporary if self.context.work(id) == Phase::Optimizer => {
                CauseKind::OptimizerTemporaries
            }
            Category::Temporary => CauseKind::Temporaries,
            Category::Input => CauseKind::Inputs,
            Category::Buffer => CauseKind::Buffers,
            Category::Workspace => CauseKind::Workspaces,
            Category::Communication => CauseKind::Communication,
            Category::KvCache => CauseKind::KvCache,
            Category::Unknown => CauseKind::Unknown,
        }
    }

    fn name(&self, kind: CauseKind, members: &[AllocationId]) -> String {
        let name = kind.name();
        match kind {
            CauseKind::BlockActivations => {
                let blocks = self.blocks.map(blocks_named).unwrap_or_default();
                format!("{name} of {blocks}")
            }
            CauseKind::Parameters | CauseKind::Gradients | CauseKind::OptimizerState => {
                match self.dtypes(members) {
                    dtypes if dtypes.is_empty() => name.to_owned(),
                    dtypes => format!("{name} ({dtypes})"),
                }
            }
            CauseKind::Logits => {
                let sizes = members.iter().map(|id| self.trace.allocations[id.index()].requested);
                match sizes.max() {
                    Some(largest) if members.len() > 1 => {
                        format!("{name}: {} tensors of up to {largest}", members.len())
                    }
                    Some(_) | None => format!("{name}: 1 tensor"),
                }
            }
            CauseKind::Activations if self.blocks.is_none() && self.logits.is_none() => {
                CauseKind::BlockActivations.name().to_owned()
            }
            CauseKind::Activations
            | CauseKind::OptimizerTemporaries
            | CauseKind::Temporaries
            | CauseKind::Inputs
            | CauseKind::Buffers
            | CauseKind::Workspaces
            | CauseKind::Communication
            | CauseKind::KvCache
            | CauseKind::FailedAllocation
            | CauseKind::Unknown => name.to_owned(),
        }
    }

    /// The dtypes of labelled tensors, the one with most bytes first.
    fn dtypes(&self, members: &[AllocationId]) -> String {
        let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
        for id in members {
            let allocation = &self.trace.allocations[id.index()];
            let label = self.trace.label(allocation.label);
            if let Some(label) = label.filter(|label| !label.dtype.is_empty()) {
                *bytes.entry(&label.dtype).or_default() += allocation.rounded.0;
            }
        }
        let mut dtypes: Vec<(&str, u64)> = bytes.into_iter().collect();
        dtypes.sort_by_key(|&(dtype, bytes)| (std::cmp::Reverse(bytes), dtype));
        dtypes.into_iter().map(|(dtype, _)| dtype).collect::<Vec<_>>().join(", ")
    }

    fn largest_location(&self, members: &[AllocationId]) -> Option<String> {
        let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
        for id in members {
            let allocation = &self.trace.allocations[id.index()];
            *bytes.entry(allocation_location(self.trace, allocation)).or_default() +=
                allocation.rounded.0;
        }
        let largest = bytes.into_iter().max_by_key(|(_, bytes)| *bytes);
        largest.map(|(location, _)| location)
    }
}

/// `24 blocks, transformer.h.* (GPT2Block)`; `24 blocks called at model.py:12 (forward)`.
fn blocks_named(blocks: &RepeatedBlocks) -> String {
    let class = blocks.class.as_ref().map(|class| format!(" ({class})")).unwrap_or_default();
    match &blocks.name {
        BlocksName::Modules(pattern) => format!("{} blocks, {pattern}{class}", blocks.count),
        BlocksName::CalledAt(line) => format!("{} blocks called at {line}", blocks.count),
    }
}
