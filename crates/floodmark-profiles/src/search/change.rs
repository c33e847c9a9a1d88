//! Changes of a program, as they are written behind `--with`.
//!
//! The Python side applies them (`python/floodmark/changes`); here is their grammar, and the properties that the
//! search of a plan needs.

use std::fmt;
use std::str::FromStr;

use floodmark_trace::Hint;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A change that is applied to a program while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// Settings of the caching allocator, in the format of `PYTORCH_CUDA_ALLOC_CONF`.
    Allocator(String),
    /// The optimizer updates all parameters in one kernel.
    Fused,
    /// The optimizer updates one parameter after the other.
    ForeachOff,
    /// Gradients are freed after each step.
    FreeGradients,
    /// A program that trains nothing computes without a graph.
    NoGrad,
    /// Only the logits of this many last tokens are computed.
    LogitsToKeep(u32),
    /// The keys and values of earlier tokens are kept in another way.
    KvCache(KvCache),
    /// Convolutions compute in the memory format of tensor cores.
    ChannelsLast,
    /// Cross entropy in chunks.
    ChunkedLoss(LossChunks),
    /// Models of transformers call torch's attention instead of computing it in Python.
    SdpaAttention,
    /// The gradients of embeddings.
    Embeddings(EmbeddingGradients),
    /// Activation checkpointing.
    Checkpoint(Checkpointed),
    /// MLPs compute in this many chunks of tokens, and again in the backward pass.
    ChunkedMlp(u32),
    /// The model computes each batch in this many parts.
    MicroBatches(u32),
    /// The optimizer's step is part of the backward pass.
    OptimizerInBackward(StatesIn),
    /// Optimizer states are kept in pinned memory of the host.
    OffloadOptimizerStates,
    /// Saved activations are kept in pinned memory of the host.
    OffloadActivations(HostCopies),
    /// The model is compiled.
    Compile,
    /// The model is sharded over this many GPUs.
    Fsdp(u32),
    /// The forward pass runs under autocast.
    Autocast(HalfPrecision),
    /// Optimizer states are in 8 bits.
    EightBitStates(Paging),
    /// Parameters are in bf16.
    Bf16Parameters,
    /// Another optimizer, with fewer states.
    Optimizer(LeanOptimizer),
    /// Only adapters beside frozen weights are trained.
    Adapters(Adapters),
    /// The program gets another value of one of its own arguments. The user names it, so it is not written behind `--with`.
    Argument {
        /// Its name, chosen by the user.
        name: String,
        /// The value.
        value: u64,
    },
}

impl Change {
    /// Its name and its argument, which is empty where it has none.
    pub fn name_and_argument(&self) -> (String, String) {
        let text = self.to_string();
        let (name, argument) = text.split_once('=').unwrap_or((&text, ""));
        (name.to_owned(), argument.to_owned())
    }

    /// How many GPUs a program needs with it.
    pub fn gpus(&self) -> u32 {
        if let Self::Fsdp(gpus) = self { *gpus } else { 1 }
    }

    /// Whether it is a value of one of the program's own arguments.
    pub fn is_argument(&self) -> bool {
        matches!(self, Self::Argument { .. })
    }

    /// The value that an argument of this name gets.
    pub fn value_of(&self, argument: &str) -> Option<u64> {
        if let Self::Argument { name, value } = self {
            return (name == argument).then_some(*value);
        }
        None
    }

    /// Whether it makes the GPU compute in bf16.
    pub fn needs_bf16(&self) -> bool {
        matches!(self, Self::Autocast(HalfPrecision::Bf16) | Self::Bf16Parameters)
    }

