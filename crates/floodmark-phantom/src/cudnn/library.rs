//! The real cuDNN, which plans for the simulated device.
//!
//! Since 9.8 cuDNN can plan without a device ("deviceless ahead-of-time compilation" in its manual): a
//! descriptor of the device's properties takes the place of a handle. So its own heuristics choose the
//! kernels here, and its own plans have the size of their workspace.
//!
//! Attention's workspaces were those of an H200 to the byte. Many of its convolutions' were not: without a
//! device the kernels of cuDNN 9.19 for 9.0 refuse a target of more than 18 multiprocessors, regardless of
//! the description, and plan for 18. [`super::splits`] takes them to the device's own number.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use super::{NOT_SUPPORTED, SUCCESS};
use crate::machine::machine;
use floodmark_phantom_control::Settings;

/// A descriptor of the real library.
pub(super) type Descriptor = *mut c_void;

type Create = unsafe extern "C" fn(c_int, *mut Descriptor) -> i32;
type OfDescriptor = unsafe extern "C" fn(Descriptor) -> i32;
type Set = unsafe extern "C" fn(Descriptor, c_int, c_int, i64, *const c_void) -> i32;
type Get = unsafe extern "C" fn(Descriptor, c_int, c_int, i64, *mut i64, *mut c_void) -> i32;

const DEVICE_PROPERTIES: c_int = 38;
const PLAN_AS_JSON: c_int = 405;
const PROPERTIES_AS_JSON: c_int = 2702;
const TYPE_DESCRIPTOR: c_int = 15;
const TYPE_CHARACTERS: c_int = 24;

/// The functions of the library that are used, and the simulated device.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) create: Create,
    pub(super) destroy: OfDescriptor,
    pub(super) finalize: OfDescriptor,
    pub(super) set: Set,
    pub(super) get: Get,
    pub(super) version: unsafe extern "C" fn() -> usize,
    pub(super) runtime_version: unsafe extern "C" fn() -> usize,
    pub(super) property: unsafe extern "C" fn(c_int, *mut c_int) -> i32,
    pub(super) error_text: unsafe extern "C" fn(i32) -> *const c_char,
    pub(super) last_error_text: unsafe extern "C" fn(*mut c_char, usize),
    /// A descriptor of the simulated device, where the library can plan without one.
    device: Option<usize>,
}

/// The library, or `None` if it is not installed.
pub(super) fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    LIBRARY.get_or_init(|| load(&machine()?.settings)).as_ref()
}

impl Library {
    /// Whether it can plan without a device: cuDNN can since 9.8.
    pub(super) fn can_plan(&self) -> bool {
        self.device.is_some()
    }

    /// Sets `attribute` of `descriptor` to the simulated device.
    pub(super) fn set_device(&self, descriptor: Descriptor, attribute: c_int) -> i32 {
        let Some(device) = self.device else { return NOT_SUPPORTED };
        let device = device as Descriptor;
        // SAFETY: the library reads one descriptor, which exists.
        unsafe { (self.set)(descriptor, attribute, TYPE_DESCRIPTOR, 1, (&raw const device).cast()) }
    }

    /// Makes a descriptor of device properties the one of the simulated device.
    pub(super) fn describe_device(&self, descriptor: Descriptor, settings: &Settings) -> i32 {
        let text = properties(settings);
        let length = i64::try_from(text.len()).unwrap_or(0);
        // SAFETY: the library reads `length` bytes.
        unsafe {
            (self.set)(
                descriptor,
                PROPERTIES_AS_JSON,
                TYPE_CHARACTERS,
                length,
                text.as_ptr().cast(),
            )
        }
    }

    /// A plan in the form that cuDNN writes and reads.
    pub(super) fn plan_as_text(&self, plan: Descriptor) -> Option<String> {
        let get = |room: i64, to: *mut c_void| {
            let mut count = 0;
            // SAFETY: the library writes no more bytes than there is room for, and their count.
            let status = unsafe {
                (self.get)(plan, PLAN_AS_JSON, TYPE_CHARACTERS, room, &raw mut count, to)
            };
            (status == SUCCESS).then_some(count)
        };
        let length = get(0, std::ptr::null_mut())?;
        let mut text = vec![0_u8; usize::try_from(length).ok()?];
        get(length, text.as_mut_ptr().cast())?;
        let text = String::from_utf8(text).ok()?;
        Some(text.trim_end_matches('\0').to_owned())
    }

