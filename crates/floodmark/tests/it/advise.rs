//! `floodmark advise`.

use crate::program::Folder;
use crate::simulate::SPREAD;

fn folder() -> Folder {
    Folder::new()
        .with("spread.flood", SPREAD)
        .with("cpu.flood", "alloc a cpu 1MiB at train.py:3\nfree a")
        .with_recording("varlen.pickle.gz", "allocator/default-varlen.pickle.gz")
        .with_recording("oom.pickle.gz", "allocator/default-oom.pickle.gz")
}

#[test]
fn advice_says_what_it_saves() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("advise spread.flood"), @"
    exit 0
    --- stdout
    Peak of cuda:0: 40.00 MiB allocated, 56.00 MiB reserved; 4 changes would save memory, each by itself
    Saves allocated  Saves reserved  Finding, and what to do
          8.000 MiB       20.00 MiB  train.py:3 (main) retains 8.000 MiB through the peak: allocated
                                     long before it, freed long after or never
                                     → if nothing uses it around the peak, free it before, move it to
                                       host memory, or recompute it
          8.000 MiB       20.00 MiB  train.py:4 (main) retains 8.000 MiB through the peak: allocated
                                     long before it, freed long after or never
                                     → if nothing uses it around the peak, free it before, move it to
                                       host memory, or recompute it
          8.000 MiB       20.00 MiB  train.py:5 (main) retains 8.000 MiB through the peak: allocated
                                     long before it, freed long after or never
                                     → if nothing uses it around the peak, free it before, move it to
                                       host memory, or recompute it
                0 B       16.00 MiB  16.00 MiB more are reserved than allocated at the peak; other
                                     settings need less
                                     → export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    Note: too few steps to look for leaks
    --- stderr
    hint: find changes that make the whole run fit: `floodmark plan train.py`
    ");
    insta::assert_snapshot!(folder.run("advise varlen.pickle.gz"), @"
    exit 0
    --- stdout
    Peak of cuda:0: 5.029 GiB allocated, 6.143 GiB reserved; 3 changes would save memory, each by itself
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them

        Bytes  Share  What fills the peak
    2.492 GiB   50 %  logits and loss: 3 tensors of up to 850.6 MiB
                        no Python frame: thread 0 (backward)
    1.597 GiB   32 %  activations of 8 blocks called at zoo/alloc_runs.py:25 (forward)
                        zoo/alloc_runs.py:25 (forward)
    443.2 MiB    9 %  optimizer state
                        zoo/alloc_runs.py:48 (<module>)
    231.4 MiB    4 %  other activations
                        zoo/alloc_runs.py:25 (forward)
    222.3 MiB    4 %  parameters
                        zoo/alloc_runs.py:26 (<module>)
    65.00 MiB    1 %  workspaces
                        zoo/alloc_runs.py:25 (forward)

    Saves allocated  Saves reserved  Finding, and what to do
          1.602 GiB       2.496 GiB  logits and loss: 3 tensors of up to 850.6 MiB, 2.492 GiB live
                                     → compute the last linear layer and the loss in parts of the
                                       tokens, each checkpointed, so that the logits are never whole
                                       Assumes: 8 parts, one at a time, so that each of these tensors is
                                       an eighth
          1.168 GiB       714.0 MiB  activations of 8 blocks called at zoo/alloc_runs.py:25 (forward):
                                     1.597 GiB live
                                     → checkpoint each block: `torch.utils.checkpoint.checkpoint(block,
                                       x, use_reentrant=False)`, in transformers
                                       `model.gradient_checkpointing_enable()`; costs one more forward
                                       of these blocks
                                       Assumes: the last large tensor of a block is its output and
                                       stays; everything else is freed after its forward and allocated
                                       again when the backward pass reaches the block
          1.617 MiB      1008.0 MiB  1.114 GiB more are reserved than allocated at the peak; other
                                     settings need less
                                     → export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True

    Note: no line grows from step to step
    --- stderr
    hint: find changes that make the whole run fit: `floodmark plan train.py`
    ");
}

