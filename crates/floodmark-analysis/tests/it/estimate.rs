//! Whether a program fits, from a recording of a simulated GPU.

use floodmark_analysis::{
    Estimate, ProgramEnd, QuestionError, StepPeaks, Unknown, WholeRun, estimate, estimate_processes,
};
use floodmark_trace::{
    Bytes, Device, LibraryBytes, Loss, Micros, Phantom, PhantomDevice, PhantomEnd, PhantomRead,
    Trace,
};

use crate::trace;

const MIB: u64 = 1 << 20;

const STEP: &str = "segment A cuda:0 32MiB
    alloc w cuda:0 12MiB on A at train.py:3
    label w parameter fc.weight (1,2) float32
    alloc a cuda:0 8MiB on A+16MiB at train.py:4
    free a";

/// A script on a GPU with 100 MiB, of which the context takes 10.
fn recorded(script: &str, ended: PhantomEnd, peak_driver: u64) -> Trace {
    let mut trace = trace(script);
    let device = PhantomDevice {
        capacity: 100 * MIB,
        context: 10 * MIB,
        peak_driver_bytes: peak_driver * MIB,
        ..PhantomDevice::default()
    };
    let devices = vec![device.clone(), device];
    trace.header.phantom =
        Some(Phantom { gpu: "h200".into(), ended, devices, ..Phantom::default() });
    trace
}

fn ask(script: &str, ended: PhantomEnd, peak_driver: u64) -> Estimate {
    estimate(&recorded(script, ended, peak_driver)).unwrap()
}

fn ask_all(traces: &[&Trace], ended: PhantomEnd, error: &str) -> Estimate {
    let end = ProgramEnd { ended, error: error.to_owned(), ..ProgramEnd::default() };
    estimate_processes(traces, &end).unwrap()
}

#[test]
fn the_need_is_reserved_bytes_and_the_context() {
    let found = ask(STEP, PhantomEnd::Done, 32);
    assert_eq!(found.fits, Some(true));
    assert_eq!((found.peak_allocated, found.peak_reserved), (Bytes(20 * MIB), Bytes(32 * MIB)));
    let [device] = &found.devices[..] else { panic!("{:?}", found.devices) };
    assert_eq!((device.needed, device.headroom), (Bytes(42 * MIB), Bytes(58 * MIB)));
    assert_eq!((device.outside_torch, device.is_lower_bound), (Bytes(10 * MIB), false));
    let categories: Vec<_> = device.categories.iter().map(|row| &*row.location).collect();
    assert!(categories.contains(&"parameter"), "{categories:?}");
}

#[test]
fn memory_outside_torch_is_needed_too() {
    let found = ask(STEP, PhantomEnd::Steps, 40);
    let device = &found.devices[0];
    assert_eq!((device.outside_torch, device.needed), (Bytes(18 * MIB), Bytes(50 * MIB)));
    assert_eq!(found.fits, Some(true));
}

#[test]
fn memory_outside_torch_has_owners() {
    let mut trace = recorded(STEP, PhantomEnd::Steps, 45);
    let device = &mut trace.header.phantom.as_mut().unwrap().devices[0];
    device.libraries_at_peak = vec![LibraryBytes { library: "cuBLAS".into(), bytes: 5 * MIB }];
    let found = estimate(&trace).unwrap();
    let owners = |found: &Estimate| -> Vec<(String, u64)> {
        let owners = found.devices[0].owners.iter();
        owners.map(|owner| (owner.owner.clone(), owner.bytes.0 / MIB)).collect()
    };
    let named = |names: &[(&str, u64)]| -> Vec<(String, u64)> {
        names.iter().map(|&(name, bytes)| (name.to_owned(), bytes)).collect()
    };
    let all = [("CUDA context", 10), ("cuBLAS", 5), ("other allocations", 8)];
    assert_eq!(owners(&found), named(&all));
    assert_eq!(found.devices[0].needed, Bytes(55 * MIB));
    // torch had released a part of its memory when a library allocated: the sum of both peaks is not needed.
    trace.header.phantom.as_mut().unwrap().devices[0].peak_driver_bytes = 34 * MIB;
    let found = estimate(&trace).unwrap();
    assert_eq!(owners(&found), named(&all[..2]));
    assert_eq!(found.devices[0].needed, Bytes(44 * MIB));
}

