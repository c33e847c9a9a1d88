//! The figures of an out-of-memory message.
//!
//! The text has no white space and no capitals: a message that a terminal, a logger or a comment wrapped, also inside
//! a word, reads the same as one on a single line.

use floodmark_trace::Bytes;

/// Figures from here on are unknown: torch prints 2^64 bytes, or a difference below zero.
const IMPOSSIBLE_BYTES: u64 = 1 << 60;

const UNITS: [(&str, u32); 12] = [
    ("bytes", 0),
    ("kib", 10),
    ("mib", 20),
    ("gib", 30),
    ("tib", 40),
    ("pib", 50),
    ("kb", 10),
    ("mb", 20),
    ("gb", 30),
    ("tb", 40),
    ("pb", 50),
    ("eb", 60),
];

/// A size as a message prints it: rounded, so that the exact one is up to `slack` bytes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Figure {
    pub(super) bytes: u64,
    pub(super) slack: u64,
}

/// The figures of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Figures {
    pub(super) requested: Option<Figure>,
    pub(super) device_index: Option<i8>,
    pub(super) total: Option<Figure>,
    pub(super) device_free: Option<Figure>,
    pub(super) limit: Option<Figure>,
    pub(super) allocated: Option<Figure>,
    pub(super) reserved: Option<Figure>,
    /// Reserved and not allocated.
    pub(super) free: Option<Figure>,
    pub(super) private_pools: Option<Figure>,
    /// "This process has …", if torch found its own process.
    pub(super) this_process: Option<Figure>,
    /// "Process 123 has …".
    pub(super) processes: Vec<(u64, Figure)>,
    /// Memory of Metal that is not torch's.
    pub(super) outside_torch: Option<Figure>,
}

impl Figures {
    /// The figures of a message of torch's caching allocators.
    pub(super) fn of_caching_allocator(text: &str) -> Self {
        let mut found = Self {
            requested: requested(text),
            device_index: device_index(text, "gpu"),
            total: after(text, &["totalcapacityof", "totalcapactyof"])
                .or_else(|| before(text, &["totalcapacity"])),
            device_free: before(text, &["isfree", "free;"]),
            limit: before(text, &["allowed;"]),
            allocated: after(text, &["oftheallocatedmemory"])
                .or_else(|| before(text, &["alreadyallocated"])),
            reserved: before(text, &["reservedintotalbypytorch"]),
            free: before(text, &["isreservedbypytorchbutunallocated", "cached)"]),
            private_pools: before(text, &["allocatedinprivatepools"]),
            this_process: after(text, &["thisprocesshas"]),
            processes: processes(text),
            outside_torch: None,
        };
        found.complete();
        found
    }

    /// The figures of a message of `backend:cudaMallocAsync`.
    pub(super) fn of_async_allocator(text: &str) -> Self {
        Self {
            requested: after(text, &["requested:"]),
            device_index: device_index(text, "ondevice"),
            total: after(text, &["devicelimit:"]),
            device_free: after(text, &["free(accordingtocuda):"]),
            limit: after(text, &["user-suppliedmemoryfraction):"]),
            allocated: after(text, &["currentlyallocated:"]),
            ..Self::default()
        }
    }

    /// The figures of a message of Metal.
    pub(super) fn of_mps(text: &str) -> Self {
        Self {
            requested: requested(text),
            device_index: Some(0),
            total: after(text, &["maxallowed:"]),
            allocated: after(text, &["mpsallocated:"]),
            outside_torch: after(text, &["otherallocations:"]),
            ..Self::default()
        }
    }

    /// Only the request, of a message of the host's allocators.
    pub(super) fn of_host(text: &str) -> Self {
        let requested = requested(text).or_else(|| after(text, &["unabletoallocate"]));
        Self { requested, ..Self::default() }
    }

    /// Only the request, of a message of NCCL.
    pub(super) fn of_library(text: &str) -> Self {
        Self { requested: after(text, &["failedtocudacalloc"]), ..Self::default() }
    }

    /// Reserved is allocated and free: one of the three may be missing.
    fn complete(&mut self) {
        match (self.allocated, self.reserved, self.free) {
            (Some(allocated), Some(reserved), None) => {
                let bytes = reserved.bytes.saturating_sub(allocated.bytes);
                self.free = Some(Figure { bytes, slack: reserved.slack + allocated.slack });
            }
            (Some(allocated), None, Some(free)) => {
                let bytes = allocated.bytes.saturating_add(free.bytes);
                self.reserved = Some(Figure { bytes, slack: allocated.slack + free.slack });
            }
            _ => {}
        }
    }
}

