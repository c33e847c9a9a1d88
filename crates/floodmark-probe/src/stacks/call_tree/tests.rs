//! Numbers of stacks and modules, without an interpreter.

use super::*;
use crate::stacks::{innermost, keep_common};

#[derive(Debug, Default)]
struct Defined(Vec<Definition<String>>);

impl DefinitionWriter for Defined {
    fn define(&mut self, definition: &Definition<&str>) {
        let (record, payload) = definition.to_record();
        self.0.extend(Definition::from_record(&record, &payload));
    }
}

fn contents(file: &str, name: &str) -> CodeContents {
    let (file, name) = (file.to_owned(), name.to_owned());
    CodeContents { file, name, first_line: 1, line_table: Vec::new() }
}

fn role(file: &str, name: &str) -> CodeRole {
    let own = ["/site/floodmark/", "/site/floodmark_compat/"].map(str::to_owned).to_vec();
    let folders = LibraryFolders { own, torch: Some("/site/torch/".to_owned()) };
    CodeRole::of_code(&contents(file, name), &folders)
}

fn tree(limit: u64) -> CallTree {
    CallTree::new(Arc::new(Budget::new(limit)))
}

/// A code object that is pinned.
fn pin(tree: &mut CallTree, addr: usize, role: Role) -> RawFrame {
    let id = u32::try_from(tree.codes.len() + 1).unwrap();
    let role = CodeRole { role, is_library: role == Role::ModuleCall };
    let known = KnownCode { id, role, is_pinned: true, is_unpinnable: false, contents: None };
    tree.codes.insert(addr, known);
    RawFrame { code: addr, instruction: 0, first_local: 0 }
}

fn stack(tree: &mut CallTree, frames: &[RawFrame], out: &mut Defined) -> Vec<SeenFrame> {
    let mut seen = Vec::new();
    tree.extend(frames, &mut seen, &mut Shortcuts::default(), 1, out);
    seen
}

#[test]
fn functions_that_matter_are_known_by_file_and_name() {
    let module = role("/site/torch/nn/modules/module.py", "Module._wrapped_call_impl");
    assert_eq!((module.role, module.is_library), (Role::ModuleCall, true));
    let step =
        role("/site/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper");
    assert_eq!(step.role, Role::Optimizer);
    let engine = role("/site/torch/autograd/graph.py", "_engine_run_backward");
    assert_eq!(engine.role, Role::Engine);
    for ours in ["/site/floodmark/recording.py", "/site/floodmark_compat/gpu_optimizer.py"] {
        assert_eq!(role(ours, "start").role, Role::Recorder);
    }
    let other = role("/site/floodmark_tools/train.py", "start");
    assert_eq!((other.role, other.is_library), (Role::Plain, false));
    let import = role("<frozen importlib._bootstrap>", "_find_and_load");
    assert_eq!((import.role, import.is_library), (Role::Plain, true));
    assert!(role("/usr/lib/python3.12/copy.py", "deepcopy").is_library);
    let user = role("/home/me/train.py", "wrapper");
    assert_eq!((user.role, user.is_library), (Role::Plain, false));
}

#[test]
fn the_same_stack_has_the_same_number() {
    let (mut tree, mut out) = (tree(64 << 20), Defined::default());
    let [main, forward] = [0x1000, 0x2000].map(|addr| pin(&mut tree, addr, Role::Plain));
    let first = innermost(&stack(&mut tree, &[forward, main], &mut out)).0;
    let second = innermost(&stack(&mut tree, &[forward, main], &mut out)).0;
    let outer = innermost(&stack(&mut tree, &[main], &mut out)).0;
    assert_eq!((first, outer.id), (second, 1));
    let node =
        |id, parent, code| Definition::Stack { id, parent, code, line: 0, module: 0, flags: 0 };
    assert_eq!(out.0, [node(1, 0, 1), node(2, 1, 2)], "a node is defined once");
}

#[test]
fn frames_of_the_recorder_are_no_part_of_a_stack() {
    let (mut tree, mut out) = (tree(64 << 20), Defined::default());
    let main = pin(&mut tree, 0x1000, Role::Plain);
    let ours = pin(&mut tree, 0x2000, Role::Recorder);
    let seen = stack(&mut tree, &[ours, main], &mut out);
    assert_eq!(innermost(&seen).0, Node { id: 1, flags: 0 });
}

#[test]
fn a_frame_that_cannot_be_read_is_left_out_and_looked_up_again() {
    let (mut tree, mut out) = (tree(64 << 20), Defined::default());
    let main = pin(&mut tree, 0x1000, Role::Plain);
    // Without an interpreter, the contents of this one are unknown.
    let unknown = RawFrame { code: 0x3000, instruction: 0, first_local: 0 };
    let mut seen = stack(&mut tree, &[unknown, main], &mut out);
    let (node, ..) = innermost(&seen);
    assert!(node.is_incomplete() && node.id == 1 && tree.needs_gil_work);
    keep_common(&[unknown, main], &mut seen);
    assert_eq!(seen.len(), 1, "the frame of unknown code is not trusted");
}

