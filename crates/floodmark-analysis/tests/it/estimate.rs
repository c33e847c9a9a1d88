//! Whether a program fits, from what a phantom of the card recorded.

use floodmark_analysis::{Estimate, QuestionError, estimate};
use floodmark_trace::{Bytes, Device, Phantom, PhantomDevice, PhantomEnd};

use crate::trace;

const MIB: u64 = 1 << 20;

const STEP: &str = "segment A cuda:0 32MiB
    alloc w cuda:0 12MiB on A at train.py:3
    label w parameter fc.weight (1,2) float32
    alloc a cuda:0 8MiB on A+16MiB at train.py:4
    free a";

/// The estimate of a script on a card with 100 MiB, of which the context takes 10.
fn ask(script: &str, ended: PhantomEnd, peak_driver: u64) -> Estimate {
    let mut trace = trace(script);
    let peak_driver_bytes = peak_driver * MIB;
    let device = PhantomDevice { capacity: 100 * MIB, context: 10 * MIB, peak_driver_bytes };
    let devices = vec![device.clone(), device];
    trace.header.phantom =
        Some(Phantom { gpu: "h200".into(), ended, devices, ..Phantom::default() });
    estimate(&trace).unwrap()
}

#[test]
fn what_is_needed_is_reserved_and_the_context() {
    let found = ask(STEP, PhantomEnd::Done, 32);
    assert_eq!(found.fits, Some(true));
    assert_eq!((found.peak_allocated, found.peak_reserved), (Bytes(20 * MIB), Bytes(32 * MIB)));
    let [device] = &found.devices[..] else { panic!("{:?}", found.devices) };
    assert_eq!((device.needed, device.headroom), (Bytes(42 * MIB), Bytes(58 * MIB)));
    assert_eq!((device.outside, device.is_lower_bound), (Bytes(0), false));
    let categories: Vec<_> = device.categories.iter().map(|row| &*row.place).collect();
    assert!(categories.contains(&"parameter"), "{categories:?}");
}

#[test]
fn what_others_take_from_the_driver_is_needed_too() {
    let found = ask(STEP, PhantomEnd::Steps, 40);
    let device = &found.devices[0];
    assert_eq!((device.outside, device.needed), (Bytes(8 * MIB), Bytes(50 * MIB)));
    assert_eq!(found.fits, Some(true));
}

#[test]
fn a_request_that_failed_does_not_fit_and_tells_the_least() {
    let script = format!("{STEP}\n oom cuda:0 90MiB at train.py:5");
    // Also when the program caught it and went on to its end.
    for ended in [PhantomEnd::OutOfMemory, PhantomEnd::Done] {
        let found = ask(&script, ended, 32);
        assert_eq!(found.fits, Some(false));
        let device = &found.devices[0];
        assert!(device.is_lower_bound);
        assert_eq!((device.needed, device.headroom), (Bytes(132 * MIB), Bytes(0)));
        let request = device.failed.as_ref().and_then(|at| at.request.as_ref()).unwrap();
        assert_eq!(request.bytes, Bytes(90 * MIB));
    }
}

#[test]
fn nobody_knows_after_another_failure() {
    assert_eq!(ask(STEP, PhantomEnd::Failed, 32).fits, None);
    assert_eq!(ask(STEP, PhantomEnd::Unknown, 32).fits, None);
}

#[test]
fn each_device_has_its_own() {
    let script =
        format!("{STEP}\n segment B cuda:1 64MiB\n alloc b cuda:1 50MiB on B at train.py:9");
    let found = ask(&script, PhantomEnd::Done, 0);
    let needed: Vec<_> = found.devices.iter().map(|found| (found.device, found.needed)).collect();
    assert_eq!(needed, [(Device::cuda(0), Bytes(42 * MIB)), (Device::cuda(1), Bytes(74 * MIB))]);
    assert_eq!(found.peak_reserved, Bytes(64 * MIB));
}

#[test]
fn a_recording_of_a_real_card_is_no_estimate() {
    assert_eq!(estimate(&trace(STEP)), Err(QuestionError::NoPhantom));
}
