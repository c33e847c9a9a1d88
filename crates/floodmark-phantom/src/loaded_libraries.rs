//! Replaces CUDA's libraries in objects that are bound to them.
//!
//! Objects that are loaded after this library bind to its functions by name, unless the real libraries
//! were loaded first: then all objects bind to the real ones. Their calls go through slots
//! (`floodmark-slots`), and each slot for a function of this library gets its address. The slots of CUDA's
//! own libraries stay unchanged: those libraries are no longer called, except cuDNN, which plans with its
//! own functions.
//!
//! Later objects are found by a mark: a stand-in at the end of the loader's list. When another object
//! follows the mark, new objects were loaded, and a new mark is added at the end. The check reads one
//! word, so every call can do it.

use std::collections::HashSet;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use floodmark_slots::{self as slots, Object};

use crate::machine::machine;
use crate::stand_ins;

/// The functions by which torch's caching allocator requests memory.
const MOST_IMPORTANT: &CStr = c"cudaMalloc";
/// `c10::cuda::device_count`, which caches its first result.
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

/// The mark; null until CUDA was replaced.
static MARK: AtomicPtr<LinkMap> = AtomicPtr::new(std::ptr::null_mut());
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

#[derive(Debug, Default)]
struct Taken {
    /// Objects whose slots were checked.
    done: HashSet<(usize, usize)>,
    /// Changed slots: their address, the old value, the new value.
    changed: Vec<(usize, usize, usize)>,
}

/// Stores this library's functions in the slots of all loaded objects. Returns whether memory
/// functions are among them.
pub(crate) fn take_over() -> bool {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    slots::at_rest(|| taken.get_or_insert_default().take())
}

/// Restores the old values of the slots.
pub(crate) fn restore() {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    for (at, before, now) in taken.take().unwrap_or_default().changed {
        let at = at as *mut usize;
        // SAFETY: the slots are restored right after they were changed, while all objects are still
        // loaded.
        unsafe {
            if at.read() == now {
                slots::store(at, before);
            }
        }
    }
}

/// Starts checking later objects; does nothing if no slot was changed.
pub(crate) fn watch() -> Result<(), String> {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.is_some() { set_mark() } else { Ok(()) }
}

/// Changes the slots of objects that were loaded since.
pub(crate) fn follow() {
    let mark = MARK.load(Ordering::Acquire);
    // SAFETY: a mark is never unloaded, and the loader only ever stores a pointer there.
    if !mark.is_null() && !unsafe { (*mark).next.load(Ordering::Acquire) }.is_null() {
        follow_new();
    }
}

#[cold]
fn follow_new() {
    // If another thread has the lock, that thread does it.
    let Ok(mut taken) = TAKEN.try_lock() else { return };
    if let Some(taken) = taken.as_mut() {
        // The mark first: objects after it count as new again.
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
    // SAFETY: for this request the loader stores one pointer.
    let asked = unsafe { libc::dlinfo(handle, LINK_MAP, (&raw mut record).cast()) };
    if asked != 0 || record.is_null() {
        return Err("the dynamic loader does not list its libraries".to_owned());
    }
    MARK.store(record, Ordering::Release);
    Ok(())
}

impl Taken {
    /// Changes the slots of all objects that were not checked yet.
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

/// This library's address of a function.
fn function(name: &CStr, own: &Object) -> Option<usize> {
    if name == DEVICE_COUNT {
        return Some(floodmark_phantom_device_count as *const () as usize);
    }
    own.lookup(name)
}

/// Whether the slot leads to the function of that name, or was not used yet. It may also have the
/// function of another tool, which calls the one that it replaces.
fn is_the_named(addr: usize, name: &CStr, object: &Object, objects: &[Object]) -> bool {
    object.contains(addr)
        || objects.iter().any(|other| other.contains(addr) && other.lookup(name) == Some(addr))
}

/// torch's own function caches the absence of a device.
#[crate::entry_point(0)]
extern "C" fn floodmark_phantom_device_count() -> c_int {
    machine().map_or(0, |machine| c_int::try_from(machine.device_count()).unwrap_or(0))
}
