//! The reason that the figures of a message prove: the first of these that holds.
//!
//! 1. *huge request*: no device has a tebibyte.
//! 2. *capacity*: the request alone is larger than the device.
//! 3. *limit*: a limit is printed, and the device had enough free.
//! 4. *refused*: the device had clearly more free than was requested.
//! 5. *outside torch*: others have more than half of the device, and without them the request fits.
//! 6. *other pool*: private pools have enough free.
//! 7. *fragmentation*: reserved and free is at least the request, even if rounding is against it, and not just the slack
//!    of a full device.
//! 8. *outside torch*: others have a good part of the device, and without it the request fits.
//! 9. *capacity*: none of these.
//!
//! Where a figure is missing that decides between them, the reason is unknown, and the figure is named.

use floodmark_trace::Bytes;

use super::figures::{Figure, Figures};
use super::{OomMessageReason, OomSource};

/// A request of at least this size is a mistake in the program, for a device and for the host.
const HUGE_BYTES: u64 = 1 << 40;
const HUGE_HOST_BYTES: u64 = 16 << 40;
/// Memory outside torch that is usual: a CUDA context and a desktop need less.
const USUAL_OUTSIDE: u64 = 1 << 30;
/// The driver does not allocate the last of its memory.
const KEPT_BY_DRIVER: u64 = 256 << 20;
/// Memory outside torch that is more than this part of the device is a reason, in percent.
const NOTABLE_PERCENT: u64 = 15;
/// Reserved and free memory that is less than this part of the device is the slack of blocks, in percent.
const SLACK_PERCENT: u64 = 1;

/// The known memory figures at a failed allocation.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownMemory {
    pub(super) figures: Figures,
    pub(super) this_process: Option<u64>,
    pub(super) others: Vec<(u64, u64)>,
    pub(super) outside: Option<u64>,
    /// Whether the message should have torch's reserved bytes.
    has_reserved: bool,
    /// Whether the message shows that the platform limits the size of one block.
    pub(super) has_block_limit: bool,
}

/// Why an allocation failed.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) reason: OomMessageReason,
    pub(super) finding: String,
    pub(super) missing: Vec<&'static str>,
}

impl KnownMemory {
    pub(super) fn new(source: OomSource, figures: Figures, text: &str) -> Self {
        let has_block_limit = text.contains("cannotallocatememoryblockwithsizelargerthan");
        let has_reserved = source == OomSource::CachingAllocator;
        let mut known = Self { has_reserved, has_block_limit, ..Self::default() };
        let reserved = figures.reserved.or(figures.allocated);
        known.this_process = figures.this_process.map(|figure| figure.bytes);
        known.others = figures.processes.iter().map(|&(id, used)| (id, used.bytes)).collect();
        // In a container torch does not find its own process by its number: it is the one that holds what is reserved.
        if known.this_process.is_none()
            && let Some(reserved) = reserved
            && let Some(own) = own_process(&figures.processes, reserved)
        {
            known.this_process = Some(known.others.remove(own).1);
        }
        let reserved = if has_reserved { figures.reserved } else { figures.allocated };
        known.outside = figures.outside_torch.map(|figure| figure.bytes);
        if source != OomSource::Mps
            && let (Some(total), Some(free), Some(reserved)) =
                (figures.total, figures.device_free, reserved)
        {
            let used = total.bytes.saturating_sub(free.bytes);
            known.outside = Some(used.saturating_sub(reserved.bytes));
        }
        known.figures = figures;
        known
    }

    /// What is free on the device; for Metal what its limit leaves.
    fn device_free(&self) -> Option<u64> {
        let printed = self.figures.device_free.map(|figure| figure.bytes);
        printed.or_else(|| {
            let (total, used) = (self.figures.total?.bytes, self.figures.allocated?.bytes);
            Some(total.saturating_sub(used).saturating_sub(self.figures.outside_torch?.bytes))
        })
    }

    pub(super) fn verdict(&self, source: OomSource) -> Verdict {
        let requested = self.figures.requested.map_or(0, |figure| figure.bytes);
        match source {
            OomSource::CachingAllocator | OomSource::AsyncAllocator | OomSource::Mps => {
                self.on_device(requested)
            }
            OomSource::CpuAllocator if requested >= HUGE_HOST_BYTES => huge(requested),
            OomSource::CpuAllocator | OomSource::Numpy => {
                let amount = of_amount(" of", self.figures.requested);
                on_host(format!(
                    "the system refused a request{amount} for memory of the host, not of a GPU"
                ))
            }
            OomSource::SharedMemory => on_host(
                "a worker of a DataLoader ended when it used shared memory that the system does not have".to_owned(),
            ),
            OomSource::Kernel => on_host(
                "the system ended a process because its memory was used up".to_owned(),
            ),
            OomSource::Driver
            | OomSource::Cublas
            | OomSource::Cudnn
            | OomSource::OtherLibrary
            | OomSource::Nccl
            | OomSource::Triton => in_library(source, self.figures.requested),
        }
    }

