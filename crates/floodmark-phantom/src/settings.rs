//! The properties of the simulated device, as text lines `key=value`.

use std::collections::HashMap;

/// What is known about the devices. All devices of a machine are alike.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) devices: usize,
    pub(crate) name: String,
    pub(crate) capability: (i32, i32),
    pub(crate) multiprocessors: i32,
    /// All memory of a device, in bytes.
    pub(crate) memory: u64,
    /// What the CUDA context and the libraries take of it as soon as the device is used.
    pub(crate) context: u64,
    pub(crate) shared_per_block: u64,
    pub(crate) shared_per_block_optin: u64,
    pub(crate) shared_per_multiprocessor: u64,
    pub(crate) registers_per_multiprocessor: i32,
    pub(crate) threads_per_multiprocessor: i32,
    pub(crate) blocks_per_multiprocessor: i32,
    pub(crate) l2: i32,
    pub(crate) clock_khz: i32,
    pub(crate) memory_clock_khz: i32,
    pub(crate) bus_width: i32,
    /// The version of CUDA that runtime and driver are, as 13000 for 13.0.
    pub(crate) cuda: i32,
    /// The file of the real cuDNN's graph library; empty where there is none.
    pub(crate) cudnn: String,
    /// How many ranks a communicator may have, and which one this process is.
    pub(crate) world: i32,
    pub(crate) rank: i32,
    /// The simulated version of NCCL, as 22809 for 2.28.9.
    pub(crate) nccl: i32,
}

impl Settings {
    /// Reads the lines; an error names the line that is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut values = HashMap::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (key, value) =
                line.split_once('=').ok_or_else(|| format!("`{line}` is not `key=value`"))?;
            values.insert(key.trim(), value.trim());
        }
        let settings = Self {
            devices: number(&values, "devices", Some(1))?,
            name: values.get("name").copied().ok_or("`name` is missing")?.to_owned(),
            capability: capability(&values)?,
            multiprocessors: number(&values, "multiprocessors", None)?,
            memory: number(&values, "memory", None)?,
            context: number(&values, "context", Some(0))?,
            shared_per_block: number(&values, "shared_per_block", Some(49_152))?,
            shared_per_block_optin: number(&values, "shared_per_block_optin", None)?,
            shared_per_multiprocessor: number(&values, "shared_per_multiprocessor", None)?,
            registers_per_multiprocessor: number(
                &values,
                "registers_per_multiprocessor",
                Some(65_536),
            )?,
            threads_per_multiprocessor: number(&values, "threads_per_multiprocessor", None)?,
            blocks_per_multiprocessor: number(&values, "blocks_per_multiprocessor", None)?,
            l2: number(&values, "l2", None)?,
            clock_khz: number(&values, "clock_khz", Some(1_500_000))?,
            memory_clock_khz: number(&values, "memory_clock_khz", Some(1_500_000))?,
            bus_width: number(&values, "bus_width", Some(256))?,
            cuda: number(&values, "cuda", Some(13_000))?,
            cudnn: values.get("cudnn").copied().unwrap_or_default().to_owned(),
            world: number(&values, "world", Some(1))?,
            rank: number(&values, "rank", Some(0))?,
            nccl: number(&values, "nccl", Some(22_809))?,
        };
        if settings.devices == 0 || settings.devices > 64 {
            return Err(format!("`devices={}`: 1 to 64 are possible", settings.devices));
        }
        if settings.context >= settings.memory {
            return Err("`context` takes all of `memory`".to_owned());
        }
        if settings.rank < 0 || settings.rank >= settings.world {
            return Err(format!("rank {} of {}", settings.rank, settings.world));
        }
        Ok(settings)
    }
}

fn number<T: std::str::FromStr>(
    values: &HashMap<&str, &str>,
    key: &str,
    default: Option<T>,
) -> Result<T, String> {
    match (values.get(key), default) {
        (Some(text), _) => text.parse().map_err(|_| format!("`{key}={text}` is not a number")),
        (None, Some(default)) => Ok(default),
        (None, None) => Err(format!("`{key}` is missing")),
    }
}

fn capability(values: &HashMap<&str, &str>) -> Result<(i32, i32), String> {
    let text = values.get("capability").ok_or("`capability` is missing")?;
    let parts = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse::<i32>().ok()?, minor.parse::<i32>().ok()?)));
    parts.ok_or_else(|| format!("`capability={text}` is not of the form 9.0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: &str = "name=NVIDIA H200\ncapability=9.0\nmultiprocessors=132\nmemory=150000000000\n\
        context=700000000\nshared_per_block_optin=232448\nshared_per_multiprocessor=233472\n\
        threads_per_multiprocessor=2048\nblocks_per_multiprocessor=32\nl2=62914560\n";

    #[test]
    fn a_profile_is_read() {
        let settings = Settings::parse(H200).expect("it is whole");
        assert_eq!(settings.capability, (9, 0));
        assert_eq!((settings.devices, settings.memory), (1, 150_000_000_000));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let without = H200.replace("multiprocessors=132\n", "");
        assert!(Settings::parse(&without).is_err_and(|e| e.contains("multiprocessors")));
        assert!(
            Settings::parse(&format!("{H200}rank=4")).is_err_and(|e| e.contains("rank 4 of 1"))
        );
        assert!(Settings::parse(&format!("{H200}l2=big")).is_err_and(|e| e.contains("l2=big")));
        assert!(Settings::parse("name").is_err_and(|e| e.contains("key=value")));
    }
}
