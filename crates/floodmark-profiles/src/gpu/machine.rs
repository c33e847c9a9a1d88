//! The machine of an estimate, and the settings that the phantom gets.

use floodmark_phantom_control::{MOST_DEVICES, Settings};
use floodmark_trace::Bytes;
use serde::{Deserialize, Serialize};

use crate::gpu::profile::{GpuError, GpuProfile, find};
use crate::gpu::value_at::ValueAt;

/// A simulated machine: GPUs that are alike, and a rank of a job. A child process gets its parent's as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhantomMachine {
    /// The profile's name on the command line.
    pub gpu: String,
    /// The profile, with the memory that was requested.
    pub profile: GpuProfile,
    /// How many GPUs there are.
    pub gpus: u32,
    /// This rank, and how many there are.
    pub ranks: Option<(u32, u32)>,
    /// Values that lines read back from a GPU, where the estimate cannot compute them.
    pub answers: Vec<ValueAt>,
}

impl PhantomMachine {
    /// Finds the profile and gives it the memory that was requested.
    pub fn new(gpu: &str, memory: Option<Bytes>, gpus: u32) -> Result<Self, GpuError> {
        let (gpu, mut profile) = find(gpu)?;
        if let Some(memory) = memory {
            profile.memory = memory.0;
            if memory.0 <= profile.context {
                let why = format!("the CUDA context alone needs {}", Bytes(profile.context));
                return Err(GpuError::Wrong { field: "--memory", why });
            }
        }
        if gpus == 0 || gpus as usize > MOST_DEVICES {
            let why = format!("1 to {MOST_DEVICES} are possible");
            return Err(GpuError::Wrong { field: "--gpus", why });
        }
        Ok(Self { gpu, profile, gpus, ranks: None, answers: Vec::new() })
    }

    /// The same machine for another rank of its world.
    #[must_use]
    pub fn as_rank(&self, rank: u32) -> Self {
        Self { ranks: self.ranks.map(|(_, world)| (rank, world)), ..self.clone() }
    }

    /// The settings of the phantom, with the versions of the libraries that torch was built with. The name
    /// marks the device as simulated wherever torch shows it.
    pub fn settings(&self, libraries: &LibraryVersions) -> Result<Settings, GpuError> {
        let profile = &self.profile;
        let (rank, world) = self.ranks.unwrap_or((0, 1));
        Ok(Settings {
            devices: self.gpus as usize,
            name: format!("{} (simulated)", profile.name),
            capability: profile.compute_capability()?,
            multiprocessors: number("multiprocessors", profile.multiprocessors)?,
            clusters: profile
                .clusters
                .iter()
                .map(|&count| number("clusters", count))
                .collect::<Result<_, _>>()?,
            memory: profile.memory,
            context: profile.context,
            shared_per_block: profile.shared_per_block,
            shared_per_block_optin: profile.shared_per_block_optin,
            shared_per_multiprocessor: profile.shared_per_multiprocessor,
            registers_per_multiprocessor: number(
                "registers_per_multiprocessor",
                profile.registers_per_multiprocessor,
            )?,
            threads_per_multiprocessor: number(
                "threads_per_multiprocessor",
                profile.threads_per_multiprocessor,
            )?,
            blocks_per_multiprocessor: number(
                "blocks_per_multiprocessor",
                profile.blocks_per_multiprocessor,
            )?,
            l2: number("l2", profile.l2)?,
            clock_khz: number("clock_khz", profile.clock_khz)?,
            memory_clock_khz: number("memory_clock_khz", profile.memory_clock_khz)?,
            bus_width: number("bus_width", profile.bus_width)?,
            nvlinks: profile.nvlinks,
            cuda: libraries.cuda,
            cudnn: libraries.cudnn.clone(),
            world: number("--world", world)?,
            rank: number("--rank", rank)?,
            nccl: libraries.nccl,
        })
    }
}

/// The libraries that torch calls and the phantom replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryVersions {
    /// The version of CUDA, as 13000 for 13.0.
    pub cuda: i32,
    /// The file of the real cuDNN's graph library; empty where there is none.
    pub cudnn: String,
    /// The version of NCCL, as 22809 for 2.28.9.
    pub nccl: i32,
}

/// CUDA has these numbers as `int`.
fn number<T: TryInto<i32>>(field: &'static str, value: T) -> Result<i32, GpuError> {
    value.try_into().map_err(|_| GpuError::Wrong { field, why: "it is too large".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_the_numbers_of_the_profile() {
        let mut machine = PhantomMachine::new("t4", Some(Bytes(8 << 30)), 2).unwrap();
        machine.ranks = Some((3, 16));
        let libraries = LibraryVersions { cuda: 12_080, cudnn: "a.so".to_owned(), nccl: 22_705 };
        let settings = machine.settings(&libraries).unwrap();
        assert_eq!(settings.name, "Tesla T4 (simulated)");
        assert_eq!((settings.memory, settings.devices), (8_589_934_592, 2));
        assert_eq!((settings.rank, settings.world), (3, 16));
        assert_eq!(settings.capability, (7, 5));
        assert_eq!(settings.shared_per_block_optin, 65_536);
        assert_eq!((settings.cuda, settings.nccl), (12_080, 22_705));
        assert_eq!(settings.check(), Ok(()));
    }

    #[test]
    fn a_child_process_gets_the_same_machine() {
        let mut machine = PhantomMachine::new("t4", Some(Bytes(8 << 30)), 4).unwrap();
        machine.answers.push("a.py:3=1".parse().unwrap());
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<PhantomMachine>(&text).unwrap(), machine);
    }

    #[test]
    fn a_machine_that_cannot_be_is_refused() {
        let message =
            |memory, gpus| PhantomMachine::new("t4", memory, gpus).unwrap_err().to_string();
        assert!(message(Some(Bytes(1 << 20)), 1).contains("the CUDA context alone needs"));
        assert!(message(None, 0).contains("--gpus"));
        assert!(message(None, 65).contains("--gpus"));
    }
}
