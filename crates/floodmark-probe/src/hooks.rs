//! What torch calls instead of its own functions while a recording runs.
//!
//! Every hook calls the function it replaces, with the same arguments, and hands on its result. The
//! rest of it happens only while a recording runs, takes no lock that the program could hold, and calls
//! nothing of torch that could allocate. On CUDA the allocator's lock is held here.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use floodmark_trace::journal::{
    FLAG_BACKWARD, FLAG_DEFERRED, FLAG_OP_CALL, FLAG_STACK_LEFT_OUT, Record,
};
use floodmark_trace::{Category, Device, EventKind};

use crate::autograd::{self, Running};
use crate::gil_work;
use crate::names::label_id;
use crate::own_blocks;
use crate::recording::{IS_WATCHED, Recording};
use crate::saved_tensors::{self, PostAccumulate, Save, UnpackEntry};
use crate::thread::{Local, with_recording};
use crate::tracker;

/// A function of torch that we stand in for.
pub(crate) struct Hook {
    /// Its mangled name.
    pub(crate) symbol: &'static CStr,
    /// The function itself.
    pub(crate) original: AtomicUsize,
}

macro_rules! hooks {
    ($($name:ident = $symbol:expr => $replacement:path as $kind:ty;)*) => {
        $(pub(crate) static $name: Hook = Hook {
            symbol: $symbol,
            original: AtomicUsize::new(0),
        };)*
        /// Every hook, with the address of its replacement.
        pub(crate) fn all() -> Vec<(&'static Hook, usize)> {
            vec![$((&$name, $replacement as $kind as usize)),*]
        }
    };
}

type Report = unsafe extern "C-unwind" fn(*mut c_void, i64, usize, usize, u16);
type ReportOom = unsafe extern "C-unwind" fn(i64, usize, usize, u16);
type CpuNew = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize);
type CpuDelete = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);
type CpuOom = unsafe extern "C-unwind" fn(*mut c_void, usize);
type NextNumber = unsafe extern "C-unwind" fn() -> u64;
type Execute = unsafe extern "C-unwind" fn(
    *mut c_void,
    *const c_void,
    *const c_void,
    bool,
    bool,
    bool,
    *const c_void,
) -> VariableList;
type IsAccelerator = unsafe extern "C-unwind" fn(i8) -> bool;
#[rustfmt::skip]
type LtMatmul = unsafe extern "C-unwind" fn(
    *mut c_void, *mut c_void, *const c_void, *const c_void, *mut c_void, *const c_void, *mut c_void, *const c_void,
    *const c_void, *mut c_void, *mut c_void, *mut c_void, *const c_void, *mut c_void, usize, *mut c_void,
) -> c_int;
type SetWorkspace = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize) -> c_int;

hooks! {
    REPORT = c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE" => report as Report;
    REPORT_OOM = c"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE" => report_oom as ReportOom;
    CPU_NEW = c"_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm" => cpu_new as CpuNew;
    CPU_DELETE = c"_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv" => cpu_delete as CpuDelete;
    CPU_OOM = c"_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm" => cpu_oom as CpuOom;
    NEXT_NUMBER = c"_ZN2at15sequence_number17get_and_incrementEv" => next_number as NextNumber;
    EXECUTE = c"_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_" => execute as Execute;
    IS_ACCELERATOR = c"_ZN2at11accelerator13isAcceleratorEN3c1010DeviceTypeE" => is_accelerator as IsAccelerator;
    SET_WORKSPACE = c"cublasSetWorkspace_v2" => set_workspace as SetWorkspace;
    LT_MATMUL = c"cublasLtMatmul" => lt_matmul as LtMatmul;
    SAVE = c"_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb" => saved_tensors::save as Save;
    UNPACK = c"_ZNK5torch8autograd13SavedVariable6unpackESt10shared_ptrINS0_4NodeEE" => saved_tensors::unpack_entry as UnpackEntry;
    UNPACK_INTRUSIVE = c"_ZNK5torch8autograd13SavedVariable6unpackEN3c1013intrusive_ptrINS0_4NodeENS2_6detail34intrusive_target_default_null_typeIS4_EEEE" => saved_tensors::unpack_intrusive_entry as UnpackEntry;
    POST_ACCUMULATE = c"_ZN5torch8autograd4impl19post_acc_grad_hooksERKN2at6TensorE" => saved_tensors::post_accumulate as PostAccumulate;
}

fn device_from(bits: u16) -> Device {
    let [kind, index] = bits.to_le_bytes();
    Device { kind: kind.cast_signed(), index: index.cast_signed() }.canonical()
}

