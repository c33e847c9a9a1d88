//! Which name a module goes by on a stack.
//!
//! A module object may have several qualified names (it is shared), or none (they could not be looked up).
//! The stack decides: the name that continues the name of the module around it is the right one.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::event::{ModuleId, StackId};
use crate::journal::cut_at_char;
use crate::trace::{Module, Stack};

/// A longer name is cut: modules without names could otherwise call each other to any depth.
const MAX_PATH_BYTES: usize = 1024;
/// When all names together are longer, the rest are not made: no program has that many.
const MAX_TOTAL_BYTES: usize = 1 << 26;

/// The qualified name of the innermost module, for every stack.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModulePaths {
    /// Per stack: 1 + index into `paths`, or 0.
    of_stack: Vec<u32>,
    paths: Vec<String>,
    total_bytes: usize,
    /// The class of the one root that has modules inside it; none when there are several.
    main_root: Option<String>,
    /// The classes of all roots.
    roots: BTreeSet<String>,
}

impl ModulePaths {
    /// Names that allocations on `used` stacks need. Only the models of these are distinguished: a window also has the
    /// definitions of what ran before it.
    pub(crate) fn new(
        stacks: &[Stack],
        modules: &[Module],
        used: impl Iterator<Item = StackId>,
    ) -> Self {
        let with_children = roots_with_children(modules, &modules_on(stacks, modules, used));
        let several_roots = with_children.len() > 1;
        let class = |id: &ModuleId| modules.get(id.index()).map(|module| module.class.clone());
        let is_root = |module: &&Module| module.names.iter().any(|(_, name)| name.is_empty());
        let mut result = Self {
            main_root: with_children.first().filter(|_| !several_roots).and_then(class),
            roots: modules.iter().filter(is_root).map(|module| module.class.clone()).collect(),
            ..Self::default()
        };
        let mut known: HashMap<(u32, ModuleId), u32> = HashMap::new();
        for stack in stacks {
            // Callers come first, so the path around this frame is known.
            let around = result.of_stack.get(stack.parent.index()).copied().unwrap_or(0);
            let path = if stack.module.0 == 0 {
                around
            } else {
                *known.entry((around, stack.module)).or_insert_with(|| {
                    let name = result.name(around, stack.module, modules, several_roots);
                    result.add(&name)
                })
            };
            result.of_stack.push(path);
        }
        result
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

    pub(crate) fn root_around(&self, path: &str) -> Option<&str> {
        self.main_root.as_deref().filter(|_| !self.roots.contains(path))
    }

    fn path(&self, number: u32) -> Option<&str> {
        self.paths.get((number as usize).checked_sub(1)?).map(String::as_str)
    }

    fn name(&self, around: u32, id: ModuleId, modules: &[Module], several_roots: bool) -> String {
        let around = self.path(around);
        let Some(module) = modules.get(id.index()) else { return "?".to_owned() };
        let mut names = module.names.iter().map(|(root, name)| {
            let class = modules.get(root.index()).map_or("?", |root| root.class.as_str());
            match (name.is_empty(), several_roots) {
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

/// Per module: whether it is on one of these stacks.
fn modules_on(
    stacks: &[Stack],
    modules: &[Module],
    used: impl Iterator<Item = StackId>,
) -> Vec<bool> {
    let mut is_on = vec![false; modules.len()];
    let mut is_seen = vec![false; stacks.len()];
    for mut at in used.map(StackId::index) {
        while let Some(stack) = stacks.get(at)
            && !std::mem::replace(&mut is_seen[at], true)
        {
            if let Some(is_on) = is_on.get_mut(stack.module.index()) {
                *is_on = true;
            }
            at = stack.parent.index();
        }
    }
    is_on
}

fn roots_with_children(modules: &[Module], is_on: &[bool]) -> BTreeSet<ModuleId> {
    modules
        .iter()
        .zip(is_on)
        .filter(|&(_, &is_on)| is_on)
        .flat_map(|(module, _)| &module.names)
        .filter(|(_, name)| !name.is_empty())
        .map(|&(root, _)| root)
        .collect()
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

    #[test]
    fn a_shared_module_goes_by_the_name_below_its_caller() {
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
        let paths = ModulePaths::new(&stacks, &modules, (0..8).map(StackId));
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
        let name = |used: &[u32]| {
            let used = used.iter().copied().map(StackId);
            let paths = ModulePaths::new(&stacks, &modules, used);
            paths.of_stack(StackId(2)).map(str::to_owned)
        };
        assert_eq!(name(&[2]).as_deref(), Some("lin"));
        assert_eq!(name(&[2, 4]).as_deref(), Some("Net.lin"));
    }
}
