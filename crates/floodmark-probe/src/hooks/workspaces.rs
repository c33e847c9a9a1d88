//! Blocks that torch passes to cuBLAS and cuBLASLt as workspaces.

use std::os::raw::{c_int, c_void};

use floodmark_trace::Category;
use floodmark_trace::journal::Record;

use super::hook::{Hook, original};
use crate::recorder::names::label_id;
use crate::recorder::with_recording;

#[rustfmt::skip]
pub(super) type LtMatmul = unsafe extern "C-unwind" fn(
    *mut c_void, *mut c_void, *const c_void, *const c_void, *mut c_void, *const c_void, *mut c_void, *const c_void,
    *const c_void, *mut c_void, *mut c_void, *mut c_void, *const c_void, *mut c_void, usize, *mut c_void,
) -> c_int;
pub(super) type SetWorkspace =
    unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize) -> c_int;

pub(super) static SET_WORKSPACE: Hook = Hook::new(c"cublasSetWorkspace_v2");
pub(super) static LT_MATMUL: Hook = Hook::new(c"cublasLtMatmul");

/// `cublasSetWorkspace_v2`: torch passes a workspace to cuBLAS, and keeps it allocated.
///
/// torch calls it before every product, so a block that has a label is not labelled again.
pub(super) unsafe extern "C-unwind" fn set_workspace(
    handle: *mut c_void,
    ptr: *mut c_void,
    bytes: usize,
) -> c_int {
    label_workspace("cuBLAS workspace", ptr);
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        original::<SetWorkspace>(&SET_WORKSPACE).map_or(1, |original| original(handle, ptr, bytes))
    }
}

/// `cublasLtMatmul`: torch passes a workspace to cuBLASLt, for this call or for longer.
#[rustfmt::skip]
pub(super) unsafe extern "C-unwind" fn lt_matmul(
    handle: *mut c_void, desc: *mut c_void, alpha: *const c_void, a: *const c_void, a_desc: *mut c_void, b: *const c_void,
    b_desc: *mut c_void, beta: *const c_void, c: *const c_void, c_desc: *mut c_void, d: *mut c_void, d_desc: *mut c_void,
    algo: *const c_void, workspace: *mut c_void, workspace_bytes: usize, stream: *mut c_void,
) -> c_int {
    if workspace_bytes > 0 {
        label_workspace("cuBLASLt workspace", workspace);
    }
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        original::<LtMatmul>(&LT_MATMUL).map_or(1, |original| {
            original(
                handle, desc, alpha, a, a_desc, b, b_desc, beta, c, c_desc, d, d_desc, algo, workspace, workspace_bytes,
                stream,
            )
        })
    }
}

/// Labels the workspace of a library.
fn label_workspace(name: &str, ptr: *mut c_void) {
    with_recording(|recording, local| {
        let addr = ptr as u64;
        let Some(device) = local.last_device else { return };
        if addr == 0 || local.workspaces.contains(&addr) {
            return;
        }
        local.workspaces.push(addr);
        let (name, nothing) = (name.to_owned(), String::new);
        let label = label_id(recording, local, Category::Workspace, name, nothing(), nothing());
        local.write(recording, Record::label(device, addr, label), &[]);
    });
}
