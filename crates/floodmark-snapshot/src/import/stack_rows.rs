//! The call stacks as rows, with the modules, optimizers and the backward pass that their frames show.
//!
//! A snapshot has functions and lines, no objects. A `forward` below `nn.Module._call_impl` belongs to a module. The module's
//! name is its class, if the frame has a qualified name, or else its file, with the line that calls it: `BertLayer
//! (modeling_bert:669)`, `linear (modeling_bert:109)`. A file has no `.py` there, because a dot separates modules. Modules that
//! one line of a loop calls are one module.
//!
//! By default torch records C++ frames too, between the Python frames. They are kept and marked as native, and nothing is
//! derived from them, except from the frames of autograd's engine.

use floodmark_trace::{Batch, CodeRow, ModuleRow, StackRow, is_python_library, stack_flags};
use hashbrown::HashMap;

use crate::contents::call_tree::{CallTree, Frame};
use crate::contents::strings::Strings;
use crate::format::known_strings::StringId;

/// A module at a greater depth is counted as its parent.
const MOST_MODULES_DEEP: u32 = 48;
/// The bound on the number of modules.
const MOST_MODULES: u32 = 1 << 16;

/// The rows of all stacks, and whether each ran in the backward pass.
#[derive(Debug, Default)]
pub(crate) struct StackRows {
    pub(crate) batch: Batch,
    /// For each stack: whether it ran in the backward pass.
    pub(crate) is_backward: Vec<bool>,
}

/// What a frame shows without its callers.
#[derive(Debug, Clone, Copy, Default)]
struct FrameFacts {
    code: u32,
    /// The [`stack_flags`] of a stack that ends in this frame.
    flags: u8,
    /// `_call_impl` or `_wrapped_call_impl`.
    calls_module: bool,
    is_forward: bool,
    is_backward: bool,
}

#[derive(Debug, Clone, Default)]
struct Module {
    depth: u32,
    root: u32,
    name: String,
}

#[derive(Debug, Default)]
struct Modules {
    all: Vec<Module>,
    known: HashMap<(u32, StringId, StringId, u32, u32), u32>,
    rows: Vec<ModuleRow>,
}

/// What a stack shows beside its row.
#[derive(Debug, Clone, Copy, Default)]
struct StackFacts {
    flags: u8,
    /// The innermost module.
    module: u32,
    /// Code and line of the innermost frame that is neither native nor part of `Module.__call__`.
    caller: (u32, u32),
    /// Whether a module was called whose `forward` has no frame yet. Decorators may have frames in between.
    awaits_forward: bool,
}

