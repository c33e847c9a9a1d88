//! NVML, the library behind `nvidia-smi`, loaded while the program runs.
//!
//! Signatures, layouts and versions are those of NVIDIA's `nvml.h`. A function that the driver lacks is not called; one that
//! fails gives no figure.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fs;

use floodmark_trace::GpuProcess;

const SUCCESS: c_int = 0;
/// The list of processes has no room for all of them.
const INSUFFICIENT_SIZE: c_int = 7;
/// A number that NVML does not know.
const NOT_AVAILABLE: u64 = u64::MAX;
/// More processes than this on one GPU are not listed.
const MOST_PROCESSES: usize = 1024;

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Default)]
struct MemoryV1 {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Default)]
struct MemoryV2 {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2`: the size of the struct, and its version in the highest byte.
const MEMORY_V2: c_uint = 0x0200_0028;
const _: () = assert!(size_of::<MemoryV2>() == 0x28);

/// `nvmlProcessInfo_v2_t`, the same for versions 2 and 3 of the functions that list processes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcessInfo {
    pid: c_uint,
    used: u64,
    instances: [c_uint; 2],
}

/// `nvmlDevice_t`.
pub(crate) type DeviceHandle = *mut c_void;

type Run = unsafe extern "C" fn() -> c_int;
type FindDevice = unsafe extern "C" fn(*const c_char, *mut DeviceHandle) -> c_int;
type GetMemory<T> = unsafe extern "C" fn(DeviceHandle, *mut T) -> c_int;
type ListProcesses = unsafe extern "C" fn(DeviceHandle, *mut c_uint, *mut ProcessInfo) -> c_int;

/// The memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) total: u64,
    pub(crate) used: u64,
    /// What the driver keeps, where it is not part of `used`.
    pub(crate) driver: Option<u64>,
}

impl From<MemoryV2> for Memory {
    /// Some drivers count in `used` what they reserve, and some do not: the rest is the same for both.
    fn from(found: MemoryV2) -> Self {
        let MemoryV2 { total, reserved, free, used, .. } = found;
        let used = used.min(total.saturating_sub(free).saturating_sub(reserved));
        Self { total, used, driver: Some(reserved) }
    }
}

/// The loaded library.
pub(crate) struct Nvml {
    shutdown: Option<Run>,
    find_device: FindDevice,
    memory: Option<GetMemory<MemoryV1>>,
    memory_v2: Option<GetMemory<MemoryV2>>,
    /// Those that compute, and those that draw.
    process_lists: Vec<ListProcesses>,
}

/// A function of the library.
///
/// # Safety
///
/// `F` must be the type of that function.
unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the library is loaded, and stays so.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: the caller promises that the address is that of an `F`.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

impl Nvml {
    /// Loads and initializes it; `None` where there is none, or no driver for it.
    pub(crate) fn load() -> Option<Self> {
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: the library of the driver; it is never unloaded.
        let library = unsafe { libc::dlopen(c"libnvidia-ml.so.1".as_ptr(), flags) };
        if library.is_null() {
            return None;
        }
        // SAFETY: each type is that of the function in `nvml.h`.
        unsafe {
            let init: Run = function(library, c"nvmlInit_v2")?;
            if init() != SUCCESS {
                return None;
            }
            let lists = |first, second| {
                function::<ListProcesses>(library, first).or_else(|| function(library, second))
            };
            let process_lists = [
                // Version 3 has longer entries in some drivers 535.
                lists(
                    c"nvmlDeviceGetComputeRunningProcesses_v2",
                    c"nvmlDeviceGetComputeRunningProcesses_v3",
                ),
                lists(
                    c"nvmlDeviceGetGraphicsRunningProcesses_v3",
                    c"nvmlDeviceGetGraphicsRunningProcesses_v2",
                ),
            ];
            Some(Self {
                shutdown: function(library, c"nvmlShutdown"),
                find_device: function(library, c"nvmlDeviceGetHandleByUUID")?,
                memory: function(library, c"nvmlDeviceGetMemoryInfo"),
                memory_v2: function(library, c"nvmlDeviceGetMemoryInfo_v2"),
                process_lists: process_lists.into_iter().flatten().collect(),
            })
        }
    }

    /// The GPU with this UUID, or the part of a GPU (MIG) with it. torch leaves out the word before it.
    pub(crate) fn device(&self, uuid: &str) -> Option<DeviceHandle> {
        ["GPU-", "MIG-"].into_iter().find_map(|kind| {
            let text = CString::new(format!("{kind}{uuid}")).ok()?;
            let mut handle = std::ptr::null_mut();
            // SAFETY: the text ends with a zero; the handle is written on success alone.
            let status = unsafe { (self.find_device)(text.as_ptr(), &raw mut handle) };
            (status == SUCCESS).then_some(handle)
        })
    }

    /// The memory of a GPU.
    pub(crate) fn memory(&self, device: DeviceHandle) -> Option<Memory> {
        self.memory_v2(device).or_else(|| {
            let mut found = MemoryV1::default();
            // SAFETY: the struct is the one of this function.
            let status = unsafe { (self.memory?)(device, &raw mut found) };
            let MemoryV1 { total, used, .. } = found;
            (status == SUCCESS).then_some(Memory { total, used, driver: None })
        })
    }

    fn memory_v2(&self, device: DeviceHandle) -> Option<Memory> {
        let mut found = MemoryV2 { version: MEMORY_V2, ..MemoryV2::default() };
        // SAFETY: the struct is the one of this function, and has its version.
        let status = unsafe { (self.memory_v2?)(device, &raw mut found) };
        (status == SUCCESS).then(|| found.into())
    }

    /// The processes that use a GPU, by their numbers; `None` where NVML lists none of either kind.
    pub(crate) fn processes(&self, device: DeviceHandle) -> Option<Vec<GpuProcess>> {
        let lists: Vec<Vec<ProcessInfo>> =
            self.process_lists.iter().filter_map(|&list| processes_of(list, device)).collect();
        (!lists.is_empty()).then(|| {
            merged(&lists.concat())
                .into_iter()
                .map(|(pid, bytes)| GpuProcess { pid, bytes, name: name_of(pid) })
                .collect()
        })
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        if let Some(shutdown) = self.shutdown {
            // SAFETY: it was initialized once by this. NVML counts: the program's own use goes on.
            unsafe { shutdown() };
        }
    }
}

/// One list of processes; `None` where NVML refuses.
fn processes_of(list: ListProcesses, device: DeviceHandle) -> Option<Vec<ProcessInfo>> {
    let mut room = 16;
    while room <= MOST_PROCESSES {
        // Twice the room that it may use: its entries may be longer.
        let mut found = vec![ProcessInfo::default(); room * 2];
        let mut count = c_uint::try_from(room).ok()?;
        // SAFETY: the list has room for `count`, which the function sets to how many there are.
        let status = unsafe { list(device, &raw mut count, found.as_mut_ptr()) };
        match status {
            SUCCESS => {
                found.truncate((count as usize).min(room));
                return Some(found);
            }
            // More may start before the next call.
            INSUFFICIENT_SIZE => room = (room * 2).max(count as usize + 8),
            _ => return None,
        }
    }
    None
}

/// A process may compute and draw, and on some systems use a GPU in several instances: each has one entry.
fn merged(found: &[ProcessInfo]) -> BTreeMap<u32, Option<u64>> {
    let mut processes: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    for process in found {
        let bytes = (process.used != NOT_AVAILABLE).then_some(process.used);
        let known = processes.entry(process.pid).or_default();
        *known = (*known).max(bytes);
    }
    processes
}

/// The command of a process; `None` where this process cannot see it.
fn name_of(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_reserves_is_not_in_use() {
        let of = |used| MemoryV2 { version: MEMORY_V2, total: 100, reserved: 10, free: 60, used };
        let expected = Memory { total: 100, used: 30, driver: Some(10) };
        assert_eq!([30, 40].map(|used| Memory::from(of(used))), [expected; 2]);
    }

    #[test]
    fn a_process_has_one_entry() {
        let of = |pid, used| ProcessInfo { pid, used, instances: [u32::MAX; 2] };
        let found = merged(&[of(7, 100), of(8, NOT_AVAILABLE), of(7, 100), of(8, 5)]);
        assert_eq!(found, BTreeMap::from([(7, Some(100)), (8, Some(5))]));
        assert_eq!(merged(&[of(9, NOT_AVAILABLE)]), BTreeMap::from([(9, None)]));
    }

    #[test]
    fn a_process_is_named_where_it_can_be_seen() {
        let own = name_of(std::process::id()).unwrap();
        assert!(!own.is_empty() && !own.ends_with('\n'), "{own:?}");
        assert_eq!(name_of(u32::MAX), None);
    }
}
