//! The name of a module on a stack.
//!
//! A module object may have several qualified names (it is shared), or none (they could not be looked up).
//! The stack decides: the name that continues the name of the module around it is the right one.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{ModuleId, StackId};
use crate::journal::cut_at_char;
use crate::trace::{Allocation, Module, Stack, Trace};

/// A longer name is cut: modules without names could otherwise call each other to any depth.
const MAX_PATH_BYTES: usize = 1024;
/// The longest that all names together may be; no program needs more.
const MAX_TOTAL_BYTES: usize = 1 << 26;

/// The qualified name of the innermost module, for every stack.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModulePaths {
    /// Per stack: 1 + index into `paths`, or 0.
    of_stack: Vec<u32>,
    paths: Vec<String>,
    total_bytes: usize,
    /// The path of a module below another one.
    known: BTreeMap<(u32, ModuleId), u32>,
    has_several_roots: bool,
    /// The class of the one root that has modules inside it, one of `roots`; none when there are several.
    main_root: Option<String>,
    /// The classes of all roots.
    roots: BTreeSet<String>,
}

impl ModulePaths {
    /// Names of modules below these roots: [`UsedModules::roots`] of the stacks that allocations have.
    fn new(stacks: &[Stack], modules: &[Module], with_children: &BTreeSet<ModuleId>) -> Self {
        let has_several_roots = with_children.len() > 1;
        let class = |id: &ModuleId| modules.get(id.index()).map(|module| module.class.clone());
        let is_root = |module: &&Module| module.names.iter().any(|(_, name)| name.is_empty());
        let mut result = Self {
            has_several_roots,
            main_root: with_children.first().filter(|_| !has_several_roots).and_then(class),
            roots: modules.iter().filter(is_root).map(|module| module.class.clone()).collect(),
            ..Self::default()
        };
        // The row of the root may be lost, while those of its modules are there.
        result.main_root = result.main_root.filter(|class| result.roots.contains(class));
        result.extend(stacks, modules);
        result
    }

    /// How many stacks have their name.
    pub(crate) fn stack_count(&self) -> usize {
        self.of_stack.len()
    }

    /// Names the stacks that are new.
    fn extend(&mut self, stacks: &[Stack], modules: &[Module]) {
        for stack in stacks.get(self.of_stack.len()..).unwrap_or_default() {
            // Callers come first, so the path around this frame is known.
            let around = self.of_stack.get(stack.parent.index()).copied().unwrap_or(0);
            let path = if stack.module.0 == 0 {
                around
            } else if let Some(&known) = self.known.get(&(around, stack.module)) {
                known
            } else {
                let name = self.name(around, stack.module, modules);
                let path = self.add(&name);
                self.known.insert((around, stack.module), path);
                path
            };
            self.of_stack.push(path);
        }
    }

    fn add(&mut self, name: &str) -> u32 {
        let name = cut_at_char(name, MAX_PATH_BYTES).to_owned();
        self.total_bytes += name.len() + size_of::<String>();
        if self.total_bytes > MAX_TOTAL_BYTES {
            return 0;
        }
        self.paths.push(name);
        u32::try_from(self.paths.len()).unwrap_or(0)
    }

    pub(crate) fn of_stack(&self, stack: StackId) -> Option<&str> {
        self.path(*self.of_stack.get(stack.index())?)
    }

    pub(crate) fn main_root(&self) -> Option<&str> {
        self.main_root.as_deref()
    }

    pub(crate) fn is_root(&self, path: &str) -> bool {
        self.roots.contains(path)
    }

    fn path(&self, number: u32) -> Option<&str> {
        self.paths.get((number as usize).checked_sub(1)?).map(String::as_str)
    }

    fn name(&self, around: u32, id: ModuleId, modules: &[Module]) -> String {
        let around = self.path(around);
        let Some(module) = modules.get(id.index()) else { return "?".to_owned() };
        let mut names = module.names.iter().map(|(root, name)| {
            let class = modules.get(root.index()).map_or("?", |root| root.class.as_str());
            match (name.is_empty(), self.has_several_roots) {
                (true, _) => class.to_owned(),
                (false, true) => format!("{class}.{name}"),
                (false, false) => name.clone(),
            }
        });
        let continues = |name: &String| {
            around.is_some_and(|around| {
                name.strip_prefix(around).is_some_and(|rest| rest.starts_with('.'))
            })
        };
        if let Some(name) = names.clone().find(continues) {
            return name;
        }
        names.next().unwrap_or_else(|| match around {
            Some(around) => format!("{around}.<{}>", module.class),
            None => module.class.clone(),
        })
    }
}

/// The modules on the stacks of allocations. Only the models of these are distinguished: a window also has the
/// definitions of what ran before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsedModules {
    /// How many allocations were checked.
    allocations: usize,
    /// Per stack.
    is_seen: Vec<bool>,
    modules: BTreeSet<ModuleId>,
    roots: BTreeSet<ModuleId>,
}

