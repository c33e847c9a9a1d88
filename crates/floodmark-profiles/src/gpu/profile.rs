//! GPU profiles: the properties of a simulated GPU.
//!
//! A profile is a TOML file of `profiles/`, which is part of the program, or one of the user's own. What
//! libraries choose at run time by the properties of the device (attention kernels, workspaces) is chosen as
//! on the real GPU when these numbers are right.

use std::path::Path;
use std::{fs, io};

use floodmark_trace::Hint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gpu::roofline::Rates;

/// The profiles that are part of the program: the name on the command line, and the file.
const EMBEDDED: [(&str, &str); 15] = [
    ("v100-16gb", include_str!("../../profiles/v100-16gb.toml")),
    ("v100-32gb", include_str!("../../profiles/v100-32gb.toml")),
    ("t4", include_str!("../../profiles/t4.toml")),
    ("a10", include_str!("../../profiles/a10.toml")),
    ("a100-40gb", include_str!("../../profiles/a100-40gb.toml")),
    ("a100-80gb", include_str!("../../profiles/a100-80gb.toml")),
    ("l4", include_str!("../../profiles/l4.toml")),
    ("l40s", include_str!("../../profiles/l40s.toml")),
    ("rtx3090", include_str!("../../profiles/rtx3090.toml")),
    ("rtx4090", include_str!("../../profiles/rtx4090.toml")),
    ("rtx5090", include_str!("../../profiles/rtx5090.toml")),
    ("h100", include_str!("../../profiles/h100.toml")),
    ("h100-pcie", include_str!("../../profiles/h100-pcie.toml")),
    ("h200", include_str!("../../profiles/h200.toml")),
    ("b200", include_str!("../../profiles/b200.toml")),
];

/// A GPU profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuProfile {
    /// The name that the driver reports.
    pub name: String,
    /// Other names on the command line.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The compute capability: `9.0`.
    pub capability: String,
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// How many clusters of 1, 2, 3 … thread blocks run at once (`cudaOccupancyMaxActiveClusters`), where each block takes
    /// all of its multiprocessor; without it as many as the number of multiprocessors allows.
    #[serde(default)]
    pub clusters: Vec<u32>,
    /// Its memory in bytes, as CUDA gives it.
    pub memory: u64,
    /// The CUDA context, in bytes. What libraries hold comes on top as a program uses them.
    pub context: u64,
    /// Shared memory of a block by default, in bytes.
    pub shared_per_block: u64,
    /// Shared memory that a block may opt in to, in bytes.
    pub shared_per_block_optin: u64,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_per_multiprocessor: u64,
    /// Registers of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// How many threads a multiprocessor runs at most.
    pub threads_per_multiprocessor: u32,
    /// How many thread blocks a multiprocessor runs at most.
    pub blocks_per_multiprocessor: u32,
    /// How many threads a warp has.
    #[serde(default = "usual_warp_size")]
    pub warp_size: u32,
    /// The L2 cache, in bytes.
    pub l2: u64,
    /// The highest clock of the multiprocessors.
    pub clock_khz: u32,
    /// The clock of the memory.
    pub memory_clock_khz: u32,
    /// The width of the memory bus, in bits.
    pub bus_width: u32,
    /// How many NVLink links it has to the other GPUs of its machine; 0 where they are reached over PCIe.
    #[serde(default)]
    pub nvlinks: u32,
    /// Whether estimates with this profile were compared with a real GPU.
    #[serde(default)]
    pub checked: bool,
    /// Rates that it reaches, for the time of a step.
    #[serde(default)]
    pub rates: Option<Rates>,
}

fn usual_warp_size() -> u32 {
    32
}

/// Why a GPU profile cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// No profile has this name.
    #[error("there is no GPU profile `{name}`; did you mean {}?", listed(.close))]
    NoSuchGpu {
        /// The name.
        name: String,
        /// The profiles with a similar name.
        close: Vec<&'static str>,
    },
    /// A file of the user's own cannot be read.
    #[error("the GPU profile cannot be read")]
    Io(#[source] io::Error),
    /// The file is not a profile.
    #[error("the file is not a GPU profile")]
    NotAProfile(#[source] Box<toml::de::Error>),
    /// A number is impossible.
    #[error("`{field}` is wrong: {why}")]
    Wrong {
        /// The field.
        field: &'static str,
        /// The problem.
        why: String,
    },
}

impl Hint for GpuError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoSuchGpu { .. } => Some(
                "list the profiles with `floodmark gpus`, pass your own as `--gpu FILE.toml`, or change the \
                 capacity of a profile with `--memory`",
            ),
            Self::NotAProfile(_) => Some("`floodmark gpus h200` prints a profile to start from"),
            Self::Io(_) | Self::Wrong { .. } => None,
        }
    }
}

