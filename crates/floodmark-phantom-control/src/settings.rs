//! The machine that the phantom simulates.

use serde::{Deserialize, Serialize};

/// A phantom has no more devices than this.
pub const MOST_DEVICES: usize = 64;

/// The devices of a machine, which are alike, and this process's rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How many devices there are.
    pub devices: usize,
    /// The device's name, as torch shows it.
    pub name: String,
    /// The compute capability.
    pub capability: (i32, i32),
    /// How many multiprocessors a device has.
    pub multiprocessors: i32,
    /// How many clusters of 1, 2, 3 … thread blocks run at once, where each takes all of its multiprocessor. Empty where that is
    /// unknown.
    pub clusters: Vec<i32>,
    /// All memory of a device, in bytes.
    pub memory: u64,
    /// The memory of the CUDA context, in bytes.
    pub context: u64,
    /// Shared memory that a block may use by default, in bytes.
    pub shared_per_block: u64,
    /// Shared memory that a block may request, in bytes.
    pub shared_per_block_optin: u64,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_per_multiprocessor: u64,
    /// Registers of a multiprocessor.
    pub registers_per_multiprocessor: i32,
    /// How many threads a multiprocessor runs at most.
    pub threads_per_multiprocessor: i32,
    /// How many blocks a multiprocessor runs at most.
    pub blocks_per_multiprocessor: i32,
    /// The L2 cache, in bytes.
    pub l2: i32,
    /// The highest clock of the multiprocessors.
    pub clock_khz: i32,
    /// The clock of the memory.
    pub memory_clock_khz: i32,
    /// The width of the memory bus, in bits.
    pub bus_width: i32,
    /// How many NVLink links a device has to the others; 0 where they are reached over PCIe.
    pub nvlinks: u32,
    /// The version of CUDA, as 13000 for 13.0.
    pub cuda: i32,
    /// The file of the real cuDNN's graph library; empty where there is none.
    pub cudnn: String,
    /// How many ranks a communicator may have.
    pub world: i32,
    /// Which of them this process is.
    pub rank: i32,
    /// The version of NCCL, as 22809 for 2.28.9.
    pub nccl: i32,
}

/// Why a machine cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// There are none, or too many.
    #[error("{0} devices: 1 to {MOST_DEVICES} are possible")]
    Devices(usize),
    /// No memory is left for the program.
    #[error("the CUDA context takes all memory of the device")]
    Context,
    /// There is no such rank.
    #[error("rank {rank} of {world}")]
    Rank {
        /// The rank.
        rank: i32,
        /// The size of its world.
        world: i32,
    },
}

impl Settings {
    /// One device of that capability and memory, with the numbers of a GPU of its kind that matter less.
    pub fn usual(capability: (i32, i32), memory: u64) -> Self {
        Self {
            devices: 1,
            name: format!("GPU of compute capability {}.{}", capability.0, capability.1),
            capability,
            multiprocessors: 132,
            clusters: Vec::new(),
            memory,
            context: 0,
            shared_per_block: 49_152,
            shared_per_block_optin: 101_376,
            shared_per_multiprocessor: 102_400,
            registers_per_multiprocessor: 65_536,
            threads_per_multiprocessor: 2048,
            blocks_per_multiprocessor: 32,
            l2: 50 << 20,
            clock_khz: 1_500_000,
            memory_clock_khz: 1_500_000,
            bus_width: 256,
            nvlinks: 0,
            cuda: 13_000,
            cudnn: String::new(),
            world: 1,
            rank: 0,
            nccl: 22_809,
        }
    }

    /// How many clusters of that many thread blocks run at once, where each block takes all of its multiprocessor.
    pub fn clusters_of(&self, blocks: usize) -> i32 {
        let known = blocks.checked_sub(1).and_then(|at| self.clusters.get(at).copied());
        known.unwrap_or_else(|| {
            self.multiprocessors / i32::try_from(blocks.max(1)).unwrap_or(i32::MAX)
        })
    }

    /// Checks that such a machine can exist.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.devices == 0 || self.devices > MOST_DEVICES {
            return Err(SettingsError::Devices(self.devices));
        }
        if self.context >= self.memory {
            return Err(SettingsError::Context);
        }
        if self.rank < 0 || self.rank >= self.world {
            return Err(SettingsError::Rank { rank: self.rank, world: self.world });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h200() -> Settings {
        Settings { context: 700_000_000, ..Settings::usual((9, 0), 150_000_000_000) }
    }

    #[test]
    fn settings_cross_the_boundary_unchanged() {
        let text = serde_json::to_vec(&h200()).unwrap();
        assert_eq!(serde_json::from_slice::<Settings>(&text).unwrap(), h200());
    }

    #[test]
    fn a_wrong_profile_is_named() {
        assert_eq!(h200().check(), Ok(()));
        let wrong = |change: fn(&mut Settings)| {
            let mut settings = h200();
            change(&mut settings);
            settings.check().unwrap_err().to_string()
        };
        assert_eq!(wrong(|s| s.devices = 0), "0 devices: 1 to 64 are possible");
        assert_eq!(wrong(|s| s.devices = 65), "65 devices: 1 to 64 are possible");
        assert_eq!(
            wrong(|s| s.context = s.memory),
            "the CUDA context takes all memory of the device"
        );
        assert_eq!(wrong(|s| s.rank = 4), "rank 4 of 1");
        assert_eq!(wrong(|s| s.rank = -1), "rank -1 of 1");
    }
}
