//! All memory of a GPU by owner.

use floodmark_analysis::{At, Ledger, LedgerOwner, OutsideGrowth, QuestionError, ledger, oom};
use floodmark_trace::{Bytes, Device, GpuMemory, GpuProcess, Subject, Trace};

use crate::trace;

const MIB: u64 = 1 << 20;
/// This process, in the samples below.
const OWN: u32 = 42;

/// Parameters of 8 MiB and a temporary of 4 MiB, in a segment of 20 MiB; later one more of 20 MiB. An event takes a
/// millisecond.
const PROGRAM: &str = "segment A cuda:0 20MiB
    alloc w cuda:0 8MiB on A
    label w parameter w
    alloc t cuda:0 4MiB on A+8MiB
    free t
    wait 500
    segment B cuda:0 20MiB
    alloc u cuda:0 16MiB on B
    wait 500
    free u";

fn process(pid: u32, mib: u64, name: Option<&str>) -> GpuProcess {
    GpuProcess { pid, bytes: Some(mib * MIB), name: name.map(str::to_owned) }
}

fn sample(millis: u64, used_mib: u64, processes: &[GpuProcess]) -> GpuMemory {
    GpuMemory {
        device: Device::cuda(0),
        asked_micros: millis * 1000,
        answered_micros: millis * 1000 + 100,
        total: 1000 * MIB,
        used: used_mib * MIB,
        driver: Some(50 * MIB),
        processes: Some(processes.to_vec()),
    }
}

fn recorded(samples: Vec<GpuMemory>) -> Trace {
    let mut trace = trace(PROGRAM);
    trace.header.pid = OWN;
    trace.gpu_memory = samples;
    trace
}

fn ask(samples: Vec<GpuMemory>, at: At) -> Ledger {
    let found = ledger(&recorded(samples), None, at).unwrap();
    let sum: i64 = found.rows.iter().map(|row| row.bytes).sum();
    assert_eq!(sum, i64::try_from(found.used.0).unwrap(), "the rows add up to what is in use");
    found
}

fn picture(found: &Ledger) -> String {
    let mut text =
        format!("at {:.3} s, sampled at {:.3} s\n", found.at.seconds, found.sampled_seconds);
    for row in &found.rows {
        let owner = match row.owner {
            LedgerOwner::TorchAllocated => row.category.unwrap().to_owned(),
            LedgerOwner::TorchCached => "cached".to_owned(),
            LedgerOwner::OutsideTorch => "outside torch".to_owned(),
            LedgerOwner::OtherProcess => {
                format!("{} {}", row.pid.unwrap(), row.name.as_deref().unwrap_or("?"))
            }
            LedgerOwner::Unexplained => "unexplained".to_owned(),
        };
        let mib = row.bytes / (1 << 20);
        text += &format!("{mib} MiB {owner}\n");
    }
    for note in &found.notes {
        text += &format!("note: {note}\n");
    }
    text
}

