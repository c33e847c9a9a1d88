//! Stores the hooks in the slots of every loaded object, and restores the old addresses.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use floodmark_slots::{self as slots, Object, Slot, at_rest};
use parking_lot::Mutex;

use super::hook::Hook;
use super::table::all_hooks;
use super::{allocations, backward, saved_tensors};
use crate::own_threads;

/// The library of the simulated GPU.
const PHANTOM: &CStr = c"libfloodmark_phantom.so";

#[derive(Debug, Default)]
struct Patched {
    /// The slots of all objects, as of `load_count`.
    slots: Vec<Slot>,
    load_count: u64,
    /// The slots that hold a hook, and the addresses that they held before.
    old: Vec<(usize, usize)>,
    is_on: bool,
}

// SAFETY: slots are addresses of memory that belongs to no thread.
unsafe impl Send for Patched {}

static PATCHED: Mutex<Patched> =
    Mutex::new(Patched { slots: Vec::new(), load_count: 0, old: Vec::new(), is_on: false });

/// Whether a thread waits for the loader already.
static IS_FOLLOWING: AtomicBool = AtomicBool::new(false);
/// Whether the thread that forks has locked [`PATCHED`].
static IS_HELD_FOR_FORK: AtomicBool = AtomicBool::new(false);

/// Which functions of torch have a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct HookedFunctions {
    /// CUDA blocks are reported to us.
    pub reports: bool,
    /// Blocks of the CPU allocator are reported to us.
    pub cpu: bool,
    /// The numbers of autograd nodes are reported to us.
    pub autograd: bool,
    /// Tensors that autograd saves are reported to us.
    pub saved: bool,
    /// Reads of tensors that autograd saved are reported to us.
    pub unpacked: bool,
}

/// How long a thread waits for the lock. Its owner may wait for the loader, and in a child of
/// `fork` a thread that does not exist may hold it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a fork waits for a thread that looks for slots. That thread may wait for the loader, which the forking
/// thread may be using; on a busy machine the search itself takes long.
const LONGEST_FORK: Duration = Duration::from_secs(2);

/// Stores the hooks. Returns which of them an object calls.
pub(crate) fn install() -> HookedFunctions {
    let Some(mut patched) = PATCHED.try_lock_for(PATIENCE) else {
        return HookedFunctions::default();
    };
    patched.is_on = true;
    at_rest(|| patched.install())
}

/// Restores the old addresses in the slots that still hold a hook. A hook that remains records nothing
/// and calls the original function.
pub(crate) fn remove() {
    let Some(mut patched) = PATCHED.try_lock_for(PATIENCE) else { return };
    patched.is_on = false;
    at_rest(|| patched.remove(|_| true));
    patched.old.clear();
}

/// Runs `work`, which lets the phantom take its slots, without our hooks on the functions that it replaces. The hooks of
/// host allocations stay, so no allocation is missed. `None` when another thread keeps the slots locked for too long.
pub fn with_phantom_slots_free<R>(work: impl FnOnce() -> R) -> Option<R> {
    let mut patched = PATCHED.try_lock_for(PATIENCE)?;
    at_rest(|| {
        let phantom = slots::objects().into_iter().find(is_phantom);
        let is_shared = |hook: &Hook| phantom.is_some_and(|own| own.lookup(hook.symbol).is_some());
        patched.remove(is_shared);
    });
    let result = work();
    if patched.is_on {
        at_rest(|| patched.install());
    }
    Some(result)
}

/// Stores the hooks in objects that were loaded since. The loader may take seconds, and the
/// writer must keep emptying journals, so a separate thread waits for it.
pub(crate) fn follow_new_libraries() {
    if let Some(patched) = PATCHED.try_lock()
        && patched.is_on
        && patched.load_count != slots::load_count()
        && !IS_FOLLOWING.swap(true, Ordering::AcqRel)
        && own_threads::spawn("floodmark-follow", follow).is_err()
    {
        IS_FOLLOWING.store(false, Ordering::Release);
    }
}