fn listed(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Every profile of the program, with its name on the command line.
#[expect(clippy::missing_panics_doc, reason = "a test parses every embedded profile")]
pub fn profiles() -> Vec<(&'static str, GpuProfile)> {
    let parsed = EMBEDDED.iter().map(|&(key, text)| {
        (key, parse(text).expect("a test parses every profile of the program"))
    });
    parsed.collect()
}

/// The text of a profile of the program.
pub fn source(name: &str) -> Result<&'static str, GpuError> {
    let (key, _) = by_name(name)?;
    let found = EMBEDDED.iter().find(|(embedded, _)| *embedded == key);
    Ok(found.map_or("", |(_, text)| text))
}

/// The GPU profile of a name, or of a path to a TOML file.
pub fn find(name: &str) -> Result<(String, GpuProfile), GpuError> {
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) {
        let text = fs::read_to_string(path).map_err(GpuError::Io)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        return Ok((stem.into_owned(), parse(&text)?));
    }
    by_name(name).map(|(key, profile)| (key.to_owned(), profile))
}

fn by_name(name: &str) -> Result<(&'static str, GpuProfile), GpuError> {
    let normalized_name = normalized(name);
    let mut all = profiles();
    let is_it = |key: &str, profile: &GpuProfile| {
        let names = [key, &profile.name].into_iter().chain(profile.aliases.iter().map(|a| &**a));
        names.into_iter().any(|name| normalized(name) == normalized_name)
    };
    match all.iter().position(|(key, profile)| is_it(key, profile)) {
        Some(at) => Ok(all.swap_remove(at)),
        None => {
            Err(GpuError::NoSuchGpu { name: name.to_owned(), close: close_to(&normalized_name) })
        }
    }
}

/// `NVIDIA GeForce RTX 4090` and `rtx-4090` are one name.
fn normalized(name: &str) -> String {
    let mut text = name.to_ascii_lowercase();
    for maker in ["nvidia", "geforce", "tesla"] {
        text = text.replace(maker, "");
    }
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Longer names that contain it, or else those with the smallest edit distance.
fn close_to(normalized_name: &str) -> Vec<&'static str> {
    let keys = EMBEDDED.iter().map(|&(key, _)| key);
    let longer =
        |key: &&str| !normalized_name.is_empty() && normalized(key).contains(normalized_name);
    let found: Vec<_> = keys.clone().filter(longer).collect();
    if !found.is_empty() {
        return found;
    }
    let mut by_distance: Vec<_> =
        keys.map(|key| (strsim::levenshtein(&normalized(key), normalized_name), key)).collect();
    by_distance.sort_unstable();
    by_distance.into_iter().take(3).map(|(_, key)| key).collect()
}

fn parse(text: &str) -> Result<GpuProfile, GpuError> {
    let profile: GpuProfile =
        toml::from_str(text).map_err(|error| GpuError::NotAProfile(Box::new(error)))?;
    profile.check()?;
    Ok(profile)
}

impl GpuProfile {
    /// The compute capability as two numbers.
    pub fn compute_capability(&self) -> Result<(i32, i32), GpuError> {
        let parts = self.capability.split_once('.');
        let numbers = parts.and_then(|(a, b)| Some((a.parse::<u8>().ok()?, b.parse::<u8>().ok()?)));
        let why = "it must be of the form `9.0`".to_owned();
        let (major, minor) = numbers.ok_or(GpuError::Wrong { field: "capability", why })?;
        Ok((major.into(), minor.into()))
    }

    /// Whether it computes in bf16: GPUs from Ampere on do.
    pub fn has_bf16(&self) -> bool {
        self.compute_capability().is_ok_and(|(major, _)| major >= 8)
    }

