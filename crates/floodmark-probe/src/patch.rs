//! Puts our hooks into the slots of every loaded object, and takes them out again.

use std::ffi::CStr;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::elf::{self, Slot};
use crate::hooks;

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
            elf::store(slot.at, before);
        }
    }
}

/// Puts the hooks into objects that were loaded since.
pub(crate) fn follow_new_libraries() {
    if let Some(mut patched) = PATCHED.try_lock()
        && patched.is_on
        && patched.load_count != elf::load_count()
    {
        patched.install();
    }
}

impl Patched {
    fn find(&mut self) {
        let count = elf::load_count();
        if self.load_count != count {
            let hooks = hooks::all();
            let names: Vec<&CStr> = hooks.iter().map(|(hook, _)| hook.symbol).collect();
            self.slots = elf::find_slots(&names);
            self.load_count = count;
        }
    }

    fn install(&mut self) -> Found {
        self.find();
        let hooks = hooks::all();
        let mut installed = [false; 16];
        for slot in &self.slots {
            let (hook, replacement) = hooks[slot.name];
            if hook.original.load(Ordering::Acquire) == 0 {
                let Some(original) = elf::find_symbol(hook.symbol) else { continue };
                hook.original.store(original, Ordering::Release);
            }
            // SAFETY: the slot belongs to an object that is loaded now.
            let now = unsafe { slot.at.read() };
            if now != replacement {
                if !elf::store(slot.at, replacement) {
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
