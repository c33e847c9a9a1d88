//! What NVML said about the memory of the GPUs.

use floodmark_trace::frame::{FrameKind, append_frame, prelude};
use floodmark_trace::{
    Batch, Device, Ending, GpuMemory, GpuProcess, GrowingTrace, Header, TraceWriter, read_trace,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

prop_compose! {
    fn process()(
        pid in any::<u32>(), bytes in any::<Option<u64>>(), name in option::of(".{0,16}"),
    ) -> GpuProcess {
        GpuProcess { pid, bytes, name }
    }
}

prop_compose! {
    fn sample()(
        index in 0..64_i8,
        (asked_micros, took) in (any::<u32>(), any::<u32>()),
        (total, used) in (any::<u64>(), any::<u64>()),
        driver in any::<Option<u64>>(),
        processes in option::of(vec(process(), 0..4)),
    ) -> GpuMemory {
        let (asked_micros, took) = (u64::from(asked_micros), u64::from(took));
        let device = Device::cuda(index);
        let answered_micros = asked_micros + took;
        GpuMemory { device, asked_micros, answered_micros, total, used, driver, processes }
    }
}

fn batch(gpu_memory: Vec<GpuMemory>) -> Batch {
    Batch { gpu_memory, ..Batch::default() }
}

fn file_of(batches: &[Batch]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Header::default()).unwrap();
    for batch in batches {
        writer.write_batch(batch).unwrap();
    }
    writer.finish(&Ending::default()).unwrap()
}

proptest! {
    /// decode ∘ encode = id, flush by flush.
    #[test]
    fn samples_are_read_as_they_were_written(flushes in vec(vec(sample(), 0..5), 0..4)) {
        let batches: Vec<Batch> = flushes.iter().cloned().map(batch).collect();
        let trace = read_trace(&file_of(&batches), &[]).unwrap();
        prop_assert_eq!(&trace.gpu_memory, &flushes.concat());
        prop_assert!(trace.losses.0.is_empty(), "{:?}", trace.losses);
    }

    /// A file that ends inside a frame has the samples of the flushes before.
    #[test]
    fn a_cut_file_has_the_samples_before_the_cut(samples in vec(sample(), 1..4), share in 0.0..1.0) {
        let batches: Vec<Batch> = samples.iter().map(|one| batch(vec![one.clone()])).collect();
        let file = file_of(&batches);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share of a small file")]
        let read_bytes = (file.len() as f64 * share) as usize;
        if let Ok(trace) = read_trace(&file[..read_bytes], &[]) {
            prop_assert!(samples.starts_with(&trace.gpu_memory));
        }
    }
}

fn at(micros: u64) -> GpuMemory {
    GpuMemory {
        device: Device::cuda(0),
        asked_micros: micros,
        answered_micros: micros + 1,
        total: 100,
        used: 60,
        driver: None,
        processes: None,
    }
}

#[test]
fn a_damaged_sample_is_a_missing_frame_and_no_more() {
    let mut file = prelude().to_vec();
    append_frame(&mut file, FrameKind::Header, 0, b"{}");
    append_frame(&mut file, FrameKind::GpuMemory, 1, b"\x04\0\0\0nvml\xff\xff\xff\xff");
    append_frame(&mut file, FrameKind::Ending, 2, b"{}");
    let trace = read_trace(&file, &[]).unwrap();
    assert_eq!((trace.gpu_memory.len(), trace.losses.0.len()), (0, 1));
}

#[test]
fn a_point_of_a_growing_trace_is_without_later_samples() {
    let mut growing = GrowingTrace::default();
    growing.push(batch(vec![at(1)]));
    let point = growing.complete(&Header::default(), None).point();
    growing.push(batch(vec![at(5)]));
    let trace = growing.complete(&Header::default(), None);
    assert_eq!(trace.gpu_memory, [at(1), at(5)]);
    assert_eq!(trace.until(&point).gpu_memory, [at(1)]);
}

#[test]
fn equal_figures_are_recognized_at_another_time() {
    assert!(at(1).has_figures_of(&at(5)));
    assert!(!at(1).has_figures_of(&GpuMemory { used: 61, ..at(1) }));
}