/// Whether a report repeats what [`cpu_new`] or [`cpu_delete`] sees: while a profiler is on, the CPU
/// allocator reports its blocks too. It reserves nothing; other reporters of host memory do.
fn is_from_cpu_allocator(device: Device, reserved: usize) -> bool {
    device.is_cpu() && reserved == 0
}

pub(crate) fn record_alloc(recording: &Recording, local: &mut Local, mut record: Record) {
    // Host memory is reported outside every lock.
    let (node, backward) = local.stack(recording, record.device.is_cpu());
    record.stack = node.id;
    if backward {
        record.flags |= FLAG_BACKWARD;
    }
    if node.is_incomplete() {
        record.flags |= FLAG_STACK_LEFT_OUT;
    }
    if local.is_first_of_op_call() {
        record.flags |= FLAG_OP_CALL;
    }
    local.write(recording, record, &[]);
}

/// `c10::reportMemoryUsageToProfiler`: every CUDA block, and host memory outside the CPU allocator.
unsafe extern "C-unwind" fn report(
    ptr: *mut c_void,
    size: i64,
    allocated: usize,
    reserved: usize,
    device_bits: u16,
) {
    let device = device_from(device_bits);
    if !is_from_cpu_allocator(device, reserved) {
        with_recording(|recording, local| {
            if !recording.wants_torch(device) {
                return;
            }
            let kind = if size >= 0 { EventKind::Alloc } else { EventKind::Free };
            let mut record = Record::new(kind as u8, device);
            record.addr = ptr as u64;
            record.bytes = size.unsigned_abs();
            record.allocated = allocated as u64;
            record.reserved = reserved as u64;
            if size >= 0 {
                local.note_block(device, record.addr);
                tracker::complete(recording, local, &mut record);
                record_alloc(recording, local, record);
            } else {
                if tracker::is_deferred(record.addr) {
                    record.flags |= FLAG_DEFERRED;
                }
                recording.freed_meanwhile.note(device, record.addr);
                local.write(recording, record, &[]);
            }
        });
    }
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        if let Some(original) = original::<Report>(&REPORT) {
            original(ptr, size, allocated, reserved, device_bits);
        }
    }
}

/// `c10::reportOutOfMemoryToProfiler`: a CUDA allocation that failed.
unsafe extern "C-unwind" fn report_oom(
    size: i64,
    allocated: usize,
    reserved: usize,
    device_bits: u16,
) {
    let device = device_from(device_bits);
    if !device.is_cpu() {
        record_oom(device, size.unsigned_abs(), allocated, reserved);
    }
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        if let Some(original) = original::<ReportOom>(&REPORT_OOM) {
            original(size, allocated, reserved, device_bits);
        }
    }
}

fn record_oom(device: Device, bytes: u64, allocated: usize, reserved: usize) {
    with_recording(|recording, local| {
        if recording.wants_torch(device) {
            let mut record = Record::new(EventKind::Oom as u8, device);
            record.bytes = bytes;
            record.allocated = allocated as u64;
            record.reserved = reserved as u64;
            record.addr = if device.is_cpu() { 0 } else { tracker::take_device_free() };
            record_alloc(recording, local, record);
        }
    });
}

/// `c10::ProfiledCPUMemoryReporter::New`: the CPU allocator allocated a block.
///
/// It is called whether or not a profiler is on. To stand here, and not at the report that it makes when
/// one is on, spares the program torch's own table of blocks and its warning about blocks that are not in it.
unsafe extern "C-unwind" fn cpu_new(reporter: *mut c_void, ptr: *mut c_void, bytes: usize) {
    if own_blocks::note_new(ptr as usize) {
        return;
    }
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        if let Some(original) = original::<CpuNew>(&CPU_NEW) {
            original(reporter, ptr, bytes);
        }
    }
    if bytes == 0 {
        return;
    }
    with_recording(|recording, local| {
        if recording.wants_torch(Device::CPU) {
            let mut record = Record::new(EventKind::Alloc as u8, Device::CPU);
            record.addr = ptr as u64;
            record.bytes = bytes as u64;
            record_alloc(recording, local, record);
        }
    });
}

/// `c10::ProfiledCPUMemoryReporter::Delete`: the CPU allocator is about to free a block.
unsafe extern "C-unwind" fn cpu_delete(reporter: *mut c_void, ptr: *mut c_void) {
    if own_blocks::note_delete(ptr as usize) {
        return;
    }
    with_recording(|recording, local| {
        if recording.wants_torch(Device::CPU) {
            let mut record = Record::new(EventKind::Free as u8, Device::CPU);
            record.addr = ptr as u64;
            recording.freed_meanwhile.note(Device::CPU, record.addr);
            local.write(recording, record, &[]);
        }
    });
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        if let Some(original) = original::<CpuDelete>(&CPU_DELETE) {
            original(reporter, ptr);
        }
    }
}

