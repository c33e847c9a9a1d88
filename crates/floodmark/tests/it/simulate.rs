//! `floodmark simulate`.

use crate::program::Folder;

/// Two segments of 20 MiB for three blocks of 8 MiB, and one of its own for 16 MiB.
pub(crate) const SPREAD: &str = "
    segment A cuda:0 20MiB
    alloc a cuda:0 8MiB on A at train.py:3
    alloc b cuda:0 8MiB on A+8MiB at train.py:4
    segment B cuda:0 20MiB
    alloc c cuda:0 8MiB on B at train.py:5
    segment D cuda:0 16MiB
    alloc d cuda:0 16MiB on D at train.py:6";

fn folder() -> Folder {
    let odd = SPREAD.replace("segment D cuda:0 16MiB", "segment D cuda:0 18MiB");
    let failed = format!("{SPREAD}\n oom cuda:0 32MiB at train.py:7");
    Folder::new()
        .with("spread.flood", SPREAD)
        .with("odd.flood", &odd)
        .with("failed.flood", &failed)
        .with("cpu.flood", "alloc a cpu 1MiB at train.py:3")
        .with("bare.flood", "alloc a cuda:0 1MiB at train.py:3")
        .with_recording("varlen.pickle.gz", "allocator/default-varlen.pickle.gz")
}