fn follow() {
    if let Some(mut patched) = PATCHED.try_lock_for(PATIENCE)
        && patched.is_on
    {
        at_rest(|| patched.install());
    }
    IS_FOLLOWING.store(false, Ordering::Release);
}

/// Called before a fork: no thread of the recorder may hold the loader's lock, since the child could never take it.
pub(crate) fn hold_for_fork() {
    if let Some(patched) = PATCHED.try_lock_for(LONGEST_FORK) {
        std::mem::forget(patched);
        IS_HELD_FOR_FORK.store(true, Ordering::Release);
    }
}

/// In a forked child that thread does not exist.
pub(crate) fn forget_followers() {
    IS_FOLLOWING.store(false, Ordering::Release);
}

/// Called after a fork, in parent and child.
pub(crate) fn release_after_fork() {
    if IS_HELD_FOR_FORK.swap(false, Ordering::AcqRel) {
        // SAFETY: `hold_for_fork` of this thread locked it and kept no guard.
        unsafe { PATCHED.force_unlock() };
    }
}

impl Patched {
    fn find(&mut self) {
        let count = slots::load_count();
        if self.load_count != count {
            let hooks = all_hooks();
            let names: Vec<&CStr> = hooks.iter().map(|(hook, _)| hook.symbol).collect();
            self.slots = slots::find_slots(&names);
            self.load_count = count;
        }
    }

    fn install(&mut self) -> HookedFunctions {
        self.find();
        let hooks = all_hooks();
        let objects = slots::objects();
        for (name, (hook, replacement)) in hooks.iter().enumerate() {
            let slots = self.slots.iter().filter(|slot| slot.name == name);
            settle_original(hook, *replacement, slots, &objects);
        }
        let mut installed = vec![false; hooks.len()];
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
        let has = |symbol: &CStr| {
            hooks.iter().zip(&installed).any(|((hook, _), is_in)| hook.symbol == symbol && *is_in)
        };
        HookedFunctions {
            reports: has(allocations::REPORT.symbol),
            cpu: has(allocations::CPU_NEW.symbol) && has(allocations::CPU_DELETE.symbol),
            autograd: has(backward::NEXT_NUMBER.symbol),
            saved: has(saved_tensors::SAVE.symbol),
            unpacked: has(saved_tensors::UNPACK.symbol)
                || has(saved_tensors::UNPACK_INTRUSIVE.symbol),
        }
    }

    /// Restores the old addresses in the slots of these hooks.
    fn remove(&mut self, is_removed: impl Fn(&Hook) -> bool) {
        self.find();
        let hooks = all_hooks();
        let replacements: Vec<usize> = hooks.iter().map(|(_, new)| *new).collect();
        for slot in self.slots.iter().filter(|slot| is_removed(hooks[slot.name].0)) {
            // SAFETY: the slot belongs to an object that is loaded now.
            let now = unsafe { slot.at.read() };
            let Some(at) = self.old.iter().position(|(at, _)| *at == slot.at as usize) else {
                continue;
            };
            let (_, before) = self.old.swap_remove(at);
            if replacements.contains(&now) {
                // SAFETY: the same.
                unsafe { slots::store(slot.at, before) };
            }
        }
    }
}

fn is_phantom(object: &Object) -> bool {
    object.soname() == PHANTOM
}

/// Finds the function that a hook replaces: the phantom's, where slots lead to it, or else what the
/// loader finds by its name. A phantom may have been loaded since the last recording.
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
    let phantom = objects.iter().find(|object| is_phantom(object));
    let phantoms = phantom.and_then(|object| object.lookup(hook.symbol));
    let in_front = phantoms.filter(|function| standing.contains(function));
    if let Some(original) = in_front.or_else(|| slots::find_symbol(hook.symbol)) {
        hook.original.store(original, Ordering::Release);
    }
}
