//! Simulated GPUs, as far as they work without Python.

use serde_json::Value;

use crate::program::Folder;

#[test]
fn every_gpu_is_listed() {
    let folder = Folder::new();
    let listed = folder.stdout("gpus");
    for gpu in ["v100-16gb", "t4", "a10", "a100-80gb", "l4", "l40s", "rtx5090", "h100", "b200"] {
        assert!(listed.lines().any(|line| line.starts_with(gpu) && line.contains(" no ")), "{gpu}");
    }
    let h200 = listed.lines().find(|line| line.starts_with("h200")).unwrap();
    assert!(h200.contains("139.8 GiB") && h200.contains("on hardware"), "{h200}");
    let json: Value = serde_json::from_str(&folder.stdout("gpus --json")).unwrap();
    let all = json.as_array().unwrap();
    let t4 = all.iter().find(|profile| profile["gpu"] == "t4").unwrap();
    assert_eq!(t4["profile"]["memory"], 15_828_320_256_u64);
}

#[test]
fn a_profile_can_be_taken_changed_and_used() {
    let folder = Folder::new();
    let profile = folder.stdout("gpus H200").replace("NVIDIA H200", "My GPU");
    let folder = folder.with_bytes("mine.toml", profile.as_bytes());
    // It gets as far as to the script that is missing.
    insta::assert_snapshot!(folder.run("estimate --gpu mine.toml train.py"), @"
    exit 1
    --- stderr
    error: Failed to run `train.py`
      Caused by: there is no such file

    hint: check the path; to run a module by its name, write `-m` before the name
    ");
    let folder = folder.with_bytes("bad.toml", b"name = 3");
    let output = folder.run("estimate --gpu bad.toml train.py");
    assert!(output.contains("the file is not a GPU profile"), "{output}");
}

#[test]
fn an_unknown_gpu_or_rank_is_an_error_of_the_user() {
    let folder = Folder::new().with_bytes("train.py", b"");
    insta::assert_snapshot!(folder.run("estimate --gpu a100 train.py"), @"
    exit 1
    --- stderr
    error: Failed to simulate a `a100`
      Caused by: there is no GPU profile `a100`; did you mean `a100-40gb` or `a100-80gb`?

    hint: list the profiles with `floodmark gpus`, pass your own as `--gpu FILE.toml`, or change the capacity of a profile with `--memory`
    ");
    insta::assert_snapshot!(folder.run("estimate --world 4 --rank 4 train.py"), @"
    exit 1
    --- stderr
    error: Failed to simulate a `h200`
      Caused by: rank 4 is not one of 4

    hint: ranks are counted from 0
    ");
    let output = folder.run("estimate --memory 100MiB train.py");
    assert!(output.contains("the CUDA context alone needs 526.8 MiB"), "{output}");
}

#[test]
fn something_must_vary() {
    let folder = Folder::new().with_bytes("train.py", b"");
    insta::assert_snapshot!(folder.run("fit --vary BATCH=1..8 train.py --batch BATCH"), @"
    exit 1
    --- stderr
    error: Failed to vary the program
      Caused by: `{BATCH}` is neither in the program's arguments nor in `--env`

    hint: write it where the value goes: `train.py --batch {BATCH}`
    ");
    let output = folder.run("fit --vary BATCH=8..1 train.py --batch {BATCH}");
    assert!(output.contains("the range has no value"), "{output}");
}
