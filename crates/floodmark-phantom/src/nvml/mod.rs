//! The management library: how many devices there are, and their names.
//!
//! It lists all devices of the machine, regardless of `CUDA_VISIBLE_DEVICES`.

mod links;

use std::ffi::{CStr, c_char, c_int, c_uint};

use floodmark_phantom_control::Settings;

use crate::calls::same_as_runtime;
use crate::guard::OrNull;
use crate::machine::machine;
use crate::status::put;
use crate::visible_devices;

const SUCCESS: i32 = 0;
const INVALID_ARGUMENT: i32 = 2;
const NOT_SUPPORTED: i32 = 3;
const NOT_FOUND: i32 = 6;
const INSUFFICIENT_SIZE: i32 = 7;

/// The handle of a device.
fn handle_of(device: usize) -> u64 {
    0x6000 + device as u64 * 64
}

/// The number of a device in the machine.
fn device_of(handle: u64) -> Option<usize> {
    let device = usize::try_from(handle.checked_sub(0x6000)? / 64).ok()?;
    (device < machine()?.all_devices()).then_some(device)
}

unsafe fn put_text(to: *mut c_char, room: c_uint, text: &str) -> i32 {
    let Ok(room) = usize::try_from(room) else { return INVALID_ARGUMENT };
    if room <= text.len() {
        return INSUFFICIENT_SIZE;
    }
    // SAFETY: the caller's buffer has `room` bytes; the text and a zero are no more.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        to.add(text.len()).write(0);
    }
    SUCCESS
}

#[crate::entry_point]
extern "C" fn nvmlInit() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn nvmlInit_v2() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn nvmlShutdown() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn nvmlErrorString(status: c_int) -> *const c_char {
    let words: &CStr = match status {
        0 => c"Success",
        2 => c"Invalid Argument",
        3 => c"Not Supported on a simulated GPU",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        _ => c"Unknown Error",
    };
    words.as_ptr()
}

#[crate::entry_point]
unsafe extern "C" fn nvmlSystemGetDriverVersion(text: *mut c_char, room: c_uint) -> i32 {
    // SAFETY: the caller's buffer, by the library's contract.
    unsafe { put_text(text, room, "580.0 (simulated)") }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(version, crate::runtime::version()) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> i32 {
    let found = machine().map_or(0, super::machine::Machine::all_devices);
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(count, c_uint::try_from(found).unwrap_or(0)) };
    SUCCESS
}

