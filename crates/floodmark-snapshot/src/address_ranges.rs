//! Ranges of addresses that do not overlap.

use std::collections::BTreeMap;

/// Ranges that do not overlap, each with a value.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressRanges<T> {
    /// Length and value, by start.
    by_start: BTreeMap<u64, (u64, T)>,
}

impl<T: Copy> AddressRanges<T> {
    pub(crate) fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Start, length and value of each range, in the order of addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, T)> {
        self.by_start.iter().map(|(&start, &(bytes, value))| (start, bytes, value))
    }

    /// Adds a range. It replaces what it overlaps.
    pub(crate) fn add(&mut self, addr: u64, bytes: u64, value: T) {
        if bytes > 0 {
            self.remove(addr, bytes);
            self.by_start.insert(addr, (bytes, value));
        }
    }

    /// Removes all addresses of a range: whole ranges, or parts of them.
    pub(crate) fn remove(&mut self, addr: u64, bytes: u64) {
        let end = addr.saturating_add(bytes);
        let reaches_in =
            |&(&start, &(bytes, _)): &(&u64, &(u64, T))| start.saturating_add(bytes) > addr;
        let before = self.by_start.range(..addr).next_back().filter(reaches_in);
        let first = before.map_or(addr, |(&start, _)| start);
        if first >= end {
            return;
        }
        let touched: Vec<u64> = self.by_start.range(first..end).map(|(&start, _)| start).collect();
        for start in touched {
            let Some((bytes, value)) = self.by_start.remove(&start) else { continue };
            let its_end = start.saturating_add(bytes);
            if start < addr {
                self.by_start.insert(start, (addr - start, value));
            }
            if its_end > end {
                self.by_start.insert(end, (its_end - end, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_range_is_removed() {
        let mut ranges = AddressRanges::default();
        ranges.add(1000, 100, 'a');
        ranges.add(2000, 100, 'b');
        ranges.add(3000, 0, 'c');
        ranges.remove(1020, 30);
        ranges.remove(1990, 20);
        ranges.remove(5000, 1);
        ranges.remove(5000, 0);
        let left: Vec<_> = ranges.iter().collect();
        assert_eq!(left, [(1000, 20, 'a'), (1050, 50, 'a'), (2010, 90, 'b')]);
        ranges.add(1010, 45, 'd');
        let left: Vec<_> = ranges.iter().take(3).collect();
        assert_eq!(left, [(1000, 10, 'a'), (1010, 45, 'd'), (1055, 45, 'a')]);
    }
}
