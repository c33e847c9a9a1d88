//! Steps of a program that generates: prefill and decode.

use floodmark_analysis::{Context, StepKind, category, leaks};
use floodmark_trace::{AllocationId, Category, Trace};

use crate::trace;

const CACHE: &str = "gen.py:3 > /site/transformers/cache_utils.py:147:update in Net";

/// The forward of one model with a cache as transformers has it: `update` concatenates, and frees what it replaces.
fn forward(name: &str, before: Option<&str>, kib: u32, tokens: u32) -> String {
    let free = before.map_or_else(String::new, |before| format!("free kv{before}\n"));
    format!(
        "alloc embed{name} cpu {tokens}KiB at gen.py:1 in Net
         alloc kv{name} cpu {kib}KiB at {CACHE}
         {free}
         alloc y{name} cpu 1KiB at gen.py:5 in Net
         free embed{name}
         free y{name}
         alloc token{name} cpu 1KiB at gen.py:9\n"
    )
}

/// A prompt of four tokens, and this many more, in KiB of keys and values.
pub(crate) fn generate(prompt: &str, tokens: u32) -> String {
    let mut script = forward(&format!("{prompt}0"), None, 4, 4);
    for token in 1..=tokens {
        let before = format!("{prompt}{}", token - 1);
        script += &forward(&format!("{prompt}{token}"), Some(&before), 4 + token, 1);
    }
    script
}

fn kinds(trace: &Trace) -> Vec<&'static str> {
    let context = Context::new(trace);
    (0..context.finished_steps())
        .map(|step| context.step_kind(step).map_or("train", StepKind::name))
        .collect()
}

#[test]
fn each_forward_with_a_cache_is_a_step() {
    let trace = trace(&generate("a", 3));
    assert_eq!(kinds(&trace), ["prefill", "decode", "decode", "decode"]);
    let context = Context::new(&trace);
    let caches: Vec<_> = (0_u32..)
        .zip(&trace.allocations)
        .filter(|(at, _)| category(&trace, &context, AllocationId(*at)) == Category::KvCache)
        .map(|(_, allocation)| (context.step(allocation.made_at), allocation.rounded.0 >> 10))
        .collect();
    assert_eq!(caches, [(Some(0), 4), (Some(1), 5), (Some(2), 6), (Some(3), 7)]);
}

#[test]
fn a_second_prompt_is_a_prefill_whether_the_first_cache_is_freed_or_kept() {
    for between in ["free kva2\n", ""] {
        let script = generate("a", 2) + between + &generate("b", 2);
        let expected = ["prefill", "decode", "decode", "prefill", "decode", "decode"];
        assert_eq!(kinds(&trace(&script)), expected, "{between:?}");
    }
}

#[test]
fn a_cache_that_is_allocated_before_is_read_where_fewer_tokens_are_embedded() {
    let mut script =
        String::from("alloc pool cpu 64KiB at serve.py:1 > cache.py:2:allocate_kv_cache\n");
    for (n, tokens) in [8, 1, 1, 6, 1].into_iter().enumerate() {
        script += &format!(
            "alloc embed{n} cpu {tokens}KiB at m.py:1 in Net\nfree embed{n}\nalloc t{n} cpu 1KiB at gen.py:9\n"
        );
    }
    assert_eq!(kinds(&trace(&script)), ["prefill", "decode", "decode", "decode", "decode"]);
}

/// `logits, past = model(ids, past)`: what is replaced is freed by the caller.
fn plain_loop(tokens: u32, increments: impl Fn(u32) -> u32, input: impl Fn(u32) -> u32) -> String {
    let mut script = String::new();
    let mut kept = 16;
    for n in 0..=tokens {
        let line = if n == 0 { 7 } else { 9 };
        kept += increments(n);
        script += &format!(
            "alloc embed{n} cpu {}KiB at m.py:1 in Net
             alloc k{n} cpu {kept}KiB at m.py:{line} in Net
             alloc logits{n} cpu 2KiB at m.py:12 in Net
             free embed{n}\n",
            input(n)
        );
        if n > 0 {
            script += &format!("free k{}\nfree logits{}\n", n - 1, n - 1);
        }
        script += &format!("alloc t{n} cpu 1KiB at gen.py:9\n");
    }
    script
}

