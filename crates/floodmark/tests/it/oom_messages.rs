//! `floodmark oom` with torch's message instead of a trace.

use crate::program::Folder;

const MESSAGE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.60 GiB. GPU 0 has a total capacity of \
    22.03 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this process has 20.78 GiB memory in use. Of the \
    allocated memory 18.66 GiB is allocated by PyTorch, and 1.89 GiB is reserved by PyTorch but unallocated. If reserved \
    but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";

/// The exit status, stdout and stderr of a command with a text on stdin.
fn run_with(text: &str, line: &str) -> String {
    let folder = Folder::new();
    let output = folder.command(line).write_stdin(text).output().unwrap();
    let shown = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    format!(
        "exit {}\n{}{}",
        output.status.code().unwrap(),
        shown(&output.stdout),
        shown(&output.stderr)
    )
}

#[test]
fn a_pasted_message_is_explained() {
    insta::assert_snapshot!(run_with(MESSAGE, "oom -"), @"
    exit 0
    Out of memory on cuda:0: 1.600 GiB requested
    Why: fragmentation. 1.890 GiB are reserved but unallocated, in blocks that are too small; 1.600 GiB were requested

        Bytes  Memory in the message
    22.03 GiB  memory of the device
    1.250 GiB  free on the device
    235.5 MiB  in use outside torch, with the CUDA context
    20.78 GiB  in use by this process, with the CUDA context
    20.55 GiB  reserved by torch
    18.66 GiB  allocated
    1.890 GiB  reserved but unallocated

    #  Try, in this order
    1  let segments grow, so that free blocks can be joined
       → export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    2  free what is no longer needed before the large allocation
       → del output, loss; torch.cuda.empty_cache()
    3  give all batches the same shape: pad to a few fixed lengths

    Record the program to see which lines fill the memory: `floodmark run -o train.flood train.py`, then `floodmark oom train.flood`
    Without a GPU: `floodmark estimate --gpu NAME train.py` says whether it fits, `floodmark fit` finds the largest batch
    ");
}

#[test]
fn a_log_shows_every_message() {
    let log = format!(
        "step 1\n[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/job/train.py\", line 31, in forward\n\
         [rank1]: {MESSAGE}\n[rank0]: {MESSAGE}\nRuntimeError: NCCL WARN Cuda failure 'out of memory'\n"
    );
    let folder = Folder::new().with_bytes("job.log", log.as_bytes());
    let shown = folder.stdout("oom job.log");
    let (above, rest) = shown.split_once('\n').unwrap();
    assert_eq!(
        above,
        "Out of memory on cuda:0: 1.600 GiB requested at /job/train.py:31 (forward), on rank 1, log line 4"
    );
    assert!(
        rest.contains(
            "Line  Rank  Count  Requested  Other messages\n   \
             5     0      1  1.600 GiB  fragmentation: torch's caching allocator\n   \
             6            1             library: NCCL\n"
        ),
        "{rest}"
    );
}

#[test]
fn a_message_that_is_cut_off_names_what_is_missing() {
    insta::assert_snapshot!(run_with("CUDA out of memory. Tried to allocate 2.00 GiB. GPU", "oom -"), @"
    exit 0
    Out of memory: 2.000 GiB requested
    Why: unknown. 2.000 GiB were requested; the message has too few figures
    ! the message does not have the free memory of the device, the memory of the device, torch's allocated bytes
    #  Try, in this order
    1  paste the whole message: its figures decide
    2  see what uses the device
       → nvidia-smi
    Record the program to see which lines fill the memory: `floodmark run -o train.flood train.py`, then `floodmark oom train.flood`
    Without a GPU: `floodmark estimate --gpu NAME train.py` says whether it fits, `floodmark fit` finds the largest batch
    ");
}

#[test]
fn a_text_without_a_message_is_an_error() {
    insta::assert_snapshot!(run_with("all is well\n", "oom -"), @"
    exit 1
    error: Failed to explain `-`
      Caused by: no out-of-memory message of torch in 1 line

    hint: paste the whole message, from `CUDA out of memory` on
    ");
    let folder = Folder::new().with_bytes("job.log", b"all\nis\nwell\n");
    insta::assert_snapshot!(folder.run("oom job.log"), @"
    exit 1
    --- stderr
    error: Failed to explain `job.log`
      Caused by: no out-of-memory message of torch in 3 lines

    hint: paste the whole message, from `CUDA out of memory` on
    ");
    insta::assert_snapshot!(run_with(MESSAGE, "oom - --rank 1"), @"
    exit 1
    error: Failed to explain `-`
      Caused by: `--rank` and `--device` are for traces, and this is a text

    hint: leave them out: every message is shown with its rank and device
    ");
}

#[test]
fn the_json_has_the_reason_and_the_remedies() {
    let found = run_with(MESSAGE, "oom - --json");
    for part in [
        "\"reason\": \"fragmentation\"",
        "\"code\": \"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\"",
        "\"requested\": 1717986918",
    ] {
        assert!(found.contains(part), "{found}");
    }
}
