//! Graphs of operations, heuristics and plans: cuDNN's "backend" calls.
//!
//! They go to the real library. What belongs to a handle is left out, since a handle needs a device, and
//! the simulated device is put in its place. Where the library cannot do that, [`unplanned`] answers.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use super::library::{Descriptor, Library, library};
use super::{NOT_SUPPORTED, SUCCESS, splits, unplanned};
use crate::guard::{ConstOrNull, OrNull};
use crate::machine::machine;

const HANDLE_OF_PLAN: c_int = 400;
const WORKSPACE_OF_PLAN: c_int = 402;
const HANDLE_OF_GRAPH: c_int = 800;
const ID_OF_DEVICE: c_int = 2700;
const HANDLE_OF_DEVICE: c_int = 2701;

/// Kinds of descriptors that refer to a device, and the attribute that selects it.
const ASK_OF_DEVICE: [(c_int, c_int); 3] = [(2, 1307), (4, 204), (5, 407)];

/// The attribute that names the device, for descriptors that have one and are not finalized yet.
static WAITING: Mutex<Option<HashMap<usize, c_int>>> = Mutex::new(None);

fn note(descriptor: Descriptor, attribute: c_int) {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.get_or_insert_default().insert(descriptor as usize, attribute);
}

fn forget(descriptor: Descriptor) -> Option<c_int> {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.as_mut()?.remove(&(descriptor as usize))
}

/// The library, where it can plan.
fn planner() -> Option<&'static Library> {
    library().filter(|library| library.can_plan())
}

#[crate::entry_point]
unsafe extern "C" fn cudnnBackendCreateDescriptor(kind: c_int, descriptor: *mut Descriptor) -> i32 {
    let Some(library) = planner() else {
        // SAFETY: the caller's pointer, by cuDNN's contract.
        return unsafe { unplanned::create(descriptor) };
    };
    // SAFETY: the caller's pointer, by cuDNN's contract.
    let status = unsafe { (library.create)(kind, descriptor) };
    let asks = ASK_OF_DEVICE.iter().find(|&&(asking, _)| asking == kind);
    if let (SUCCESS, Some(&(_, attribute))) = (status, asks) {
        // SAFETY: it was just written.
        note(unsafe { *descriptor }, attribute);
    }
    status
}

#[crate::entry_point]
unsafe extern "C" fn cudnnBackendDestroyDescriptor(descriptor: Descriptor) -> i32 {
    forget(descriptor);
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe {
        planner()
            .map_or_else(|| unplanned::destroy(descriptor), |library| (library.destroy)(descriptor))
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnBackendSetAttribute(
    descriptor: Descriptor,
    attribute: c_int,
    kind: c_int,
    count: i64,
    values: ConstOrNull<c_void>,
) -> i32 {
    let Some(library) = planner() else { return SUCCESS };
    match attribute {
        HANDLE_OF_GRAPH | HANDLE_OF_PLAN => SUCCESS,
        ID_OF_DEVICE | HANDLE_OF_DEVICE => machine().map_or(NOT_SUPPORTED, |machine| {
            library.describe_device(descriptor, &machine.settings)
        }),
        // SAFETY: the caller's arguments, by cuDNN's contract.
        _ => unsafe { (library.set)(descriptor, attribute, kind, count, values) },
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnBackendGetAttribute(
    descriptor: Descriptor,
    attribute: c_int,
    kind: c_int,
    room: i64,
    count: OrNull<i64>,
    values: OrNull<c_void>,
) -> i32 {
    // SAFETY: the caller's arguments, by cuDNN's contract.
    unsafe {
        planner().map_or_else(
            || unplanned::get(attribute, kind, room, count, values),
            |library| {
                let status = (library.get)(descriptor, attribute, kind, room, count, values);
                if (status, attribute) == (SUCCESS, WORKSPACE_OF_PLAN) && room > 0 {
                    correct(library, descriptor, values.cast());
                }
                status
            },
        )
    }
}

/// Corrects the workspace of a plan for the device's own multiprocessors.
///
/// # Safety
/// The pointer is null or to a number.
unsafe fn correct(library: &Library, plan: Descriptor, workspace: *mut i64) {
    // SAFETY: by this function's contract.
    let Some(workspace) = (unsafe { workspace.as_mut() }) else { return };
    let Some(settings) = machine().map(|machine| &machine.settings) else { return };
    let Ok(planned) = u64::try_from(*workspace) else { return };
    if settings.capability != splits::CAPABILITY {
        return;
    }
    if let Some(text) = library.plan_as_text(plan) {
        let bytes = splits::on_device(&text, planned, settings);
        *workspace = i64::try_from(bytes).unwrap_or(i64::MAX);
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnBackendFinalize(descriptor: Descriptor) -> i32 {
    let Some(library) = planner() else { return SUCCESS };
    if let Some(attribute) = forget(descriptor) {
        let status = library.set_device(descriptor, attribute);
        if status != SUCCESS {
            return status;
        }
    }
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe { (library.finalize)(descriptor) }
}

/// Runs a plan: nothing.
#[crate::entry_point]
extern "C" fn cudnnBackendExecute(
    _handle: *mut c_void,
    _plan: Descriptor,
    _pack: Descriptor,
) -> i32 {
    SUCCESS
}
