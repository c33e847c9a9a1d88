//! Which changes may be part of a plan for a program.

use floodmark_trace::PeakPart as Part;

use crate::search::change::{
    AdapterKind, Adapters, Change, Checkpointed, EmbeddingGradients, HalfPrecision, HostCopies,
    KvCache, LeanOptimizer, LossChunks, Paging, StatesIn, USUAL_RANK,
};
use crate::search::peak_model::PeakModel;
use crate::search::plan_need::Need;

/// Changes that are tried only where the user allows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Over how many GPUs the model may be sharded.
    pub gpus: u32,
    /// Whether the model may be compiled, which takes long.
    pub compile: bool,
    /// Other values of the program's arguments, of each argument in the order in which they are preferred.
    pub arguments: Vec<Change>,
}

/// The settings that are always a candidate: with other changes, other memory is wasted than in the simulation.
const USUAL_SETTINGS: &str = "expandable_segments:True";

/// Every change that may be part of a plan; of changes that cost the same, the preferred one first.
pub(crate) fn candidates(allowed: &Allowed, unchanged: &Need) -> Vec<Change> {
    let others = unchanged.best_settings.clone().filter(|settings| settings != USUAL_SETTINGS);
    let mut all = vec![Change::Allocator(USUAL_SETTINGS.to_owned())];
    all.extend(others.map(Change::Allocator));
    let model = unchanged.model.as_ref();
    all.extend(CHANGES.into_iter().filter(|change| model.is_none_or(|model| suits(change, model))));
    all.extend(allowed.compile.then_some(Change::Compile));
    let powers = std::iter::successors(Some(2_u32), |gpus| gpus.checked_mul(2));
    all.extend(powers.take_while(|gpus| *gpus <= allowed.gpus).map(Change::Fsdp));
    all.extend(allowed.arguments.iter().cloned());
    all
}

const fn adapters(kind: AdapterKind) -> Change {
    Change::Adapters(Adapters { kind, rank: USUAL_RANK })
}

/// All but `logits-to-keep`, because only the user knows which logits a program reads, and `channels-last` and
/// `embeddings=frozen`, which save little.
const CHANGES: [Change; 29] = [
    Change::NoGrad,
    Change::KvCache(KvCache::Static),
    Change::Fused,
    Change::FreeGradients,
    Change::ChunkedLoss(LossChunks::Head),
    Change::ChunkedLoss(LossChunks::Rows(8)),
    Change::SdpaAttention,
    Change::Embeddings(EmbeddingGradients::Sparse),
    Change::ForeachOff,
    Change::OptimizerInBackward(StatesIn::Gpu),
    Change::OptimizerInBackward(StatesIn::Host),
    Change::Checkpoint(Checkpointed::All),
    Change::Checkpoint(Checkpointed::Selective),
    Change::ChunkedMlp(4),
    Change::MicroBatches(2),
    Change::MicroBatches(4),
    Change::MicroBatches(8),
    Change::OffloadOptimizerStates,
    Change::OffloadActivations(HostCopies::Async),
    Change::OffloadActivations(HostCopies::InOrder),
    Change::KvCache(KvCache::Offloaded),
    Change::Autocast(HalfPrecision::Bf16),
    Change::EightBitStates(Paging::Off),
    Change::Bf16Parameters,
    Change::KvCache(KvCache::Quantized),
    Change::Optimizer(LeanOptimizer::Adafactor),
    Change::Optimizer(LeanOptimizer::Muon),
    adapters(AdapterKind::Lora),
    adapters(AdapterKind::Qlora),
];

/// Whether a change may save memory in a program with this trace. Where the trace does not say what memory is for, every
/// change may.
fn suits(change: &Change, model: &PeakModel) -> bool {
    let has = |part: Part| {
        model.moments.iter().any(|moment| moment.get(&part).is_some_and(|bytes| bytes.0 > 0))
    };
    if model.moments.is_empty() {
        return true;
    }
    match change {
        Change::NoGrad | Change::LogitsToKeep(_) => !model.trains,
        Change::KvCache(_) => !model.trains && has(Part::KvCache),
        Change::FreeGradients => model.trains && has(Part::StaleGradients),
        Change::OffloadOptimizerStates
        | Change::OptimizerInBackward(StatesIn::Host)
        | Change::EightBitStates(_)
        | Change::Optimizer(_) => model.trains && has(Part::OptimizerStates),
        // Optimizers with states for each parameter take no sparse gradients.
        Change::Embeddings(EmbeddingGradients::Sparse) => {
            model.trains && !has(Part::OptimizerStates)
        }
        Change::Allocator(_)
        | Change::ChannelsLast
        | Change::Bf16Parameters
        | Change::Compile
        | Change::Fsdp(_)
        | Change::Argument { .. } => true,
        Change::Fused
        | Change::ForeachOff
        | Change::ChunkedLoss(_)
        | Change::SdpaAttention
        | Change::Embeddings(EmbeddingGradients::Frozen)
        | Change::Checkpoint(_)
        | Change::ChunkedMlp(_)
        | Change::MicroBatches(_)
        | Change::OptimizerInBackward(StatesIn::Gpu)
        | Change::OffloadActivations(_)
        | Change::Autocast(_)
        | Change::Adapters(_) => model.trains,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use floodmark_trace::Bytes;

    use super::*;

    fn names(trains: bool, parts: &[Part]) -> Vec<String> {
        let moment: BTreeMap<_, _> = parts.iter().map(|part| (*part, Bytes(1))).collect();
        let model = PeakModel { moments: vec![moment], trains, ..PeakModel::default() };
        CHANGES.iter().filter(|change| suits(change, &model)).map(ToString::to_string).collect()
    }

    #[test]
    fn a_program_that_trains_nothing_gets_changes_of_inference() {
        let found = names(false, &[Part::Parameters, Part::KvCache]);
        assert!(found.contains(&"kv-cache=offloaded".to_owned()), "{found:?}");
        assert!(found.contains(&"no-grad".to_owned()) && !found.contains(&"fused".to_owned()));
        let without_cache = names(false, &[Part::Parameters]);
        assert!(!without_cache.iter().any(|name| name.starts_with("kv-cache")));
    }

    #[test]
    fn states_are_changed_only_where_the_optimizer_has_some() {
        let changes_states = |name: &String| {
            ["optimizer-states=8bit", "offload-optimizer-states", "optimizer=adafactor"]
                .contains(&name.as_str())
        };
        assert_eq!(
            names(true, &[Part::OptimizerStates]).iter().filter(|one| changes_states(one)).count(),
            3
        );
        assert!(!names(true, &[Part::Gradients]).iter().any(changes_states));
    }

    #[test]
    fn where_the_trace_does_not_tell_every_change_is_a_candidate() {
        let unknown = PeakModel::default();
        assert!(CHANGES.iter().all(|change| suits(change, &unknown)));
    }
}
