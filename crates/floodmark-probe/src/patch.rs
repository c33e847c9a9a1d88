//! Puts our hooks into the slots of every loaded object, and takes them out again.

use std::ffi::CStr;
use std::sync::atomic::Ordering;

use floodmark_slots::{self as slots, Object, Slot};
use parking_lot::Mutex;

use crate::hooks::{self, Hook};

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

/// Finds the function that a hook stands for: what another has put into a slot before us, or else what
/// the loader finds by its name. Whoever came first since the last recording is met at the next one.
fn settle_original<'a>(
    hook: &Hook,
    replacement: usize,
    slots: impl Iterator<Item = &'a Slot>,
    objects: &[Object],
) {
    let found = slots::find_symbol(hook.symbol);
    let mut others = slots
        // SAFETY: the slot belongs to an object that is loaded now.
        .map(|slot| (slot.at as usize, unsafe { slot.at.read() }))
        .filter(|(_, now)| *now != replacement)
        .peekable();
    if others.peek().is_none() {
        return;
    }
    // A slot that was not used yet leads back into its own object, which then asks the loader.
    let owner = |addr: usize| objects.iter().position(|object| object.contains(addr));
    let in_front = others
        .filter(|(_, now)| Some(*now) != found)
        .find(|(at, now)| owner(*now).is_some_and(|object| Some(object) != owner(*at)));
    if let Some(original) = in_front.map(|(_, now)| now).or(found) {
        hook.original.store(original, Ordering::Release);
    }
}
