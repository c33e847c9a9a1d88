//! Puts our hooks into the slots of every loaded object, and takes them out again.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use floodmark_slots::{self as slots, Object, Slot, at_rest};
use parking_lot::Mutex;

use crate::hooks::{self, Hook};
use crate::own_thread;

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

/// Whether a thread waits for the loader already.
static IS_FOLLOWING: AtomicBool = AtomicBool::new(false);
/// Whether the thread that forks has locked [`PATCHED`].
static IS_HELD_FOR_FORK: AtomicBool = AtomicBool::new(false);

/// What was found of the functions that we stand in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Found {
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

/// How long a thread waits for the slots. Their owner may wait for the loader in turn, and in a child of
/// `fork` they may belong to a thread that does not exist.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a fork waits for a thread that looks for slots. That thread may wait for the loader, which may be at work
/// for the thread that forks; and on a busy machine it takes long by itself.
const LONGEST_FORK: Duration = Duration::from_secs(2);

/// Puts the hooks in. Says which of them some object really calls.
pub(crate) fn install() -> Found {
    let Some(mut patched) = PATCHED.try_lock_for(PATIENCE) else { return Found::default() };
    patched.is_on = true;
    at_rest(|| patched.install())
}

/// Puts back what stood in the slots, where our hooks still stand. A hook that stays finds that nothing
/// is recorded, and calls on.
pub(crate) fn remove() {
    let Some(mut patched) = PATCHED.try_lock_for(PATIENCE) else { return };
    patched.is_on = false;
    at_rest(|| patched.remove(|_| true));
    patched.old.clear();
}

/// Runs `work`, in which the phantom takes its slots, without our hooks in front of the functions that it has. The hooks of
/// host allocations stay, so none is missed. `None` where another thread has the slots for too long.
pub fn with_phantoms_slots_free<R>(work: impl FnOnce() -> R) -> Option<R> {
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

/// Puts the hooks into objects that were loaded since. The loader may be at work for seconds, and the
/// caller has journals to look after, so a thread of its own waits for it.
pub(crate) fn follow_new_libraries() {
    if let Some(patched) = PATCHED.try_lock()
        && patched.is_on
        && patched.load_count != slots::load_count()
        && !IS_FOLLOWING.swap(true, Ordering::AcqRel)
        && own_thread::spawn("floodmark-follow", follow).is_err()
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

/// Before a fork: no thread of ours may have the loader's lock, since the child could never take it.
pub(crate) fn hold_for_fork() {
    if let Some(patched) = PATCHED.try_lock_for(LONGEST_FORK) {
        std::mem::forget(patched);
        IS_HELD_FOR_FORK.store(true, Ordering::Release);
    }
}

/// In a forked child the thread that followed does not exist.
pub(crate) fn forget_followers() {
    IS_FOLLOWING.store(false, Ordering::Release);
}

/// After a fork, in both.
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
        Found {
            reports: has(hooks::REPORT.symbol),
            cpu: has(hooks::CPU_NEW.symbol) && has(hooks::CPU_DELETE.symbol),
            autograd: has(hooks::NEXT_NUMBER.symbol),
            saved: has(hooks::SAVE.symbol),
            unpacked: has(hooks::UNPACK.symbol) || has(hooks::UNPACK_INTRUSIVE.symbol),
        }
    }

    /// Puts back what stood in the slots of these hooks.
    fn remove(&mut self, is_removed: impl Fn(&Hook) -> bool) {
        self.find();
        let hooks = hooks::all();
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
    let phantom = objects.iter().find(|object| is_phantom(object));
    let phantoms = phantom.and_then(|object| object.lookup(hook.symbol));
    let in_front = phantoms.filter(|function| standing.contains(function));
    if let Some(original) = in_front.or_else(|| slots::find_symbol(hook.symbol)) {
        hook.original.store(original, Ordering::Release);
    }
}