#[test]
fn settings_are_compared_with_the_recording() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("simulate spread.flood"), @"
    exit 0
    --- stdout
    The same requests on cuda:0, by the rules of torch 2.11; they reproduce the recording
    PYTORCH_CUDA_ALLOC_CONF    Memory  Allocated   Reserved      Waste  Retries  Runs out
    recorded: (default)      no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    (default)                no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    ");
    insta::assert_snapshot!(folder.run("simulate spread.flood --sweep"), @"
    exit 0
    --- stdout
    The same requests on cuda:0, by the rules of torch 2.11; they reproduce the recording
    PYTORCH_CUDA_ALLOC_CONF                                 Memory  Allocated   Reserved      Waste  Retries  Runs out
    recorded: (default)                                   no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    (default)                                             no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    expandable_segments:True                              no limit  40.00 MiB  40.00 MiB        0 B        0  no
    max_split_size_mb:512                                 no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    max_split_size_mb:256                                 no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    max_split_size_mb:128                                 no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    roundup_power2_divisions:16                           no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    roundup_power2_divisions:8                            no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    roundup_power2_divisions:4                            no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    garbage_collection_threshold:0.8                      no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    expandable_segments:True,roundup_power2_divisions:16  no limit  40.00 MiB  40.00 MiB        0 B        0  no
    Best: 16.00 MiB less reserved than recorded, with
      export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    ");
    insta::assert_snapshot!(folder.run("simulate varlen.pickle.gz --alloc-conf max_split_size_mb:64 --alloc-conf expandable_segments:True"), @"
    exit 0
    --- stdout
    The same requests on cuda:0, by the rules of torch 2.11; they reproduce the recording
    ! categories, modules, phases and backward are derived from stack frames: a snapshot does not record them
    PYTORCH_CUDA_ALLOC_CONF     Memory  Allocated   Reserved      Waste  Retries  Runs out
    recorded: (default)       no limit  5.029 GiB  6.143 GiB  1.114 GiB        0  no
    max_split_size_mb:64      no limit  5.034 GiB  15.13 GiB  10.10 GiB        0  no
    expandable_segments:True  no limit  5.027 GiB  5.158 GiB  134.2 MiB        0  no
    Best: 1008.0 MiB less reserved than recorded, with
      export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    ");
    insta::assert_snapshot!(folder.run("simulate odd.flood --alloc-conf max_split_size_mb:64"), @"
    exit 0
    --- stdout
    The same requests on cuda:0, by the rules of torch 2.11
    ! under its own settings the simulation does not reproduce the recording: the other figures may be off too
    PYTORCH_CUDA_ALLOC_CONF    Memory  Allocated   Reserved      Waste  Retries  Runs out
    recorded: (default)      no limit  40.00 MiB  58.00 MiB  18.00 MiB        0  no
    max_split_size_mb:64     no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    ");
}

#[test]
fn a_smaller_gpu_may_be_too_small() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("simulate spread.flood --memory 50MiB --alloc-conf expandable_segments:True --alloc-conf max_split_size_mb:64"), @"
    exit 0
    --- stdout
    The same requests on cuda:0, by the rules of torch 2.11; they reproduce the recording
    PYTORCH_CUDA_ALLOC_CONF      Memory  Allocated   Reserved      Waste  Retries  Runs out
    recorded: (default)        no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    expandable_segments:True  50.00 MiB  40.00 MiB  40.00 MiB        0 B        0  no
    max_split_size_mb:64      50.00 MiB  24.00 MiB  40.00 MiB  16.00 MiB        1  at 0.007 s, for 16.00 MiB
    Best: 16.00 MiB less reserved than recorded, with
      export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    ");
    insta::assert_snapshot!(folder.run("simulate spread.flood --memory 20MiB --alloc-conf expandable_segments:True --alloc-conf max_split_size_mb:64"), @"
    exit 0
    --- stdout
    The same requests on cuda:0, by the rules of torch 2.11; they reproduce the recording
    PYTORCH_CUDA_ALLOC_CONF      Memory  Allocated   Reserved      Waste  Retries  Runs out
    recorded: (default)        no limit  40.00 MiB  56.00 MiB  16.00 MiB        0  no
    expandable_segments:True  20.00 MiB  16.00 MiB  20.00 MiB  4.000 MiB        1  at 0.005 s, for 8.000 MiB
    max_split_size_mb:64      20.00 MiB  16.00 MiB  20.00 MiB  4.000 MiB        1  at 0.005 s, for 8.000 MiB
    All of them run out of memory.
    ");
    insta::assert_snapshot!(folder.run("simulate failed.flood --memory 100MiB --alloc-conf per_process_memory_fraction:0.8,expandable_segments:True"), @"
    exit 0
    --- stdout
    The same requests on cuda:0, by the rules of torch 2.11; they reproduce the recording
    PYTORCH_CUDA_ALLOC_CONF                                      Memory  Allocated   Reserved      Waste  Retries  Runs out
    recorded: (default)                                       56.00 MiB  40.00 MiB  56.00 MiB  16.00 MiB        1  at 0.008 s, for 32.00 MiB
    per_process_memory_fraction:0.8,expandable_segments:True  80.00 MiB  72.00 MiB  80.00 MiB  8.000 MiB        0  not at this request
    Simulated up to the failed request: the recording ends there, and the rest of the run may need more
    ");
    insta::assert_snapshot!(folder.run("simulate failed.flood --memory 1GiB --sweep"), @"
    exit 0
    --- stdout
    The same requests on cuda:0, by the rules of torch 2.11; they reproduce the recording
    PYTORCH_CUDA_ALLOC_CONF                                  Memory  Allocated   Reserved      Waste  Retries  Runs out
    recorded: (default)                                   56.00 MiB  40.00 MiB  56.00 MiB  16.00 MiB        1  at 0.008 s, for 32.00 MiB
    (default)                                             1.000 GiB  72.00 MiB  88.00 MiB  16.00 MiB        0  not at this request
    expandable_segments:True                              1.000 GiB  72.00 MiB  80.00 MiB  8.000 MiB        0  not at this request
    max_split_size_mb:512                                 1.000 GiB  72.00 MiB  88.00 MiB  16.00 MiB        0  not at this request
    max_split_size_mb:256                                 1.000 GiB  72.00 MiB  88.00 MiB  16.00 MiB        0  not at this request
    max_split_size_mb:128                                 1.000 GiB  72.00 MiB  88.00 MiB  16.00 MiB        0  not at this request
    roundup_power2_divisions:16                           1.000 GiB  72.00 MiB  88.00 MiB  16.00 MiB        0  not at this request
    roundup_power2_divisions:8                            1.000 GiB  72.00 MiB  88.00 MiB  16.00 MiB        0  not at this request
    roundup_power2_divisions:4                            1.000 GiB  72.00 MiB  88.00 MiB  16.00 MiB        0  not at this request
    garbage_collection_threshold:0.8                      1.000 GiB  72.00 MiB  88.00 MiB  16.00 MiB        0  not at this request
    expandable_segments:True,roundup_power2_divisions:16  1.000 GiB  72.00 MiB  80.00 MiB  8.000 MiB        0  not at this request
    Best: 80.00 MiB reserved, and the failed request succeeds, with
      export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    Simulated up to the failed request: the recording ends there, and the rest of the run may need more
    ");
}

#[test]
fn the_json_of_a_simulation_is_the_contract() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("simulate spread.flood --memory 50MiB --json"), @r#"
    exit 0
    --- stdout
    {
      "floodmark": "0.1.0",
      "format": 1,
      "device": "cuda:0",
      "torch": "2.11",
      "recorded": {
        "alloc_conf": "",
        "memory": null,
        "peak_allocated": 41943040,
        "peak_reserved": 58720256,
        "retries": 0,
        "oom": null
      },
      "is_reproduced": true,
      "runs": [
        {
          "alloc_conf": "",
          "memory": 52428800,
          "peak_allocated": 25165824,
          "peak_reserved": 41943040,
          "waste": 16777216,
          "retries": 1,
          "oom": {
            "event": 9,
            "seconds": 0.007,
            "step": null,
            "requested": 16777216
          }
        }
      ],
      "best": null,
      "scope": null,
      "losses": []
    }
    "#);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("simulate spread.flood --alloc-conf expandable_segments"), @"
    exit 1
    --- stderr
    error: Failed to simulate `spread.flood`
      Caused by: `expandable_segments` is not of the form `option:value`

    hint: for instance `expandable_segments:True,max_split_size_mb:512`
    ");
    insta::assert_snapshot!(folder.run("simulate spread.flood --alloc-conf max_split_size_mb:ten"), @"
    exit 1
    --- stderr
    error: Failed to simulate `spread.flood`
      Caused by: `max_split_size_mb` cannot be `ten`: it must be a number of MiB, at least the size of large segments
    ");
    insta::assert_snapshot!(folder.run("simulate spread.flood --alloc-conf pinned_use_background_threads:True"), @"
    exit 1
    --- stderr
    error: Failed to simulate `spread.flood`
      Caused by: `pinned_use_background_threads` is about pinned host memory, which is not simulated

    hint: leave it out: it does not change the memory of the GPU
    ");
    insta::assert_snapshot!(folder.run("simulate spread.flood --alloc-conf backend:cudaMallocAsync"), @"
    exit 1
    --- stderr
    error: Failed to simulate `spread.flood`
      Caused by: `backend:cudaMallocAsync` is not simulated

    hint: leave it out; only the native allocator is simulated
    ");
    insta::assert_snapshot!(folder.run("simulate spread.flood --torch 2.9 --alloc-conf per_process_memory_fraction:0.5"), @"
    exit 1
    --- stderr
    error: Failed to simulate `spread.flood`
      Caused by: `per_process_memory_fraction` is not an option of PYTORCH_CUDA_ALLOC_CONF in torch 2.9

    hint: name the version of torch with `--torch`; options differ between versions
    ");
    insta::assert_snapshot!(folder.run("simulate spread.flood --alloc-conf per_process_memory_fraction:0.5"), @"
    exit 1
    --- stderr
    error: Failed to simulate `spread.flood`
      Caused by: `per_process_memory_fraction` needs the memory of the GPU

    hint: state it with `--memory`
    ");
    insta::assert_snapshot!(folder.run("simulate spread.flood --torch new"), @"
    exit 1
    --- stderr
    error: invalid value 'new' for '--torch <VERSION>': a version of torch is two numbers such as `2.11`

    For more information, try '--help'.
    ");
}

#[test]
fn without_a_caching_allocator_there_is_nothing_to_simulate() {
    let folder = folder();
    insta::assert_snapshot!(folder.run("simulate cpu.flood"), @"
    exit 1
    --- stderr
    error: Failed to simulate `cpu.flood`
      Caused by: the memory of cpu is not managed by torch's caching allocator

    hint: choose a CUDA device with `--device`
    ");
    insta::assert_snapshot!(folder.run("simulate bare.flood"), @"
    exit 1
    --- stderr
    error: Failed to simulate `bare.flood`
      Caused by: the trace has no segments: its allocator does not report them

    hint: only torch's caching allocator reports segments; see `floodmark info`
    ");
    insta::assert_snapshot!(folder.run("simulate spread.flood --device cuda:1"), @"
    exit 1
    --- stderr
    error: Failed to simulate `spread.flood`
      Caused by: nothing was recorded on cuda:1; the trace has cuda:0

    hint: choose one of them with `--device`
    ");
}