    fn describe(&self, settings: &Settings) -> Option<usize> {
        let mut device = std::ptr::null_mut();
        // SAFETY: the pointer is to a place for one descriptor.
        let made = unsafe { (self.create)(DEVICE_PROPERTIES, &raw mut device) };
        let described = made == SUCCESS && self.describe_device(device, settings) == SUCCESS;
        // SAFETY: the descriptor was just made.
        let whole = described && unsafe { (self.finalize)(device) } == SUCCESS;
        whole.then_some(device as usize)
    }
}

fn load(settings: &Settings) -> Option<Library> {
    let path = CString::new(settings.cudnn.as_str()).ok()?;
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: its initialisers look for a driver and find this library, or none.
    let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the names and types are those of the library's headers.
    let mut library = unsafe {
        Library {
            create: function(handle, c"cudnnBackendCreateDescriptor")?,
            destroy: function(handle, c"cudnnBackendDestroyDescriptor")?,
            finalize: function(handle, c"cudnnBackendFinalize")?,
            set: function(handle, c"cudnnBackendSetAttribute")?,
            get: function(handle, c"cudnnBackendGetAttribute")?,
            version: function(handle, c"cudnnGetVersion")?,
            runtime_version: function(handle, c"cudnnGetCudartVersion")?,
            property: function(handle, c"cudnnGetProperty")?,
            error_text: function(handle, c"cudnnGetErrorString")?,
            last_error_text: function(handle, c"cudnnGetLastErrorString")?,
            device: None,
        }
    };
    library.device = library.describe(settings);
    Some(library)
}

/// A function of a loaded library.
///
/// # Safety
/// `F` is the type of the function of that name.
unsafe fn function<F: Copy>(handle: *mut c_void, name: &CStr) -> Option<F> {
    // SAFETY: the handle is of a loaded library, and the name ends with a zero.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert_eq!(size_of::<F>(), size_of_val(&found), "a function is a pointer");
    // SAFETY: by this function's contract; both are pointers.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

/// The device's properties in the form that cuDNN writes and reads.
fn properties(device: &Settings) -> String {
    let (major, minor) = device.capability;
    let fields = [
        ("maxGridSize", "[2147483647,65535,65535]".to_owned()),
        ("maxBlockSize", "[1024,1024,64]".to_owned()),
        ("regsPerBlock", device.registers_per_multiprocessor.to_string()),
        ("multiProcessorCount", device.multiprocessors.to_string()),
        ("smClockRateKHz", device.clock_khz.to_string()),
        ("memClockRateKHz", device.memory_clock_khz.to_string()),
        ("l2CacheSize", device.l2.to_string()),
        ("warpSize", "32".to_owned()),
        ("maxSharedMemoryPerBlock", device.shared_per_block.to_string()),
        ("maxSharedMemoryPerBlockOptin", device.shared_per_block_optin.to_string()),
        ("reservedSharedMemoryPerBlock", reserved_shared(device).to_string()),
        ("maxRegistersPerSM", device.registers_per_multiprocessor.to_string()),
        ("pciDeviceId", "0".to_owned()),
        ("maxCtasPerSM", device.blocks_per_multiprocessor.to_string()),
        ("maxThreadsPerBlock", "1024".to_owned()),
        ("maxThreadsPerSM", device.threads_per_multiprocessor.to_string()),
        ("isTccDriver", "0".to_owned()),
        ("supportCoopLaunch", "1".to_owned()),
        ("deviceVer", (major * 100 + minor * 10).to_string()),
        ("driverVer", device.cuda.to_string()),
        ("totalGlobalMem", device.memory.to_string()),
        ("cudaDeviceId", "0".to_owned()),
        ("deviceName", format!("\"{}\"", device.name.replace(['"', '\\'], ""))),
    ];
    let fields: Vec<String> =
        fields.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// The system's part of a block's shared memory, since compute capability 8.
fn reserved_shared(device: &Settings) -> u64 {
    device.shared_per_multiprocessor - device.shared_per_block_optin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_described_as_cudnn_wants_it() {
        let settings = Settings {
            name: "NVIDIA \"H200\"".to_owned(),
            shared_per_block_optin: 232_448,
            shared_per_multiprocessor: 233_472,
            ..Settings::usual((9, 0), 150_000_000_000)
        };
        let text = properties(&settings);
        assert!(text.starts_with("{\"maxGridSize\":[2147483647,65535,65535],"));
        assert!(text.contains("\"deviceVer\":900,"));
        assert!(text.contains("\"reservedSharedMemoryPerBlock\":1024,"));
        assert!(text.ends_with("\"deviceName\":\"NVIDIA H200\"}"), "no quote that would end it");
    }
}
