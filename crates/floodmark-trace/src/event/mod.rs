//! The types of a trace: events, their subjects, and units.
//!
//! `PyTorch`'s words are used where it has one (`requested`, `segment`, `stream`); the rest are
//! defined here, once.

mod peak_part;
mod subject;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use peak_part::PeakPart;
pub use subject::{AllocatedChange, ProgramEvent, SegmentChange, Subject};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl $name {
            /// The index in the table of this id.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// An allocation, numbered in the order in which allocations happened.
    AllocationId(u32);
    /// A call stack: a node of the call tree. `0` is the empty stack.
    StackId(u32);
    /// A Python code object: a function in a file.
    CodeId(u32);
    /// One `nn.Module` object. `0` means none.
    ModuleId(u32);
    /// The label of a tensor. `0` means none.
    LabelId(u32);
    /// A name from the program or the user: a phase, a mark, an operator. `0` means none.
    TextId(u32);
    /// A thread of the traced program, numbered in the order in which threads were first seen.
    ThreadId(u16);
    /// A text that names a stream or a pool: the first 65,535 texts only. `0` means none.
    HandleId(u16);
}

impl From<HandleId> for TextId {
    fn from(handle: HandleId) -> Self {
        Self(handle.0.into())
    }
}

/// The number of an event, stored plus one, so that `Option` of it needs no more space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventNumber(NonZeroU32);

impl EventNumber {
    /// The highest number.
    pub const MAX: u32 = u32::MAX - 1;

    /// The event with this number; a larger number becomes [`Self::MAX`].
    pub fn new(number: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(number))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0.get() - 1
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, JsonSchema)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Subtracts `other`, never below zero.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::ops::Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::ops::AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self(0), |sum, one| sum + one)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self)
    }
}

/// Four significant digits and a binary unit, so that columns line up: `1.500 GiB`, `16.00 MiB`.
impl fmt::Display for Bytes {
    #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        // 1023.95 would round to 1024.0: it belongs to the next unit.
        while value >= 1023.95 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let decimals = if value < 10.0 {
            3
        } else if value < 100.0 {
            2
        } else {
            1
        };
        f.pad(&format!("{value:.decimals$} {}", UNITS[unit]))
    }
}

/// A number of bytes inside an event, in two halves: an event stays small only if no part of its
/// subject is aligned to eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EventBytes([u32; 2]);

impl From<Bytes> for EventBytes {
    #[expect(clippy::cast_possible_truncation, reason = "the halves are cut out on purpose")]
    fn from(bytes: Bytes) -> Self {
        Self([bytes.0 as u32, (bytes.0 >> 32) as u32])
    }
}

impl From<EventBytes> for Bytes {
    fn from(bytes: EventBytes) -> Self {
        let [low, high] = bytes.0;
        Self(u64::from(low) | u64::from(high) << 32)
    }
}

/// Microseconds since the recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(pub u64);

impl Micros {
    /// The same in seconds.
    #[expect(clippy::cast_precision_loss, reason = "2^52 microseconds are 142 years")]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// An address in the memory of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeviceAddr(pub u64);

/// A device as `PyTorch` numbers it: `c10::Device`, a type and an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// `c10::DeviceType`: 0 is the CPU, 1 is CUDA.
    pub kind: i8,
    /// The ordinal; −1 for the CPU.
    pub index: i8,
}

impl Device {
    /// The host's memory.
    pub const CPU: Self = Self { kind: 0, index: -1 };

    /// The CUDA device with this ordinal.
    pub const fn cuda(index: i8) -> Self {
        Self { kind: 1, index }
    }

    /// Whether this is the host's memory.
    #[inline]
    pub fn is_cpu(self) -> bool {
        self.kind == 0
    }

    /// The device for a type and index of torch's Python API: the CPU or a CUDA device.
    pub fn of_torch(kind: &str, index: i32) -> Self {
        if kind == "cpu" { Self::CPU } else { Self::cuda(i8::try_from(index).unwrap_or(0)) }
    }

    /// The same device with its stored index: the CPU is always −1.
    #[inline]
    #[must_use]
    pub fn canonical(self) -> Self {
        if self.kind == 0 { Self::CPU } else { self }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            0 => return f.pad("cpu"),
            1 => "cuda",
            6 => "hip",
            9 => "xla",
            12 => "xpu",
            13 => "mps",
            14 => "meta",
            other => return f.pad(&format!("device{other}:{}", self.index)),
        };
        f.pad(&format!("{kind}:{}", self.index))
    }
}

impl std::str::FromStr for Device {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "cpu" {
            return Ok(Self::CPU);
        }
        let (kind, index) = text.split_once(':').unwrap_or((text, "0"));
        let index: i8 = index.parse().map_err(|_| ())?;
        let kind = match kind {
            "cuda" => 1,
            "hip" => 6,
            "xla" => 9,
            "xpu" => 12,
            "mps" => 13,
            other => other.strip_prefix("device").and_then(|n| n.parse().ok()).ok_or(())?,
        };
        if index < 0 {
            return Err(());
        }
        Ok(Self { kind, index })
    }
}

impl Serialize for Device {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|()| D::Error::custom(format_args!("`{text}` is no device")))
    }
}