    fn check(&self) -> Result<(), GpuError> {
        let wrong = |field, why: &str| Err(GpuError::Wrong { field, why: why.to_owned() });
        self.compute_capability()?;
        if self.name.trim().is_empty() || self.name.contains(['\n', '\r']) {
            return wrong("name", "it must be one line of text");
        }
        if self.memory <= self.context {
            return wrong("memory", "it must be more than `context`");
        }
        for (field, number) in [
            ("multiprocessors", self.multiprocessors),
            ("registers_per_multiprocessor", self.registers_per_multiprocessor),
            ("threads_per_multiprocessor", self.threads_per_multiprocessor),
            ("blocks_per_multiprocessor", self.blocks_per_multiprocessor),
            ("clock_khz", self.clock_khz),
            ("memory_clock_khz", self.memory_clock_khz),
            ("bus_width", self.bus_width),
        ] {
            if number == 0 || i32::try_from(number).is_err() {
                return wrong(field, "it must be above 0 and fit in 32 bits");
            }
        }
        let ordered = self.shared_per_block <= self.shared_per_block_optin
            && self.shared_per_block_optin <= self.shared_per_multiprocessor;
        if !ordered || self.shared_per_block == 0 {
            return wrong(
                "shared_per_block",
                "it must be above 0, at most `shared_per_block_optin`, and that at most `shared_per_multiprocessor`",
            );
        }
        if self.clusters.iter().any(|&count| count == 0 || count > self.multiprocessors) {
            return wrong("clusters", "each must be above 0 and at most `multiprocessors`");
        }
        if self.l2 == 0 || i32::try_from(self.l2).is_err() {
            return wrong("l2", "it must be above 0 and fit in 32 bits");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_of_the_folder_is_in_the_program_and_valid() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles");
        let mut files: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut embedded: Vec<_> = EMBEDDED.iter().map(|(key, _)| format!("{key}.toml")).collect();
        embedded.sort();
        assert_eq!(files, embedded);
        let all = profiles();
        let mut names: Vec<String> = Vec::new();
        for (key, profile) in &all {
            names.extend([normalized(key), normalized(&profile.name)]);
            names.extend(profile.aliases.iter().map(|alias| normalized(alias)));
            assert_eq!(profile.warp_size, 32, "{key}");
            assert!(profile.threads_per_multiprocessor % profile.warp_size == 0, "{key}");
            assert!(profile.context < 1 << 30, "{key}");
        }
        let total = names.len();
        names.sort();
        names.dedup();
        // A profile whose key is its name counts twice.
        let same = all
            .iter()
            .filter(|(key, profile)| normalized(key) == normalized(&profile.name))
            .count();
        assert_eq!(names.len(), total - same);
        let checked: Vec<_> = all.iter().filter(|(_, p)| p.checked).map(|(key, _)| *key).collect();
        assert_eq!(checked, ["h200"]);
    }

    #[test]
    fn a_profile_is_found_however_its_name_is_written() {
        for name in ["rtx4090", "RTX 4090", "rtx-4090", "4090", "NVIDIA GeForce RTX 4090"] {
            assert_eq!(find(name).unwrap().0, "rtx4090", "{name}");
        }
        assert_eq!(find("H200").unwrap().1.memory, 150_109_880_320);
        assert_eq!(find("A100-80").unwrap().0, "a100-80gb");
    }

    #[test]
    fn a_wrong_name_is_answered_with_near_ones() {
        let message = |name: &str| find(name).unwrap_err().to_string();
        let a100 = "there is no GPU profile `a100`; did you mean `a100-40gb` or `a100-80gb`?";
        assert_eq!(message("a100"), a100);
        assert!(message("h20o").contains("`h200`"), "{}", message("h20o"));
        assert!(message("").contains("did you mean `"));
    }

    #[test]
    fn an_invalid_field_of_a_profile_is_named() {
        let good = source("t4").unwrap();
        assert!(parse(good).is_ok());
        for (from, to, named) in [
            ("capability = \"7.5\"", "capability = \"seven\"", "capability"),
            ("context = 167_772_160", "context = 99_828_320_256", "memory"),
            ("multiprocessors = 40", "multiprocessors = 0", "multiprocessors"),
            ("shared_per_block = 49_152", "shared_per_block = 149_152", "shared_per_block"),
            ("multiprocessors = 40", "multiprocessors = 40\nclusters = [40, 0]", "clusters"),
            ("multiprocessors = 40", "multiprocessors = 40\nclusters = [41]", "clusters"),
            ("l2 = 4_194_304", "l2 = 4_194_304_000_000", "l2"),
        ] {
            let text = good.replace(from, to);
            assert_ne!(text, good);
            assert!(parse(&text).unwrap_err().to_string().contains(named), "{named}");
        }
        let unknown = format!("{good}\nspeed = 3\n");
        assert!(matches!(parse(&unknown), Err(GpuError::NotAProfile(_))));
    }
}