#[test]
fn a_cache_without_a_name_is_known_by_its_growth() {
    let trace = trace(&plain_loop(5, |_| 1, |n| if n == 0 { 16 } else { 1 }));
    assert_eq!(kinds(&trace), ["prefill", "decode", "decode", "decode", "decode", "decode"]);
    let found = leaks(&trace, None, None).unwrap();
    assert_eq!(found.kv_cache_per_step.map(|bytes| bytes.0), Some(1024));
}

#[test]
fn tensors_similar_to_a_cache_make_no_steps() {
    let batches = plain_loop(6, |_| 0, |_| 8);
    assert!(kinds(&trace(&batches)).is_empty(), "outputs of equal batches do not grow");
    let boxes = plain_loop(6, |n| n * n % 5, |_| 8);
    assert!(kinds(&trace(&boxes)).is_empty(), "outputs of any size");
    let no_cache = plain_loop(6, |_| 1, |n| 8 + n);
    assert!(kinds(&trace(&no_cache)).is_empty(), "the whole text is read again for each token");
    let evaluation: String = (0..5)
        .map(|n| {
            let free = if n > 0 { format!("free kv{}\n", n - 1) } else { String::new() };
            // The caller replaces the outputs of the last batch, with the cache in them.
            forward(&n.to_string(), None, 4, 4)
                .replace(&format!("alloc token{n}"), &format!("{free}alloc token{n}"))
        })
        .collect();
    assert!(kinds(&trace(&evaluation)).is_empty(), "each batch fills a cache and reads none");
}

#[test]
fn a_program_that_trains_has_the_steps_of_its_optimizer() {
    let train = "alloc h cpu 4KiB at m.py:1 in Net
        backward alloc g cpu 1KiB at m.py:1 in Net
        optimizer begin
        alloc state cpu 1KiB at o.py:1
        optimizer end\n";
    for script in [generate("a", 3) + train, train.to_owned() + &generate("a", 3)] {
        assert_eq!(kinds(&trace(&script)), ["train"], "{script}");
    }
    let script = generate("a", 3) + "step\n" + &generate("b", 3);
    assert_eq!(kinds(&trace(&script)), ["train"]);
    let without_optimizer = generate("a", 3) + "backward alloc g cpu 1KiB at m.py:1 in Net\n";
    assert!(kinds(&trace(&without_optimizer)).is_empty());
}

#[test]
fn parts_of_a_model_that_are_called_one_by_one_are_one_step() {
    let part = |layer: u32, name: &str, before: Option<String>, kib: u32, tokens: u32| {
        let before = before.map(|before| format!("{before}.{layer}"));
        forward(&format!("{name}.{layer}"), before.as_deref(), kib, tokens)
            .replace("in Net", &format!("in layers.{layer}"))
    };
    let mut script = String::new();
    for token in 0..4 {
        for layer in 0..3 {
            let before = (token > 0).then(|| (token - 1).to_string());
            let tokens = if token == 0 { 4 } else { 1 };
            script += &part(layer, &token.to_string(), before, 4 + token, tokens);
        }
    }
    assert_eq!(kinds(&trace(&script)), ["prefill", "decode", "decode", "decode"]);
}

#[test]
fn the_second_of_two_models_has_steps_too() {
    let second = generate("b", 2).replace("in Net", "in other");
    let third = generate("c", 2);
    let script = generate("a", 2) + &second + &third;
    let one = ["prefill", "decode", "decode"];
    assert_eq!(kinds(&trace(&script)), [one, one, one].concat());
}

#[test]
fn leaks_name_the_growth_of_the_cache() {
    let found = leaks(&trace(&generate("a", 6)), None, None).unwrap();
    assert_eq!(found.kv_cache_per_step.map(|bytes| bytes.0), Some(1024));
    // The tokens that are kept are another line.
    assert_eq!(found.rows.len(), 2);
}
