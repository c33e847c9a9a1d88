//! The options of `PYTORCH_CUDA_ALLOC_CONF` that decide where blocks are placed.

use floodmark_trace::Hint;

use crate::version::TorchVersion;

const MIB: u64 = 1 << 20;
/// `kLargeBuffer`: the default of `large_segment_size_mb`.
const LARGE_BUFFER: u64 = 20 * MIB;
/// `kRoundUpPowerOfTwoIntervals`: one for each power of two from 1 MiB to 32 GiB.
const INTERVALS: usize = 16;

/// Settings of the caching allocator, as one version of `PyTorch` understands them.
#[derive(Debug, Clone, PartialEq)]
pub struct AllocatorConfig {
    /// The version whose rules hold.
    pub version: TorchVersion,
    /// `expandable_segments`.
    pub expandable_segments: bool,
    /// `max_split_size_mb`; `u64::MAX` if it is not set.
    pub max_split: u64,
    /// `max_non_split_rounding_mb`.
    pub max_non_split_rounding: u64,
    /// `garbage_collection_threshold`; 0 if it is not set.
    pub gc_threshold: f64,
    /// `large_segment_size_mb`.
    pub large_segment: u64,
    /// `per_process_memory_fraction`.
    pub fraction: Option<f64>,
    /// `throw_on_cudamalloc_oom`.
    pub rejects_early: bool,
    divisions: [u64; INTERVALS],
    text: String,
}

/// Why a configuration is invalid, or cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The version has no such option.
    #[error("`{key}` is not an option of PYTORCH_CUDA_ALLOC_CONF in torch {version}")]
    Unknown {
        /// The option.
        key: String,
        /// The version of torch.
        version: TorchVersion,
    },
    /// The value is invalid for the option.
    #[error("`{key}` cannot be `{value}`: it must be {expected}")]
    Value {
        /// The option.
        key: String,
        /// Its value.
        value: String,
        /// The valid values.
        expected: &'static str,
    },
    /// The text is not of the form `option:value`.
    #[error("`{0}` is not of the form `option:value`")]
    Form(String),
    /// The option is about pinned host memory.
    #[error("`{0}` is about pinned host memory, which is not simulated")]
    Pinned(String),
    /// The effect of the option is not simulated.
    #[error("`{0}` is not simulated")]
    NotSimulated(String),
}

impl Hint for ConfigError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unknown { .. } => {
                Some("name the version of torch with `--torch`; options differ between versions")
            }
            Self::Value { .. } => None,
            Self::Form(_) => Some("for instance `expandable_segments:True,max_split_size_mb:512`"),
            Self::Pinned(_) => Some("leave it out: it does not change the memory of the GPU"),
            Self::NotSimulated(_) => Some("leave it out; only the native allocator is simulated"),
        }
    }
}

impl AllocatorConfig {
    /// The settings of a program that sets no option.
    pub fn default_of(version: TorchVersion) -> Self {
        Self {
            version,
            expandable_segments: false,
            max_split: u64::MAX,
            max_non_split_rounding: LARGE_BUFFER,
            gc_threshold: 0.0,
            large_segment: LARGE_BUFFER,
            fraction: None,
            rejects_early: false,
            divisions: [0; INTERVALS],
            text: String::new(),
        }
    }

    /// Parses the value of `PYTORCH_CUDA_ALLOC_CONF`.
    pub fn parse(text: &str, version: TorchVersion) -> Result<Self, ConfigError> {
        let mut config = Self::default_of(version);
        let text: String = text.split_whitespace().collect();
        let options = options(&text)?;
        // This option comes first: the limits of the others depend on it.
        for &(key, value) in options.iter().filter(|(key, _)| *key == "large_segment_size_mb") {
            config.set(key, value)?;
        }
        for &(key, value) in options.iter().filter(|(key, _)| *key != "large_segment_size_mb") {
            config.set(key, value)?;
        }
        config.text = text;
        Ok(config)
    }

    /// Parses the settings of a recording. Options of pinned host memory, and options that this version or the simulation does
    /// not have, are ignored.
    pub fn of_recording(text: &str, version: TorchVersion) -> Self {
        let text: String = text.split_whitespace().collect();
        let mut config = Self::default_of(version);
        let is_first = |key: &str| key == "large_segment_size_mb";
        let mut options = options(&text).unwrap_or_default();
        options.sort_by_key(|(key, _)| !is_first(key));
        for (key, value) in options {
            // An invalid option changes nothing.
            let _ = config.set(key, value);
        }
        config.text = text;
        config
    }