#[test]
fn the_owners_add_up_to_what_is_in_use() {
    let processes = [process(OWN, 420, Some("python")), process(7, 100, Some("Xorg"))];
    let found = ask(vec![sample(100, 530, &processes)], At::Seconds(0.1));
    insta::assert_snapshot!(picture(&found), @r"
    at 0.100 s, sampled at 0.100 s
    8 MiB parameter
    12 MiB cached
    400 MiB outside torch
    100 MiB 7 Xorg
    10 MiB unexplained
    ");
    assert_eq!((found.free, found.driver), (Bytes(420 * MIB), Some(Bytes(50 * MIB))));
    assert_eq!((found.allocated, found.reserved), (Bytes(8 * MIB), Some(Bytes(20 * MIB))));
}

#[test]
fn the_nearest_sample_counts() {
    let own = |mib| [process(OWN, mib, None)];
    let samples = vec![sample(100, 420, &own(420)), sample(600, 460, &own(460))];
    let found = ask(samples, At::Peak);
    insta::assert_snapshot!(picture(&found), @r"
    at 0.508 s, sampled at 0.600 s
    16 MiB unknown
    8 MiB parameter
    16 MiB cached
    420 MiB outside torch
    0 MiB unexplained
    ");
}

/// torch requested 20 MiB from the driver after the sample; all else is as it was.
#[test]
fn what_torch_has_requested_since_the_sample_is_added() {
    let found = ask(vec![sample(400, 420, &[process(OWN, 420, None)])], At::Peak);
    assert_eq!((found.sampled_used, found.used), (Bytes(420 * MIB), Bytes(440 * MIB)));
    insta::assert_snapshot!(picture(&found), @r"
    at 0.508 s, sampled at 0.400 s
    16 MiB unknown
    8 MiB parameter
    16 MiB cached
    400 MiB outside torch
    0 MiB unexplained
    note: torch had 20.00 MiB when NVML was asked and 40.00 MiB at the chosen time: the bytes in use are NVML's with this difference
    ");
}

#[test]
fn a_sample_that_is_far_away_is_said_to_be() {
    let found = ask(vec![sample(3000, 440, &[process(OWN, 440, None)])], At::Peak);
    assert_eq!(found.notes, ["NVML was asked 2.5 s away from the chosen time"]);
}

#[test]
fn a_process_that_nvml_does_not_name_is_said_to_be_unknown() {
    let found = ask(vec![sample(100, 520, &[process(7, 100, Some("Xorg"))])], At::Seconds(0.1));
    insta::assert_snapshot!(picture(&found), @r"
    at 0.100 s, sampled at 0.100 s
    8 MiB parameter
    12 MiB cached
    100 MiB 7 Xorg
    400 MiB unexplained
    note: NVML does not name this process (pid 42): what it has outside torch is unexplained
    ");
    // In a container NVML may give the numbers of the machine.
    let processes = [process(90_001, 420, None), process(7, 100, Some("Xorg"))];
    let found = ask(vec![sample(100, 520, &processes)], At::Seconds(0.1));
    insta::assert_snapshot!(picture(&found), @r"
    at 0.100 s, sampled at 0.100 s
    8 MiB parameter
    12 MiB cached
    100 MiB 7 Xorg
    400 MiB unexplained
    note: NVML does not name this process (pid 42): what it has outside torch is unexplained. It lists one process that cannot be seen from here (90001): it may be this one
    ");
    let outside: Vec<_> = found.over_time.iter().map(|point| point.outside_torch).collect();
    assert_eq!((outside, found.over_time[0].other_processes), (vec![None], None));
}

#[test]
fn figures_that_nvml_does_not_give_are_unexplained() {
    let silent = GpuProcess { bytes: None, ..process(7, 0, Some("Xorg")) };
    let own = GpuProcess { bytes: None, ..process(OWN, 0, None) };
    let found = ask(vec![sample(100, 120, &[own, silent])], At::Seconds(0.1));
    insta::assert_snapshot!(picture(&found), @r"
    at 0.100 s, sampled at 0.100 s
    8 MiB parameter
    12 MiB cached
    100 MiB unexplained
    note: NVML does not say the bytes of this process: what it has outside torch is unexplained
    note: NVML does not say the bytes of process 7 (Xorg): they are unexplained
    ");
    let without = GpuMemory { processes: None, driver: None, ..sample(100, 120, &[]) };
    let found = ask(vec![without], At::Seconds(0.1));
    insta::assert_snapshot!(picture(&found), @r"
    at 0.100 s, sampled at 0.100 s
    8 MiB parameter
    12 MiB cached
    100 MiB unexplained
    note: NVML does not list the processes on this GPU: what lies outside torch has no owner
    note: NVML counts in use what the driver keeps for itself
    ");
}

#[test]
fn a_sample_during_a_change_is_marked() {
    let across =
        GpuMemory { answered_micros: 600_000, ..sample(100, 420, &[process(OWN, 420, None)]) };
    let found = ask(vec![across], At::Seconds(0.1));
    assert_eq!(found.notes, ["torch's reserved bytes changed while NVML was asked"]);
}

#[test]
fn owners_that_overlap_leave_a_negative_rest() {
    let processes = [process(OWN, 420, None), process(7, 100, None)];
    let found = ask(vec![sample(100, 500, &processes)], At::Seconds(0.1));
    let last = found.rows.last().unwrap();
    assert_eq!((last.owner, last.bytes), (LedgerOwner::Unexplained, -20 * (1 << 20)));
    assert_eq!(found.notes, ["the owners together have more than NVML says is in use"]);
}

#[test]
fn every_sample_is_a_point_over_time() {
    let processes = |own| [process(OWN, own, None), process(7, 100, None)];
    let found =
        ask(vec![sample(100, 530, &processes(420)), sample(900, 560, &processes(450))], At::End);
    let points: Vec<_> = found
        .over_time
        .iter()
        .map(|at| {
            let mib = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.0 / MIB);
            (at.used.0 / MIB, mib(at.reserved), mib(at.outside_torch), mib(at.other_processes))
        })
        .collect();
    assert_eq!(
        points,
        [(530, Some(20), Some(400), Some(100)), (560, Some(40), Some(410), Some(100))]
    );
}

#[test]
fn without_samples_there_is_no_ledger() {
    let found = ledger(&recorded(Vec::new()), None, At::Peak);
    assert_eq!(found, Err(QuestionError::NoGpuSamples { device: Device::cuda(0) }));
}

/// Four steps; the figures are what is in use right after each, and what this process has of it.
fn growing(figures: [(u64, u64); 4]) -> Option<OutsideGrowth> {
    let steps = "step\nwait 100\n".repeat(4);
    let mut trace = trace(&format!("alloc a cuda:0 1KiB\n{steps}oom cuda:0 1GiB"));
    trace.header.pid = OWN;
    let ends = trace.events.iter().filter(|event| matches!(event.subject, Subject::Step(_)));
    let samples = ends
        .zip(figures)
        .map(|(end, (used, own))| sample(end.time.0 / 1000 + 10, used, &[process(OWN, own, None)]));
    trace.gpu_memory = samples.collect();
    oom(&trace, None, None).unwrap().outside_growth
}

#[test]
fn growth_outside_torch_since_the_first_step_is_part_of_an_oom() {
    let found = growing([(500, 500), (510, 510), (800, 510), (900, 512)]).unwrap();
    assert_eq!((found.bytes, found.own_bytes), (Bytes(400 * MIB), Some(12 << 20)));
    assert_eq!(found.step, 2, "the sample after two steps is the last one without it");
    assert_eq!(growing([(500, 500), (510, 510), (520, 520), (530, 530)]), None, "as usual");
    assert_eq!(growing([(900, 500), (900, 500), (800, 500), (500, 500)]), None, "it shrank");
}
