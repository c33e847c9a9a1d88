//! The peak of each category by itself.

use floodmark_analysis::{CategoryPeak, category_peaks};
use floodmark_trace::Bytes;

use crate::trace;

fn peaks(script: &str) -> Vec<CategoryPeak> {
    category_peaks(&trace(script), Some("cuda:0".parse().unwrap())).unwrap()
}

#[test]
fn each_category_has_a_peak_of_its_own() {
    let found = peaks(
        "initial w cuda:0 8MiB
         label w parameter w
         alloc a cuda:0 4MiB at m.py:1 in m
         alloc t cuda:0 2MiB at m.py:2 in m
         free t
         backward alloc g cuda:0 3MiB at m.py:1 in m
         free g
         free a
         backward alloc h cuda:0 1MiB at m.py:1 in m
         free h
         optimizer begin
         optimizer end",
    );
    let mib = |count: u64| Bytes(count << 20);
    let of = |name: &str| {
        let peak = found.iter().find(|peak| peak.category == name).unwrap();
        (peak.peak, peak.backward_peak)
    };
    assert_eq!(of("parameter"), (mib(8), Bytes(0)));
    assert_eq!(of("activation"), (mib(4), Bytes(0)));
    // 2 MiB in forward and 3 MiB in backward, at different times.
    assert_eq!(of("temporary"), (mib(3), mib(3)));
}
