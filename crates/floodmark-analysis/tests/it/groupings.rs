//! What the rows of a report are.

use floodmark_analysis::{At, By, Detail, FrameChoice, Question, Row, report};
use floodmark_trace::Bytes;
use serde_json::{Value, json};

use crate::trace;

const TRAINING: &str = "
    unseen cuda:0 1MiB
    initial old cuda:0 1MiB
    initial w cuda:0 2MiB
    label w parameter layers.0.fc.weight (4,4) float32
    alloc state cuda:0 4MiB at opt.py:1
    label state optimizer-state layers.0.fc.weight.exp_avg
    alloc a cuda:0 1MiB at model.py:1:f > torch/nn.py:5:linear in layers.0.fc op mm
    alloc b cuda:0 3MiB at model.py:1:f > torch/nn.py:5:linear in layers.1.fc op mm
    alloc c cuda:0 2MiB at model.py:1:f > torch/nn.py:5:linear in layers.1 op mm
    alloc n cuda:0 1MiB op add
    alloc l cuda:0 512KiB at train.py:7
    backward alloc g cuda:0 16MiB at model.py:1:f in layers.0.fc op mm
    label g gradient layers.0.fc.weight (4,4) float32";

/// `bytes cumulative median count where`, in KiB.
fn table(by: By, top: Option<usize>) -> String {
    table_of(TRAINING, &Question { by, top, ..Question::default() })
}

fn table_of(script: &str, question: &Question) -> String {
    let report = report(&trace(script), question).unwrap();
    let mut text = format!("{} of {}\n", report.rows.len(), report.total_rows);
    for row in &report.rows {
        let [bytes, cumulative, median] =
            [row.bytes, row.cumulative, row.median].map(|n| n.0 >> 10);
        text += &format!("{bytes} {cumulative} {median} {} {}", row.count, row.location);
        if let Detail::Module { own, depth, class } = &row.detail {
            text += &format!(
                " | own {} depth {depth} {}",
                own.0 >> 10,
                class.as_deref().unwrap_or("-")
            );
        }
        text.push('\n');
    }
    text
}