    /// Whether a step with it computes only torch operators, which can be counted. Compiled kernels are not torch
    /// operators, and the time of collectives depends on the links between the GPUs.
    pub fn has_countable_steps(&self) -> bool {
        match self {
            Self::Compile
            | Self::Fsdp(_)
            | Self::EightBitStates(_)
            | Self::Adapters(Adapters { kind: AdapterKind::Qlora, .. })
            | Self::ChunkedLoss(LossChunks::Liger | LossChunks::Cce) => false,
            Self::Allocator(_)
            | Self::Fused
            | Self::ForeachOff
            | Self::FreeGradients
            | Self::NoGrad
            | Self::LogitsToKeep(_)
            | Self::KvCache(_)
            | Self::ChannelsLast
            | Self::ChunkedLoss(LossChunks::Rows(_) | LossChunks::Head)
            | Self::SdpaAttention
            | Self::Embeddings(_)
            | Self::Checkpoint(_)
            | Self::ChunkedMlp(_)
            | Self::MicroBatches(_)
            | Self::OptimizerInBackward(_)
            | Self::OffloadOptimizerStates
            | Self::OffloadActivations(_)
            | Self::Autocast(_)
            | Self::Bf16Parameters
            | Self::Optimizer(_)
            | Self::Adapters(_)
            | Self::Argument { .. } => true,
        }
    }
}

/// What of a loss is computed in chunks of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossChunks {
    /// The cross entropy, in this many chunks of logits that are whole.
    Rows(u32),
    /// The last `Linear` and the cross entropy: logits are never whole.
    Head,
    /// The same, by the kernel of Liger.
    Liger,
    /// The same, by Cut Cross Entropy.
    Cce,
}

/// Where the states of an optimizer are between two updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StatesIn {
    /// In the memory of the GPU.
    Gpu,
    /// In pinned memory of the host.
    Host,
}

/// How activations are copied to the host and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostCopies {
    /// On the stream that computes, between the kernels.
    InOrder,
    /// On a stream of their own, beside the kernels.
    Async,
}

/// The checkpointed blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Checkpointed {
    /// This many of the repeated blocks, from the first.
    Blocks(u32),
    /// All repeated blocks.
    All,
    /// All repeated blocks, but for the results of matrix products and attention.
    Selective,
}

/// A type of 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HalfPrecision {
    /// `bfloat16`.
    Bf16,
    /// `float16`.
    Fp16,
}

/// How the gradients of embeddings change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EmbeddingGradients {
    /// They have only the rows that a batch uses.
    Sparse,
    /// There are none: embeddings are not trained.
    Frozen,
}

/// Whether the driver may move 8-bit states to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Paging {
    /// They stay on the GPU.
    Off,
    /// Where the GPU has no room, they go to the host.
    On,
}

/// An optimizer with fewer states than Adam.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeanOptimizer {
    /// Adafactor: a row and a column for each matrix.
    Adafactor,
    /// Muon for the matrices of repeated blocks: one state in place of two.
    Muon,
}

/// How keys and values of earlier tokens are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KvCache {
    /// In tensors of the final length, allocated once.
    Static,
    /// In memory of the host, but for one layer.
    Offloaded,
    /// In 4 bits.
    Quantized,
}

/// Trained matrices of low rank beside frozen weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Adapters {
    /// Their kind.
    pub kind: AdapterKind,
    /// Their rank.
    pub rank: u32,
}

/// A kind of adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A product of two matrices is added.
    Lora,
    /// The same, with a trained magnitude for each output.
    Dora,
    /// The first, beside weights in 4 bits.
    Qlora,
}

/// The rank of adapters where none is named.
pub(crate) const USUAL_RANK: u32 = 16;

/// Why a text is not a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// No change has this name.
    #[error("there is no change `{name}`; there are {}", names())]
    NoSuchChange {
        /// The name.
        name: String,
    },
    /// The change takes another argument.
    #[error("`{name}` takes {takes}")]
    WrongArgument {
        /// The change.
        name: &'static str,
        /// Its argument.
        takes: &'static str,
    },
}

impl Hint for ChangeError {
    fn hint(&self) -> Option<&'static str> {
        Some("`floodmark plan` tries all of them, and prints the ones that help")
    }
}

