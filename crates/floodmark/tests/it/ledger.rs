//! `floodmark ledger`.

use floodmark_trace::{
    Batch, Device, Ending, EventKind, GpuMemory, GpuProcess, Header, Micros, Row, TraceWriter,
};

use crate::program::Folder;

const MIB: u64 = 1 << 20;

/// A block of 8 MiB in 20 MiB that torch has reserved, in the recording of process 42.
fn recorded(gpu_memory: Vec<GpuMemory>) -> Folder {
    let row = |kind, mib: u64| {
        let row = Row::new(kind, Device::cuda(0), 0, Micros(1000));
        Row { addr: 1 << 30, bytes: mib * MIB, ..row }
    };
    file_of(vec![row(EventKind::Alloc, 8), row(EventKind::Reserved, 20)], gpu_memory)
}

fn file_of(rows: Vec<Row>, gpu_memory: Vec<GpuMemory>) -> Folder {
    let header = Header { pid: 42, ..floodmark_testing::script::header() };
    let mut writer = TraceWriter::new(Vec::new(), &header).unwrap();
    writer.write_batch(&Batch { rows, gpu_memory, ..Batch::default() }).unwrap();
    let file = writer.finish(&Ending::default()).unwrap();
    Folder::new().with_bytes("x.flood", &file)
}

fn sample(millis: u64, used: u64, processes: Vec<GpuProcess>) -> GpuMemory {
    GpuMemory {
        device: Device::cuda(0),
        asked_micros: millis * 1000,
        answered_micros: millis * 1000 + 50,
        total: 900 * MIB,
        used,
        driver: Some(50 * MIB),
        processes: Some(processes),
    }
}

fn process(pid: u32, bytes: u64, name: Option<&str>) -> GpuProcess {
    GpuProcess { pid, bytes: Some(bytes), name: name.map(str::to_owned) }
}

#[test]
fn the_owners_of_a_gpu_are_listed() {
    let processes =
        || vec![process(42, 420 * MIB, Some("python")), process(7, 100 * MIB, Some("Xorg"))];
    let folder =
        recorded(vec![sample(1, 530 * MIB, processes()), sample(9, 540 * MIB, processes())]);
    insta::assert_snapshot!(folder.run("ledger x.flood"), @"
    exit 0
    --- stdout
    In use on cuda:0: 530.0 MiB of 900.0 MiB: 20.00 MiB torch, 400.0 MiB this process outside torch, 100.0 MiB other processes, 10.00 MiB unexplained
    Time: outside forward/backward/optimizer, at 0.001 s; NVML was asked at 0.001 s; 320.0 MiB free, 50.00 MiB kept by the driver

        Bytes   Share  Owner
    8.000 MiB   1.5 %  torch, allocated: unknown
    12.00 MiB   2.3 %  torch, reserved and not allocated
    400.0 MiB  75.5 %  this process outside torch: CUDA context, libraries, kernels
    100.0 MiB  18.9 %  process 7: Xorg
    10.00 MiB   1.9 %  unexplained

       Time     In use  Reserved by torch  Outside torch  Other processes  2 samples
    0.001 s  530.0 MiB          20.00 MiB      400.0 MiB        100.0 MiB
    0.009 s  540.0 MiB          20.00 MiB      400.0 MiB        100.0 MiB
    ");
}

#[test]
fn the_last_sample_is_a_metric() {
    let folder = recorded(vec![sample(1, 530, Vec::new()), sample(9, 540, Vec::new())]);
    let text = folder.stdout("metrics --once x.flood");
    assert!(text.contains("\nfloodmark_used_bytes{device=\"cuda:0\"} 540\n"), "{text}");
}

/// Two steps, then a request of 2 GiB fails. Other processes took 200 MiB in the second step.
#[test]
fn a_failed_allocation_says_what_grew_outside_torch() {
    let row = |kind, micros, bytes| {
        let row = Row::new(kind, Device::cuda(0), 0, Micros(micros));
        Row { addr: 1 << 30, bytes, ..row }
    };
    let rows = vec![
        row(EventKind::Alloc, 1000, 8 * MIB),
        row(EventKind::Step, 2000, 0),
        Row { stack: 1, ..row(EventKind::Step, 5000, 0) },
        Row { addr: 0, ..row(EventKind::Oom, 9000, 2 << 30) },
    ];
    let own = || vec![process(42, 400 * MIB, None)];
    let samples = vec![sample(3, 400 * MIB, own()), sample(9, 600 * MIB, own())];
    let shown = file_of(rows, samples).stdout("oom x.flood");
    let line = shown.lines().find(|line| line.starts_with("Memory outside torch grew"));
    insta::assert_snapshot!(line.unwrap_or(&shown), @"Memory outside torch grew by 200.0 MiB since step 1: 0 B of it in this process");
}

#[test]
fn without_samples_the_error_says_why() {
    insta::assert_snapshot!(recorded(Vec::new()).run("ledger x.flood"), @"
    exit 1
    --- stderr
    error: Failed to add up the memory of the GPU in `x.flood`
      Caused by: nothing is known of cuda:0 outside torch: NVML was not asked while the program was recorded

    hint: NVML is asked where `libnvidia-ml.so.1` is installed and torch gives the UUID of a GPU (torch 2.5 and later)
    ");
}

#[test]
fn figures_that_cannot_be_true_are_shown_without_a_panic() {
    let processes = vec![
        process(42, u64::MAX, None),
        process(7, u64::MAX, Some("\u{1b}[2J")),
        process(8, u64::MAX - 1, None),
    ];
    let folder = recorded(vec![sample(u64::MAX / 1001, u64::MAX, processes)]);
    for command in ["ledger x.flood", "ledger x.flood --json", "ledger x.flood --at end"] {
        let shown = folder.run(command);
        assert!(shown.starts_with("exit 0\n"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }
}
