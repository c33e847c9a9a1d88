//! Modules, optimizers and the backward pass, as far as frames of a stack show them.
//!
//! A snapshot has functions and lines, no objects. The `forward` that `nn.Module._call_impl` leads to is a
//! module's; it is named after its class, where the frame has a qualified name, else after its file, and the line that
//! calls it, so modules that one line of a loop calls are one.
//!
//! Where torch recorded C++ frames too (its default), they lie between the Python frames. They are kept, marked as
//! native, and take no part in what is derived, except that autograd's engine is one of them.

use floodmark_trace::{Batch, CodeRow, ModuleRow, StackRow, is_python_library, stack_flags};
use hashbrown::HashMap;

use crate::contents::call_tree::{CallTree, Frame};
use crate::contents::strings::Strings;
use crate::format::known_strings::StringId;

/// A deeper module goes by the name of the one around it.
const MOST_MODULES_DEEP: u32 = 48;
/// A snapshot with more modules than this gets no more of them.
const MOST_MODULES: u32 = 1 << 16;

/// Stacks, as rows, and which of them ran in the backward pass.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    pub(crate) batch: Batch,
    /// Per stack: whether it ran in the backward pass.
    pub(crate) is_backward: Vec<bool>,
}

/// What is known of a frame by its own.
#[derive(Debug, Clone, Copy, Default)]
struct Trait {
    code: u32,
    /// Of [`stack_flags`], those that the frame itself gives a stack.
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

/// What is known of a stack beside its row.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    flags: u8,
    /// The innermost module.
    module: u32,
    /// Code and line of the innermost frame that is not the machinery of a call.
    caller: (u32, u32),
    /// Whether a module was called, and its `forward` is still to come: decorators may lie between.
    awaits_forward: bool,
}

/// Makes rows of all stacks.
pub(crate) fn derive(tree: &CallTree, strings: &Strings) -> Derived {
    let mut codes = Codes::default();
    let traits: Vec<Trait> =
        tree.frames.iter().map(|frame| codes.look_at(frame, strings)).collect();
    let mut modules = Modules { all: vec![Module::default()], ..Modules::default() };
    let mut stacks: Vec<StackRow> = Vec::with_capacity(tree.nodes.len());
    // Callers come before whom they call.
    let mut known = vec![Known::default()];
    let mut is_backward = vec![false];
    for (id, node) in (1..).zip(tree.nodes.iter().skip(1)) {
        let above = known[node.parent as usize];
        let (frame, own) = (tree.frames[node.frame as usize], traits[node.frame as usize]);
        let module = if above.awaits_forward && own.is_forward {
            modules.enter(above.module, &frame, above.caller, strings)
        } else {
            0
        };
        let is_native = own.flags & stack_flags::NATIVE != 0;
        let awaits_forward = own.calls_module || above.awaits_forward && !own.is_forward;
        let inherited = above.flags & !(stack_flags::LIBRARY | stack_flags::NATIVE);
        let flags = inherited | own.flags | flag(module != 0, stack_flags::MODULE);
        let (parent, code, line) = (node.parent, own.code, frame.line);
        stacks.push(StackRow { id, parent, code, line, module, flags });
        known.push(Known {
            flags,
            module: if module == 0 { above.module } else { module },
            caller: if awaits_forward || is_native { above.caller } else { (code, line) },
            awaits_forward,
        });
        is_backward.push(is_backward[node.parent as usize] || own.is_backward);
    }
    let batch = Batch { stacks, codes: codes.rows, modules: modules.rows, ..Batch::default() };
    Derived { batch, is_backward }
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

impl Modules {
    /// The module whose `forward` is this frame, called from this line inside the module `around`.
    fn enter(
        &mut self,
        around: u32,
        forward: &Frame,
        (code, line): (u32, u32),
        strings: &Strings,
    ) -> u32 {
        let key = (around, forward.file, forward.name, code, line);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let Ok(id) = u32::try_from(self.all.len()) else { return 0 };
        let outer = self.all[around as usize].clone();
        if outer.depth >= MOST_MODULES_DEEP || id > MOST_MODULES {
            return 0;
        }
        let (file, function) = (strings.get(forward.file), strings.get(forward.name));
        let class = class_of(function).unwrap_or_else(|| stem(file)).to_owned();
        let (root, name) = match (around, outer.name.is_empty()) {
            (0, _) => (id, String::new()),
            (_, true) => (outer.root, format!("{class}:{line}")),
            (_, false) => (outer.root, format!("{}.{class}:{line}", outer.name)),
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
    fn look_at(&mut self, frame: &Frame, strings: &Strings) -> Trait {
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
        Trait {
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
        // The engine itself, where C++ frames were recorded.
        _ => {
            name.contains("autograd::Engine::") || name.contains("autograd::python::PythonEngine::")
        }
    }
}

/// The path below the package `torch`, for a file of it.
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

/// Whether a frame is one of C or C++. Torch's symbolizer gives its source file, `??` or nothing, or, in the mode
/// that reads no debug information, the shared object or the program that it lies in.
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
    fn files_of_torch_are_told_from_others() {
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
    fn frames_of_cpp_are_told_from_those_of_python() {
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
