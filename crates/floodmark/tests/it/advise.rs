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
                                     → move it to host memory, free it before the peak, or recompute it
                                       afterwards
          8.000 MiB       20.00 MiB  train.py:4 (main) retains 8.000 MiB through the peak: allocated
                                     long before it, freed long after or never
                                     → move it to host memory, free it before the peak, or recompute it
                                       afterwards
          8.000 MiB       20.00 MiB  train.py:5 (main) retains 8.000 MiB through the peak: allocated
                                     long before it, freed long after or never
                                     → move it to host memory, free it before the peak, or recompute it
                                       afterwards
                0 B       16.00 MiB  16.00 MiB more are reserved than allocated at the peak; other
                                     settings need less
                                     → export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    Note: too few steps to look for leaks
    ");
    insta::assert_snapshot!(folder.run("advise varlen.pickle.gz"), @"
    exit 0
    --- stdout
    Peak of cuda:0: 5.029 GiB allocated, 6.143 GiB reserved; one change would save memory
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them
    Saves allocated  Saves reserved  Finding, and what to do
          1.617 MiB      1008.0 MiB  1.114 GiB more are reserved than allocated at the peak; other
                                     settings need less
                                     → export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    Note: no line grows from step to step
    ");
    insta::assert_snapshot!(folder.run("advise oom.pickle.gz"), @"
    exit 0
    --- stdout
    Peak of cuda:0, if the failed allocation had succeeded: 1.985 GiB allocated, 2.479 GiB reserved; nothing was found that would save memory
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them
    Note: none of the allocator settings that were tried avoids the failure
    Note: no line grows from step to step
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
      "notes": [
        "too few steps to look for leaks"
      ],
      "advice": [
        {
          "kind": "idle",
          "finding": "train.py:3 (main) retains 8.000 MiB through the peak: allocated long before it, freed long after or never",
          "change": "move it to host memory, free it before the peak, or recompute it afterwards",
          "saves_allocated": 8388608,
          "saves_reserved": 20971520,
          "peak_allocated": 33554432,
          "peak_reserved": 37748736
        },
        {
          "kind": "idle",
          "finding": "train.py:4 (main) retains 8.000 MiB through the peak: allocated long before it, freed long after or never",
          "change": "move it to host memory, free it before the peak, or recompute it afterwards",
          "saves_allocated": 8388608,
          "saves_reserved": 20971520,
          "peak_allocated": 33554432,
          "peak_reserved": 37748736
        },
        {
          "kind": "idle",
          "finding": "train.py:5 (main) retains 8.000 MiB through the peak: allocated long before it, freed long after or never",
          "change": "move it to host memory, free it before the peak, or recompute it afterwards",
          "saves_allocated": 8388608,
          "saves_reserved": 20971520,
          "peak_allocated": 33554432,
          "peak_reserved": 37748736
        },
        {
          "kind": "allocator_settings",
          "finding": "16.00 MiB more are reserved than allocated at the peak; other settings need less",
          "change": "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
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
