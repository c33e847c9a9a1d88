//! The phantom's report on a program.

use serde::{Deserialize, Serialize};

/// The events on the simulated devices so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Calls that the phantom refused, because it does not support them.
    pub unsupported: Vec<UnsupportedCall>,
    /// How often the program read bytes without a value, which are returned as zeros.
    pub unanswered_reads: u64,
    /// How many bytes these were.
    pub unanswered_bytes: u64,
    /// The devices, in CUDA's order.
    pub devices: Vec<DeviceAccount>,
}

/// A call that the phantom does not support.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsupportedCall {
    /// The library: `cublas`.
    pub library: String,
    /// The function.
    pub name: String,
    /// How often it was called.
    pub count: u64,
}

/// The memory of a simulated device, in bytes. The CUDA context is not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceAccount {
    /// Its number in the machine, of which the program may see some devices alone.
    pub index: usize,
    /// The memory that the driver can allocate.
    pub capacity: u64,
    /// The free memory.
    pub free: u64,
    /// The peak of memory allocated from the driver.
    pub peak: u64,
    /// What CUDA's libraries held then, by their names; those that held nothing are left out.
    pub libraries_at_peak: Vec<(String, u64)>,
}
