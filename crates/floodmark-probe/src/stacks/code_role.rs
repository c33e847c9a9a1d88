//! Functions that the recorder treats differently: calls of modules, optimizers, the autograd engine.

use floodmark_trace::is_python_library;

use crate::python::CodeContents;

/// How the recorder treats a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Role {
    /// A function like any other.
    #[default]
    Plain,
    /// `nn.Module.__call__`: the first local is the module.
    ModuleCall,
    /// The wrapper around every `Optimizer.step`.
    Optimizer,
    /// The call into the autograd engine: the code inside it runs in backward.
    Engine,
    /// A function of the recorder: not part of the program.
    Recorder,
}

/// The role of a code object, and whether its file belongs to a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CodeRole {
    pub(crate) role: Role,
    /// A file of torch, or of Python's own library.
    pub(crate) is_library: bool,
}

/// Folders whose frames are not the user's.
#[derive(Debug, Clone, Default)]
pub(crate) struct LibraryFolders {
    /// Those of floodmark's packages.
    pub(crate) own: Vec<String>,
    /// That of torch, once it is loaded.
    pub(crate) torch: Option<String>,
}

impl CodeRole {
    pub(crate) fn of_code(contents: &CodeContents, folders: &LibraryFolders) -> Self {
        let (file, name) = (contents.file.as_str(), contents.name.as_str());
        let method = name.rsplit('.').next().unwrap_or(name);
        let is_own = folders.own.iter().any(|folder| file.starts_with(folder.as_str()));
        let role = match method {
            _ if is_own => Role::Recorder,
            "_wrapped_call_impl" if file.ends_with("torch/nn/modules/module.py") => {
                Role::ModuleCall
            }
            "wrapper" if file.ends_with("torch/optim/optimizer.py") => Role::Optimizer,
            "_engine_run_backward" if file.ends_with("torch/autograd/graph.py") => Role::Engine,
            _ => Role::Plain,
        };
        let is_torch = folders.torch.as_ref().is_some_and(|folder| file.starts_with(folder));
        let is_library = is_own || is_torch || is_python_library(file);
        Self { role, is_library }
    }
}
