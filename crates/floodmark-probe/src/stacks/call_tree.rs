//! The call tree: every stack becomes one number.
//!
//! Most stacks share their outer frames with the stack before, so a thread compares its frames with
//! the last stack, from the outermost inward, and looks up only those that differ.
//!
//! A code object is identified by its address only once it is pinned: we hold a reference, so the
//! address cannot belong to another object. Until then its contents are read and compared each time.
//! The same holds for modules, whose destruction is reported once they have a name.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use floodmark_trace::journal::Definition;
use floodmark_trace::stack_flags;
use hashbrown::{HashMap, HashSet};

use crate::budget::Budget;
use crate::python::{self, CodeContents, RawFrame};

use super::code_role::{CodeRole, LibraryFolders, Role};
use super::node::{EPOCH, FRAME_LEFT_OUT, Node};
use super::seen_frame::{SeenFrame, innermost_node, push_below};
use super::shortcuts::Shortcuts;

#[derive(Debug, Clone)]
struct KnownCode {
    /// 0 where the memory limit left no room for it.
    id: u32,
    role: CodeRole,
    is_pinned: bool,
    /// The memory limit leaves no room to pin it.
    is_unpinnable: bool,
    /// Its attributes, which identify it until it is pinned.
    contents: Option<Arc<CodeContents>>,
}