impl JsonSchema for Device {
    fn schema_name() -> Cow<'static, str> {
        "Device".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A device, as torch writes it: `cpu`, `cuda:0`.",
        })
    }
}

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal => $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $number,)* }

        impl $name {
            /// All of them, in display order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value with this number on disk.
            pub fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// Its name in reports.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

numbered! {
    /// What happened. The number is the one in the file's `kind` column.
    EventKind {
        /// A block was allocated.
        Alloc = 1 => "alloc",
        /// The program freed a block whose allocation is in the trace.
        Free = 2 => "free",
        /// The program freed a block that was allocated before recording began.
        FreeUnknown = 3 => "free_unknown",
        /// The last stream has finished using a block that was freed earlier.
        FreeCompleted = 4 => "free_completed",
        /// The allocator reserved memory from the driver.
        SegmentAlloc = 5 => "segment_alloc",
        /// The allocator freed memory to the driver.
        SegmentFree = 6 => "segment_free",
        /// An expandable segment grew.
        SegmentMap = 7 => "segment_map",
        /// An expandable segment shrank.
        SegmentUnmap = 8 => "segment_unmap",
        /// An allocation failed.
        Oom = 9 => "oom",
        /// The allocator's reserved bytes are now this many.
        Reserved = 10 => "reserved",
        /// An allocation got the name of its tensor.
        Label = 11 => "label",
        /// A training step ended.
        Step = 12 => "step",
        /// The user marked this time.
        Mark = 13 => "mark",
        /// A named phase began on this thread.
        PhaseBegin = 14 => "phase_begin",
        /// A named phase ended on this thread.
        PhaseEnd = 15 => "phase_end",
        /// An optimizer's `step` began.
        OptimizerBegin = 16 => "optimizer_begin",
        /// An optimizer's `step` ended.
        OptimizerEnd = 17 => "optimizer_end",
        /// A block that was live when recording began.
        InitialBlock = 18 => "initial_block",
        /// A part of a segment that was reserved when recording began.
        InitialSegment = 19 => "initial_segment",
        /// Autograd saved a tensor of this allocation for the backward pass, for the first time.
        Saved = 20 => "saved",
        /// The backward pass read a tensor of this allocation that autograd had saved.
        Unpacked = 21 => "unpacked",
    }
}

numbered! {
    /// The category of a tensor.
    Category {
        /// A weight that the optimizer or a module owns.
        Parameter = 1 => "parameter",
        /// A module's state that is not trained.
        Buffer = 2 => "buffer",
        /// `parameter.grad`.
        Gradient = 3 => "gradient",
        /// The optimizer's own tensors, kept from step to step.
        OptimizerState = 4 => "optimizer state",
        /// Allocated in forward, retained for backward.
        Activation = 5 => "activation",
        /// Allocated outside the model, an input of it.
        Input = 6 => "input",
        /// Allocated and freed within one phase.
        Temporary = 7 => "temporary",
        /// Scratch memory of a library.
        Workspace = 8 => "workspace",
        /// Memory that collectives read or write: buffers of FSDP, buckets of DDP.
        Communication = 10 => "communication",
        /// Keys and values of attention, kept from token to token.
        KvCache = 11 => "KV cache",
        /// The recording does not show the category.
        Unknown = 9 => "unknown",
    }
}

impl JsonSchema for Category {
    fn schema_name() -> Cow<'static, str> {
        "Category".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Self::ALL.iter().map(|category| category.name()).collect();
        json_schema!({
            "type": "string",
            "enum": names,
            "description": "The category of a tensor.",
        })
    }
}

numbered! {
    /// What a text names.
    TextKind {
        /// A phase that the user named.
        Phase = 1 => "phase",
        /// A mark that the user set.
        Mark = 2 => "mark",
        /// An operator.
        Op = 3 => "op",
        /// A CUDA stream: its handle.
        Stream = 4 => "stream",
        /// A memory pool of the caching allocator: its id.
        Pool = 5 => "pool",
    }
}

/// Flags about the frames of a stack, stored with each node of the call tree so that no walk is
/// needed.
pub mod stack_flags {
    /// A module's `forward` is somewhere on it.
    pub const MODULE: u8 = 1;
    /// An optimizer's `step` is somewhere on it.
    pub const OPTIMIZER: u8 = 2;
    /// This node and those below it ran during the backward pass of the node above it.
    pub const BACKWARD: u8 = 4;
    /// The frame is of `PyTorch`, of Python's own library, or ours.
    pub const LIBRARY: u8 = 8;
    /// The frame is of C or C++, not of Python. Such a frame is also one of a library.
    pub const NATIVE: u8 = 16;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_show_four_digits() {
        let shown: Vec<String> = [0, 1023, 1024, 1536, 10 << 20, 1 << 30, 123_456_789_012]
            .map(|n| Bytes(n).to_string())
            .into();
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.000 KiB", "1.500 KiB", "10.00 MiB", "1.000 GiB", "115.0 GiB"]
        );
    }

    #[test]
    fn a_number_survives_being_packed() {
        for number in [0, 1, u32::MAX - 1] {
            assert_eq!(EventNumber::new(number).get(), number);
        }
        assert_eq!(EventNumber::new(u32::MAX).get(), EventNumber::MAX);
        for bytes in [0, 1, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            assert_eq!(Bytes::from(EventBytes::from(Bytes(bytes))), Bytes(bytes));
        }
    }

    #[test]
    fn a_device_reads_back_as_it_prints() {
        for device in [Device::CPU, Device::cuda(0), Device::cuda(7), Device { kind: 12, index: 1 }]
        {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!("cuda".parse(), Ok(Device::cuda(0)));
        assert_eq!("cuda:-1".parse::<Device>(), Err(()));
        assert_eq!("gpu".parse::<Device>(), Err(()));
    }
}