/// `c10::ProfiledCPUMemoryReporter::OutOfMemory`: the system had no memory for the CPU allocator.
unsafe extern "C-unwind" fn cpu_oom(reporter: *mut c_void, bytes: usize) {
    record_oom(Device::CPU, bytes as u64, 0, 0);
    // SAFETY: the replaced function, with its own arguments.
    unsafe {
        if let Some(original) = original::<CpuOom>(&CPU_OOM) {
            original(reporter, bytes);
        }
    }
}

/// `at::sequence_number::get_and_increment`: an autograd node is being made.
unsafe extern "C-unwind" fn next_number() -> u64 {
    // SAFETY: the replaced function.
    let number = unsafe { original::<NextNumber>(&NEXT_NUMBER).map_or(0, |original| original()) };
    with_recording(|recording, local| {
        if recording.has_stacks() {
            local.remember_node(recording, number);
        }
    });
    number
}

/// `std::vector<at::Tensor>` as it is returned: through a hidden pointer, since it is larger than two words.
#[repr(C)]
struct VariableList {
    words: [MaybeUninit<usize>; 3],
}

/// `torch::autograd::Engine::execute`: a backward pass runs. The GIL is not held.
///
/// A pass inside another one (reentrant checkpoints) is part of it. `torch.autograd.grad` accumulates
/// nothing into `.grad`. A pass that throws leaves through here.
unsafe extern "C-unwind" fn execute(
    engine: *mut c_void,
    roots: *const c_void,
    inputs: *const c_void,
    keep_graph: bool,
    create_graph: bool,
    accumulate_grad: bool,
    outputs: *const c_void,
) -> VariableList {
    let is_seen = accumulate_grad
        && IS_WATCHED.load(Ordering::Relaxed)
        && autograd::running_node() == Running::Nothing;
    let mut pass = Pass { is_seen, has_failed: true };
    // SAFETY: the replaced function, with its own arguments. It is there, since only its callers'
    // slots lead here; an empty vector is three zeros.
    let found = unsafe {
        match original::<Execute>(&EXECUTE) {
            Some(original) => {
                original(engine, roots, inputs, keep_graph, create_graph, accumulate_grad, outputs)
            }
            None => VariableList { words: [MaybeUninit::new(0); 3] },
        }
    };
    pass.has_failed = false;
    found
}

/// A backward pass that runs. Dropped when it returns or throws.
struct Pass {
    is_seen: bool,
    has_failed: bool,
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.is_seen {
            gil_work::after_backward(self.has_failed);
        }
    }
}

/// `at::accelerator::isAccelerator`: autograd asks whether it has to mind streams.
///
/// Where there is no such device, tensors only say that they lie on one, and torch refuses to add up
/// gradients that would have to wait for it.
unsafe extern "C-unwind" fn is_accelerator(kind: i8) -> bool {
    let has_none = with_recording(|recording, _| recording.is_without_device());
    if has_none == Some(true) {
        return false;
    }
    // SAFETY: the replaced function, with its own argument.
    unsafe { original::<IsAccelerator>(&IS_ACCELERATOR).is_some_and(|original| original(kind)) }
}

/// `cublasSetWorkspace_v2`: torch gives cuBLAS a block to work in, and keeps it.
///
/// torch says it again before every product, so a block that was labelled is not labelled again.
unsafe extern "C-unwind" fn set_workspace(
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

/// `cublasLtMatmul`: torch gives cuBLASLt a block to work in, for this call or for longer.
#[rustfmt::skip]
unsafe extern "C-unwind" fn lt_matmul(
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

/// Labels a block that a library works in.
fn label_workspace(name: &str, ptr: *mut c_void) {
    with_recording(|recording, local| {
        let addr = ptr as u64;
        let Some(device) = local.last_device else { return };
        if addr == 0 || local.workspaces.contains(&addr) {
            return;
        }
        local.workspaces.push(addr);
        let (name, nothing) = (name.to_owned(), String::new);
        let mut record = Record::new(EventKind::Label as u8, device);
        record.addr = addr;
        record.stack = label_id(recording, local, Category::Workspace, name, nothing(), nothing());
        local.write(recording, record, &[]);
    });
}

/// The function that a hook replaces.
///
/// # Safety
/// `F` is its type.
pub(crate) unsafe fn original<F: Copy>(hook: &Hook) -> Option<F> {
    let address = hook.original.load(Ordering::Acquire);
    if address == 0 {
        return None;
    }
    // SAFETY: the caller's promise; a function pointer is one word.
    Some(unsafe { std::mem::transmute_copy::<usize, F>(&address) })
}

#[cfg(test)]
mod tests;