impl UsedModules {
    /// Adds the stacks of new allocations.
    fn add(&mut self, stacks: &[Stack], allocations: &[Allocation]) {
        self.is_seen.resize(stacks.len(), false);
        for allocation in allocations.get(self.allocations..).unwrap_or_default() {
            if !allocation.before_recording {
                self.walk(stacks, allocation.stack);
            }
        }
        self.allocations = allocations.len();
    }

    fn walk(&mut self, stacks: &[Stack], stack: StackId) {
        let mut at = stack.index();
        while let Some(stack) = stacks.get(at)
            && !std::mem::replace(&mut self.is_seen[at], true)
        {
            if stack.module.0 != 0 {
                self.modules.insert(stack.module);
            }
            at = stack.parent.index();
        }
    }

    /// The roots that have modules inside them.
    fn roots(&self, modules: &[Module]) -> BTreeSet<ModuleId> {
        let used = self.modules.iter().filter_map(|id| modules.get(id.index()));
        used.flat_map(|module| &module.names)
            .filter(|(_, name)| !name.is_empty())
            .map(|&(root, _)| root)
            .collect()
    }
}

/// What happened to definitions since the paths were made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Redefined {
    /// A stack has changed.
    pub(crate) stacks: bool,
    /// A module, or a name of one, was added.
    pub(crate) modules: bool,
}

impl Trace {
    /// Updates the paths of modules. Only new stacks are processed, unless an older definition
    /// changed.
    pub(crate) fn complete_paths(&mut self) {
        let redefined = std::mem::take(&mut self.redefined);
        if redefined.stacks {
            self.used_modules = UsedModules::default();
        }
        let known = self.used_modules.modules.len();
        self.used_modules.add(&self.stacks, &self.allocations);
        if redefined.stacks {
            self.stack_revision += 1;
        }
        let is_redefined = redefined.stacks || redefined.modules;
        if is_redefined || self.used_modules.modules.len() > known {
            let roots = self.used_modules.roots(&self.modules);
            if is_redefined || roots != self.used_modules.roots {
                self.paths = ModulePaths::new(&self.stacks, &self.modules, &roots);
                self.path_revision += 1;
                self.used_modules.roots = roots;
                return;
            }
        }
        self.paths.extend(&self.stacks, &self.modules);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::CodeId;

    fn frame(parent: u32, module: u32) -> Stack {
        let parent = StackId(parent);
        Stack { parent, code: CodeId(1), line: 1, module: ModuleId(module), flags: 0 }
    }

    fn module(class: &str, names: &[&str]) -> Module {
        let names = names.iter().map(|name| (ModuleId(1), (*name).to_owned())).collect();
        Module { class: class.to_owned(), names }
    }

    fn paths(stacks: &[Stack], modules: &[Module], used: &[u32]) -> ModulePaths {
        let mut found =
            UsedModules { is_seen: vec![false; stacks.len()], ..UsedModules::default() };
        for &stack in used {
            found.walk(stacks, StackId(stack));
        }
        ModulePaths::new(stacks, modules, &found.roots(modules))
    }

    #[test]
    fn a_shared_module_has_the_name_below_its_caller() {
        let modules = [
            Module::default(),
            module("Net", &[""]),
            module("Block", &["a"]),
            module("Block", &["b"]),
            module("Linear", &["a.lin", "b.lin"]),
            module("Lost", &[]),
        ];
        let stacks = [
            Stack::default(),
            frame(0, 1),
            frame(1, 2),
            frame(1, 3),
            frame(2, 4),
            frame(3, 4),
            frame(3, 0),
            frame(3, 5),
        ];
        let paths = paths(&stacks, &modules, &[0, 1, 2, 3, 4, 5, 6, 7]);
        let names: Vec<_> = (0..8).map(|id| paths.of_stack(StackId(id)).unwrap_or("-")).collect();
        assert_eq!(names, ["-", "Net", "a", "b", "a.lin", "b.lin", "b", "b.<Lost>"]);
    }

    #[test]
    fn a_model_that_allocated_nothing_changes_no_name() {
        let other = |name: &str| vec![(ModuleId(3), name.to_owned())];
        let modules = [
            Module::default(),
            module("Net", &[""]),
            module("Linear", &["lin"]),
            Module { class: "Other".to_owned(), names: other("") },
            Module { class: "Linear".to_owned(), names: other("lin") },
        ];
        let stacks = [Stack::default(), frame(0, 1), frame(1, 2), frame(0, 3), frame(3, 4)];
        let name =
            |used: &[u32]| paths(&stacks, &modules, used).of_stack(StackId(2)).map(str::to_owned);
        assert_eq!(name(&[2]).as_deref(), Some("lin"));
        assert_eq!(name(&[2, 4]).as_deref(), Some("Net.lin"));
    }
}
