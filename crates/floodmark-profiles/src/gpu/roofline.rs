//! How long a step takes: a roofline of the GPU, and the host beside it.
//!
//! The time of an operator is that of its operations or of its bytes, whichever is longer, at what its kind reaches of
//! the measured rates of the GPU, plus the time in which a kernel begins and ends. The time of the host is the one
//! measured on a simulated GPU, plus the driver's part of each launch, which a simulated GPU lacks. The GPU works
//! through its operators while the host starts them, so a step takes about as long as the slower of the two. It is an
//! estimate of ratios between variants of one program, not of seconds.

use floodmark_trace::{OperatorCost, OperatorKind, StepCost};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rates that a GPU reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Matrix products in bf16 and fp16, in 10⁹ operations a second.
    pub half_gflops: u64,
    /// Matrix products in fp32, in 10⁹ operations a second.
    pub single_gflops: u64,
    /// Matrix products and convolutions in TF32, in 10⁹ operations a second; half of those in bf16 where it is not
    /// stated.
    #[serde(default)]
    pub tf32_gflops: Option<u64>,
    /// Attention in one kernel, in bf16 and fp16, in 10⁹ operations a second.
    pub attention_gflops: u64,
    /// The GPU's own memory, read and written, in 10⁶ bytes a second.
    pub memory_mb_per_s: u64,
    /// Copies from and to pinned memory of the host, in 10⁶ bytes a second.
    pub host_mb_per_s: u64,
    /// The shortest time of a kernel on the GPU, in nanoseconds.
    pub kernel_nanos: u64,
    /// The time that the host takes to start an operator, in nanoseconds, where it was not measured.
    pub launch_nanos: u64,
    /// The part of it that is the driver's, in nanoseconds.
    #[serde(default = "usual_driver_nanos")]
    pub driver_nanos: u64,
}

/// Where a step copies more between host and device, the measured time is mostly that of the copies: a simulated GPU
/// has no engine of its own for them.
const MOST_COPIED: u64 = 64 << 20;

fn usual_driver_nanos() -> u64 {
    3_000
}

/// How long a step takes, estimated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepTime {
    /// The seconds in which the GPU computes.
    pub gpu_seconds: f64,
    /// The seconds in which the host starts operators.
    pub host_seconds: f64,
}

impl StepTime {
    /// The seconds of the step: both work at the same time, but one waits for the other now and then. Where they take
    /// equally long, that is a fifth more: as it was measured.
    pub fn seconds(&self) -> f64 {
        (self.gpu_seconds.powi(4) + self.host_seconds.powi(4)).powf(0.25)
    }

    /// Whether the GPU waits for the host.
    pub fn is_limited_by_host(&self) -> bool {
        self.host_seconds > self.gpu_seconds
    }
}

impl Rates {
    /// The time of a step. Where the host's time for it was not measured, an operator takes as long as one of the
    /// unchanged program.
    pub fn step_time(&self, cost: &StepCost, unchanged: Option<&StepCost>) -> StepTime {
        let is_aside = |operator: &&OperatorCost| operator.kind == OperatorKind::AsyncHostCopy;
        let of_gpu = |operator: &OperatorCost| self.gpu_seconds(operator);
        let aside: f64 = cost.operators.iter().filter(is_aside).map(of_gpu).sum();
        let gpu: f64 = cost.operators.iter().map(of_gpu).sum::<f64>() - aside;
        let own = product(1, operators(cost)) * self.nanos_of_operator(cost, unchanged);
        StepTime { gpu_seconds: gpu.max(aside), host_seconds: own * 1e-9 }
    }

    /// How long the host takes for an operator.
    fn nanos_of_operator(&self, cost: &StepCost, unchanged: Option<&StepCost>) -> f64 {
        match cost.host_nanos {
            Some(measured) if host_bytes(cost) < MOST_COPIED => {
                ratio(measured, operators(cost)) + product(1, self.driver_nanos)
            }
            Some(_) | None => unchanged.map_or_else(
                || product(1, self.launch_nanos),
                |unchanged| self.nanos_of_operator(unchanged, None),
            ),
        }
    }

