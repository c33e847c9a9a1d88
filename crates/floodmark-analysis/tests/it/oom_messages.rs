//! Out-of-memory messages: public ones, with reasons that a person chose before the rules existed, logs around them,
//! and other texts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

use floodmark_analysis::{OomLogReader, OomMessage, OomMessageReason, OomReason, explain_oom};
use floodmark_trace::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

const FULL: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.60 GiB. GPU 0 has a total capacity of \
    22.03 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this process has 20.78 GiB memory in use. Of the \
    allocated memory 18.66 GiB is allocated by PyTorch, and 1.89 GiB is reserved by PyTorch but unallocated. If reserved \
    but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";

fn public_messages() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/oom_messages/messages.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn only(text: &str) -> OomMessage {
    let mut found = explain_oom(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(found.messages.len(), 1, "{text}: {found:#?}");
    found.messages.remove(0)
}

fn mib(bytes: Option<Bytes>) -> Option<u64> {
    bytes.map(|bytes| bytes.0 >> 20)
}

#[test]
#[expect(clippy::print_stdout, reason = "the table is the result")]
fn public_messages_have_the_reason_that_a_reader_gave_them() {
    let all = public_messages();
    assert!(all.len() >= 60);
    let mut table: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut wrong = String::new();
    let mut right = 0;
    for one in &all {
        let text = one["message"].as_str().unwrap();
        let expected = one["reason"].as_str().unwrap();
        let found = explain_oom(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let found = json!(found.cause().unwrap().reason);
        let column = if found == expected {
            0
        } else if found == "unknown" {
            2
        } else {
            1
        };
        right += usize::from(column == 0);
        table.entry(expected.to_owned()).or_default()[column] += 1;
        if column > 0 {
            writeln!(wrong, "{}: {found}, not {expected} ({})", one["source"], one["because"])
                .unwrap();
        }
    }
    let mut shown = "reason          right  wrong  unknown\n".to_owned();
    for (reason, [right, wrong, unknown]) in &table {
        writeln!(shown, "{reason:15} {right:5}  {wrong:5}  {unknown:7}").unwrap();
    }
    println!("{shown}{wrong}");
    assert!(right * 100 >= all.len() * 95, "{right} of {} are right\n{shown}{wrong}", all.len());
    insta::assert_snapshot!(shown + &wrong, @"
    reason          right  wrong  unknown
    capacity           39      0        0
    fragmentation      17      0        0
    host_memory         8      0        0
    huge_request        5      0        0
    library            10      0        0
    limit               6      0        0
    outside_torch      11      0        0
    refused             8      0        0
    unknown             3      0        0
    ");
}

#[test]
fn every_public_message_has_a_source_and_something_to_try() {
    for one in public_messages() {
        let source = one["source"].as_str().unwrap();
        assert!(source.starts_with("https://") || source.starts_with("GitHub file"), "{source}");
        assert!(!one["because"].as_str().unwrap().is_empty());
        for message in explain_oom(one["message"].as_str().unwrap()).unwrap().messages {
            assert!(!message.remedies.is_empty() && !message.finding.is_empty(), "{message:#?}");
            assert_eq!(message.reason == OomMessageReason::Unknown, !message.missing.is_empty());
        }
    }
}

#[test]
fn a_message_has_its_figures() {
    let found = only(FULL);
    let figures = [
        found.requested,
        found.total,
        found.device_free,
        found.allocated,
        found.free,
        found.reserved,
    ];
    assert_eq!(figures.map(|bytes| mib(bytes).unwrap()), [1638, 22558, 1280, 19107, 1935, 21043]);
    assert_eq!(mib(found.this_process), Some(21278));
    assert_eq!(found.device.unwrap().to_string(), "cuda:0");
    assert_eq!(
        found.remedies[0].code.as_deref(),
        Some("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
    );
}

#[test]
fn the_reasons_of_a_trace_have_the_same_words() {
    for (message, trace) in [
        (OomMessageReason::Capacity, OomReason::Capacity),
        (OomMessageReason::Fragmentation, OomReason::Fragmentation),
        (OomMessageReason::OtherPool, OomReason::OtherPool),
        (OomMessageReason::OutsideTorch, OomReason::OutsideTorch),
    ] {
        assert_eq!(json!(message), json!(trace));
    }
}

#[test]
fn memory_of_cuda_graphs_is_another_pool() {
    let text = FULL.replace(
        "PyTorch, and",
        "PyTorch, with 2.00 GiB allocated in private pools (e.g., CUDA Graphs), and",
    );
    assert_eq!(only(&text).reason, OomMessageReason::OtherPool);
}

#[test]
fn a_message_in_a_log_has_its_line_rank_and_frame() {
    let log = format!(
        "\u{1b}[32mINFO\u{1b}[0m start\r\n\
         train:  10%|█         | 1/10\rtrain:  20%|██        | 2/10\n\
         [rank3]: Traceback (most recent call last):\n\
         [rank3]:   File \"/home/me/train.py\", line 31, in forward\n\
         [rank3]:     return self.fc(x)\n\
         [rank3]:   File \"/venv/lib/torch/nn/modules/linear.py\", line 116, in forward\n\
         [rank3]: \u{1b}[31m{FULL}\u{1b}[0m\n\
         train:  30%|███       | 3/10\n"
    );
    let found = only(&log);
    assert_eq!((found.line, found.rank, found.count), (7, Some(3), 1));
    assert_eq!(found.frame.as_ref().unwrap().to_string(), "/home/me/train.py:31 (forward)");
    assert_eq!(found.reason, OomMessageReason::Fragmentation);
}

#[test]
fn a_wrapped_message_reads_the_same() {
    let one = only(FULL);
    for width in [7, 20, 80] {
        let letters: Vec<char> = FULL.chars().collect();
        let lines: Vec<String> = letters.chunks(width).map(|line| line.iter().collect()).collect();
        for text in [lines.join("\n"), lines.join("\r\n"), format!("> {}", lines.join("\n> "))] {
            let wrapped = only(&text);
            assert_eq!(
                (wrapped.reason, wrapped.finding),
                (one.reason, one.finding.clone()),
                "{text}"
            );
        }
    }
}

#[test]
fn several_messages_are_counted_and_the_cause_is_named() {
    let library = "RuntimeError: CUDA error: out of memory";
    let log = format!(
        "{library}\n{FULL}\n{FULL}\n[rank1]: {FULL}\n{}",
        FULL.replace("1.60 GiB", "1.61 GiB")
    );
    let found = explain_oom(&log).unwrap();
    let counts: Vec<_> = found.messages.iter().map(|one| (one.line, one.rank, one.count)).collect();
    assert_eq!(counts, [(1, None, 1), (2, None, 2), (4, Some(1), 1), (5, None, 1)]);
    assert_eq!((found.cause, found.lines), (1, 5));
}

#[test]
fn other_texts_that_name_memory_are_no_messages() {
    for text in [
        "",
        "hello",
        "raise RuntimeError(f\"Tried to allocate {size}\")",
        "tried to allocate a port",
        "the worker is killed by signal: Terminated",
        "If you run out of memory, use a smaller batch",
    ] {
        assert!(explain_oom(text).is_err(), "{text}");
    }
    assert_eq!(explain_oom("a\nb\n").unwrap_err().lines, 2);
}

#[test]
fn figures_unknown_to_torch_are_none() {
    let found = only(&FULL.replace("20.78 GiB", "17179869184.00 GiB"));
    assert_eq!(found.this_process, None);
}

/// 100 MB in memory of one line: the reader keeps a window.
#[test]
#[expect(clippy::print_stdout, reason = "the time is a measurement, not a limit")]
fn a_long_log_is_read_in_parts() {
    let line =
        format!("{}\n", "step 12 loss 0.123 tokens/s 1234.5 allocated 12.3 GiB | ".repeat(4));
    let part = line.repeat(4096);
    let mut reader = OomLogReader::new();
    let mut read = 0;
    let began = Instant::now();
    while read < 100 << 20 {
        reader.push(part.as_bytes());
        read += part.len();
    }
    reader.push(FULL.as_bytes());
    let found = reader.finish().unwrap();
    println!("{} MB in {:.1} s", read >> 20, began.elapsed().as_secs_f64());
    assert_eq!(found.messages.len(), 1);
    assert_eq!(found.messages[0].line, found.lines);
}

#[test]
fn a_line_without_an_end_is_read_in_parts() {
    let mut reader = OomLogReader::new();
    for _ in 0..100 {
        reader.push("x".repeat(100_000).as_bytes());
    }
    reader.push(FULL.as_bytes());
    reader.push("x".repeat(100_000).as_bytes());
    assert_eq!(reader.finish().unwrap().messages[0].reason, OomMessageReason::Fragmentation);
}

/// Cut anywhere, a message gives what it still has: a reason, or the figures that are missing.
#[test]
fn a_truncated_message_gives_a_partial_answer() {
    let begin = FULL.find("GiB. GPU").unwrap() + 3;
    let mut reasons = Vec::new();
    for end in begin..=FULL.len() {
        let found = only(&FULL[..end]);
        assert_eq!(mib(found.requested), Some(1638), "{}", &FULL[..end]);
        if reasons.last() != Some(&found.reason) {
            reasons.push(found.reason);
        }
    }
    assert_eq!(reasons, [OomMessageReason::Unknown, OomMessageReason::Fragmentation]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_text_is_read(text in "\\PC{0,300}", bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = explain_oom(&text);
        let mut reader = OomLogReader::new();
        reader.push(&bytes);
        let _ = reader.finish();
    }

    #[test]
    fn a_damaged_message_is_read(at in 0..FULL.len(), with in "\\PC{0,9}", length in 0_usize..40) {
        let end = (at + length).min(FULL.len());
        let _ = explain_oom(&format!("{}{with}{}", &FULL[..at], &FULL[end..]));
    }

    #[test]
    fn parts_read_the_same_as_the_whole(cuts in proptest::collection::vec(0..FULL.len(), 0..6)) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut reader = OomLogReader::new();
        let mut start = 0;
        for cut in cuts {
            reader.push(&FULL.as_bytes()[start..cut]);
            start = cut;
        }
        reader.push(&FULL.as_bytes()[start..]);
        prop_assert_eq!(reader.finish(), explain_oom(FULL));
    }
}