/// "Tried to allocate 2.00 GiB", "you tried to allocate 1024 bytes", "tried to allocate more than 1EB memory".
fn requested(text: &str) -> Option<Figure> {
    let rest = text.split_once("triedtoallocate")?.1;
    size(rest.strip_prefix("morethan").unwrap_or(rest)).map(|(figure, _)| figure)
}

/// `GPU 3`, `device 3`: the number after the word.
fn device_index(text: &str, word: &str) -> Option<i8> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(word) {
        let digits = after.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        if !digits.is_empty() && digits.len() <= 2 {
            return digits.parse().ok();
        }
        rest = after;
    }
    None
}

/// The processes that torch lists by their number.
fn processes(text: &str) -> Vec<(u64, Figure)> {
    let mut found = Vec::new();
    for rest in text.split("process").skip(1) {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = rest.split_at(digits);
        let used = rest.strip_prefix("has").and_then(possible_size);
        if let (Ok(number), Some((figure, rest))) = (number.parse(), used)
            && rest.starts_with("memoryinuse")
        {
            found.push((number, figure));
        }
    }
    found
}

/// The size that follows one of the words.
fn after(text: &str, words: &[&str]) -> Option<Figure> {
    words.iter().find_map(|word| {
        let found = possible_size(text.split_once(word)?.1)?;
        Some(found.0)
    })
}

/// The size that comes before one of the words.
fn before(text: &str, words: &[&str]) -> Option<Figure> {
    let mut ends = words.iter().flat_map(|word| text.match_indices(word).map(|(at, _)| at));
    ends.find_map(|end| {
        let head = &text[..end];
        let unit = UNITS.iter().find_map(|(unit, _)| head.strip_suffix(unit).map(str::len))?;
        let digits = head[..unit].trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        possible_size(&head[digits.len()..]).map(|(figure, _)| figure)
    })
}

/// A size that a device can have.
fn possible_size(text: &str) -> Option<(Figure, &str)> {
    size(text).filter(|(figure, _)| figure.bytes < IMPOSSIBLE_BYTES)
}

/// The size at the start of a text, and what follows it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a message prints two decimals; a conversion saturates"
)]
fn size(text: &str) -> Option<(Figure, &str)> {
    let number =
        text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, rest) = text.split_at(number);
    let number = number.trim_start_matches('.');
    let (unit, shift) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
    let value: f64 = number.parse().ok()?;
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let unit_bytes = (1_u64 << shift) as f64;
    let bytes = (value * unit_bytes) as u64;
    let slack = (0..decimals.min(9)).fold(unit_bytes / 2.0, |slack, _| slack / 10.0);
    let slack = if *shift == 0 { 0.0 } else { slack };
    Some((Figure { bytes, slack: slack as u64 }, &rest[unit.len()..]))
}

impl From<Figure> for Bytes {
    fn from(figure: Figure) -> Self {
        Self(figure.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_with_a_unit() {
        let bytes = |text: &str| size(text).map(|(figure, _)| figure.bytes);
        assert_eq!(bytes("1.50gibisfree"), Some(3 << 29));
        assert_eq!(bytes("0bytesisfree"), Some(0));
        assert_eq!(bytes("1024.00kib(gpu"), Some(1 << 20));
        assert_eq!(bytes("6.25mbonprivate"), Some(6_553_600));
        assert_eq!(bytes("1ebmemory"), Some(1 << 60));
        assert_eq!(bytes("17179869184.00gib"), Some(u64::MAX));
        for wrong in ["", "gib", "12", "1.2.3gib", "..gib", "12parsecs", "é1gib"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_figure_says_how_far_it_is_rounded() {
        let (figure, _) = size("3.00gib").unwrap();
        assert_eq!(figure.slack, (1 << 30) / 200);
        assert_eq!(size("512bytes").unwrap().0.slack, 0);
    }

    #[test]
    fn the_processes_are_listed_with_their_memory() {
        let text = "process1246069has577.00mibmemoryinuse.thisprocesshas1.00gibmemoryinuse.process7has1gibmemoryinuse";
        let found: Vec<_> =
            processes(text).into_iter().map(|(id, used)| (id, used.bytes >> 20)).collect();
        assert_eq!(found, [(1_246_069, 577), (7, 1024)]);
    }
}