    fn gpu_seconds(&self, operator: &OperatorCost) -> f64 {
        let is_half = matches!(&*operator.dtype, "bfloat16" | "float16");
        let is_tf32 = operator.dtype == "tf32";
        let is_attention = operator.kind == OperatorKind::Attention;
        let gflops = match (is_half, is_tf32) {
            (true, _) if is_attention => self.attention_gflops,
            (true, _) => self.half_gflops,
            (false, true) => self.tf32_gflops.unwrap_or(self.half_gflops / 2),
            (false, false) => self.single_gflops,
        };
        let bytes_rate =
            if is_host_copy(operator.kind) { self.host_mb_per_s } else { self.memory_mb_per_s };
        let reached = Reached::by(operator.kind, is_half, is_tf32);
        let computing = ratio(operator.flops, gflops) * 1e-9 / reached.of_operations;
        let moving = ratio(operator.bytes, bytes_rate) * 1e-6 / reached.of_bytes;
        let starting = product(operator.count, self.kernel_nanos) * 1e-9 * reached.empty_kernels;
        starting + computing.max(moving)
    }
}

/// What kernels of a kind reach. Fitted to the kernels of twenty models on an H200
/// (`bench/results/operator-times.md`); other GPUs are assumed to be alike.
struct Reached {
    /// The share of the rate of operations.
    of_operations: f64,
    /// The share of the rate of bytes.
    of_bytes: f64,
    /// The time in which they begin and end, in empty kernels.
    empty_kernels: f64,
}

impl Reached {
    fn by(kind: OperatorKind, is_half: bool, is_tf32: bool) -> Self {
        let (of_operations, of_bytes, empty_kernels) = match kind {
            OperatorKind::Matmul => (1.0, 0.65, 2.0),
            OperatorKind::UnevenMatmul => (0.2, 0.65, 2.0),
            OperatorKind::Attention if is_half => (1.3, 0.3, 6.0),
            OperatorKind::Attention => (0.6, 0.3, 6.0),
            OperatorKind::Convolution if is_half || is_tf32 => (0.4, 0.4, 6.0),
            OperatorKind::Convolution => (1.0, 0.4, 6.0),
            // Their operations do not limit them.
            OperatorKind::GroupedConvolution => (f64::INFINITY, 0.06, 6.0),
            OperatorKind::HostCopy | OperatorKind::AsyncHostCopy => (1.0, 0.92, 5.0),
            OperatorKind::Elementwise if is_half => (1.0, 0.65, 1.5),
            OperatorKind::Elementwise => (1.0, 0.95, 1.5),
            OperatorKind::Normalization => (1.0, 0.25, 4.0),
            OperatorKind::Memory if is_half => (1.0, 0.6, 4.0),
            OperatorKind::Memory => (1.0, 0.85, 4.0),
        };
        Self { of_operations, of_bytes, empty_kernels }
    }
}

/// The number of operators of a step.
fn operators(cost: &StepCost) -> u64 {
    cost.operators.iter().map(|operator| operator.count).sum()
}

/// The floating-point operations of a step.
pub fn flops(cost: &StepCost) -> u64 {
    cost.operators.iter().map(|operator| operator.flops).sum()
}

fn is_host_copy(kind: OperatorKind) -> bool {
    matches!(kind, OperatorKind::HostCopy | OperatorKind::AsyncHostCopy)
}

/// The bytes of a step that pass between host and device.
pub fn host_bytes(cost: &StepCost) -> u64 {
    cost.operators.iter().filter(|one| is_host_copy(one.kind)).map(|one| one.bytes).sum()
}

#[expect(clippy::cast_precision_loss, reason = "an estimate needs no more than 53 bits")]
fn ratio(amount: u64, rate: u64) -> f64 {
    amount as f64 / rate.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "an estimate needs no more than 53 bits")]
