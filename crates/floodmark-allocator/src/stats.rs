//! The figures of `torch.cuda.memory_stats()`, counted as `PyTorch` counts it.

use serde::Serialize;

/// One quantity: what it is, what it was at most, and the sums of its rises and falls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// Now.
    pub current: u64,
    /// At most.
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

/// The same for both pools together and for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PoolStat {
    /// Both.
    pub all: Stat,
    /// Blocks of at most 1 MiB.
    pub small_pool: Stat,
    /// The others.
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

    /// From here on the peak is what is reached from here on.
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
        /// All of them, under the names that `PyTorch` gives them.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct Statistics {
            $($(#[$doc])* pub $pool: PoolStat,)*
            $($(#[$sdoc])* pub $stat: Stat,)*
            $($(#[$cdoc])* pub $count: u64,)*
        }

        impl Statistics {
            /// As the flat table that `memory_stats()` returns: `allocated_bytes.all.peak`, ….
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
        /// Blocks that the program holds.
        allocation,
        /// Pieces of memory taken from the driver; expandable ones are not counted.
        segment,
        /// Blocks that the program or a stream still uses.
        active,
        /// Free blocks of segments that are partly in use.
        inactive_split,
        /// Bytes of blocks that the program holds.
        allocated_bytes,
        /// Bytes taken from the driver.
        reserved_bytes,
        /// Bytes of blocks that the program or a stream still uses.
        active_bytes,
        /// Bytes of free blocks of segments that are partly in use.
        inactive_split_bytes,
        /// Bytes that the program requested.
        requested_bytes,
    }
    stats {
        /// Blocks not below `max_split_size`.
        oversize_allocations,
        /// Segments not below `max_split_size`.
        oversize_segments,
    }
    counts {
        /// How often the cache was freed to the driver to make room.
        num_alloc_retries,
        /// How often a request failed.
        num_ooms,
        /// How often all streams were waited for.
        num_sync_all_streams,
        /// How often memory was allocated from the driver.
        num_device_alloc,
        /// How often memory was freed to the driver.
        num_device_free,
        /// How often a request was rejected before the driver was asked.
        num_oom_rejections,
    }
}

fn flatten(rows: &mut Vec<(String, u64)>, name: &str, stat: Stat) {
    rows.push((format!("{name}.current"), stat.current));
    rows.push((format!("{name}.peak"), stat.peak));
    rows.push((format!("{name}.allocated"), stat.allocated));
    rows.push((format!("{name}.freed"), stat.freed));
}
