//! What to try after an out-of-memory message, the first thing first.

use super::{OomMessageReason, OomRemedy, OomSource};

/// Facts that the advice depends on, in addition to the reason.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) source: OomSource,
    pub(super) reason: OomMessageReason,
    /// Whether the request alone is larger than the device.
    pub(super) is_larger_than_device: bool,
    /// Whether nearly all of the device is allocated.
    pub(super) is_nearly_full: bool,
    /// The variable of the allocator's settings that the message names.
    pub(super) variable: &'static str,
    /// Whether this version of torch has `expandable_segments`.
    pub(super) has_expandable_segments: bool,
    /// The number of another process that has memory of the device.
    pub(super) other_process: Option<u64>,
    /// The text, for what only some messages have.
    pub(super) text: &'a str,
}

impl Case<'_> {
    pub(super) fn remedies(self) -> Vec<OomRemedy> {
        match self.reason {
            OomMessageReason::Capacity if self.is_larger_than_device => vec![
                change(
                    "make the tensor of this line smaller: its batch, sequence length or image size",
                ),
                with(
                    "compute attention without the whole matrix of scores",
                    "torch.nn.functional.scaled_dot_product_attention(q, k, v)",
                ),
                with("process the input in chunks", "for part in x.split(1024): ..."),
            ],
            OomMessageReason::Capacity if self.source == OomSource::Mps => {
                let mut all = less();
                all.push(with(
                    "allow more than the recommended memory; the system may become slow or stop",
                    "export PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",
                ));
                all
            }
            OomMessageReason::Capacity => less(),
            OomMessageReason::Fragmentation if self.is_nearly_full => {
                let mut all = less();
                all.insert(1, self.settings());
                all
            }
            OomMessageReason::Fragmentation => vec![
                self.settings(),
                with(
                    "free what is no longer needed before the large allocation",
                    "del output, loss; torch.cuda.empty_cache()",
                ),
                change("give all batches the same shape: pad to a few fixed lengths"),
            ],
            OomMessageReason::OtherPool => vec![
                with("free the CUDA graphs that are no longer replayed", "graph.reset()"),
                with(
                    "capture all graphs into one pool",
                    "torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle())",
                ),
                with("compile without CUDA graphs", "torch.compile(model, mode=\"default\")"),
            ],
            OomMessageReason::OutsideTorch => self.others(),
            OomMessageReason::Limit => self.limit(),
            OomMessageReason::Refused => refused(),
            OomMessageReason::HugeRequest => vec![
                change(
                    "print the shape of each input of the line that failed: one of them is wrong",
                ),
                change(
                    "look for an index or length of -1, a broadcast of two long dimensions, or data that was not loaded",
                ),
                with(
                    "run with synchronous kernels: an error of an earlier kernel can leave wrong sizes behind",
                    "export CUDA_LAUNCH_BLOCKING=1",
                ),
                change(
                    "compile extensions for the architecture of this GPU (`TORCH_CUDA_ARCH_LIST`)",
                ),
            ],
            OomMessageReason::Library => self.library(),
            OomMessageReason::HostMemory => self.host(),
            OomMessageReason::Unknown => {
                vec![
                    change("paste the whole message: its figures decide"),
                    with("see what uses the device", "nvidia-smi"),
                ]
            }
        }
    }

    fn settings(self) -> OomRemedy {
        if self.has_expandable_segments {
            let code = format!("export {}=expandable_segments:True", self.variable);
            return OomRemedy {
                change: "let segments grow, so that free blocks can be joined".to_owned(),
                code: Some(code),
            };
        }
        let code = format!("export {}=max_split_size_mb:128", self.variable);
        OomRemedy {
            change:
                "split large blocks less; torch 2.1 and later also have `expandable_segments:True`"
                    .to_owned(),
            code: Some(code),
        }
    }

    fn others(self) -> Vec<OomRemedy> {
        if self.source == OomSource::Mps {
            return vec![
                change("close other programs that use the GPU, and other models in this process"),
                with("free what torch caches", "torch.mps.empty_cache()"),
            ];
        }
        let mut all = vec![with(
            "list the processes on the device, also those of an ended run",
            "nvidia-smi",
        )];
        all.extend(self.other_process.map(|process| OomRemedy {
            change: "stop the other process if it is yours".to_owned(),
            code: Some(format!("kill {process}")),
        }));
        all.push(with("use another device", "export CUDA_VISIBLE_DEVICES=1"));
        all.push(change(
            "start workers that do not use the GPU before the first CUDA call, or with `spawn`",
        ));
        all
    }

    fn limit(self) -> Vec<OomRemedy> {
        if self.text.contains("cannotallocatememoryblock") {
            return vec![
                change("split the tensor into parts below the limit"),
                with(
                    "allow larger blocks, where the driver can",
                    "export UR_L0_USE_RELAXED_ALLOCATION_LIMITS=1",
                ),
            ];
        }
        vec![
            with("raise or remove the limit", "torch.cuda.set_per_process_memory_fraction(1.0)"),
            with(
                "look for a limit in the settings",
                "echo $PYTORCH_CUDA_ALLOC_CONF $PYTORCH_ALLOC_CONF",
            ),
            self.settings(),
            change("keep the limit and reduce what is live: a smaller batch, checkpointing"),
        ]
    }

    fn library(self) -> Vec<OomRemedy> {
        let mut all =
            vec![with("see what uses the device: torch's cache, or other processes", "nvidia-smi")];
        if self.source == OomSource::Nccl {
            all.push(with("use smaller NCCL buffers", "export NCCL_BUFFSIZE=1048576"));
        }
        if self.source == OomSource::Cudnn {
            all.push(with(
                "use no cuDNN benchmark: it tries algorithms with large workspaces",
                "torch.backends.cudnn.benchmark = False",
            ));
        }
        all.extend([
            with(
                "leave room for libraries outside torch's cache",
                "torch.cuda.set_per_process_memory_fraction(0.9)",
            ),
            with("free what torch caches before the call that fails", "torch.cuda.empty_cache()"),
            with(
                "find the call that fails, with synchronous kernels",
                "export CUDA_LAUNCH_BLOCKING=1",
            ),
        ]);
        all
    }

    fn host(self) -> Vec<OomRemedy> {
        if self.source == OomSource::SharedMemory {
            return vec![
                with("give a container more shared memory", "docker run --shm-size=8g ..."),
                with(
                    "use fewer workers and prefetch less",
                    "DataLoader(..., num_workers=2, prefetch_factor=2)",
                ),
                with(
                    "share tensors through files",
                    "torch.multiprocessing.set_sharing_strategy(\"file_system\")",
                ),
            ];
        }
        vec![
            with(
                "see how much memory the host and its control group have",
                "free -h; cat /sys/fs/cgroup/memory.max",
            ),
            with(
                "load a checkpoint without a second copy",
                "torch.load(path, mmap=True, map_location=\"cpu\")",
            ),
            with(
                "use fewer workers: each has its own copy of the data set",
                "DataLoader(..., num_workers=2)",
            ),
            change("read large data sets in parts, or through memory maps"),
        ]
    }
}