#[test]
fn a_spent_share_leaves_frames_out() {
    // A quarter is for tables: room for one node.
    let (mut tree, mut out) = (tree(4 * 120), Defined::default());
    let [main, forward] = [0x1000, 0x2000].map(|addr| pin(&mut tree, addr, Role::Plain));
    let seen = stack(&mut tree, &[forward, main], &mut out);
    assert!(!seen[0].node.is_incomplete() && seen[1].node.is_incomplete());
    assert_eq!(seen[1].node.id, 1, "the caller stands for it");
}

#[test]
fn frames_inside_the_engine_are_distinguished_from_its_callers() {
    let (mut tree, mut out) = (tree(64 << 20), Defined::default());
    let main = pin(&mut tree, 0x1000, Role::Plain);
    let engine = pin(&mut tree, 0x2000, Role::Engine);
    let hook = pin(&mut tree, 0x3000, Role::Plain);
    let outside = stack(&mut tree, &[main], &mut out);
    let (_, inside, has_engine) = innermost(&outside);
    assert_eq!(
        (inside.len(), has_engine),
        (1, false),
        "a thread of the engine has no other frames"
    );
    let seen = stack(&mut tree, &[hook, engine, main], &mut out);
    let (_, inside, has_engine) = innermost(&seen);
    assert_eq!((inside.len(), has_engine), (1, true));
    let forward = Node { id: 1, flags: 0 };
    let node = tree.below(forward, inside, &mut out);
    assert_eq!(node.flags & stack_flags::BACKWARD, stack_flags::BACKWARD);
    let Some(Definition::Stack { id, parent, .. }) = out.0.last() else { panic!("a node") };
    assert_eq!((node.id, 1), (*id, *parent), "below the forward stack");
}

#[test]
fn a_thread_keeps_the_frames_that_are_the_same() {
    let (mut tree, mut out) = (tree(64 << 20), Defined::default());
    let [main, one, other] = [0x1000, 0x2000, 0x3000].map(|at| pin(&mut tree, at, Role::Plain));
    let mut seen = stack(&mut tree, &[one, main], &mut out);
    keep_common(&[other, main], &mut seen);
    assert_eq!(seen.len(), 1);
    let moved = RawFrame { instruction: 8, ..main };
    keep_common(&[moved], &mut seen);
    assert_eq!(seen.len(), 0, "the caller is at another instruction");
}

/// An object with its class, as Python lays them out.
fn object(class_name: &'static std::ffi::CStr) -> usize {
    let class = Box::leak(Box::new([0, 0, 0, class_name.as_ptr() as usize]));
    Box::leak(Box::new([1, class.as_ptr() as usize])).as_ptr() as usize
}

#[test]
fn a_module_has_the_number_that_it_was_first_seen_with() {
    let (mut tree, mut out) = (tree(64 << 20), Defined::default());
    let call = pin(&mut tree, 0x1000, Role::ModuleCall);
    let (net, layer) = (object(c"train.Net"), object(c"torch.nn.Linear"));
    let frames = [net, layer].map(|first_local| RawFrame { first_local, ..call });
    let seen = stack(&mut tree, &[frames[1], frames[0]], &mut out);
    assert!(seen.iter().all(|frame| !frame.is_stable()) && tree.needs_gil_work);
    let named =
        [(net, String::new(), "Net".to_owned()), (layer, "fc".to_owned(), "Linear".to_owned())];
    let before = EPOCH.load(Ordering::Acquire);
    tree.name_modules(net, &named, &mut out);
    assert!(EPOCH.load(Ordering::Acquire) > before, "threads look modules up again");
    let is_module = |one: &&Definition<_>| matches!(one, Definition::Module { .. });
    let rows: Vec<_> = out.0.iter().filter(is_module).cloned().collect();
    let row = |id, root, class: &str, name: &str| Definition::Module {
        id,
        root,
        class: class.to_owned(),
        name: name.to_owned(),
    };
    let expected = [
        row(1, 0, "Net", ""),
        row(2, 0, "Linear", ""),
        row(1, 1, "Net", ""),
        row(2, 1, "Linear", "fc"),
    ];
    assert_eq!(rows, expected);
    let seen = stack(&mut tree, &frames[..1], &mut out);
    assert!(seen[0].is_stable());
    // A name is defined once, however often the model is walked.
    let defined = out.0.len();
    tree.name_modules(net, &named, &mut out);
    assert_eq!(out.0.len(), defined);
    tree.forget_module(net);
    assert!(!stack(&mut tree, &frames[..1], &mut out)[0].is_stable());
}