    /// The text that was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The number of divisions of the interval between two powers of two that contains a request.
    pub(crate) fn divisions(&self, requested: u64) -> u64 {
        let interval = (requested.max(1).ilog2() as usize).saturating_sub(20).min(INTERVALS - 1);
        self.divisions[interval]
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let version = self.version;
        let since = match key {
            "max_non_split_rounding_mb" => (2, 6),
            "graph_capture_record_stream_reuse" => (2, 9),
            "per_process_memory_fraction" => (2, 10),
            "large_segment_size_mb" => (2, 11),
            "throw_on_cudamalloc_oom" => (2, 12),
            "expandable_segments_reserve" | "expandable_segments_reserve_by_class" => (2, 15),
            _ => (0, 0),
        };
        if !version.is_at_least(since.0, since.1) {
            return Err(ConfigError::Unknown { key: key.to_owned(), version });
        }
        let least = if version.is_at_least(2, 10) { self.large_segment } else { LARGE_BUFFER + 1 };
        let of_segment = "a number of MiB, at least the size of large segments";
        match key {
            "expandable_segments" => self.expandable_segments = flag(key, value)?,
            "max_split_size_mb" => {
                self.max_split = mib(key, value, least, of_segment)?;
            }
            "max_non_split_rounding_mb" => {
                self.max_non_split_rounding = mib(key, value, least, of_segment)?;
            }
            "garbage_collection_threshold" => {
                self.gc_threshold = fraction(key, value, |x| x > 0.0 && x < 1.0)?;
            }
            "large_segment_size_mb" => {
                self.large_segment = mib(key, value, 10 * MIB + 1, "a number of MiB above 10")?;
                self.max_non_split_rounding = self.large_segment;
            }
            "per_process_memory_fraction" => {
                self.fraction = Some(fraction(key, value, |x| (0.0..=1.0).contains(&x))?);
            }
            "throw_on_cudamalloc_oom" => self.rejects_early = flag(key, value)?,
            "roundup_power2_divisions" => self.set_divisions(key, value)?,
            // These change when memory is allocated from the driver, or its addresses, never its size.
            "release_lock_on_cudamalloc" | "release_lock_on_hipmalloc" => {
                flag(key, value)?;
            }
            "expandable_segments_reserve" | "expandable_segments_reserve_by_class" => {}
            "backend" if value == "native" => {}
            "backend" => return Err(ConfigError::NotSimulated(format!("{key}:{value}"))),
            "graph_capture_record_stream_reuse" => {
                if flag(key, value)? {
                    return Err(ConfigError::NotSimulated(key.to_owned()));
                }
            }
            _ if key.starts_with("pinned_") => return Err(ConfigError::Pinned(key.to_owned())),
            _ => return Err(ConfigError::Unknown { key: key.to_owned(), version }),
        }
        Ok(())
    }

    fn set_divisions(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let expected = "a power of two, or a list such as [256:1,512:2,>:4]";
        let wrong =
            || ConfigError::Value { key: key.to_owned(), value: value.to_owned(), expected };
        let parts = |text: &str| -> Result<u64, ConfigError> {
            let parts: u64 = text.parse().map_err(|_| wrong())?;
            if parts == 0 || parts.is_power_of_two() { Ok(parts) } else { Err(wrong()) }
        };
        let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) else {
            self.divisions = [parts(value)?; INTERVALS];
            return Ok(());
        };
        let mut named = None;
        for entry in list.split(',') {
            let (size, count) = entry.split_once(':').ok_or_else(wrong)?;
            let count = parts(count)?;
            if size == ">" {
                // Up to 2.9, `>` also overwrites the interval before it.
                let after = usize::from(self.version.is_at_least(2, 10));
                let from = named.map_or(0, |interval| interval + after);
                self.divisions[from.min(INTERVALS)..].fill(count);
                continue;
            }
            let size: u64 = size.parse().map_err(|_| wrong())?;
            if !size.is_power_of_two() {
                return Err(wrong());
            }
            let interval = (size.ilog2() as usize).min(INTERVALS - 1);
            match named {
                None => self.divisions[..=interval].fill(count),
                Some(_) => self.divisions[interval] = count,
            }
            named = Some(interval);
        }
        Ok(())
    }
}