const ADAPTERS: &str = "adapters";
const ATTENTION: &str = "attention";
const CHANNELS_LAST: &str = "channels-last";
const CHUNKED_MLP: &str = "chunked-mlp";
const EMBEDDINGS: &str = "embeddings";
const KV_CACHE: &str = "kv-cache";
const LOGITS_TO_KEEP: &str = "logits-to-keep";
const MICRO_BATCHES: &str = "micro-batches";
const NO_GRAD: &str = "no-grad";
const OPTIMIZER: &str = "optimizer";
const CHECKPOINT: &str = "checkpoint";
const ALLOCATOR: &str = "allocator";
const CHUNKED_LOSS: &str = "chunked-loss";
const FOREACH: &str = "foreach";
const AUTOCAST: &str = "autocast";
const FUSED: &str = "fused";
const FREE_GRADIENTS: &str = "free-gradients";
const OPTIMIZER_IN_BACKWARD: &str = "optimizer-in-backward";
const OFFLOAD_ACTIVATIONS: &str = "offload-activations";
const OFFLOAD_OPTIMIZER_STATES: &str = "offload-optimizer-states";
const OPTIMIZER_STATES: &str = "optimizer-states";
const COMPILE: &str = "compile";
const FSDP: &str = "fsdp";
const BF16_PARAMETERS: &str = "bf16-parameters";

/// The names of all changes.
pub const CHANGE_NAMES: [&str; 24] = [
    ALLOCATOR,
    FUSED,
    FOREACH,
    FREE_GRADIENTS,
    NO_GRAD,
    LOGITS_TO_KEEP,
    KV_CACHE,
    CHANNELS_LAST,
    CHUNKED_LOSS,
    ATTENTION,
    EMBEDDINGS,
    CHECKPOINT,
    CHUNKED_MLP,
    MICRO_BATCHES,
    OPTIMIZER_IN_BACKWARD,
    OFFLOAD_OPTIMIZER_STATES,
    OFFLOAD_ACTIVATIONS,
    COMPILE,
    FSDP,
    AUTOCAST,
    OPTIMIZER_STATES,
    BF16_PARAMETERS,
    OPTIMIZER,
    ADAPTERS,
];

