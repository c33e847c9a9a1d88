//! Peaks of devices in each step, as the assembler adds them up while records come in.

use std::collections::BTreeMap;

use floodmark_trace::{Assembler, Bytes, EventKind};
use proptest::prelude::*;

use crate::recording::{possible_program, record};

proptest! {
    /// The peak of a step is torch's highest total in it, including the first.
    #[test]
    fn the_peak_of_a_step_is_torchs(program in possible_program()) {
        let mut assembler = Assembler::default();
        // torch's last total of a device, and the peak of the step.
        let mut torch: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for entry in &record(&program) {
            assembler.push(&entry.record, &entry.payload);
            let record = &entry.record;
            let reports = [EventKind::Alloc as u8, EventKind::Free as u8].contains(&record.kind);
            if reports && !record.device.is_cpu() {
                let (last, highest) = torch.entry(record.device).or_default();
                *last = record.allocated();
                *highest = record.allocated().max(*highest);
            }
            let ended = assembler.take_ended_steps();
            prop_assert!(ended.is_empty() || record.kind == EventKind::Step as u8);
            for totals in ended {
                let Some(&(last, highest)) = torch.get(&totals.device) else { continue };
                prop_assert_eq!((totals.peak, totals.end), (Bytes(highest), Bytes(last)));
                prop_assert_eq!(totals.step, record.step_number());
                prop_assert!(totals.reserved <= totals.reserved_peak);
                torch.insert(totals.device, (last, last));
            }
        }
    }
}
