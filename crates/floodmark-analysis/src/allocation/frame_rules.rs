//! The roles of the tensors allocated below the frames of a call stack.
//!
//! One table, for recordings and for torch snapshots. The innermost frame that has a rule decides. The names are
//! those of torch, transformers and servers of language models; a function that none of them has has no rule.
//! FSDP's tensors are divided as in torch's own `FSDPMemTracker`: shards and unsharded parameters are parameters, sharded and
//! unsharded gradients are gradients, and what a collective reads or writes is communication.

use floodmark_trace::{Code, CodeId, StackId, Trace};
use hashbrown::HashMap;

/// The role that a frame gives to a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Role {
    /// Nothing.
    #[default]
    None,
    /// It may be a parameter: a class or function that often builds models. Used only for a torch
    /// snapshot.
    Builder,
    /// It builds data or a cache, not parameters.
    Holder,
    /// An optimizer is built: optimizer state, if it stays live.
    OptimizerBuilder,
    /// A model is built, loaded, moved or copied: a parameter, if it stays live.
    Model,
    /// A parameter, or a shard of one.
    Parameter,
    /// A gradient, or a shard of one.
    Gradient,
    /// Allocates the input of a reduce-scatter first, then its output.
    ReduceScatter,
    /// The output of a reduce-scatter: gradients if they outlive the backward pass, communication
    /// if not.
    ReducedGradient,
    /// The input or output of a collective, or a bucket.
    Communication,
    /// Keys and values of attention, kept from token to token.
    KvCache,
    /// The frame moves the program's own tensors: lifetimes decide.
    Passes,
}