fn names() -> String {
    CHANGE_NAMES.map(|name| format!("`{name}`")).join(", ")
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocator(settings) => write!(f, "{ALLOCATOR}={settings}"),
            Self::Fused => f.write_str(FUSED),
            Self::ForeachOff => write!(f, "{FOREACH}=off"),
            Self::FreeGradients => f.write_str(FREE_GRADIENTS),
            Self::ChunkedLoss(LossChunks::Rows(chunks)) => write!(f, "{CHUNKED_LOSS}={chunks}"),
            Self::ChunkedLoss(LossChunks::Head) => write!(f, "{CHUNKED_LOSS}=head"),
            Self::ChunkedLoss(LossChunks::Liger) => write!(f, "{CHUNKED_LOSS}=liger"),
            Self::ChunkedLoss(LossChunks::Cce) => write!(f, "{CHUNKED_LOSS}=cce"),
            Self::NoGrad => f.write_str(NO_GRAD),
            Self::LogitsToKeep(count) => write!(f, "{LOGITS_TO_KEEP}={count}"),
            Self::KvCache(KvCache::Static) => write!(f, "{KV_CACHE}=static"),
            Self::KvCache(KvCache::Offloaded) => write!(f, "{KV_CACHE}=offloaded"),
            Self::KvCache(KvCache::Quantized) => write!(f, "{KV_CACHE}=quantized"),
            Self::ChannelsLast => f.write_str(CHANNELS_LAST),
            Self::SdpaAttention => write!(f, "{ATTENTION}=sdpa"),
            Self::Embeddings(EmbeddingGradients::Sparse) => write!(f, "{EMBEDDINGS}=sparse"),
            Self::Embeddings(EmbeddingGradients::Frozen) => write!(f, "{EMBEDDINGS}=frozen"),
            Self::ChunkedMlp(chunks) => write!(f, "{CHUNKED_MLP}={chunks}"),
            Self::MicroBatches(parts) => write!(f, "{MICRO_BATCHES}={parts}"),
            Self::Checkpoint(Checkpointed::Blocks(count)) => write!(f, "{CHECKPOINT}={count}"),
            Self::Checkpoint(Checkpointed::All) => write!(f, "{CHECKPOINT}=all"),
            Self::Checkpoint(Checkpointed::Selective) => write!(f, "{CHECKPOINT}=selective"),
            Self::OptimizerInBackward(StatesIn::Gpu) => f.write_str(OPTIMIZER_IN_BACKWARD),
            Self::OptimizerInBackward(StatesIn::Host) => {
                write!(f, "{OPTIMIZER_IN_BACKWARD}=offload")
            }
            Self::OffloadOptimizerStates => f.write_str(OFFLOAD_OPTIMIZER_STATES),
            Self::OffloadActivations(HostCopies::InOrder) => f.write_str(OFFLOAD_ACTIVATIONS),
            Self::OffloadActivations(HostCopies::Async) => write!(f, "{OFFLOAD_ACTIVATIONS}=async"),
            Self::Compile => f.write_str(COMPILE),
            Self::Fsdp(gpus) => write!(f, "{FSDP}={gpus}"),
            Self::EightBitStates(Paging::Off) => write!(f, "{OPTIMIZER_STATES}=8bit"),
            Self::EightBitStates(Paging::On) => write!(f, "{OPTIMIZER_STATES}=paged-8bit"),
            Self::Autocast(HalfPrecision::Bf16) => write!(f, "{AUTOCAST}=bf16"),
            Self::Autocast(HalfPrecision::Fp16) => write!(f, "{AUTOCAST}=fp16"),
            Self::Bf16Parameters => f.write_str(BF16_PARAMETERS),
            Self::Optimizer(LeanOptimizer::Adafactor) => write!(f, "{OPTIMIZER}=adafactor"),
            Self::Optimizer(LeanOptimizer::Muon) => write!(f, "{OPTIMIZER}=muon"),
            Self::Adapters(Adapters { kind, rank }) => {
                let kind = match kind {
                    AdapterKind::Lora => "lora",
                    AdapterKind::Dora => "dora",
                    AdapterKind::Qlora => "qlora",
                };
                write!(f, "{ADAPTERS}={kind}:{rank}")
            }
            Self::Argument { name, value } => write!(f, "{name}={value}"),
        }
    }
}