    fn on_device(&self, requested: u64) -> Verdict {
        if requested >= HUGE_BYTES {
            return huge(requested);
        }
        let total = self.figures.total.map(|figure| figure.bytes);
        if let Some(total) = total.filter(|&total| requested > total) {
            let finding = format!(
                "the request of {} alone is larger than the device, which has {}",
                Bytes(requested),
                Bytes(total)
            );
            return Verdict::known(OomMessageReason::Capacity, finding);
        }
        if let Some(verdict) = self.by_limit(requested) {
            return verdict;
        }
        if let Some(free) = self.device_free() {
            return self.by_free_memory(requested, free);
        }
        let mut missing = vec!["the free memory of the device"];
        missing.extend(total.is_none().then_some("the memory of the device"));
        missing.extend(self.figures.allocated.is_none().then_some("torch's allocated bytes"));
        Verdict::unknown(requested, missing)
    }

    /// Whether a limit below the device's memory is the reason.
    fn by_limit(&self, requested: u64) -> Option<Verdict> {
        if self.has_block_limit {
            let finding = format!("the platform cannot allocate {} in one block", Bytes(requested));
            return Some(Verdict::known(OomMessageReason::Limit, finding));
        }
        let limit = self.figures.limit?;
        let finding = match (self.device_free(), self.figures.reserved) {
            (Some(free), _) if free >= requested => format!(
                "torch may reserve {} at most, and the device had {} free",
                Bytes::from(limit),
                Bytes(free)
            ),
            (None, Some(reserved)) if reserved.bytes + requested + limit.slack > limit.bytes => {
                format!("torch may reserve {} at most", Bytes::from(limit))
            }
            _ => return None,
        };
        let request = format!("{finding}; {} were requested", Bytes(requested));
        Some(Verdict::known(OomMessageReason::Limit, request))
    }

    /// The reason where no limit is printed, or none that was reached.
    fn by_free_memory(&self, requested: u64, free: u64) -> Verdict {
        let is_printed = self.figures.device_free.is_some() && self.figures.limit.is_none();
        if is_printed && free >= requested.saturating_add(KEPT_BY_DRIVER) {
            let finding = format!(
                "the device had {} free, and {} were requested",
                Bytes(free),
                Bytes(requested)
            );
            return Verdict::known(OomMessageReason::Refused, finding);
        }
        let (Some(total), Some(allocated)) = (self.figures.total, self.figures.allocated) else {
            let missing = match self.figures.total {
                None => vec!["the memory of the device", "torch's allocated bytes"],
                Some(_) => vec!["torch's allocated bytes", "torch's reserved bytes"],
            };
            return Verdict::unknown(requested, missing);
        };
        let without_others = |least: u64| self.outside_verdict(requested, free, total, least);
        if self.outside.is_some_and(|outside| outside > total.bytes / 2)
            && let Some(verdict) = without_others(0)
        {
            return verdict;
        }
        if let Some(verdict) = self.inside_torch(requested, total, allocated) {
            return verdict;
        }
        if let Some(verdict) = without_others(total.bytes / 100 * NOTABLE_PERCENT) {
            return verdict;
        }
        let is_cut = self.has_reserved && self.figures.free.is_none();
        if is_cut && allocated.bytes.saturating_add(requested) <= total.bytes {
            return Verdict::unknown(requested, vec!["torch's reserved bytes"]);
        }
        self.capacity(requested, free, total, allocated)
    }

    /// Whether the request fits without the unusual memory outside torch, if that is at least so much.
    fn outside_verdict(
        &self,
        requested: u64,
        free: u64,
        total: Figure,
        least: u64,
    ) -> Option<Verdict> {
        let outside = self.outside?;
        let unusual = outside.saturating_sub(USUAL_OUTSIDE);
        if unusual <= least || unusual.saturating_add(free) < requested {
            return None;
        }
        let others: u64 = self.others.iter().map(|(_, bytes)| bytes).sum();
        let who = match self.others.len() {
            0 => String::new(),
            1 => format!("; the other process has {}", Bytes(others)),
            many => format!("; {many} other processes have {}", Bytes(others)),
        };
        let finding = format!(
            "{} of {} are in use outside torch{who}; {} were requested",
            Bytes(outside),
            Bytes::from(total),
            Bytes(requested)
        );
        Some(Verdict::known(OomMessageReason::OutsideTorch, finding))
    }

    /// Whether torch has enough free memory that it cannot use for the request.
    fn inside_torch(&self, requested: u64, total: Figure, allocated: Figure) -> Option<Verdict> {
        if let Some(pools) = self.figures.private_pools.filter(|pools| pools.bytes >= requested) {
            let finding = format!(
                "{} are free in private pools, such as those of CUDA graphs; {} were requested",
                Bytes::from(pools),
                Bytes(requested)
            );
            return Some(Verdict::known(OomMessageReason::OtherPool, finding));
        }
        let free = self.figures.free?;
        let is_enough = free.bytes.saturating_sub(free.slack) >= requested;
        let is_slack = free.bytes < total.bytes / 100 * SLACK_PERCENT;
        let would_fit = allocated.bytes.saturating_add(requested) <= total.bytes;
        (is_enough && !is_slack && would_fit).then(|| {
            let finding = format!(
                "{} are reserved but unallocated, in blocks that are too small; {} were requested",
                Bytes::from(free),
                Bytes(requested)
            );
            Verdict::known(OomMessageReason::Fragmentation, finding)
        })
    }

