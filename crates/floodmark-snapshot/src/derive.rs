//! Modules, optimizers and the backward pass, as far as frames of a stack tell of them.
//!
//! A snapshot knows functions and lines, no objects. A frame that `nn.Module._call_impl` calls is a module's
//! `forward`; it is named after its file and the line that calls it, so modules that one line of a loop
//! calls are one.

use floodmark_trace::{Batch, CodeRow, ModuleRow, StackRow, stack_flags};
use hashbrown::HashMap;

use crate::tree::{Frame, Tree};
use crate::words::{Word, Words};

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
    is_library: bool,
    /// `_call_impl` or `_wrapped_call_impl`.
    calls_module: bool,
    is_optimizer: bool,
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
    known: HashMap<(u32, Word, u32, u32), u32>,
    rows: Vec<ModuleRow>,
}

/// Makes rows of all stacks.
pub(crate) fn derive(tree: &Tree, words: &Words) -> Derived {
    let mut codes = Codes::default();
    let traits: Vec<Trait> = tree.frames.iter().map(|frame| codes.look_at(frame, words)).collect();
    let mut modules = Modules { all: vec![Module::default()], ..Modules::default() };
    let mut stacks: Vec<StackRow> = Vec::with_capacity(tree.nodes.len());
    // Per node: the module around it, and the frame that last was not the machinery of a call.
    let mut module_of = vec![0_u32];
    let mut caller_of = vec![None];
    let mut is_backward = vec![false];
    for (id, node) in (1..).zip(tree.nodes.iter().skip(1)) {
        let parent = node.parent as usize;
        let (Some(frame), Some(&own)) =
            (tree.frames.get(node.frame as usize), traits.get(node.frame as usize))
        else {
            continue;
        };
        let above = parent.checked_sub(1).and_then(|at| stacks.get(at)).copied();
        let above_calls =
            above.is_some_and(|_| traits[tree.nodes[parent].frame as usize].calls_module);
        let mut module = 0;
        if above_calls && !own.calls_module {
            module = modules.enter(module_of[parent], frame, caller_of[parent], words);
        }
        let inherited = above.map_or(0, |above| above.flags & !stack_flags::LIBRARY);
        let mut flags = inherited;
        for (is_set, flag) in [
            (own.is_library, stack_flags::LIBRARY),
            (own.is_optimizer, stack_flags::OPTIMIZER),
            (module != 0, stack_flags::MODULE),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        let (code, line) = (own.code, frame.line);
        stacks.push(StackRow { id, parent: node.parent, code, line, module, flags });
        module_of.push(if module == 0 { module_of[parent] } else { module });
        let caller = if own.calls_module { caller_of[parent] } else { Some((own.code, line)) };
        caller_of.push(caller);
        is_backward.push(is_backward[parent] || own.is_backward);
    }
    let batch = Batch { stacks, codes: codes.rows, modules: modules.rows, ..Batch::default() };
    Derived { batch, is_backward }
}

impl Modules {
    /// The module whose `forward` is this frame, called from `caller` inside the module `around`.
    fn enter(
        &mut self,
        around: u32,
        forward: &Frame,
        caller: Option<(u32, u32)>,
        words: &Words,
    ) -> u32 {
        let (code, line) = caller.unwrap_or_default();
        let key = (around, forward.file, code, line);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let Ok(id) = u32::try_from(self.all.len()) else { return 0 };
        let outer = self.all[around as usize].clone();
        if outer.depth >= MOST_MODULES_DEEP || id > MOST_MODULES {
            return 0;
        }
        let class = stem(words.get(forward.file)).to_owned();
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
    known: HashMap<(Word, Word), u32>,
}

impl Codes {
    fn look_at(&mut self, frame: &Frame, words: &Words) -> Trait {
        let (file, name) = (words.get(frame.file), words.get(frame.name));
        let next = u32::try_from(self.rows.len() + 1).unwrap_or(0);
        let code = *self.known.entry((frame.file, frame.name)).or_insert_with(|| {
            let (file, name) = (file.to_owned(), name.to_owned());
            self.rows.push(CodeRow { id: next, first_line: 0, file, name });
            next
        });
        let in_torch = in_torch(file);
        Trait {
            code,
            is_library: in_torch.is_some() || is_native(file),
            calls_module: in_torch == Some("nn/modules/module.py")
                && matches!(name, "_call_impl" | "_wrapped_call_impl" | "inner"),
            is_optimizer: name == "step" && in_torch.is_some_and(|file| file.starts_with("optim/")),
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

/// Whether a frame is not one of Python.
fn is_native(file: &str) -> bool {
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    file == "??" || matches!(extension, "cpp" | "cc" | "c" | "h" | "hpp" | "cu" | "cuh" | "S")
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
    }
}