/// The pairs in `a:b,c:[d:e,f:g]`.
fn options(text: &str) -> Result<Vec<(&str, &str)>, ConfigError> {
    let mut options = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (key, after) =
            rest.split_once(':').ok_or_else(|| ConfigError::Form(rest.to_owned()))?;
        let end = if after.starts_with('[') {
            after.find(']').map(|at| at + 1).ok_or_else(|| ConfigError::Form(rest.to_owned()))?
        } else {
            after.find(',').unwrap_or(after.len())
        };
        let (value, next) = after.split_at(end);
        if key.is_empty() || value.is_empty() {
            return Err(ConfigError::Form(rest.to_owned()));
        }
        options.push((key, value));
        rest = match next.strip_prefix(',') {
            Some(next) => next,
            None if next.is_empty() => next,
            None => return Err(ConfigError::Form(rest.to_owned())),
        };
    }
    Ok(options)
}

fn flag(key: &str, value: &str) -> Result<bool, ConfigError> {
    match value {
        "True" => Ok(true),
        "False" => Ok(false),
        _ => Err(ConfigError::Value {
            key: key.to_owned(),
            value: value.to_owned(),
            expected: "True or False",
        }),
    }
}

fn mib(key: &str, value: &str, least: u64, expected: &'static str) -> Result<u64, ConfigError> {
    let bytes = value.parse().ok().and_then(|mib: u64| mib.checked_mul(MIB));
    bytes.filter(|&bytes| bytes >= least).ok_or_else(|| ConfigError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        expected,
    })
}

fn fraction(key: &str, value: &str, is_right: fn(f64) -> bool) -> Result<f64, ConfigError> {
    value.parse().ok().filter(|&x| is_right(x)).ok_or_else(|| ConfigError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        expected: "a number between 0 and 1",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AllocatorConfig, ConfigError> {
        AllocatorConfig::parse(text, TorchVersion::CHECKED)
    }

    #[test]
    fn a_list_of_divisions_fills_downwards_and_upwards() {
        let config = parse("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]").expect("valid");
        let found: Vec<u64> = (20..36).map(|power| config.divisions(1 << power)).collect();
        assert_eq!(found, [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8]);
        let old = AllocatorConfig::parse(
            "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
            TorchVersion::new(2, 9),
        );
        assert_eq!(old.expect("valid").divisions(1 << 30), 8);
    }

    #[test]
    fn options_of_host_memory_in_a_recording_are_ignored() {
        let text = "pinned_use_background_threads:True, max_split_size_mb:64,made_up:1";
        let config = AllocatorConfig::of_recording(text, TorchVersion::CHECKED);
        assert_eq!(config.max_split, 64 * MIB);
        let nothing = AllocatorConfig::of_recording("not even options", TorchVersion::CHECKED);
        assert_eq!(nothing.max_split, u64::MAX);
    }

    #[test]
    fn options_are_read_in_any_order() {
        let config = parse("max_split_size_mb:64, large_segment_size_mb:32").expect("valid");
        assert_eq!((config.max_split, config.large_segment), (64 * MIB, 32 * MIB));
        assert_eq!(config.max_non_split_rounding, 32 * MIB);
    }

    #[test]
    fn invalid_options_are_refused() {
        for (text, message) in [
            ("expandable_segments", "`expandable_segments` is not of the form `option:value`"),
            (
                "expandable_segments:true",
                "`expandable_segments` cannot be `true`: it must be True or False",
            ),
            (
                "max_split_size_mb:10",
                "`max_split_size_mb` cannot be `10`: it must be a number of MiB, at least the size of large segments",
            ),
            (
                "max_split:10",
                "`max_split` is not an option of PYTORCH_CUDA_ALLOC_CONF in torch 2.11",
            ),
            (
                "throw_on_cudamalloc_oom:True",
                "`throw_on_cudamalloc_oom` is not an option of PYTORCH_CUDA_ALLOC_CONF in torch 2.11",
            ),
            (
                "pinned_use_background_threads:True",
                "`pinned_use_background_threads` is about pinned host memory, which is not simulated",
            ),
            ("backend:cudaMallocAsync", "`backend:cudaMallocAsync` is not simulated"),
            (
                "roundup_power2_divisions:[256:3]",
                "`roundup_power2_divisions` cannot be `[256:3]`: it must be a power of two, or a list such as [256:1,512:2,>:4]",
            ),
            (
                "garbage_collection_threshold:1.5",
                "`garbage_collection_threshold` cannot be `1.5`: it must be a number between 0 and 1",
            ),
        ] {
            assert_eq!(parse(text).expect_err(text).to_string(), message);
        }
    }
}
