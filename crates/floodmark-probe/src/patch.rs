//! Puts our hooks into the slots of every loaded object, and takes them out again.

use std::ffi::CStr;
use std::sync::atomic::Ordering;

use floodmark_slots::{self as slots, Object, Slot};
use parking_lot::Mutex;

use crate::hooks::{self, Hook};

/// The name of the library that plays a GPU.
const PHANTOM: &CStr = c"libfloodmark_phantom.so";

#[derive(Debug, Default)]
struct Patched {
    /// The slots of all objects, as of `load_count`.
    slots: Vec<Slot>,
    load_count: u64,
    /// What stood in the slots that we changed.
    old: Vec<(usize, usize)>,
    is_on: bool,
}

// SAFETY: slots are addresses of memory that belongs to no thread.
unsafe impl Send for Patched {}

static PATCHED: Mutex<Patched> =
    Mutex::new(Patched { slots: Vec::new(), load_count: 0, old: Vec::new(), is_on: false });

/// What was found of the functions that we stand in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// CUDA blocks are reported to us.
    pub reports: bool,
    /// Blocks of the CPU allocator are reported to us.
    pub cpu: bool,
    /// The numbers of autograd nodes are reported to us.
    pub autograd: bool,
}

/// Puts the hooks in. Says which of them some object really calls.
pub(crate) fn install() -> Found {
    let mut patched = PATCHED.lock();
    patched.is_on = true;
    patched.install()
}

/// Puts back what stood in the slots, where our hooks still stand.
pub(crate) fn remove() {
    let mut patched = PATCHED.lock();
    patched.is_on = false;
    patched.find();
    let old = std::mem::take(&mut patched.old);
    let replacements: Vec<usize> = hooks::all().iter().map(|(_, new)| *new).collect();
    for slot in &patched.slots {
        // SAFETY: the slot belongs to an object that is loaded now.
        let now = unsafe { slot.at.read() };
        let before = old.iter().find(|(at, _)| *at == slot.at as usize);
        if let Some(&(_, before)) = before
            && replacements.contains(&now)
        {
            // SAFETY: the same.
            unsafe { slots::store(slot.at, before) };
        }
    }
}

/// Puts the hooks into objects that were loaded since.
pub(crate) fn follow_new_libraries() {
    if let Some(mut patched) = PATCHED.try_lock()
        && patched.is_on
        && patched.load_count != slots::load_count()
    {
        patched.install();
    }
}

impl Patched {
    fn find(&mut self) {
        let count = slots::load_count();
        if self.load_count != count {
            let hooks = hooks::all();
            let names: Vec<&CStr> = hooks.iter().map(|(hook, _)| hook.symbol).collect();
            self.slots = slots::find_slots(&names);
            self.load_count = count;
        }
    }

    fn install(&mut self) -> Found {
        self.find();
        let hooks = hooks::all();
        let objects = slots::objects();
        for (name, (hook, replacement)) in hooks.iter().enumerate() {
            let slots = self.slots.iter().filter(|slot| slot.name == name);
            settle_original(hook, *replacement, slots, &objects);
        }
        let mut installed = [false; 16];
        for slot in &self.slots {
            let (hook, replacement) = hooks[slot.name];
            if hook.original.load(Ordering::Acquire) == 0 {
                continue;
            }
            // SAFETY: the slot belongs to an object that is loaded now.
            let now = unsafe { slot.at.read() };
            if now != replacement {
                // SAFETY: the same.
                if !unsafe { slots::store(slot.at, replacement) } {
                    continue;
                }
                self.old.retain(|(at, _)| *at != slot.at as usize);
                self.old.push((slot.at as usize, now));
            }
            installed[slot.name] = true;
        }
        Found { reports: installed[0], cpu: installed[2] && installed[3], autograd: installed[5] }
    }
}

/// Finds the function that a hook stands for: the phantom's, where slots lead to it, or else what the
/// loader finds by its name. A phantom may have come since the last recording.
fn settle_original<'a>(
    hook: &Hook,
    replacement: usize,
    slots: impl Iterator<Item = &'a Slot>,
    objects: &[Object],
) {
    // SAFETY: the slots belong to objects that are loaded now.
    let standing: Vec<usize> = slots.map(|slot| unsafe { slot.at.read() }).collect();
    if standing.iter().all(|&now| now == replacement) {
        return;
    }
    // Where CUDA's libraries were loaded before it, the loader finds theirs first.
    let phantom = objects.iter().find(|object| object.soname() == PHANTOM);
    let phantoms = phantom.and_then(|object| object.lookup(hook.symbol));
    let in_front = phantoms.filter(|function| standing.contains(function));
    if let Some(original) = in_front.or_else(|| slots::find_symbol(hook.symbol)) {
        hook.original.store(original, Ordering::Release);
    }
}