fn product(count: u64, each: u64) -> f64 {
    count as f64 * each as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates {
        half_gflops: 600_000,
        single_gflops: 40_000,
        tf32_gflops: None,
        attention_gflops: 300_000,
        memory_mb_per_s: 4_000_000,
        host_mb_per_s: 50_000,
        kernel_nanos: 2_000,
        launch_nanos: 5_000,
        driver_nanos: 3_000,
    };

    fn operator(
        kind: OperatorKind,
        dtype: &str,
        count: u64,
        flops: u64,
        bytes: u64,
    ) -> OperatorCost {
        OperatorCost { kind, dtype: dtype.to_owned(), count, flops, bytes }
    }

    fn seconds(operators: Vec<OperatorCost>) -> f64 {
        RATES
            .step_time(&StepCost { backward_passes: 1, operators, host_nanos: None }, None)
            .seconds()
    }

    fn is_near(seconds: f64, expected: f64) -> bool {
        (seconds / expected - 1.0).abs() < 0.02
    }

    #[test]
    fn a_large_product_takes_as_long_as_its_operations() {
        let product =
            |kind| seconds(vec![operator(kind, "bfloat16", 1, 6_000_000_000_000, 1_000_000)]);
        let even = product(OperatorKind::Matmul);
        assert!(is_near(even, 0.01), "{even}");
        let uneven = product(OperatorKind::UnevenMatmul);
        assert!(is_near(uneven, 0.05), "{uneven}");
    }

    #[test]
    fn an_elementwise_operator_takes_as_long_as_its_bytes() {
        let time = |kind| seconds(vec![operator(kind, "float32", 1, 0, 8_000_000_000)]);
        assert!(is_near(time(OperatorKind::Elementwise), 0.002 / 0.95));
        assert!(time(OperatorKind::Normalization) > 3.0 * time(OperatorKind::Elementwise));
    }

    #[test]
    fn many_small_operators_take_as_long_as_the_host_needs_to_start_them() {
        let time = seconds(vec![operator(OperatorKind::Elementwise, "float32", 1000, 0, 1_000)]);
        assert!((0.005..0.0055).contains(&time), "{time}");
    }

    #[test]
    fn where_gpu_and_host_take_equally_long_each_waits_for_the_other_now_and_then() {
        let both = StepTime { gpu_seconds: 1.0, host_seconds: 1.0 };
        assert!((1.1..1.3).contains(&both.seconds()));
        let one = StepTime { gpu_seconds: 1.0, host_seconds: 0.3 };
        assert!(is_near(one.seconds(), 1.0));
    }

    #[test]
    fn copies_on_a_stream_of_their_own_take_time_only_where_they_take_longer() {
        let with_copies = |kind, bytes| {
            let kernel = operator(OperatorKind::Elementwise, "float32", 1, 0, 7_600_000_000);
            seconds(vec![kernel, operator(kind, "float32", 1, 0, bytes)])
        };
        let (short, long) = (46_000_000, 460_000_000);
        assert!(is_near(with_copies(OperatorKind::HostCopy, short), 0.003));
        assert!(is_near(with_copies(OperatorKind::AsyncHostCopy, short), 0.002));
        assert!(is_near(with_copies(OperatorKind::AsyncHostCopy, long), 0.01));
    }

    #[test]
    fn where_the_host_was_measured_its_time_and_the_drivers_count() {
        let operators = vec![operator(OperatorKind::Memory, "float32", 1000, 0, 1_000)];
        let cost = StepCost { backward_passes: 1, operators, host_nanos: Some(20_000_000) };
        let time = RATES.step_time(&cost, None);
        assert!(is_near(time.seconds(), 0.023), "{time:?}");
        assert!(time.is_limited_by_host());
        let copied = vec![operator(OperatorKind::HostCopy, "float32", 10, 0, 5 << 30)];
        let copying =
            StepCost { backward_passes: 1, operators: copied, host_nanos: Some(900_000_000) };
        let time = RATES.step_time(&copying, Some(&cost));
        assert!(!time.is_limited_by_host(), "the copies are the GPU's: {time:?}");
        assert!((time.host_seconds - 10.0 * 23e-6).abs() < 1e-9, "as in the other: {time:?}");
    }

    #[test]
    fn copies_to_the_host_are_slower_than_copies_on_the_device() {
        let copy = |kind| seconds(vec![operator(kind, "float32", 1, 0, 1 << 30)]);
        assert!(copy(OperatorKind::HostCopy) > 50.0 * copy(OperatorKind::Memory));
    }
}
