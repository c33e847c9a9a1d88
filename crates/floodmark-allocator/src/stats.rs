//! The figures of `torch.cuda.memory_stats()`, counted as `PyTorch` counts it.

use serde::Serialize;

/// `Stat` in `CUDACachingAllocator.h`: a figure, its peak, and the sums of its changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// The current figure.
    pub current: u64,
    /// The highest figure so far.
    pub peak: u64,
    /// The sum of all increases.
    pub allocated: u64,
    /// The sum of all decreases.
    pub freed: u64,
}

impl Stat {
    pub(crate) fn increase(&mut self, by: u64) {
        self.current = self.current.saturating_add(by);
        self.allocated = self.allocated.saturating_add(by);
        self.peak = self.peak.max(self.current);
    }

    pub(crate) fn decrease(&mut self, by: u64) {
        self.current = self.current.saturating_sub(by);
        self.freed = self.freed.saturating_add(by);
    }
}

/// A figure for both pools together, and for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PoolStat {
    /// Both pools.
    pub all: Stat,
    /// Blocks of at most 1 MiB.
    pub small_pool: Stat,
    /// Larger blocks.
    pub large_pool: Stat,
}

impl PoolStat {
    pub(crate) fn increase(&mut self, is_small: bool, by: u64) {
        self.all.increase(by);
        self.part(is_small).increase(by);
    }

    pub(crate) fn decrease(&mut self, is_small: bool, by: u64) {
        self.all.decrease(by);
        self.part(is_small).decrease(by);
    }

    /// Sets the peaks to the current figures.
    pub(crate) fn reset_peaks(&mut self) {
        for stat in [&mut self.all, &mut self.small_pool, &mut self.large_pool] {
            stat.peak = stat.current;
        }
    }

    /// A net change: one amount, up or down.
    pub(crate) fn change(&mut self, is_small: bool, by: i64) {
        if by >= 0 {
            self.increase(is_small, by.unsigned_abs());
        } else {
            self.decrease(is_small, by.unsigned_abs());
        }
    }

    fn part(&mut self, is_small: bool) -> &mut Stat {
        if is_small { &mut self.small_pool } else { &mut self.large_pool }
    }
}

macro_rules! statistics {
    (
        pools { $($(#[$doc:meta])* $pool:ident,)* }
        stats { $($(#[$sdoc:meta])* $stat:ident,)* }
        counts { $($(#[$cdoc:meta])* $count:ident,)* }
    ) => {
        /// All figures, with the names of `memory_stats()`.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct Statistics {
            $($(#[$doc])* pub $pool: PoolStat,)*
            $($(#[$sdoc])* pub $stat: Stat,)*
            $($(#[$cdoc])* pub $count: u64,)*
        }

        impl Statistics {
            /// The rows of `memory_stats()`: `allocated_bytes.all.peak`, ….
            pub fn flat(&self) -> Vec<(String, u64)> {
                let mut rows = Vec::new();
                $(
                    for (part, stat) in [("all", self.$pool.all), ("small_pool", self.$pool.small_pool), ("large_pool", self.$pool.large_pool)] {
                        flatten(&mut rows, &format!("{}.{part}", stringify!($pool)), stat);
                    }
                )*
                $(flatten(&mut rows, stringify!($stat), self.$stat);)*
                $(rows.push((stringify!($count).to_owned(), self.$count));)*
                rows
            }
        }
    };
}

statistics! {
    pools {
        /// Allocated blocks.
        allocation,
        /// Segments, without expandable ones.
        segment,
        /// Blocks that are allocated or pending free.
        active,
        /// Free blocks in segments that have other blocks too.
        inactive_split,
        /// Bytes of allocated blocks.
        allocated_bytes,
        /// Bytes of all segments.
        reserved_bytes,
        /// Bytes of blocks that are allocated or pending free.
        active_bytes,
        /// Bytes of free blocks in segments that have other blocks too.
        inactive_split_bytes,
        /// Requested bytes, before rounding.
        requested_bytes,
    }
    stats {
        /// Blocks not below `max_split_size`.
        oversize_allocations,
        /// Segments not below `max_split_size`.
        oversize_segments,
    }
    counts {
        /// The number of times that the cache was freed to the driver to make room.
        num_alloc_retries,
        /// The number of failed requests.
        num_ooms,
        /// The number of times that the allocator waited for all streams.
        num_sync_all_streams,
        /// The number of allocations from the driver.
        num_device_alloc,
        /// The number of frees to the driver.
        num_device_free,
        /// The number of requests that were rejected before a request to the driver.
        num_oom_rejections,
    }
}

fn flatten(rows: &mut Vec<(String, u64)>, name: &str, stat: Stat) {
    rows.push((format!("{name}.current"), stat.current));
    rows.push((format!("{name}.peak"), stat.peak));
    rows.push((format!("{name}.allocated"), stat.allocated));
    rows.push((format!("{name}.freed"), stat.freed));
}