#[test]
fn a_failed_request_does_not_fit_and_gives_a_lower_bound() {
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
fn a_run_on_a_gpu_with_more_memory_does_not_fit_into_less() {
    let mut trace = recorded(STEP, PhantomEnd::Done, 32);
    for (capacity, fits) in [(42, true), (41, false)] {
        trace.header.phantom.as_mut().unwrap().devices[0].capacity = capacity * MIB;
        let found = estimate(&trace).unwrap();
        assert_eq!((found.fits, found.unknown), (Some(fits), None), "{capacity} MiB");
    }
}

#[test]
fn the_answer_is_unknown_after_another_failure() {
    let unknown = |ended| {
        let found = ask(STEP, ended, 32);
        assert_eq!(found.fits, None);
        found.unknown
    };
    assert_eq!(unknown(PhantomEnd::Failed), Some(Unknown::Failed));
    assert_eq!(unknown(PhantomEnd::Unknown), Some(Unknown::NoEnd));
}

#[test]
fn the_answer_is_unknown_where_allocations_may_be_missing() {
    let stopped = Loss::StoppedEarly { reason: "the disk is full".into(), at: Micros(7) };
    let salvaged = Loss::Salvaged { events: 3, has_ended: true };
    let with = |loss: Loss, script: &str, ended| {
        let mut trace = recorded(script, ended, 32);
        trace.losses.0.push(loss);
        let found = ask_all(&[&trace], ended, "");
        let alone = estimate(&trace).unwrap();
        assert_eq!((found.fits, found.unknown), (alone.fits, alone.unknown));
        (found.fits, found.unknown)
    };
    for ended in [PhantomEnd::Done, PhantomEnd::Steps] {
        assert_eq!(with(stopped.clone(), STEP, ended), (None, Some(Unknown::Incomplete)));
        assert_eq!(with(Loss::LostInJournal(1), STEP, ended), (None, Some(Unknown::Incomplete)));
        // The journal had what the file lacks.
        assert_eq!(with(salvaged.clone(), STEP, ended), (Some(true), None));
    }
    // A failed allocation decides, even if other events are missing.
    let script = format!("{STEP}\n oom cuda:0 90MiB at train.py:5");
    assert_eq!(with(stopped.clone(), &script, PhantomEnd::Done), (Some(false), None));
}

#[test]
fn steps_with_other_peaks_are_distinguished() {
    let steps = |sizes: &[u64]| {
        let one = |size: &u64| {
            format!("alloc a cuda:0 {size}MiB on A+16MiB at train.py:4\n free a\n step\n")
        };
        let script = format!(
            "segment A cuda:0 64MiB\n alloc w cuda:0 12MiB on A at train.py:3\n {}",
            sizes.iter().map(one).collect::<String>()
        );
        (ask(&script, PhantomEnd::Steps, 64), ask(&script, PhantomEnd::Done, 64).step_peaks)
    };
    for (sizes, found) in [
        (&[8][..], None),
        (&[8, 9], None),
        (&[8, 8], Some(StepPeaks::Equal)),
        (&[8, 9, 9], Some(StepPeaks::Equal)),
        (&[8, 9, 10], Some(StepPeaks::Grow)),
        (&[8, 10, 9], Some(StepPeaks::Differ)),
        (&[10, 8, 9], Some(StepPeaks::Differ)),
    ] {
        let (stopped, of_whole_run) = steps(sizes);
        assert_eq!((stopped.steps as usize, stopped.step_peaks), (sizes.len(), found), "{sizes:?}");
        assert_eq!(of_whole_run, None);
    }
}

#[test]
fn a_second_run_with_more_memory_gives_the_need_of_the_whole_program() {
    let script = format!("{STEP}\n oom cuda:0 90MiB at train.py:5");
    let failed = recorded(&script, PhantomEnd::OutOfMemory, 32);
    let again = WholeRun::from_estimate(&ask(STEP, PhantomEnd::Done, 40)).unwrap();
    assert_eq!((again.needed, again.peak_allocated), (Bytes(50 * MIB), Bytes(20 * MIB)));
    let end = ProgramEnd {
        ended: PhantomEnd::Failed,
        whole_run: Some(again.clone()),
        ..ProgramEnd::default()
    };
    let found = estimate_processes(&[&failed], &end).unwrap();
    assert_eq!((found.fits, found.whole_run), (Some(false), Some(again)));
    // Nothing is known from a run that failed again.
    assert_eq!(WholeRun::from_estimate(&ask(&script, PhantomEnd::Done, 32)), None);
    assert_eq!(WholeRun::from_estimate(&ask(STEP, PhantomEnd::Failed, 32)), None);
}

#[test]
fn the_answer_is_unknown_where_a_process_is_missing() {
    let trace = recorded(STEP, PhantomEnd::Done, 32);
    let end = ProgramEnd { ended: PhantomEnd::Done, misses_process: true, ..ProgramEnd::default() };
    let found = estimate_processes(&[&trace], &end).unwrap();
    assert_eq!((found.fits, found.unknown), (None, Some(Unknown::Incomplete)));
}

#[test]
fn the_answer_is_unknown_when_nothing_is_allocated_on_a_gpu() {
    for ended in [PhantomEnd::Done, PhantomEnd::Steps] {
        let found = ask("alloc a cpu 8MiB at train.py:4", ended, 0);
        assert_eq!((found.fits, found.unknown), (None, Some(Unknown::NothingAllocated)));
        assert_eq!(found.processes, 0);
    }
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
fn a_recording_of_a_real_gpu_is_no_estimate() {
    assert_eq!(estimate(&trace(STEP)), Err(QuestionError::NoPhantom));
}

#[test]
fn a_program_whose_children_use_the_gpu_has_their_figures() {
    let launcher = recorded("alloc a cpu 8MiB at launch.py:4", PhantomEnd::Done, 0);
    let mut child = recorded(STEP, PhantomEnd::Steps, 32);
    child.header.pid = 7;
    let found = ask_all(&[&launcher, &child], PhantomEnd::Done, "");
    assert_eq!((found.fits, found.ended, found.processes), (Some(true), PhantomEnd::Steps, 1));
    assert_eq!(found.peak_allocated, Bytes(20 * MIB));
    // An answer about one process does not mention processes.
    assert_eq!(found.devices[0].process, None);
}

#[test]
fn processes_on_one_gpu_are_added_up() {
    let one = |pid, rank, gpu| {
        let mut trace = recorded(STEP, PhantomEnd::Done, 32);
        (trace.header.pid, trace.header.rank) = (pid, rank);
        let phantom = trace.header.phantom.as_mut().unwrap();
        phantom.devices[0].index = gpu;
        let read = PhantomRead { line: 3, count: 2, ..PhantomRead::default() };
        phantom.reads.push(read);
        trace
    };
    let (first, second, third) = (one(1, Some(0), None), one(2, Some(1), None), one(3, None, None));
    let found = ask_all(&[&first, &second], PhantomEnd::Done, "");
    assert_eq!((found.fits, found.processes), (Some(true), 2));
    let [shared] = &found.shared[..] else { panic!("{:?}", found.shared) };
    assert_eq!((shared.gpu, shared.processes, shared.needed), (0, 2, Bytes(84 * MIB)));
    assert_eq!(found.devices[1].process.as_ref().and_then(|process| process.rank), Some(1));
    assert_eq!(found.reads.iter().map(|read| read.count).collect::<Vec<_>>(), [4]);
    // Three need 126 of 100 MiB, if all reach their peaks at the same time.
    let found = ask_all(&[&first, &second, &third], PhantomEnd::Done, "");
    assert_eq!((found.fits, found.unknown), (None, Some(Unknown::SharedGpu)));
    // On GPUs of their own they need what they need.
    let apart = one(3, None, Some(1));
    let found = ask_all(&[&first, &second, &apart], PhantomEnd::Done, "");
    assert_eq!((found.fits, found.shared.len()), (Some(true), 1));
}

#[test]
fn the_exit_status_counts_if_the_trace_has_no_ending() {
    let killed = recorded(STEP, PhantomEnd::Unknown, 32);
    let found = ask_all(&[&killed], PhantomEnd::Failed, "killed by SIGKILL");
    assert_eq!((found.fits, found.unknown), (None, Some(Unknown::Failed)));
    assert_eq!((found.ended, &*found.error), (PhantomEnd::Failed, "killed by SIGKILL"));
    let stopped = recorded(STEP, PhantomEnd::Steps, 32);
    let found = ask_all(&[&stopped], PhantomEnd::Failed, "killed by SIGKILL");
    assert_eq!((found.fits, found.ended), (Some(true), PhantomEnd::Steps));
}

#[test]
fn a_child_that_ran_out_is_why_the_program_failed() {
    let launcher = recorded("alloc a cpu 8MiB at launch.py:4", PhantomEnd::Failed, 0);
    let script = format!("{STEP}\n oom cuda:0 90MiB at train.py:5");
    let child = recorded(&script, PhantomEnd::Done, 32);
    let found = ask_all(&[&launcher, &child], PhantomEnd::Failed, "exit status 1");
    assert_eq!((found.fits, found.ended), (Some(false), PhantomEnd::OutOfMemory));
}
