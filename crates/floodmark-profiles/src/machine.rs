//! The machine that a phantom simulates, and its settings as text.

use std::fmt::Write;

use floodmark_trace::Bytes;

use crate::profile::{GpuError, GpuProfile, find};

/// The machine that a phantom simulates: GPUs of one kind, and the rank of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhantomMachine {
    /// The profile's name on the command line.
    pub gpu: String,
    /// The profile, with the requested capacity.
    pub profile: GpuProfile,
    /// The number of GPUs.
    pub gpus: u32,
    /// The rank and the world size.
    pub ranks: Option<(u32, u32)>,
    /// The assumed values of lines that read a value back: `FILE:LINE=VALUE`.
    pub answers: Vec<String>,
}

/// The most GPUs of a phantom.
const MOST_GPUS: u32 = 64;

impl PhantomMachine {
    /// Finds the GPU profile and sets the requested capacity.
    pub fn new(gpu: &str, memory: Option<Bytes>, gpus: u32) -> Result<Self, GpuError> {
        let (gpu, mut profile) = find(gpu)?;
        if let Some(memory) = memory {
            profile.memory = memory.0;
            if memory.0 <= profile.context {
                let why = format!("the CUDA context alone needs {}", Bytes(profile.context));
                return Err(GpuError::Wrong { field: "--memory", why });
            }
        }
        if gpus == 0 || gpus > MOST_GPUS {
            let why = format!("1 to {MOST_GPUS} are possible");
            return Err(GpuError::Wrong { field: "--gpus", why });
        }
        Ok(Self { gpu, profile, gpus, ranks: None, answers: Vec::new() })
    }

    /// The settings of the phantom: lines of `key=value`. The name says "phantom" wherever torch shows it.
    pub fn settings(&self) -> String {
        let GpuProfile { name, capability, .. } = &self.profile;
        let mut text = format!("name={name} (phantom)\ncapability={capability}\n");
        let profile = &self.profile;
        let (rank, world) = self.ranks.unwrap_or((0, 1));
        for (key, number) in [
            ("devices", u64::from(self.gpus)),
            ("multiprocessors", profile.multiprocessors.into()),
            ("memory", profile.memory),
            ("context", profile.context),
            ("shared_per_block", profile.shared_per_block),
            ("shared_per_block_optin", profile.shared_per_block_optin),
            ("shared_per_multiprocessor", profile.shared_per_multiprocessor),
            ("registers_per_multiprocessor", profile.registers_per_multiprocessor.into()),
            ("threads_per_multiprocessor", profile.threads_per_multiprocessor.into()),
            ("blocks_per_multiprocessor", profile.blocks_per_multiprocessor.into()),
            ("warp_size", profile.warp_size.into()),
            ("l2", profile.l2),
            ("clock_khz", profile.clock_khz.into()),
            ("memory_clock_khz", profile.memory_clock_khz.into()),
            ("bus_width", profile.bus_width.into()),
            ("world", world.into()),
            ("rank", rank.into()),
        ] {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{key}={number}");
        }
        for (at, answer) in self.answers.iter().enumerate() {
            let _ = writeln!(text, "answer.{at}={answer}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_lines_with_the_numbers_of_the_gpu() {
        let mut machine = PhantomMachine::new("t4", Some(Bytes(8 << 30)), 2).unwrap();
        machine.ranks = Some((3, 16));
        machine.answers.push("a.py:3=1".to_owned());
        let settings = machine.settings();
        let has = |line: &str| assert!(settings.lines().any(|found| found == line), "{settings}");
        has("name=Tesla T4 (phantom)");
        has("memory=8589934592");
        has("devices=2");
        has("rank=3");
        has("world=16");
        has("capability=7.5");
        has("shared_per_block_optin=65536");
        has("answer.0=a.py:3=1");
    }

    #[test]
    fn an_impossible_machine_is_refused() {
        let said = |memory, gpus| PhantomMachine::new("t4", memory, gpus).unwrap_err().to_string();
        assert!(said(Some(Bytes(1 << 20)), 1).contains("the CUDA context alone needs"));
        assert!(said(None, 0).contains("--gpus"));
        assert!(said(None, 65).contains("--gpus"));
    }
}