    fn capacity(&self, requested: u64, free: u64, total: Figure, allocated: Figure) -> Verdict {
        let unallocated = self.figures.free.filter(|figure| figure.bytes > 0);
        let unallocated = unallocated.map_or_else(String::new, |free| {
            format!(", {} are reserved but unallocated", Bytes::from(free))
        });
        let request = self
            .figures
            .requested
            .map_or_else(String::new, |_| format!("; {} were requested", Bytes(requested)));
        let finding = format!(
            "{} of {} are allocated{unallocated}, {} are free{request}",
            Bytes::from(allocated),
            Bytes::from(total),
            Bytes(free)
        );
        Verdict::known(OomMessageReason::Capacity, finding)
    }

    /// Facts beside the reason.
    pub(super) fn notes(&self, reason: OomMessageReason) -> Vec<String> {
        let mut notes = Vec::new();
        let bytes = |figure: Option<Figure>| figure.map_or(0, |figure| figure.bytes);
        let (requested, total) = (bytes(self.figures.requested), bytes(self.figures.total));
        let (allocated, free) = (bytes(self.figures.allocated), bytes(self.figures.free));
        if total > 0 && allocated > total {
            notes.push(
                "torch has allocated more than the device has: Windows uses host memory for the rest, which is slow"
                    .to_owned(),
            );
        }
        if reason == OomMessageReason::Fragmentation && allocated >= total / 10 * 9 {
            notes.push(format!(
                "{} % of the device are allocated: without fragmentation, {} more are usable at most",
                (allocated.saturating_mul(100) / total.max(1)).min(100),
                Bytes(free)
            ));
        }
        let device_free = bytes(self.figures.device_free);
        if reason == OomMessageReason::Capacity
            && free > 0
            && requested <= total
            && free.saturating_add(device_free) >= requested
        {
            notes.push(format!(
                "what is free and what is reserved but unallocated are {} together: `expandable_segments:True` may be \
                 enough for this request",
                Bytes(free.saturating_add(device_free))
            ));
        }
        if reason == OomMessageReason::Limit && free >= requested && free > 0 {
            notes.push(format!(
                "{} are reserved but unallocated: fragmentation adds to it",
                Bytes(free)
            ));
        }
        let own = self.this_process.unwrap_or(0).saturating_sub(bytes(self.figures.reserved));
        if self.this_process.is_some() && self.figures.reserved.is_some() && own > 2 * USUAL_OUTSIDE
        {
            notes.push(format!(
                "this process has {} outside torch's allocator: other libraries and the CUDA context",
                Bytes(own)
            ));
        }
        notes
    }
}

/// Which of the listed processes has what torch reserved, and the least beyond it.
fn own_process(processes: &[(u64, Figure)], reserved: Figure) -> Option<usize> {
    let beyond =
        |used: Figure| (used.bytes + used.slack + reserved.slack).checked_sub(reserved.bytes);
    let found = processes.iter().enumerate();
    found.filter_map(|(at, &(_, used))| Some((beyond(used)?, at))).min().map(|(_, at)| at)
}

fn huge(requested: u64) -> Verdict {
    let amount = if requested >= 1 << 60 {
        "an exbibyte or more".to_owned()
    } else {
        Bytes(requested).to_string()
    };
    let finding =
        format!("{amount} were requested in one allocation: a size in the program is wrong");
    Verdict::known(OomMessageReason::HugeRequest, finding)
}

fn on_host(finding: String) -> Verdict {
    Verdict::known(OomMessageReason::HostMemory, finding)
}

/// ` of 1.000 GiB`, where the message has the request.
fn of_amount(of: &str, requested: Option<Figure>) -> String {
    requested.map_or_else(String::new, |figure| format!("{of} {}", Bytes::from(figure)))
}

fn in_library(source: OomSource, requested: Option<Figure>) -> Verdict {
    let amount = of_amount("", requested);
    let finding = format!(
        "{} could not allocate{amount} on the device; torch's allocator did not take part, and the message has no figures",
        source.words()
    );
    Verdict::known(OomMessageReason::Library, finding)
}

impl Verdict {
    fn known(reason: OomMessageReason, finding: String) -> Self {
        Self { reason, finding, missing: Vec::new() }
    }

    fn unknown(requested: u64, missing: Vec<&'static str>) -> Self {
        let finding =
            format!("{} were requested; the message has too few figures", Bytes(requested));
        Self { reason: OomMessageReason::Unknown, finding, missing }
    }
}