/// Files by the end of their path, and functions of them; no functions: all.
struct Rule(&'static str, &'static [&'static str], Role);

/// The first that fits a frame counts.
const RULES: &[Rule] = &[
    // FSDP2: torch.distributed.fsdp.fully_shard.
    Rule("/_fsdp_collectives.py", &["foreach_reduce"], Role::ReduceScatter),
    Rule(
        "/_fsdp_collectives.py",
        &["foreach_all_gather", "foreach_all_gather_copy_out", "foreach_reduce_scatter_copy_in"],
        Role::Communication,
    ),
    Rule("/_fsdp_param_group.py", &["backward", "forward"], Role::Passes),
    Rule("/_fsdp_param_group.py", &[], Role::Communication),
    Rule(
        "/_fsdp_param.py",
        &["to_accumulated_grad_if_needed", "accumulate_unsharded_grad_if_needed"],
        Role::Gradient,
    ),
    Rule("/_fsdp_param.py", &["all_gather_inputs"], Role::Communication),
    Rule("/_fsdp_param.py", &[], Role::Parameter),
    // FSDP1: torch.distributed.fsdp.FullyShardedDataParallel.
    Rule(
        "/fsdp/_flat_param.py",
        &[
            "unshard_grad",
            "prepare_gradient_for_backward",
            "prepare_gradient_for_optim",
            "_use_unsharded_grad_views",
            "_use_sharded_grad_views",
        ],
        Role::Gradient,
    ),
    Rule("/fsdp/_flat_param.py", &[], Role::Parameter),
    Rule(
        "/fsdp/_runtime_utils.py",
        &["_reduce_grad", "_reduce_grad_no_shard", "_get_reduce_scatter_tensors"],
        Role::ReducedGradient,
    ),
    // DistributedDataParallel: its buckets, and what it broadcasts.
    Rule(
        "/nn/parallel/distributed.py",
        &["_ddp_init_helper", "_pre_forward", "_sync_buffers", "_sync_module_buffers"],
        Role::Communication,
    ),
    Rule("/torch/distributed/utils.py", &["_sync_params_and_buffers"], Role::Communication),
    Rule("/torch/distributed/utils.py", &[], Role::Passes),
    Rule("/distributed/algorithms/ddp_comm_hooks/*", &[], Role::Communication),
    Rule("/torch/distributed/distributed_c10d.py", &[], Role::Communication),
    // Caches of keys and values: transformers, vLLM, SGLang.
    Rule("/transformers/cache_utils.py", &[], Role::KvCache),
    Rule("/vllm/worker/cache_engine.py", &[], Role::KvCache),
    Rule("/sglang/srt/mem_cache/memory_pool.py", &[], Role::KvCache),
    // Models, and copies of them such as moving averages.
    Rule("/torch/optim/swa_utils.py", &["__init__"], Role::Model),
    Rule("/torch/nn/parameter.py", &["__deepcopy__"], Role::Model),
    Rule("/torch/nn/modules/*", BUILDERS, Role::Model),
    Rule("/transformers/modeling_utils.py", BUILDERS, Role::Model),
    Rule("/torch/optim/*", &["__init__"], Role::OptimizerBuilder),
];

/// Functions that build or load a model.
const BUILDERS: &[&str] =
    &["__init__", "_apply", "to_empty", "load_state_dict", "from_pretrained", "from_config"];
/// Files whose objects hold tensors that are not parameters.
const HOLDERS: [&str; 2] = ["data", "cache"];
/// Functions that allocate a cache of keys and values, in any file.
const KV_CACHE_VERBS: [&str; 6] = ["alloc", "init", "create", "make", "setup", "reserve"];

/// The roles of the frames of every call stack; grows with the trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FrameRoles {
    stacks: Vec<Role>,
    codes: Vec<Option<Role>>,
    /// By the caller of a function that reduces gradients: the line in it that allocates first, for the input.
    inputs: HashMap<StackId, u32>,
}

impl FrameRoles {
    /// The role of the innermost frame with a rule.
    pub(crate) fn of_stack(&self, stack: StackId) -> Role {
        self.stacks.get(stack.index()).copied().unwrap_or_default()
    }

    /// Reads the stacks that are new.
    pub(crate) fn extend(&mut self, trace: &Trace) {
        for at in self.stacks.len()..trace.stack_count() {
            let role = u32::try_from(at).map_or(Role::None, |id| self.role(trace, StackId(id)));
            self.stacks.push(role);
        }
    }

    fn role(&mut self, trace: &Trace, id: StackId) -> Role {
        if id.0 == 0 {
            return Role::None;
        }
        let stack = trace.stack(id);
        let at = stack.code.index();
        if self.codes.len() <= at {
            self.codes.resize(at + 1, None);
        }
        let own = *self.codes[at].get_or_insert_with(|| role_of_code(trace, stack.code));
        let above = self.of_stack(stack.parent);
        // A general name has lower priority than any outer frame with a rule.
        if own == Role::None || own == Role::Builder && above != Role::None {
            above
        } else if own == Role::ReduceScatter {
            let input = *self.inputs.entry(stack.parent).or_insert(stack.line);
            if input == stack.line { Role::Communication } else { Role::ReducedGradient }
        } else {
            own
        }
    }
}

fn role_of_code(trace: &Trace, code: CodeId) -> Role {
    trace.code(code).map_or(Role::None, |code| {
        // As torch names functions: without their class.
        let function = code.name.rsplit('.').next().unwrap_or_default();
        let rule = RULES.iter().find(|Rule(file, functions, _)| {
            is_file(&code.file, file) && (functions.is_empty() || functions.contains(&function))
        });
        rule.map_or_else(|| role_by_name(code, function), |Rule(_, _, role)| *role)
    })
}

/// Whether a path ends so; `/folder/*`: whether it is in such a folder.
fn is_file(path: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(folder) => path.contains(folder),
        None => path.ends_with(pattern),
    }
}

/// Roles of functions in any file, by their usual names.
fn role_by_name(code: &Code, function: &str) -> Role {
    let file = code.file.rsplit(['/', '\\']).next().unwrap_or_default();
    let class = code.name.strip_suffix(function).unwrap_or_default();
    let is_kv_cache = function.contains("kv_cache")
        && KV_CACHE_VERBS.iter().any(|verb| function.contains(verb))
        || class.contains("KVCache") && !function.contains("forward");
    if is_kv_cache {
        return Role::KvCache;
    }
    let is_average = class.contains("EMA") || class.contains("Ema") || has_word(file, "ema");
    if is_average && function != "forward" {
        return Role::Model;
    }
    match BUILDERS.contains(&function) {
        true if HOLDERS.iter().any(|word| file.contains(word)) => Role::Holder,
        true if code.file.contains("/optim/") => Role::OptimizerBuilder,
        true => Role::Builder,
        false => Role::None,
    }
}

/// Whether a file's name has a word: `model_ema.py` has `ema`, `schema.py` has not.
fn has_word(file: &str, word: &str) -> bool {
    file.split(['_', '-', '.']).any(|part| part == word)
}