#[test]
fn a_line_is_the_users_own_and_backward_goes_to_it() {
    insta::assert_snapshot!(table(By::Line, None), @"
    6 of 6
    16384 16384 16384 1 model.py:1 (f) (backward)
    6144 22528 2048 3 model.py:1 (f)
    4096 26624 2048 2 before recording
    4096 30720 4096 1 opt.py:1 (main)
    1024 31744 1024 1 no Python frame: add
    512 32256 512 1 train.py:7 (main)
    ");
}

#[test]
fn a_line_inside_torch_is_reported_on_request() {
    let question = Question { frames: FrameChoice::Native, top: Some(3), ..Question::default() };
    insta::assert_snapshot!(table_of(TRAINING, &question), @"
    3 of 6
    16384 16384 16384 1 model.py:1 (f) (backward)
    6144 22528 2048 3 torch/nn.py:5 (linear)
    4096 26624 2048 2 before recording
    ");
}

/// A torch snapshot has them, between its Python frames.
const NATIVE: &str = "
    alloc a cuda:0 1MiB at train.py:3 > ??:0:_PyEval_EvalFrame > torch/nn.py:5:linear > ??:0:addmm
    alloc b cuda:0 2MiB at train.py:3 > ??:0:slot_tp_call > torch/nn.py:5:linear > ??:0:empty
    alloc c cuda:0 4MiB at ??:0:thread_main > ??:0:empty";

#[test]
fn frames_of_cpp_are_hidden_by_default() {
    let question = Question::default();
    insta::assert_snapshot!(table_of(NATIVE, &question), @"
    2 of 2
    4096 4096 4096 1 no Python frame: thread 0
    3072 7168 2048 2 train.py:3 (main)
    ");
    let question = Question { frames: FrameChoice::Native, ..Question::default() };
    insta::assert_snapshot!(table_of(NATIVE, &question), @"
    2 of 2
    6144 6144 4096 2 ??:0 (empty)
    1024 7168 1024 1 ??:0 (addmm)
    ");
}

#[test]
fn stacks_that_differ_in_frames_of_cpp_are_one_by_default() {
    let frames = |frames| {
        let question = Question { by: By::Stack, frames, ..Question::default() };
        let report = report(&trace(NATIVE), &question).unwrap();
        let of_row = |row: &floodmark_analysis::Row| {
            let Detail::Stack { frames, .. } = &row.detail else { panic!("a report by stack") };
            (row.bytes.0 >> 20, frames.len())
        };
        report.rows.iter().map(of_row).collect::<Vec<_>>()
    };
    assert_eq!(frames(FrameChoice::Program), [(4, 0), (3, 1)]);
    assert_eq!(frames(FrameChoice::Python), [(4, 0), (3, 2)]);
    assert_eq!(frames(FrameChoice::Native), [(4, 2), (2, 4), (1, 4)]);
}

#[test]
fn modules_are_a_tree_with_own_and_inclusive_bytes() {
    insta::assert_snapshot!(table(By::Module, None), @"
    8 of 8
    28672 0 3072 6 Net | own 0 depth 0 -
    28672 0 3072 6 layers | own 0 depth 1 -
    23552 0 4096 4 layers.0 | own 0 depth 2 -
    23552 23552 4096 4 layers.0.fc | own 23552 depth 3 Layer
    5120 25600 3072 2 layers.1 | own 2048 depth 2 Layer
    3072 28672 3072 1 layers.1.fc | own 3072 depth 3 Layer
    2048 30720 1024 1 before recording | own 2048 depth 0 -
    1536 32256 1024 2 (no module) | own 1536 depth 0 -
    ");
}

/// What is inside a module is never shown without it.
#[test]
fn the_largest_modules_are_still_a_tree() {
    insta::assert_snapshot!(table(By::Module, Some(3)), @"
    3 of 8
    28672 0 3072 6 Net | own 0 depth 0 -
    28672 0 3072 6 layers | own 0 depth 1 -
    23552 0 4096 4 layers.0 | own 0 depth 2 -
    ");
}

#[test]
fn stacks_operators_phases_and_categories_have_rows() {
    insta::assert_snapshot!(table(By::Stack, None), @"
    8 of 8
    16384 16384 16384 1 model.py:1 (f) (backward)
    4096 20480 2048 2 before recording
    4096 24576 4096 1 opt.py:1 (main)
    3072 27648 3072 1 model.py:1 (f)
    2048 29696 2048 1 model.py:1 (f)
    1024 30720 1024 1 model.py:1 (f)
    1024 31744 1024 1 no Python frame
    512 32256 512 1 train.py:7 (main)
    ");
    insta::assert_snapshot!(table(By::Op, None), @"
    4 of 4
    22528 22528 3072 4 mm
    4608 27136 4096 2 (operator not recorded)
    4096 31232 2048 2 before recording
    1024 32256 1024 1 add
    ");
    insta::assert_snapshot!(table(By::Phase, None), @"
    4 of 4
    16384 16384 16384 1 backward
    7680 24064 1024 5 forward
    4096 28160 2048 2 before recording
    4096 32256 4096 1 outside
    ");
    insta::assert_snapshot!(table(By::Category, None), @"
    5 of 5
    16384 16384 16384 1 gradient
    7680 24064 1024 5 activation
    4096 28160 4096 1 optimizer state
    2048 30208 2048 1 parameter
    2048 32256 1024 1 unknown
    ");
}

#[test]
fn calls_of_operators_have_what_each_added() {
    let script = "
        initial w cuda:0 2MiB
        alloc a cuda:0 4MiB at model.py:1 in fc call mm
        alloc scratch cuda:0 8MiB at model.py:1 in fc op mm
        free scratch
        alloc b cuda:0 4MiB at model.py:1 in fc call mm
        backward alloc g cuda:0 16MiB at model.py:1 in fc thread 1 call mm
        free a
        step
        alloc c cuda:0 1MiB at model.py:9";
    let question = Question { by: By::OpCall, at: At::End, ..Question::default() };
    let found = report(&trace(script), &question).unwrap();
    let shown = |row: &Row| {
        let Detail::OpCall { call, op, module, step, phase, peak, end, growth, .. } = &row.detail
        else {
            panic!("no call")
        };
        let mib = |bytes: &Option<Bytes>| bytes.map(|bytes| bytes.0 >> 20);
        json!([
            call,
            op,
            module,
            step,
            phase,
            mib(peak),
            mib(end),
            growth.map(|bytes| bytes >> 20),
            row.bytes.0 >> 20,
            row.count,
            row.location,
        ])
    };
    let rows: Vec<Value> = found.rows.iter().map(shown).collect();
    assert_eq!(
        rows,
        [
            // Two blocks of one call; what is freed before the next call counts to it.
            json!([
                2,
                "mm",
                "fc",
                0,
                "backward",
                26,
                22,
                12,
                16,
                1,
                "model.py:1 (main) (backward)"
            ]),
            json!([0, "mm", "fc", 0, "forward", 14, 6, 4, 0, 0, "model.py:1 (main)"]),
            json!([1, "mm", "fc", 0, "forward", 10, 10, 4, 4, 1, "model.py:1 (main)"]),
            json!([3, null, null, 1, "outside", 23, 23, 1, 1, 1, "model.py:9 (main)"]),
            json!([null, null, null, null, null, null, null, null, 2, 1, "before recording"]),
        ]
    );
    let largest = Question { top: Some(2), ..question };
    let largest = report(&trace(script), &largest).unwrap();
    assert_eq!((largest.total_rows, largest.rows.len()), (5, 2));
    assert_eq!(largest.rows[..], found.rows[..2]);
}

#[test]
fn parameters_have_their_gradients_and_states() {
    let question = Question { by: By::Parameter, ..Question::default() };
    let found = report(&trace(TRAINING), &question).unwrap();
    let shown = |row: &Row| {
        let Detail::Parameter { parameter, shape, weight, gradient, optimizer_state, .. } =
            &row.detail
        else {
            panic!("no parameter")
        };
        let parts = [weight, gradient, optimizer_state].map(|bytes| bytes.0 >> 20);
        json!([parameter, shape, parts, row.bytes.0 >> 20, row.location])
    };
    let rows: Vec<Value> = found.rows.iter().map(shown).collect();
    let name = "layers.0.fc.weight";
    assert_eq!(
        rows,
        [
            json!([name, "(4,4)", [2, 16, 4], 22, name]),
            json!([null, null, [0, 0, 0], 9, "(no parameter)"]),
        ]
    );
}

#[test]
fn tensors_have_their_names() {
    insta::assert_snapshot!(table(By::Tensor, Some(6)), @"
    6 of 10
    16384 16384 16384 1 layers.0.fc.weight
    4096 20480 4096 1 layers.0.fc.weight.exp_avg
    3072 23552 3072 1 model.py:1 (f)
    2048 25600 2048 1 layers.0.fc.weight
    2048 27648 2048 1 model.py:1 (f)
    1024 28672 0 0 before recording
    ");
}

#[test]
fn all_callers_of_a_line_are_in_its_row() {
    let script = "alloc a cpu 1KiB at x.py:1 > y.py:3:f
                  alloc b cpu 3KiB at x.py:2 > y.py:3:f
                  alloc c cpu 2KiB at x.py:2 > y.py:3:f";
    insta::assert_snapshot!(table_of(script, &Question::default()), @"
    1 of 1
    6 6 2 3 y.py:3 (f)
    ");
}

fn first_row(by: By) -> Value {
    let question = Question { by, top: Some(1), ..Question::default() };
    let report = serde_json::to_value(report(&trace(TRAINING), &question).unwrap()).unwrap();
    report["rows"][0].clone()
}

#[test]
fn the_json_of_a_row_is_flat() {
    assert_eq!(
        first_row(By::Line),
        json!({"bytes": 16 << 20, "cumulative": 16 << 20, "count": 1, "median": 16 << 20,
               "location": "model.py:1 (f) (backward)", "file": "model.py", "line": 1, "function": "f",
               "module": "layers.0.fc", "backward": true})
    );
    assert_eq!(
        first_row(By::Tensor),
        json!({"bytes": 16 << 20, "cumulative": 16 << 20, "count": 1, "median": 16 << 20,
               "location": "layers.0.fc.weight", "name": "layers.0.fc.weight", "shape": "(4,4)",
               "dtype": "float32", "category": "gradient", "module": "layers.0.fc", "step": null,
               "phase": "backward", "allocated_seconds": 0.012, "saved_seconds": null,
               "last_use_seconds": null, "freed_seconds": null})
    );
    assert_eq!(
        first_row(By::Category)["largest"],
        json!([{"bytes": 16 << 20, "location": "layers.0.fc.weight"}])
    );
    assert_eq!(
        first_row(By::Stack)["frames"],
        json!([{"file": "model.py", "line": 1, "function": "f"},
               {"file": "torch/module.py", "line": 9, "function": "_call_impl"}])
    );
}

#[test]
fn the_json_of_a_report_is_the_contract() {
    let question = Question { top: Some(0), ..Question::default() };
    let report = serde_json::to_value(report(&trace(TRAINING), &question).unwrap()).unwrap();
    assert_eq!(
        report,
        json!({"floodmark": env!("CARGO_PKG_VERSION"), "format": 1, "device": "cuda:0", "by": "line",
               "at": {"what": "peak", "seconds": 0.012, "step": null, "phase": "backward",
                      "module": "layers.0.fc"},
               "allocated": (31 << 20) + (512 << 10), "active": (31 << 20) + (512 << 10),
               "reserved": 32 << 20, "requested": null,
               "losses": [], "total_rows": 6, "rows": []})
    );
}

/// A mode calls the operator in the program's place: one that prints operators, `torch.device` as a context.
#[test]
fn a_line_is_outside_the_modes_that_passed_an_operator_on() {
    const SCRIPT: &str = "
        alloc a cpu 1KiB at train.py:7 > torch/nn.py:5:linear > log.py:3:Log.__torch_dispatch__ > torch/_ops.py:865:__call__
        alloc b cpu 2KiB at train.py:8 > torch/device.py:9:D.__torch_function__
        alloc c cpu 4KiB at train.py:9 > log.py:3:A.__torch_dispatch__ > torch/_ops.py:865:__call__ > log.py:3:B.__torch_dispatch__ > help.py:1:f > torch/_ops.py:865:__call__
        alloc d cpu 8KiB at train.py:10 > torch/_ops.py:865:__call__
        alloc e cpu 16KiB at train.py:11 > log.py:2:Log.__torch_dispatch__
        alloc f cpu 32KiB at torch/_ops.py:865:__call__";
    let question = Question { by: By::Line, ..Question::default() };
    insta::assert_snapshot!(table_of(SCRIPT, &question), @"
    6 of 6
    32 32 32 1 torch/_ops.py:865 (__call__)
    16 48 16 1 log.py:2 (Log.__torch_dispatch__)
    8 56 8 1 train.py:10 (main)
    4 60 4 1 train.py:9 (main)
    2 62 2 1 train.py:8 (main)
    1 63 1 1 train.py:7 (main)
    ");
    let question = Question { frames: FrameChoice::Native, ..question };
    insta::assert_snapshot!(table_of(SCRIPT, &question), @"
    6 of 6
    32 32 32 1 torch/_ops.py:865 (__call__)
    16 48 16 1 log.py:2 (Log.__torch_dispatch__)
    8 56 8 1 train.py:10 (main)
    4 60 4 1 train.py:9 (main)
    2 62 2 1 train.py:8 (main)
    1 63 1 1 torch/nn.py:5 (linear)
    ");
}