impl FromStr for Change {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, argument) = text.split_once('=').unwrap_or((text, ""));
        let wrong = |name, takes| Err(ChangeError::WrongArgument { name, takes });
        let alone = |name, change| {
            if argument.is_empty() { Ok(change) } else { wrong(name, "no argument") }
        };
        let several = |name, takes| {
            let number = argument.parse().ok().filter(|number| *number > 1);
            number.ok_or(ChangeError::WrongArgument { name, takes })
        };
        match name {
            FUSED => alone(FUSED, Self::Fused),
            FREE_GRADIENTS => alone(FREE_GRADIENTS, Self::FreeGradients),
            OPTIMIZER_IN_BACKWARD => match argument {
                "" => Ok(Self::OptimizerInBackward(StatesIn::Gpu)),
                "offload" => Ok(Self::OptimizerInBackward(StatesIn::Host)),
                _ => wrong(OPTIMIZER_IN_BACKWARD, "`offload` or nothing"),
            },
            OFFLOAD_OPTIMIZER_STATES => {
                alone(OFFLOAD_OPTIMIZER_STATES, Self::OffloadOptimizerStates)
            }
            OFFLOAD_ACTIVATIONS => match argument {
                "" => Ok(Self::OffloadActivations(HostCopies::InOrder)),
                "async" => Ok(Self::OffloadActivations(HostCopies::Async)),
                _ => wrong(OFFLOAD_ACTIVATIONS, "`async` or nothing"),
            },
            COMPILE => alone(COMPILE, Self::Compile),
            FSDP => several(FSDP, "a number of GPUs, such as `fsdp=4`").map(Self::Fsdp),
            OPTIMIZER_STATES => match argument {
                "" | "8bit" => Ok(Self::EightBitStates(Paging::Off)),
                "paged-8bit" => Ok(Self::EightBitStates(Paging::On)),
                _ => wrong(OPTIMIZER_STATES, "`8bit` or `paged-8bit`"),
            },
            NO_GRAD => alone(NO_GRAD, Self::NoGrad),
            CHANNELS_LAST => alone(CHANNELS_LAST, Self::ChannelsLast),
            LOGITS_TO_KEEP => match argument {
                "" => Ok(Self::LogitsToKeep(1)),
                number => match number.parse() {
                    Ok(count) if count > 0 => Ok(Self::LogitsToKeep(count)),
                    _ => wrong(LOGITS_TO_KEEP, "a number of tokens, such as `logits-to-keep=1`"),
                },
            },
            KV_CACHE => match argument {
                "static" => Ok(Self::KvCache(KvCache::Static)),
                "offloaded" => Ok(Self::KvCache(KvCache::Offloaded)),
                "quantized" => Ok(Self::KvCache(KvCache::Quantized)),
                _ => wrong(KV_CACHE, "`static`, `offloaded` or `quantized`"),
            },
            EMBEDDINGS => match argument {
                "sparse" => Ok(Self::Embeddings(EmbeddingGradients::Sparse)),
                "frozen" => Ok(Self::Embeddings(EmbeddingGradients::Frozen)),
                _ => wrong(EMBEDDINGS, "`sparse` or `frozen`"),
            },
            CHUNKED_MLP => several(CHUNKED_MLP, "a number of chunks, such as `chunked-mlp=4`")
                .map(Self::ChunkedMlp),
            MICRO_BATCHES => several(MICRO_BATCHES, "a number of parts, such as `micro-batches=4`")
                .map(Self::MicroBatches),
            OPTIMIZER => match argument {
                "adafactor" => Ok(Self::Optimizer(LeanOptimizer::Adafactor)),
                "muon" => Ok(Self::Optimizer(LeanOptimizer::Muon)),
                _ => wrong(OPTIMIZER, "`adafactor` or `muon`"),
            },
            ADAPTERS => match adapters(argument) {
                Some(adapters) => Ok(Self::Adapters(adapters)),
                None => wrong(ADAPTERS, "`lora`, `dora` or `qlora`, with a rank: `lora:16`"),
            },
            BF16_PARAMETERS => alone(BF16_PARAMETERS, Self::Bf16Parameters),
            FOREACH if argument == "off" => Ok(Self::ForeachOff),
            FOREACH => wrong(FOREACH, "`off`"),
            AUTOCAST => match argument {
                "" | "bf16" => Ok(Self::Autocast(HalfPrecision::Bf16)),
                "fp16" => Ok(Self::Autocast(HalfPrecision::Fp16)),
                _ => wrong(AUTOCAST, "`bf16` or `fp16`"),
            },
            ALLOCATOR if argument.contains(':') => Ok(Self::Allocator(argument.to_owned())),
            ALLOCATOR => wrong(ALLOCATOR, "settings such as `expandable_segments:True`"),
            CHUNKED_LOSS => match argument {
                "head" => Ok(Self::ChunkedLoss(LossChunks::Head)),
                "liger" => Ok(Self::ChunkedLoss(LossChunks::Liger)),
                "cce" => Ok(Self::ChunkedLoss(LossChunks::Cce)),
                number => match number.parse() {
                    Ok(chunks) if chunks > 0 => Ok(Self::ChunkedLoss(LossChunks::Rows(chunks))),
                    _ => wrong(CHUNKED_LOSS, "a number of chunks, `head`, `liger` or `cce`"),
                },
            },
            ATTENTION => match argument {
                "" | "sdpa" => Ok(Self::SdpaAttention),
                _ => wrong(ATTENTION, "`sdpa`"),
            },
            CHECKPOINT => match argument {
                "" | "all" => Ok(Self::Checkpoint(Checkpointed::All)),
                "selective" => Ok(Self::Checkpoint(Checkpointed::Selective)),
                number => match number.parse() {
                    Ok(count) => Ok(Self::Checkpoint(Checkpointed::Blocks(count))),
                    Err(_) => wrong(CHECKPOINT, "a number of blocks, `all` or `selective`"),
                },
            },
            _ => Err(ChangeError::NoSuchChange { name: name.to_owned() }),
        }
    }
}

