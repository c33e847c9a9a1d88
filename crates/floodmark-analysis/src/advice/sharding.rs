//! Whether a program shards its model over ranks already: then sharding is not advised.

use floodmark_trace::{Code, StackId, Trace};
use hashbrown::HashSet;

/// The library that shards the model, and the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sharding {
    library: &'static str,
    ranks: Option<u32>,
}

/// Files by a part of their path, and what they belong to.
const LIBRARIES: &[(&str, &str)] = &[
    ("/_fsdp_param.py", "FSDP"),
    ("/_fsdp_param_group.py", "FSDP"),
    ("/_fsdp_collectives.py", "FSDP"),
    ("/fsdp/_flat_param.py", "FSDP"),
    ("/deepspeed/runtime/zero/", "DeepSpeed ZeRO"),
    ("/optim/zero_redundancy_optimizer.py", "ZeroRedundancyOptimizer"),
    ("/optimizer/distrib_optimizer.py", "Megatron's distributed optimizer"),
];

impl Sharding {
    /// Reads it from the call stacks. A single rank shards nothing with any library.
    pub(crate) fn from_stacks(trace: &Trace) -> Option<Self> {
        let ranks = trace.header.world_size;
        if ranks == Some(1) {
            return None;
        }
        let mut seen = HashSet::new();
        let mut library = None;
        for at in 1..trace.stack_count() {
            let id = trace.stack(StackId(u32::try_from(at).ok()?)).code;
            let Some(code) = trace.code(id).filter(|_| seen.insert(id)) else { continue };
            if is_without_shards(code) {
                return None;
            }
            library = library.or_else(|| library_of(code));
        }
        library.map(|library| Self { library, ranks })
    }

    /// `FSDP, 8 ranks`.
    pub(crate) fn words(self) -> String {
        match self.ranks {
            Some(ranks) => format!("{}, {ranks} ranks", self.library),
            None => self.library.to_owned(),
        }
    }
}

fn library_of(code: &Code) -> Option<&'static str> {
    LIBRARIES.iter().find(|(part, _)| code.file.contains(part)).map(|&(_, library)| library)
}

/// FSDP with `ShardingStrategy.NO_SHARD`.
fn is_without_shards(code: &Code) -> bool {
    code.file.ends_with("/fsdp/_runtime_utils.py") && code.name.ends_with("_reduce_grad_no_shard")
}
