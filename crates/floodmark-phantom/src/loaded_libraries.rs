//! Takes the place of CUDA's libraries in objects that are bound to them.
//!
//! Objects that are loaded after this library find its functions by their names, unless the real libraries
//! were there first: then all find the real ones, also those that come later. What they call goes through
//! slots (`floodmark-slots`), and a slot for a function that this library has gets this one's. CUDA's own
//! libraries are left alone: they are not called any more, but for cuDNN, which plans with what it has.
//!
//! Objects that come later are found by a mark: a stand-in at the end of the loader's list. When another
//! object follows it, there is something new, and a new mark goes to the end. That is one look at one
//! word, so it can be had at every call.

use std::collections::HashSet;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use floodmark_slots::{self as slots, Object};

use crate::machine::machine;
use crate::stand_ins;

/// What all of torch's caching allocator comes to in the end.
const MOST_IMPORTANT: &CStr = c"cudaMalloc";
/// `c10::cuda::device_count`, which remembers what it found when it was first asked.
const DEVICE_COUNT: &CStr = c"_ZN3c104cuda12device_countEv";

/// The loader's record of an object, as `link.h` has it.
#[repr(C)]
struct LinkMap {
    addr: usize,
    name: *const c_void,
    dynamic: *const c_void,
    next: AtomicPtr<LinkMap>,
    previous: *const LinkMap,
}

/// The mark; null while there is nothing to follow.
static MARK: AtomicPtr<LinkMap> = AtomicPtr::new(std::ptr::null_mut());
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

#[derive(Debug, Default)]
struct Taken {
    /// Objects that were seen to.
    done: HashSet<(usize, usize)>,
    /// Slots that were changed: where, what stood there, what stands there.
    changed: Vec<(usize, usize, usize)>,
}

/// Puts this library's functions into the slots of all that is loaded. Whether memory is among them.
pub(crate) fn take_over() -> bool {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    slots::at_rest(|| taken.get_or_insert_default().take())
}

/// Puts back what stood in the slots.
pub(crate) fn give_back() {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    for (at, before, now) in taken.take().unwrap_or_default().changed {
        let at = at as *mut usize;
        // SAFETY: it is given back right after it was taken, when all objects are still loaded.
        unsafe {
            if at.read() == now {
                slots::store(at, before);
            }
        }
    }
}

/// From now on objects that are loaded are seen to; nothing to do where nothing was taken over.
pub(crate) fn watch() -> Result<(), String> {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.is_some() { set_mark() } else { Ok(()) }
}

/// Sees to objects that were loaded since.
pub(crate) fn follow() {
    let mark = MARK.load(Ordering::Acquire);
    // SAFETY: a mark is never unloaded, and the loader only ever stores a pointer there.
    if !mark.is_null() && !unsafe { (*mark).next.load(Ordering::Acquire) }.is_null() {
        follow_new();
    }
}

#[cold]
fn follow_new() {
    // Who does not get it leaves it to the one who has it.
    let Ok(mut taken) = TAKEN.try_lock() else { return };
    if let Some(taken) = taken.as_mut() {
        // The mark first: what comes after it is new again.
        if set_mark().is_err() {
            MARK.store(std::ptr::null_mut(), Ordering::Release);
        }
        slots::at_rest(|| taken.take());
    }
}

fn set_mark() -> Result<(), String> {
    const LINK_MAP: c_int = 2;
    let handle = stand_ins::load_one("libfloodmark_mark.so")?;
    let mut record: *mut LinkMap = std::ptr::null_mut();
    // SAFETY: for this question the loader stores one pointer.
    let asked = unsafe { libc::dlinfo(handle, LINK_MAP, (&raw mut record).cast()) };
    if asked != 0 || record.is_null() {
        return Err("the dynamic loader does not list its libraries".to_owned());
    }
    MARK.store(record, Ordering::Release);
    Ok(())
}

impl Taken {
    /// Sees to all objects that were not seen to yet.
    fn take(&mut self) -> bool {
        let objects = slots::objects();
        let here = floodmark_phantom_device_count as *const () as usize;
        let Some(own) = objects.iter().find(|object| object.contains(here)) else { return false };
        self.done.retain(|known| objects.iter().any(|object| object.identity() == *known));
        let mut is_memory_ours = false;
        for object in &objects {
            if self.done.insert(object.identity()) && !is_left_alone(object, own) {
                is_memory_ours |= self.take_object(object, own, &objects);
            }
        }
        is_memory_ours
    }

    fn take_object(&mut self, object: &Object, own: &Object, objects: &[Object]) -> bool {
        let mut is_memory_ours = false;
        object.each_slot(|name, at| {
            let Some(function) = function(name, own) else { return };
            // SAFETY: a slot of an object that is loaded now.
            let before = unsafe { at.read() };
            if !is_the_named(before, name, object, objects) {
                return;
            }
            // SAFETY: the same.
            if unsafe { slots::store(at, function) } {
                self.changed.push((at as usize, before, function));
                is_memory_ours |= name == MOST_IMPORTANT;
            }
        });
        is_memory_ours
    }
}

/// This library itself, and CUDA's own.
fn is_left_alone(object: &Object, own: &Object) -> bool {
    object.identity() == own.identity() || object.soname().to_str().is_ok_and(stand_ins::is_of_cuda)
}

/// What this library has for a function.
fn function(name: &CStr, own: &Object) -> Option<usize> {
    if name == DEVICE_COUNT {
        return Some(floodmark_phantom_device_count as *const () as usize);
    }
    own.lookup(name)
}

/// Whether the slot leads to the function of that name, or was not used yet. Somebody else's function
/// may stand there too; it calls the one that it replaces by itself.
fn is_the_named(addr: usize, name: &CStr, object: &Object, objects: &[Object]) -> bool {
    object.contains(addr)
        || objects.iter().any(|other| other.contains(addr) && other.lookup(name) == Some(addr))
}

/// torch's own remembers that there was no device, when it was asked before.
#[crate::entry_point(0)]
extern "C" fn floodmark_phantom_device_count() -> c_int {
    machine().map_or(0, |machine| c_int::try_from(machine.device_count()).unwrap_or(0))
}
