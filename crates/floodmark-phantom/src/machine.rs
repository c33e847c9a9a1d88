//! The simulated machine: its devices, and the host memory that is registered with them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use floodmark_cuda_model::library_memory::{LibraryMemory, Use};
use floodmark_phantom_control::{MOST_DEVICES, Settings};

use crate::memory::Memory;
use crate::visible_devices;

/// All devices. A process has one machine, which does not change after the first allocation.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) settings: Settings,
    devices: Vec<Mutex<Memory>>,
    /// The numbers of the devices that the program sees, once it has asked CUDA.
    visible: OnceLock<Vec<usize>>,
    /// Host memory that devices may reach, by address.
    host: Mutex<BTreeMap<u64, HostBlock>>,
    /// Address space that the program reserved, by address: length and device.
    reserved: Mutex<BTreeMap<u64, (u64, usize)>>,
}

/// A stretch of host memory that devices may reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostBlock {
    pub(crate) bytes: u64,
    pub(crate) kind: HostKind,
    pub(crate) device: i32,
}

/// How it was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// `cudaHostAlloc`: memory of this library.
    Allocated,
    /// `cudaHostRegister`: memory of the program.
    Registered,
    /// `cudaMallocManaged`: memory of this library, for host and device.
    Managed,
}

/// The kind of an address.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AddressKind {
    /// Of a device.
    Device(usize),
    /// Of the host, known to the devices.
    Host(HostBlock),
    /// Of the host, or not allocated.
    Other,
}

/// The position of a range in memory that is known to CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// In one allocation.
    Within,
    /// It begins in an allocation and ends after it.
    Past,
    /// Among a device's addresses, where nothing is allocated.
    Void,
    /// Elsewhere: pageable memory of the host, or nothing.
    Unknown,
}

/// Null, or a machine that is never freed.
static MACHINE: AtomicPtr<Machine> = AtomicPtr::new(ptr::null_mut());

/// The devices on which a kernel was launched, a bit each.
static LOADED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The machine, once it was started.
pub(crate) fn machine() -> Option<&'static Machine> {
    // SAFETY: it is null or came from `Box::into_raw`, and nothing frees it.
    unsafe { MACHINE.load(Ordering::Acquire).as_ref() }
}

/// Starts the machine. Another one may take its place as long as nothing was allocated: a process that was forked from a
/// prepared one has a machine of its own.
pub(crate) fn start(settings: Settings) -> Result<(), String> {
    if machine().is_some_and(Machine::is_used) {
        return Err("this process has a simulated GPU already".to_owned());
    }
    let is_eager = std::env::var("CUDA_MODULE_LOADING").is_ok_and(|loading| loading == "EAGER");
    let usable = settings.memory - settings.context;
    let major = u32::try_from(settings.capability.0).unwrap_or(0);
    let libraries = LibraryMemory::new(major, is_eager);
    let devices: Option<Vec<_>> =
        (0..settings.devices).map(|_| Some(Mutex::new(Memory::new(usable, libraries)?))).collect();
    let devices = devices.ok_or("the system refused address space")?;
    let (host, reserved) = (Mutex::default(), Mutex::default());
    let machine = Machine { settings, devices, visible: OnceLock::new(), host, reserved };
    MACHINE.store(Box::into_raw(Box::new(machine)), Ordering::Release);
    LOADED.store(0, Ordering::Relaxed);
    Ok(())
}

/// A library allocates memory for itself on a device. `false` when the device is full.
pub(crate) fn hold(device: usize, what: Use) -> bool {
    machine().and_then(|machine| machine.memory(device)).is_none_or(|mut memory| memory.hold(what))
}

/// A kernel is launched on the current device: the first one loads code. `false` when that does not fit.
pub(crate) fn load_kernels() -> bool {
    let device = current_device();
    let this = 1_u64 << device.min(MOST_DEVICES - 1);
    if LOADED.load(Ordering::Relaxed) & this != 0 {
        return true;
    }
    let is_loaded = hold(device, Use::Kernel);
    if is_loaded {
        LOADED.fetch_or(this, Ordering::Relaxed);
    }
    is_loaded
}

/// A library frees what it allocated in [`hold`].
pub(crate) fn release_held(device: usize, what: Use) {
    if let Some(mut memory) = machine().and_then(|machine| machine.memory(device)) {
        memory.release_held(what);
    }
}