fn adapters(argument: &str) -> Option<Adapters> {
    let (kind, rank) = argument.split_once(':').unwrap_or((argument, ""));
    let kind = match kind {
        "lora" => AdapterKind::Lora,
        "dora" => AdapterKind::Dora,
        "qlora" => AdapterKind::Qlora,
        _ => return None,
    };
    let rank = if rank.is_empty() { USUAL_RANK } else { rank.parse().ok()? };
    (rank > 0).then_some(Adapters { kind, rank })
}

/// As it is written behind `--with`.
impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_as_it_is_written() {
        for text in [
            "allocator=expandable_segments:True",
            "fused",
            "foreach=off",
            "free-gradients",
            "chunked-loss=8",
            "chunked-loss=head",
            "chunked-loss=liger",
            "chunked-loss=cce",
            "attention=sdpa",
            "checkpoint=12",
            "checkpoint=all",
            "checkpoint=selective",
            "optimizer-in-backward",
            "optimizer-in-backward=offload",
            "offload-optimizer-states",
            "offload-activations",
            "offload-activations=async",
            "compile",
            "fsdp=4",
            "autocast=bf16",
            "autocast=fp16",
            "optimizer-states=8bit",
            "optimizer-states=paged-8bit",
            "bf16-parameters",
            "no-grad",
            "logits-to-keep=1",
            "kv-cache=static",
            "kv-cache=offloaded",
            "kv-cache=quantized",
            "channels-last",
            "embeddings=sparse",
            "embeddings=frozen",
            "chunked-mlp=4",
            "micro-batches=2",
            "optimizer=adafactor",
            "optimizer=muon",
            "adapters=lora:16",
            "adapters=dora:8",
            "adapters=qlora:64",
        ] {
            assert_eq!(text.parse::<Change>().unwrap().to_string(), text);
        }
        let checkpoint: Change = "checkpoint".parse().unwrap();
        assert_eq!(checkpoint.to_string(), "checkpoint=all");
        let adapters: Change = "adapters=lora".parse().unwrap();
        assert_eq!(adapters.to_string(), "adapters=lora:16");
    }

    #[test]
    fn an_unknown_change_lists_the_known_ones() {
        let message = |text: &str| text.parse::<Change>().unwrap_err().to_string();
        assert!(message("chekpoint").starts_with("there is no change `chekpoint`; there are `all"));
        assert_eq!(
            message("checkpoint=x"),
            "`checkpoint` takes a number of blocks, `all` or `selective`"
        );
        assert_eq!(message("fused=1"), "`fused` takes no argument");
        for wrong in [
            "",
            "chunked-loss",
            "chunked-loss=0",
            "foreach",
            "autocast=fp8",
            "allocator=x",
            "fsdp=1",
            "micro-batches=1",
            "chunked-mlp",
            "kv-cache",
            "adapters=lora:0",
            "adapters=lora:x",
            "optimizer=sgd",
        ] {
            assert!(wrong.parse::<Change>().is_err(), "{wrong}");
        }
    }
}