/// Ways to reduce live memory.
fn less() -> Vec<OomRemedy> {
    vec![
        change(
            "use a smaller batch, shorter sequences or smaller images, with gradient accumulation",
        ),
        with(
            "use activation checkpointing",
            "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
        ),
        with("use half precision", "torch.autocast(\"cuda\", dtype=torch.bfloat16)"),
        with("without training, record no graph", "with torch.inference_mode(): ..."),
        change("shard parameters and optimizer states over GPUs (FSDP), or move them to the host"),
    ]
}

fn refused() -> Vec<OomRemedy> {
    vec![
        with(
            "check for a limit: torch 2.1 and 2.2 do not print it",
            "torch.cuda.set_per_process_memory_fraction(1.0)",
        ),
        change("check for a limit of the GPU partition (MIG, vGPU) or of the container"),
        change("on Windows, make the page file larger: the driver backs GPU memory with it"),
        with("check the memory of the host: the driver needs some for each allocation", "free -h"),
        with(
            "watch the device while the program runs: another process may have freed memory after the failure",
            "nvidia-smi --query-gpu=memory.used --format=csv --loop-ms=200",
        ),
    ]
}

fn change(change: &str) -> OomRemedy {
    OomRemedy { change: change.to_owned(), code: None }
}

fn with(change: &str, code: &str) -> OomRemedy {
    OomRemedy { change: change.to_owned(), code: Some(code.to_owned()) }
}