same_as_runtime! {
    nvmlDeviceGetCount(count: *mut c_uint) = nvmlDeviceGetCount_v2;
    nvmlDeviceGetHandleByIndex(index: c_uint, handle: *mut u64) = nvmlDeviceGetHandleByIndex_v2;
    nvmlSystemGetCudaDriverVersion(version: *mut c_int) = nvmlSystemGetCudaDriverVersion_v2;
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, handle: *mut u64) -> i32 {
    let found = handle_of(index as usize);
    if device_of(found).is_none() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(handle, found) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    text: *const c_char,
    handle: *mut u64,
) -> i32 {
    // SAFETY: the caller's text ends with a zero, by the library's contract.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let bus = text.split(':').nth(1).and_then(|bus| c_uint::from_str_radix(bus, 16).ok());
    let Some(index) = bus.and_then(|bus| bus.checked_sub(1)) else { return INVALID_ARGUMENT };
    // SAFETY: the same contract.
    unsafe { nvmlDeviceGetHandleByIndex_v2(index, handle) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetHandleByUUID(text: *const c_char, handle: *mut u64) -> i32 {
    // SAFETY: the caller's text ends with a zero, by the library's contract.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let count = machine().map_or(0, super::machine::Machine::all_devices);
    match (0..count).find(|&device| visible_devices::uuid(device) == text) {
        // SAFETY: the caller's pointer, by the library's contract.
        Some(device) => unsafe {
            put(handle, handle_of(device));
            SUCCESS
        },
        None => NOT_FOUND,
    }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetIndex(handle: u64, index: *mut c_uint) -> i32 {
    let Some(device) = device_of(handle) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(index, c_uint::try_from(device).unwrap_or(0)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetName(handle: u64, text: *mut c_char, room: c_uint) -> i32 {
    let (Some(machine), Some(_)) = (machine(), device_of(handle)) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's buffer, by the library's contract.
    unsafe { put_text(text, room, &machine.settings.name) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetUUID(handle: u64, text: *mut c_char, room: c_uint) -> i32 {
    let Some(device) = device_of(handle) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's buffer, by the library's contract.
    unsafe { put_text(text, room, &visible_devices::uuid(device)) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    handle: u64,
    major: *mut c_int,
    minor: *mut c_int,
) -> i32 {
    let (Some(machine), Some(_)) = (machine(), device_of(handle)) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's pointers, by the library's contract.
    unsafe {
        put(major, machine.settings.capability.0);
        put(minor, machine.settings.capability.1);
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo(handle: u64, info: *mut [u64; 3]) -> i32 {
    let Some((total, free)) = memory_of(handle) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's struct is three numbers: total, free, used.
    unsafe { put(info, [total, free, total - free]) };
    SUCCESS
}

/// The second version begins with its version, and has what the driver reserves: nothing.
#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(handle: u64, info: *mut [u64; 5]) -> i32 {
    let Some((total, free)) = memory_of(handle) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's struct is five numbers, the first one set by the caller.
    unsafe { put(info, [(*info)[0], total, 0, free, total - free]) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetMigMode(_h: u64, now: *mut c_uint, later: *mut c_uint) -> i32 {
    // SAFETY: the caller's pointers, by the library's contract.
    unsafe {
        put(now, 0);
        put(later, 0);
    }
    SUCCESS
}

/// A process that uses a device, in the first version of the struct.
#[repr(C)]
struct Process {
    pid: c_uint,
    used: u64,
}

/// The same in the versions 2 and 3.
#[repr(C)]
struct ProcessOfInstance {
    process: Process,
    instances: [c_uint; 2],
}

/// All memory of a device and what is free of it. One that the program does not see is empty.
fn memory_of(handle: u64) -> Option<(u64, u64)> {
    let (machine, device) = (machine()?, device_of(handle)?);
    let total = machine.settings.memory;
    let seen = machine.visible().iter().position(|&number| number == device);
    let free = seen.and_then(|seen| machine.memory(seen)).map(|memory| memory.free_bytes());
    Some((total, free.unwrap_or(total)))
}

/// This process's memory on a device: no other process uses it. torch names it in out-of-memory
/// messages.
fn this_process(handle: u64) -> Option<Process> {
    let (total, free) = memory_of(handle)?;
    Some(Process { pid: std::process::id(), used: total - free })
}

/// One entry for a caller's list that has room for `*count`.
unsafe fn put_only<T>(count: *mut c_uint, list: *mut T, only: T) -> i32 {
    // SAFETY: the caller's pointers, by the library's contract: `list` has room for `*count`.
    unsafe {
        let room = count.read();
        put(count, 1);
        if room == 0 {
            return INSUFFICIENT_SIZE;
        }
        put(list, only);
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses(
    handle: u64,
    count: *mut c_uint,
    list: OrNull<Process>,
) -> i32 {
    let Some(process) = this_process(handle) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's pointers, by the library's contract.
    unsafe { put_only(count, list, process) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    handle: u64,
    count: *mut c_uint,
    list: OrNull<ProcessOfInstance>,
) -> i32 {
    let Some(process) = this_process(handle) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's pointers, by the library's contract. An instance of all ones is none.
    unsafe { put_only(count, list, ProcessOfInstance { process, instances: [c_uint::MAX; 2] }) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    handle: u64,
    count: *mut c_uint,
    list: OrNull<ProcessOfInstance>,
) -> i32 {
    // SAFETY: the same function under a newer name.
    unsafe { nvmlDeviceGetComputeRunningProcesses_v2(handle, count, list) }
}

/// No process draws on a device.
#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    handle: u64,
    count: *mut c_uint,
) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_fact(handle, count, |_| 0) }
}

/// Stores a number of a device.
unsafe fn put_fact<T>(handle: u64, to: *mut T, fact: impl FnOnce(&Settings) -> T) -> i32 {
    let (Some(machine), Some(_)) = (machine(), device_of(handle)) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put(to, fact(&machine.settings)) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetMinorNumber(handle: u64, minor: *mut c_uint) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { nvmlDeviceGetIndex(handle, minor) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetMemoryBusWidth(handle: u64, width: *mut c_uint) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_fact(handle, width, |known| known.bus_width.unsigned_abs()) }
}

/// `nvmlDeviceArchitecture_t`, which counts the generations.
#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetArchitecture(handle: u64, which: *mut c_uint) -> i32 {
    let generation = |known: &Settings| match known.capability {
        (7, 0..=4) => 5,
        (7, _) => 6,
        (8, 0..=8) => 7,
        (8, _) => 8,
        (9, _) => 9,
        (10.., _) => 10,
        _ => 4,
    };
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_fact(handle, which, generation) }
}

/// Recent activity of a device: none.
#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetUtilizationRates(handle: u64, rates: *mut [c_uint; 2]) -> i32 {
    // SAFETY: the caller's struct is two numbers: of the device and of its memory.
    unsafe { put_fact(handle, rates, |_| [0; 2]) }
}

/// Every process may use a device.
#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetComputeMode(handle: u64, mode: *mut c_uint) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_fact(handle, mode, |_| 0) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlDeviceGetPersistenceMode(handle: u64, mode: *mut c_uint) -> i32 {
    // SAFETY: the caller's pointer, by the library's contract.
    unsafe { put_fact(handle, mode, |_| 1) }
}

#[crate::entry_point]
unsafe extern "C" fn nvmlSystemGetNVMLVersion(text: *mut c_char, room: c_uint) -> i32 {
    // SAFETY: the caller's buffer, by the library's contract.
    unsafe { nvmlSystemGetDriverVersion(text, room) }
}