#[test]
fn advice_begins_with_what_fills_the_memory() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("advise oom.pickle.gz"), @"
    exit 0
    --- stdout
    Peak of cuda:0, if the failed allocation had succeeded: 1.985 GiB allocated, 2.479 GiB reserved; 2 changes would save memory, each by itself
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them

        Bytes  Share  What fills the memory at the failed allocation
    500.0 MiB   25 %  logits and loss: 2 tensors of up to 250.0 MiB
                        zoo/alloc_runs.py:43 (<module>)
    480.7 MiB   24 %  activations of 8 blocks called at zoo/alloc_runs.py:25 (forward)
                        zoo/alloc_runs.py:25 (forward)
    444.6 MiB   22 %  optimizer state
                        zoo/alloc_runs.py:48 (<module>)
    250.0 MiB   12 %  the failed allocation
    222.3 MiB   11 %  parameters
                        zoo/alloc_runs.py:26 (<module>)
    70.02 MiB    3 %  other activations
                        zoo/alloc_runs.py:25 (forward)
    65.00 MiB    3 %  workspaces
                        zoo/alloc_runs.py:25 (forward)

    Saves allocated  Saves reserved  Finding, and what to do
          436.8 MiB       846.0 MiB  logits and loss: 2 tensors of up to 250.0 MiB, 500.0 MiB live
                                     → compute the last linear layer and the loss in parts of the
                                       tokens, each checkpointed, so that the logits are never whole
                                       Assumes: 8 parts, one at a time, so that each of these tensors is
                                       an eighth
          352.7 MiB       30.00 MiB  activations of 8 blocks called at zoo/alloc_runs.py:25 (forward):
                                     480.7 MiB live
                                     → checkpoint each block: `torch.utils.checkpoint.checkpoint(block,
                                       x, use_reentrant=False)`, in transformers
                                       `model.gradient_checkpointing_enable()`; costs one more forward
                                       of these blocks
                                       Assumes: the last large tensor of a block is its output and
                                       stays; everything else is freed after its forward and allocated
                                       again when the backward pass reaches the block

    Note: none of the allocator settings that were tried avoids the failure
    Note: no line grows from step to step
    Note: the recording ends at the failed allocation, or goes on without it: the rest of the run may need more
    --- stderr
    hint: find changes that make the whole run fit: `floodmark plan train.py`
    ");
    insta::assert_snapshot!(folder.run("advise cpu.flood"), @"
    exit 0
    --- stdout
    Peak of cpu: 1.000 MiB allocated; nothing was found that would save memory
    Note: cpu has no caching allocator whose settings could be changed
    Note: too few steps to look for leaks
    ");
}

#[test]
fn the_json_of_advice_is_the_contract() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("advise spread.flood --json"), @r#"
    exit 0
    --- stdout
    {
      "floodmark": "0.1.0",
      "format": 1,
      "device": "cuda:0",
      "peak_allocated": 41943040,
      "peak_reserved": 58720256,
      "failed_requests": 0,
      "is_reproduced": true,
      "causes": [
        {
          "kind": "unknown",
          "bytes": 41943040,
          "count": 4,
          "name": "unknown",
          "location": "train.py:6 (main)"
        }
      ],
      "notes": [
        "too few steps to look for leaks"
      ],
      "advice": [
        {
          "kind": "idle",
          "finding": "train.py:3 (main) retains 8.000 MiB through the peak: allocated long before it, freed long after or never",
          "change": "if nothing uses it around the peak, free it before, move it to host memory, or recompute it",
          "assumes": "",
          "saves_allocated": 8388608,
          "saves_reserved": 20971520,
          "peak_allocated": 33554432,
          "peak_reserved": 37748736
        },
        {
          "kind": "idle",
          "finding": "train.py:4 (main) retains 8.000 MiB through the peak: allocated long before it, freed long after or never",
          "change": "if nothing uses it around the peak, free it before, move it to host memory, or recompute it",
          "assumes": "",
          "saves_allocated": 8388608,
          "saves_reserved": 20971520,
          "peak_allocated": 33554432,
          "peak_reserved": 37748736
        },
        {
          "kind": "idle",
          "finding": "train.py:5 (main) retains 8.000 MiB through the peak: allocated long before it, freed long after or never",
          "change": "if nothing uses it around the peak, free it before, move it to host memory, or recompute it",
          "assumes": "",
          "saves_allocated": 8388608,
          "saves_reserved": 20971520,
          "peak_allocated": 33554432,
          "peak_reserved": 37748736
        },
        {
          "kind": "allocator_settings",
          "finding": "16.00 MiB more are reserved than allocated at the peak; other settings need less",
          "change": "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
          "assumes": "",
          "saves_allocated": 0,
          "saves_reserved": 16777216,
          "peak_allocated": 41943040,
          "peak_reserved": 41943040
        }
      ],
      "losses": []
    }
    "#);
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("advise cpu.flood --device cuda:0"), @"
    exit 1
    --- stderr
    error: Failed to advise on `cpu.flood`
      Caused by: nothing was recorded on cuda:0; the trace has cpu

    hint: choose one of them with `--device`
    ");
}