/// The current device of this thread.
pub(crate) fn current_device() -> usize {
    CURRENT.get()
}

/// Chooses it; `false` when there is none of that number.
pub(crate) fn set_current_device(device: i32) -> bool {
    let count = machine().map_or(0, Machine::device_count);
    let chosen = usize::try_from(device).ok().filter(|&device| device < count);
    if let Some(device) = chosen {
        CURRENT.set(device);
    }
    chosen.is_some()
}

impl Machine {
    /// How many devices the program sees: by `CUDA_VISIBLE_DEVICES` at the time of the first call, as CUDA has it.
    pub(crate) fn device_count(&self) -> usize {
        self.visible.get_or_init(|| visible_devices::from_environment(self.all_devices())).len()
    }

    /// How many devices there are, seen or not.
    pub(crate) fn all_devices(&self) -> usize {
        self.devices.len()
    }

    /// The numbers of the devices that the program sees; of all as long as it has not asked CUDA.
    pub(crate) fn visible(&self) -> Vec<usize> {
        self.visible.get().cloned().unwrap_or_else(|| (0..self.all_devices()).collect())
    }

    /// The number in the machine of a device that the program sees.
    pub(crate) fn number_of(&self, device: usize) -> usize {
        self.visible.get().and_then(|visible| visible.get(device).copied()).unwrap_or(device)
    }

    /// Whether anything was allocated or registered so far.
    fn is_used(&self) -> bool {
        self.devices.iter().any(|memory| locked(memory).is_used())
            || !self.host().is_empty()
            || !self.reserved().is_empty()
    }

    /// The memory of a device.
    pub(crate) fn memory(&self, device: usize) -> Option<MutexGuard<'_, Memory>> {
        Some(locked(self.devices.get(device)?))
    }

    pub(crate) fn host(&self) -> MutexGuard<'_, BTreeMap<u64, HostBlock>> {
        locked(&self.host)
    }

    pub(crate) fn reserved(&self) -> MutexGuard<'_, BTreeMap<u64, (u64, usize)>> {
        locked(&self.reserved)
    }

    /// Whether the address belongs to a device, and to which.
    pub(crate) fn device_of(&self, addr: u64) -> Option<usize> {
        let own = self.devices.iter().position(|memory| locked(memory).contains(addr));
        own.or_else(|| {
            let reserved = self.reserved();
            let (&start, &(length, device)) = reserved.range(..=addr).next_back()?;
            (addr < start + length).then_some(device)
        })
    }

    /// How a range lies in the allocations of devices and of the host.
    pub(crate) fn extent(&self, addr: u64, bytes: u64) -> Extent {
        if let Some(device) = self.devices.iter().find(|memory| locked(memory).contains(addr)) {
            let block = locked(device).block_of(addr);
            return block.map_or(Extent::Void, |block| within(block, addr, bytes));
        }
        if let Some(block) = self.reserved_block(addr) {
            // Whether pages are mapped everywhere is left to the program: it maps them itself.
            return within(block, addr, bytes);
        }
        let host = self.host();
        match host.range(..=addr).next_back() {
            Some((&start, block)) if addr < start + block.bytes => {
                within((start, block.bytes), addr, bytes)
            }
            _ => Extent::Unknown,
        }
    }

    fn reserved_block(&self, addr: u64) -> Option<(u64, u64)> {
        let reserved = self.reserved();
        let (&start, &(length, _)) = reserved.range(..=addr).next_back()?;
        (addr < start + length).then_some((start, length))
    }

    pub(crate) fn address_kind(&self, addr: u64) -> AddressKind {
        if let Some(device) = self.device_of(addr) {
            let is_allocated = self.extent(addr, 1) == Extent::Within;
            return if is_allocated { AddressKind::Device(device) } else { AddressKind::Other };
        }
        let host = self.host();
        match host.range(..=addr).next_back() {
            Some((&start, block)) if addr < start + block.bytes => AddressKind::Host(*block),
            _ => AddressKind::Other,
        }
    }
}

fn within((start, length): (u64, u64), addr: u64, bytes: u64) -> Extent {
    let rest = (start + length).saturating_sub(addr);
    if bytes <= rest { Extent::Within } else { Extent::Past }
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