/// The rows of all stacks.
pub(crate) fn stack_rows(tree: &CallTree, strings: &Strings) -> StackRows {
    let mut codes = Codes::default();
    let frame_facts: Vec<FrameFacts> =
        tree.frames.iter().map(|frame| codes.add_frame(frame, strings)).collect();
    let mut modules = Modules { all: vec![Module::default()], ..Modules::default() };
    let mut stacks: Vec<StackRow> = Vec::with_capacity(tree.nodes.len());
    // A caller comes before the functions that it calls.
    let mut facts = vec![StackFacts::default()];
    let mut is_backward = vec![false];
    for (id, node) in (1..).zip(tree.nodes.iter().skip(1)) {
        let parent_facts = facts[node.parent as usize];
        let (frame, own) = (tree.frames[node.frame as usize], frame_facts[node.frame as usize]);
        let module = if parent_facts.awaits_forward && own.is_forward {
            let at = (parent_facts.caller.0 as usize).checked_sub(1);
            let file = at.and_then(|at| codes.rows.get(at)).map_or("", |code| &code.file);
            modules.add_module(parent_facts.module, &frame, parent_facts.caller, file, strings)
        } else {
            0
        };
        let is_native = own.flags & stack_flags::NATIVE != 0;
        let awaits_forward = own.calls_module || parent_facts.awaits_forward && !own.is_forward;
        let inherited = parent_facts.flags & !(stack_flags::LIBRARY | stack_flags::NATIVE);
        let flags = inherited | own.flags | flag(module != 0, stack_flags::MODULE);
        let (parent, code, line) = (node.parent, own.code, frame.line);
        stacks.push(StackRow { id, parent, code, line, module, flags });
        facts.push(StackFacts {
            flags,
            module: if module == 0 { parent_facts.module } else { module },
            caller: if awaits_forward || is_native { parent_facts.caller } else { (code, line) },
            awaits_forward,
        });
        is_backward.push(is_backward[node.parent as usize] || own.is_backward);
    }
    let batch = Batch { stacks, codes: codes.rows, modules: modules.rows, ..Batch::default() };
    StackRows { batch, is_backward }
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

impl Modules {
    /// The module whose `forward` is this frame, called from this line of the module `parent`.
    fn add_module(
        &mut self,
        parent: u32,
        forward: &Frame,
        (code, line): (u32, u32),
        caller: &str,
        strings: &Strings,
    ) -> u32 {
        let key = (parent, forward.file, forward.name, code, line);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let Ok(id) = u32::try_from(self.all.len()) else { return 0 };
        let outer = self.all[parent as usize].clone();
        if outer.depth >= MOST_MODULES_DEEP || id > MOST_MODULES {
            return 0;
        }
        let (file, function) = (strings.get(forward.file), strings.get(forward.name));
        let class = class_of(function).unwrap_or_else(|| stem(file)).to_owned();
        let own = format!("{class} ({}:{line})", stem(caller));
        let (root, name) = match (parent, outer.name.is_empty()) {
            (0, _) => (id, String::new()),
            (_, true) => (outer.root, own),
            (_, false) => (outer.root, format!("{}.{own}", outer.name)),
        };
        self.all.push(Module { depth: outer.depth + 1, root, name: name.clone() });
        self.rows.push(ModuleRow { id, root, class, name });
        self.known.insert(key, id);
        id
    }
}

#[derive(Debug, Default)]
struct Codes {
    rows: Vec<CodeRow>,
    known: HashMap<(StringId, StringId), u32>,
}

impl Codes {
    fn add_frame(&mut self, frame: &Frame, strings: &Strings) -> FrameFacts {
        let (file, name) = (strings.get(frame.file), strings.get(frame.name));
        let next = u32::try_from(self.rows.len() + 1).unwrap_or(0);
        let code = *self.known.entry((frame.file, frame.name)).or_insert_with(|| {
            let (file, name) = (file.to_owned(), name.to_owned());
            self.rows.push(CodeRow { id: next, first_line: 0, file, name });
            next
        });
        let is_native = is_native(file, name);
        let in_torch = if is_native { None } else { in_torch(file) };
        let is_library = in_torch.is_some() || is_native || is_python_library(file);
        let is_optimizer =
            name == "step" && in_torch.is_some_and(|file| file.starts_with("optim/"));
        let flags = flag(is_library, stack_flags::LIBRARY)
            | flag(is_native, stack_flags::NATIVE)
            | flag(is_optimizer, stack_flags::OPTIMIZER);
        FrameFacts {
            code,
            flags,
            calls_module: in_torch == Some("nn/modules/module.py")
                && matches!(name, "_call_impl" | "_wrapped_call_impl" | "inner"),
            is_forward: !is_native && (name == "forward" || name.ends_with(".forward")),
            is_backward: is_backward(in_torch, name),
        }
    }
}

fn is_backward(in_torch: Option<&str>, name: &str) -> bool {
    match in_torch {
        Some("_tensor.py") => name == "backward",
        Some(file) if file.starts_with("autograd/") => {
            matches!(name, "_engine_run_backward" | "backward" | "grad")
        }
        // The frames of the engine, if torch recorded C++ frames.
        _ => {
            name.contains("autograd::Engine::") || name.contains("autograd::python::PythonEngine::")
        }
    }
}

/// The path of a file of torch below the package `torch`; `None` for other files.
fn in_torch(file: &str) -> Option<&str> {
    const PARTS: [&str; 8] =
        ["nn/", "optim/", "autograd/", "utils/", "_", "cuda/", "amp/", "distributed/"];
    if let Some((_, inside)) = file.split_once("-packages/torch/") {
        return Some(inside);
    }
    let inside = match file.rsplit_once("/torch/") {
        Some((_, inside)) => inside,
        None => file.strip_prefix("torch/")?,
    };
    PARTS.iter().any(|part| inside.starts_with(part)).then_some(inside)
}

/// Whether a frame is one of C or C++. Its file is a source file, `??` or empty, or, if torch's symbolizer reads no debug
/// information, a shared object or a program.
fn is_native(file: &str, name: &str) -> bool {
    const SOURCES: [&str; 12] =
        ["c", "cc", "cpp", "cxx", "cu", "cuh", "h", "hh", "hpp", "inl", "rs", "S"];
    let last = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let extension = last.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_version = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    file.is_empty()
        || file == "??"
        || SOURCES.contains(&extension)
        || matches!(extension, "so" | "dylib" | "dll")
        || last.contains(".so.")
        || last.strip_prefix("python").is_some_and(is_version)
        || name.contains("::")
        || name.contains('(')
}

/// `BertLayer` of `BertLayer.forward`, also of a class inside a function.
fn class_of(function: &str) -> Option<&str> {
    let class = function.strip_suffix(".forward")?;
    class.rsplit('.').next().filter(|class| !class.is_empty())
}

/// `linear` of `torch/nn/modules/linear.py`.
fn stem(file: &str) -> &str {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    if stem.is_empty() { "?" } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_torch_are_recognized() {
        let inside = "/opt/lib/python3.12/site-packages/torch/nn/modules/linear.py";
        assert_eq!(in_torch(inside), Some("nn/modules/linear.py"));
        assert_eq!(in_torch("/src/pytorch/torch/_tensor.py"), Some("_tensor.py"));
        assert_eq!(in_torch("torch/optim/adam.py"), Some("optim/adam.py"));
        assert_eq!(in_torch("/home/me/torch/train.py"), None);
        assert_eq!(stem(inside), "linear");
        assert_eq!(stem(""), "?");
        assert_eq!(class_of("make.<locals>.BertLayer.forward"), Some("BertLayer"));
        assert_eq!((class_of("forward"), class_of(".forward")), (None, None));
    }

    #[test]
    fn frames_of_cpp_are_recognized() {
        let native = [
            ("??", "c10::cuda::CUDACachingAllocator::raw_alloc(unsigned long)"),
            ("", "torch::autograd::PyNode::apply(std::vector<at::Tensor>&&)"),
            ("python_function.cpp", "(anonymous namespace)::THPFunction_apply(_object*, _object*)"),
            ("/build/Python-3.11.7/./Include/internal/pycore_ceval.h", "_PyEval_EvalFrame"),
            ("./csu/../csu/libc-start.c", "__libc_start_main_impl"),
            ("/lib/x86_64-linux-gnu/libc.so.6", "__libc_start_main"),
            ("/opt/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so", "at::native::add"),
            ("/usr/bin/python3.12", "_PyEval_EvalFrameDefault"),
            ("/usr/include/c++/13/functional", "std::function<void ()>::operator()() const"),
        ];
        for (file, name) in native {
            assert!(is_native(file, name), "{file} {name}");
        }
        let python = [
            ("/me/train.py", "<module>"),
            ("/opt/lib/python3.12/site-packages/torch/nn/modules/linear.py", "forward"),
            ("<string>", "<module>"),
            ("<eval_with_key>.5", "forward"),
            ("<frozen runpy>", "_run_code"),
            ("/usr/bin/torchrun", "<module>"),
            ("/tmp/ipykernel_12/3.py", "<listcomp>"),
            ("/me/python_train", "main"),
        ];
        for (file, name) in python {
            assert!(!is_native(file, name), "{file} {name}");
        }
    }
}
