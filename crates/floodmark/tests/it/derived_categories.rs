//! Models that an H200 recorded twice at once, with floodmark and with torch's memory history: the categories that
//! are derived from the snapshot are those of the recording, allocation by allocation.

use std::collections::BTreeMap;
use std::path::Path;

use floodmark_analysis::{Context, category};
use floodmark_files::traces::open_trace;
use floodmark_trace::{AllocationId, Category, Device, Trace};

const GPU: Device = Device::cuda(0);

/// By address, what was allocated at the peak: bytes and category.
fn at_peak(trace: &Trace) -> BTreeMap<u64, (u64, Category)> {
    let context = Context::new(trace);
    let peak = peak_event(trace);
    (0_u32..)
        .map(AllocationId)
        .zip(&trace.allocations)
        .filter(|(_, allocation)| allocation.device == GPU && allocation.is_live_after(peak))
        .map(|(id, allocation)| {
            (allocation.addr.0, (allocation.rounded.0, category(trace, &context, id)))
        })
        .collect()
}

/// The event after which most was allocated.
fn peak_event(trace: &Trace) -> u32 {
    let mut sum = 0_i128;
    let mut change: BTreeMap<u32, i128> = BTreeMap::new();
    for allocation in trace.allocations.iter().filter(|one| one.device == GPU) {
        *change.entry(allocation.made_at).or_default() += i128::from(allocation.rounded.0);
        if let Some(freed) = allocation.freed_at {
            *change.entry(freed.get()).or_default() -= i128::from(allocation.rounded.0);
        }
    }
    let sums = change.into_iter().map(|(event, bytes)| {
        sum += bytes;
        (sum, event)
    });
    sums.max_by_key(|&(sum, event)| (sum, std::cmp::Reverse(event))).unwrap().1
}

#[test]
fn categories_of_a_snapshot_are_those_of_the_recording() {
    for name in ["convolutions_1d", "lstm", "neumf", "resnet18_fp32"] {
        let recorded = at_peak(&open(&format!("{name}.flood")));
        let derived = at_peak(&open(&format!("{name}.pickle.gz")));
        let addresses = |peak: &BTreeMap<u64, (u64, Category)>| {
            peak.iter().map(|(&addr, &(bytes, _))| (addr, bytes)).collect::<Vec<_>>()
        };
        assert_eq!(addresses(&recorded), addresses(&derived), "{name}: the same allocations");
        let total: u64 = recorded.values().map(|&(bytes, _)| bytes).sum();
        let differ: Vec<_> =
            recorded.iter().filter(|&(addr, &(_, truth))| derived[addr].1 != truth).collect();
        let wrong: u64 = differ.iter().map(|&(_, &(bytes, _))| bytes).sum();
        assert!(wrong < total / 1000, "{name}: {wrong} of {total} bytes differ: {differ:?}");
        // Buffers count as parameters, and the loss is freed a moment earlier: nothing else differs.
        for &(addr, &(_, truth)) in &differ {
            let pair = (truth, derived[addr].1);
            let is_known = pair == (Category::Buffer, Category::Parameter)
                || truth == Category::Activation && recorded[addr].0 == 512;
            assert!(is_known, "{name}: {pair:?}");
        }
    }
}

fn open(name: &str) -> Trace {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/categories");
    open_trace(&Path::new(folder).join(name)).unwrap()
}