impl KnownCode {
    /// Code that cannot be read, or that was left out.
    fn unknown() -> Self {
        Self {
            id: 0,
            role: CodeRole::default(),
            is_pinned: false,
            is_unpinnable: false,
            contents: None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct KnownModule {
    id: u32,
    class: usize,
    has_name: bool,
    /// Its name was requested once. A module that another one calls without having it as a submodule, such as a
    /// loss that `forward` creates, never gets one.
    is_requested: bool,
}

/// The module that a frame calls.
#[derive(Debug, Clone, Copy, Default)]
struct CalledModule {
    /// 0 for none.
    id: u32,
    /// Its address identifies it from now on.
    is_stable: bool,
    /// The module or its name was left out.
    is_left_out: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct NodeKey {
    parent: u32,
    code: u32,
    instruction: u32,
    module: u32,
}

/// Writes definitions: the journal of a thread.
pub(crate) trait DefinitionWriter {
    fn define(&mut self, definition: &Definition<&str>);
}

/// The tables of one recording.
#[derive(Debug)]
pub(crate) struct CallTree {
    codes: HashMap<usize, KnownCode>,
    code_ids: HashMap<Arc<CodeContents>, (u32, CodeRole)>,
    modules: HashMap<usize, KnownModule>,
    /// Names that are defined: the numbers of the module and of its root, and a hash of the name.
    names: HashSet<(u32, u32, u64)>,
    next_module: u32,
    nodes: HashMap<NodeKey, Node>,
    budget: Arc<Budget>,
    pub(crate) folders: LibraryFolders,
    pub(crate) needs_gil_work: bool,
    /// The memory limit leaves no room for more modules and names of them.
    lacks_modules: bool,
}

/// The memory of entries in their tables, with the tables' unused room and the writer's copy.
const CODE_BYTES: usize = 448;
const ADDRESS_BYTES: usize = 80;
const NODE_BYTES: usize = 112;
const MODULE_BYTES: usize = 480;
/// The memory of a code object without its names and, for each byte of its line table, its instructions and
/// constants. It counts as the recorder's memory: the program may have dropped the object.
const PINNED_BYTES: usize = 640;
const PINNED_PER_LINE_BYTE: usize = 6;
/// `autograd` keeps 24 bits of a node's number.
const MOST_NODES: usize = (1 << 24) - 1;

impl CallTree {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self {
            codes: HashMap::new(),
            code_ids: HashMap::new(),
            modules: HashMap::new(),
            next_module: 1,
            names: HashSet::new(),
            nodes: HashMap::new(),
            budget,
            folders: LibraryFolders::default(),
            needs_gil_work: false,
            lacks_modules: false,
        }
    }

    fn code(&mut self, frame: &RawFrame, out: &mut impl DefinitionWriter) -> KnownCode {
        let before = self.codes.get(&frame.code);
        if let Some(known) = before.filter(|known| known.is_pinned) {
            return known.clone();
        }
        let is_new_address = before.is_none();
        let is_unpinnable = before.is_some_and(|known| known.is_unpinnable);
        self.needs_gil_work |= !is_unpinnable;
        let Some(contents) = python::code_contents(frame) else { return KnownCode::unknown() };
        let (contents, (id, role)) =
            if let Some((contents, &known)) = self.code_ids.get_key_value(&contents) {
                (Arc::clone(contents), known)
            } else {
                if !self.budget.take(CODE_BYTES + 2 * contents.held_bytes()) {
                    return KnownCode::unknown();
                }
                let id = u32::try_from(self.code_ids.len() + 1).unwrap_or(0);
                let role = CodeRole::of_code(&contents, &self.folders);
                let CodeContents { file, name, first_line, .. } = &contents;
                let first_line = *first_line;
                out.define(&Definition::Code { id, first_line, file, name });
                let contents = Arc::new(contents);
                self.code_ids.insert(Arc::clone(&contents), (id, role));
                (contents, (id, role))
            };
        let contents = Some(contents);
        let known = KnownCode { id, role, is_pinned: false, is_unpinnable, contents };
        if !is_new_address || self.budget.take(ADDRESS_BYTES) {
            self.codes.insert(frame.code, known.clone());
        }
        known
    }

    /// The module that a frame calls; an outermost one has no other around it.
    fn module(
        &mut self,
        frame: &RawFrame,
        is_outermost: bool,
        out: &mut impl DefinitionWriter,
    ) -> CalledModule {
        if frame.first_local == 0 {
            return CalledModule::default();
        }
        let known = self.modules.get(&frame.first_local).copied();
        if let Some(KnownModule { id, has_name: true, .. }) = known {
            return CalledModule { id, is_stable: true, is_left_out: false };
        }
        // SAFETY: the frame is running and holds a reference to its first local.
        let (class, name) = unsafe { python::class_of(frame.first_local) };
        let known = known.filter(|known| known.class == class);
        let id = known.map(|known| known.id).or_else(|| {
            let is_taken = self.take_for_module(name.len());
            is_taken.then(|| self.define_module(0, 0, &name, "", out))
        });
        if let Some(id) = id {
            let is_requested = known.is_some_and(|known| known.is_requested);
            let module = KnownModule { id, class, has_name: false, is_requested };
            self.modules.insert(frame.first_local, module);
            // Named on the next pending call, unless there is no memory for more names.
            self.needs_gil_work |= !self.lacks_modules && (!is_requested || is_outermost);
        }
        CalledModule { id: id.unwrap_or(0), is_stable: false, is_left_out: self.lacks_modules }
    }

    /// Takes memory for a module, or for a name of it.
    fn take_for_module(&mut self, text_bytes: usize) -> bool {
        let is_taken = self.budget.take(MODULE_BYTES + 2 * text_bytes);
        self.lacks_modules |= !is_taken;
        is_taken
    }

    fn define_module(
        &mut self,
        id: u32,
        root: u32,
        class: &str,
        name: &str,
        out: &mut impl DefinitionWriter,
    ) -> u32 {
        let id = if id == 0 {
            self.next_module += 1;
            self.next_module - 1
        } else {
            id
        };
        out.define(&Definition::Module { id, root, class, name });
        id
    }

    /// Gives modules their qualified names below `root`: address, name and class of each.
    ///
    /// The GIL is held and all of them are alive. The caller reports their destruction to
    /// [`Self::forget_module`].
    pub(crate) fn name_modules(
        &mut self,
        root: usize,
        named: &[(usize, String, String)],
        out: &mut impl DefinitionWriter,
    ) {
        let known = |modules: &HashMap<usize, KnownModule>, addr: &usize| {
            modules.get(addr).map_or(0, |module| module.id)
        };
        let mut has_changed = false;
        let Some((_, _, class)) = named.iter().find(|(addr, _, _)| *addr == root) else { return };
        let known_root = known(&self.modules, &root);
        let root_id =
            if known_root == 0 { self.define_module(0, 0, class, "", out) } else { known_root };
        for (addr, name, class) in named {
            let id = if *addr == root { root_id } else { known(&self.modules, addr) };
            let hash = self.names.hasher().hash_one(name);
            if self.names.contains(&(id, root_id, hash)) {
                continue;
            }
            if !self.take_for_module(name.len() + class.len()) {
                break;
            }
            let id = self.define_module(id, root_id, class, name, out);
            self.names.insert((id, root_id, hash));
            // SAFETY: the caller holds the GIL and a reference to each of them.
            let (class, _) = unsafe { python::class_of(*addr) };
            let module = KnownModule { id, class, has_name: true, is_requested: true };
            self.modules.insert(*addr, module);
            has_changed = true;
        }
        if has_changed {
            EPOCH.fetch_add(1, Ordering::Release);
        }
    }

    /// Removes a module that is about to be destroyed: its address may be reused.
    pub(crate) fn forget_module(&mut self, addr: usize) {
        self.modules.remove(&addr);
        EPOCH.fetch_add(1, Ordering::Release);
    }

    fn node(
        &mut self,
        parent: Node,
        frame: &RawFrame,
        out: &mut impl DefinitionWriter,
    ) -> SeenFrame {
        let code = self.code(frame, out);
        let CodeRole { role, is_library } = code.role;
        let calls_module = role == Role::ModuleCall;
        let no_module = CalledModule { is_stable: true, ..CalledModule::default() };
        let is_outermost = parent.flags & stack_flags::MODULE == 0;
        let module = if calls_module { self.module(frame, is_outermost, out) } else { no_module };
        let mut seen = SeenFrame {
            raw: *frame,
            node: parent,
            calls_module,
            is_volatile: (!code.is_pinned && code.contents.is_none()) || !module.is_stable,
            unpinned: if code.is_pinned { None } else { code.contents.clone() },
            enters_engine: role == Role::Engine,
            inside_engine_from: 0,
        };
        if role == Role::Recorder {
            return seen;
        }
        let key = NodeKey {
            parent: parent.id,
            code: code.id,
            instruction: python::instruction_offset(frame),
            module: module.id,
        };
        let left_out =
            if module.is_left_out { FRAME_LEFT_OUT } else { parent.flags & FRAME_LEFT_OUT };
        if let Some(&Node { id, flags }) = self.nodes.get(&key) {
            seen.node = Node { id, flags: flags | left_out };
            return seen;
        }
        if code.id == 0 || self.nodes.len() >= MOST_NODES || !self.budget.take(NODE_BYTES) {
            seen.node = parent.without_frame();
            return seen;
        }
        let mut flags = parent.flags & !(stack_flags::LIBRARY | FRAME_LEFT_OUT);
        if module.id != 0 {
            flags |= stack_flags::MODULE;
        }
        if role == Role::Optimizer {
            flags |= stack_flags::OPTIMIZER;
        }
        if is_library {
            flags |= stack_flags::LIBRARY;
        }
        let id = u32::try_from(self.nodes.len() + 1).unwrap_or(0);
        out.define(&Definition::Stack {
            id,
            parent: parent.id,
            code: code.id,
            line: python::line(frame),
            module: module.id,
            flags,
        });
        let node = Node { id, flags };
        self.nodes.insert(key, node);
        seen.node = Node { id, flags: flags | left_out };
        seen
    }

    /// Updates `seen` (outermost first) to `frames` (innermost first).
    pub(crate) fn extend(
        &mut self,
        frames: &[RawFrame],
        seen: &mut Vec<SeenFrame>,
        shortcuts: &mut Shortcuts,
        epoch: u32,
        out: &mut impl DefinitionWriter,
    ) {
        for frame in frames[..frames.len() - seen.len()].iter().rev() {
            let parent = innermost_node(seen);
            let next = self.node(parent, frame, out);
            shortcuts.remember(epoch, parent, &next, &self.budget);
            push_below(seen, next);
        }
    }

    /// The node of Python code that runs inside backward: its frames, below the forward stack.
    pub(crate) fn below(
        &mut self,
        forward: Node,
        inner: &[SeenFrame],
        out: &mut impl DefinitionWriter,
    ) -> Node {
        let mut node = Node { id: forward.id, flags: forward.flags | stack_flags::BACKWARD };
        for frame in inner {
            node = self.node(node, &frame.raw, out).node;
        }
        node
    }

    /// Takes references to the code objects that run on any thread, and returns the modules that run
    /// without a name, each with the outermost module around it. The GIL is held.
    pub(crate) fn pin_running_code(&mut self) -> Vec<(usize, usize)> {
        let mut nameless = Vec::new();
        python::walk_all_threads(|frames| {
            let mut root = None;
            for frame in frames.iter().rev() {
                let Some(known) = self.codes.get_mut(&frame.code) else { continue };
                if !known.is_pinned && !known.is_unpinnable {
                    // The address may belong to another code object by now: read it again.
                    let found = python::code_contents(frame);
                    let found = found.and_then(|contents| self.code_ids.get_key_value(&contents));
                    if let Some((contents, &(id, _))) = found
                        && id == known.id
                    {
                        known.is_pinned = self.budget.take(pinned_bytes(contents));
                        known.is_unpinnable = !known.is_pinned;
                    }
                    if known.is_pinned {
                        python::keep(frame.code);
                        known.contents = None;
                    }
                }
                if known.role.role == Role::ModuleCall && frame.first_local != 0 {
                    let root = *root.get_or_insert(frame.first_local);
                    let module = self.modules.get_mut(&frame.first_local);
                    // An outermost module always has a name: its class.
                    let is_outermost = root == frame.first_local;
                    let may_get_name = module.as_ref().is_none_or(|module| {
                        !module.has_name && (is_outermost || !module.is_requested)
                    });
                    if !self.lacks_modules && may_get_name {
                        nameless.push((root, frame.first_local));
                    }
                    if let Some(module) = module {
                        module.is_requested = true;
                    }
                }
            }
        });
        self.needs_gil_work = false;
        EPOCH.fetch_add(1, Ordering::Release);
        nameless
    }

    /// Releases the references. The GIL is held.
    pub(crate) fn release_codes(&mut self) {
        let mut pinned: Vec<usize> =
            self.codes.drain().filter(|(_, code)| code.is_pinned).map(|(addr, _)| addr).collect();
        pinned.sort_unstable();
        for addr in pinned {
            python::release(addr);
        }
    }
}

/// Memory of a code object that a reference keeps alive.
fn pinned_bytes(contents: &CodeContents) -> usize {
    PINNED_BYTES + contents.file.len() + PINNED_PER_LINE_BYTE * contents.line_table.len()
}

#[cfg(test)]
mod tests;
