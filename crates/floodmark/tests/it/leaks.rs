//! `floodmark leaks`.

use crate::program::Folder;

/// Steps with an activation each, and what `more` adds to step `n`.
fn steps(count: u32, more: impl Fn(u32) -> String) -> String {
    let mut script = String::from("initial w cuda:0 8MiB\n");
    for n in 0..count {
        script += &format!("alloc h{n} cuda:0 4MiB at model.py:10:forward in fc\n");
        script += &format!("backward alloc g{n} cuda:0 2MiB at model.py:10:forward in fc\n");
        script += &format!("free h{n}\nfree g{n}\n{}\noptimizer begin\noptimizer end\n", more(n));
    }
    script
}

fn leaking() -> Folder {
    let script = steps(6, |n| {
        let deep: String =
            (1..7).fold(String::new(), |deep, at| deep + &format!(" > log.py:{at}:f{at}"));
        format!(
            "alloc k{n} cuda:0 1MiB at train.py:9{deep} > torch/cat.py:3:cat
             alloc p{n} cuda:0 3MiB at model.py:12:forward in fc"
        )
    });
    Folder::new().with("x.flood", &script)
}

#[test]
fn lines_that_hold_more_from_step_to_step_are_shown() {
    let folder = leaking();
    insta::assert_snapshot!(folder.run("leaks x.flood"), @"
    exit 0
    --- stdout
    2 lines on cuda:0 grow from step to step; all lines together, in 5 steps after the first: +20.00 MiB
     Per step     Growth   Live now  Blocks   Since  Grew in  Category  Location, and the newest stack
    3.000 MiB  15.00 MiB  18.00 MiB      +5  step 1   5 of 5  unknown   model.py:12 (forward)
                                                                          in module fc
                                                                          torch/module.py:9 (_call_impl)
    1.000 MiB  5.000 MiB  6.000 MiB      +5  step 1   5 of 5  unknown   log.py:6 (f6)
                                                                          torch/cat.py:3 (cat)
                                                                          log.py:6 (f6)
                                                                          log.py:5 (f5)
                                                                          log.py:4 (f4)
                                                                          log.py:3 (f3)
                                                                          log.py:2 (f2)
                                                                          … and 2 more frames
    ");
    insta::assert_snapshot!(folder.run("leaks x.flood --top 1"), @"
    exit 0
    --- stdout
    2 lines on cuda:0 grow from step to step; all lines together, in 5 steps after the first: +20.00 MiB
     Per step     Growth   Live now  Blocks   Since  Grew in  Category  Location, and the newest stack
    3.000 MiB  15.00 MiB  18.00 MiB      +5  step 1   5 of 5  unknown   model.py:12 (forward)
                                                                          in module fc
                                                                          torch/module.py:9 (_call_impl)
    … and 1 more row
    ");
    insta::assert_snapshot!(folder.stdout("leaks x.flood --top 1 --json"), @r#"
    {
      "floodmark": "0.1.0",
      "format": 1,
      "device": "cuda:0",
      "steps": 5,
      "growth": 20971520,
      "kv_cache_per_step": null,
      "losses": [],
      "total_rows": 2,
      "rows": [
        {
          "bytes_per_step": 3145728,
          "growth": 15728640,
          "bytes": 18874368,
          "count": 5,
          "since": 1,
          "steps": 5,
          "grew": 5,
          "category": "unknown",
          "location": "model.py:12 (forward)",
          "file": "model.py",
          "line": 12,
          "function": "forward",
          "module": "fc",
          "backward": false,
          "frames": [
            {
              "file": "model.py",
              "line": 12,
              "function": "forward"
            },
            {
              "file": "torch/module.py",
              "line": 9,
              "function": "_call_impl"
            }
          ]
        }
      ]
    }
    "#);
}

#[test]
fn a_program_that_frees_its_allocations_has_no_suspects() {
    let folder = Folder::new().with("x.flood", &steps(6, |_| String::new()));
    insta::assert_snapshot!(folder.run("leaks x.flood"), @"
    exit 0
    --- stdout
    No leak found: no line on cuda:0 grows from step to step; all lines together, in 5 steps after the first: 0 B
    ");
    let once = steps(6, |n| {
        if n == 3 { "alloc k cuda:0 1MiB at train.py:9".to_owned() } else { String::new() }
    });
    let folder = Folder::new().with("x.flood", &once);
    insta::assert_snapshot!(folder.run("leaks x.flood"), @"
    exit 0
    --- stdout
    No leak found: no line on cuda:0 grows from step to step; all lines together, in 5 steps after the first: +1.000 MiB
    ");
}

#[test]
fn an_unanswerable_question_is_an_error() {
    let folder = Folder::new().with("x.flood", &steps(3, |_| String::new()));
    insta::assert_snapshot!(folder.run("leaks x.flood"), @"
    exit 1
    --- stderr
    error: Failed to look for leaks in `x.flood`
      Caused by: finished steps in this trace: 3; at least 4 are needed to show growth

    hint: record more steps; without an optimizer, call `floodmark.step()` after each
    ");
    insta::assert_snapshot!(leaking().run("leaks x.flood --device cpu"), @"
    exit 1
    --- stderr
    error: Failed to look for leaks in `x.flood`
      Caused by: nothing was recorded on cpu; the trace has cuda:0

    hint: choose one of them with `--device`
    ");
}
