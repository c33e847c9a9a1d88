//! Hidden memory: what kernels allocate for themselves, without a tensor.
//!
//! A fake tensor's kernel allocates its results and nothing else. The real one may allocate a buffer for
//! sorting, a copy of a gradient in another layout, or a workspace that a library keeps. Each rule computes
//! the bytes from the shapes of a call; the figures come from runs of torch itself
//! (`bench/fixtures/fake_hidden.py`, on a phantom GPU), and `tests/it` compares every rule with them.
//!
//! A file for each family of operators. Allocations of a few KiB are left out.

mod attention;
mod convolutions;
mod embedding;
mod images;
mod indexing;
mod losses;
mod norms;
mod optimizers;
mod products;
mod recurrent;
mod reduce;
mod reductions;
mod sorting;

use crate::call::{Call, TensorInfo, Value};

pub(crate) use attention::cudnn_attention_workspace;
pub use products::workspace_bytes;
pub use recurrent::dropout_state_bytes;

/// Memory that a call takes beside its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hidden {
    /// Its purpose.
    pub what: &'static str,
    /// The requested bytes.
    pub bytes: u64,
    /// How long it stays.
    pub stays: Stays,
}

/// How long hidden memory stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stays {
    /// Allocated before the results, freed after them.
    Call,
    /// Allocated after the results, and freed before the next one is allocated: parts of a kernel that follow
    /// one another.
    Moment,
    /// Taken by the first call of this thread that needs it (by its name), and kept: a library's workspace.
    /// Forward and backward run on threads of their own.
    Thread,
    /// Not allocated beside the results: the storage of this result has this many bytes, more than its sizes say.
    Result(usize),
}

/// The peak of a call beside what was live before it, with results of `result_bytes` bytes. Memory
/// that a thread keeps is left out. For callers that have the results of a call but not their order.
pub fn peak_bytes(hidden: &[Hidden], result_bytes: u64) -> u64 {
    let of = |stays: Stays| move |part: &&Hidden| part.stays == stays;
    let whole: u64 = hidden.iter().filter(of(Stays::Call)).map(|part| part.bytes).sum();
    let moment = hidden.iter().filter(of(Stays::Moment)).map(|part| part.bytes).max();
    whole + result_bytes + moment.unwrap_or(0)
}

/// The findings of a rule, in the order of the requests.
#[derive(Debug, Default)]
struct Needs(Vec<Hidden>);

impl Needs {
    fn call(&mut self, what: &'static str, bytes: u64) {
        self.push(what, bytes, Stays::Call);
    }

    fn moment(&mut self, what: &'static str, bytes: u64) {
        self.push(what, bytes, Stays::Moment);
    }

    fn push(&mut self, what: &'static str, bytes: u64, stays: Stays) {
        if bytes > 0 {
            self.0.push(Hidden { what, bytes, stays });
        }
    }

    /// A copy of a tensor whose elements do not lie side by side.
    fn contiguous(&mut self, what: &'static str, tensor: Option<&TensorInfo>) {
        if let Some(tensor) = tensor.filter(|tensor| !tensor.is_contiguous()) {
            self.call(what, tensor.bytes());
        }
    }
}

type Rule = fn(&Call<'_>, &mut Needs);

/// The rule for an operator.
fn rule(op: &str) -> Option<Rule> {
    let name = op.strip_prefix("aten::")?;
    let base = name.split_once('.').map_or(name, |(base, _)| base);
    products::rule(base)
        .or_else(|| attention::rule(base))
        .or_else(|| convolutions::rule(base))
        .or_else(|| embedding::rule(base))
        .or_else(|| images::rule(base))
        .or_else(|| indexing::rule(base))
        .or_else(|| losses::rule(base))
        .or_else(|| norms::rule(base))
        .or_else(|| optimizers::rule(base))
        .or_else(|| recurrent::rule(base))
        .or_else(|| reductions::rule(name))
        .or_else(|| sorting::rule(base))
}

/// Whether there is a rule for an operator. Cached for each, so that others cost nothing.
pub fn has_rule(op: &str) -> bool {
    rule(op).is_some()
}

/// The hidden allocations of a call, in the order of the requests. Nothing for tensors that do not lie
/// on a GPU.
pub fn hidden(call: &Call<'_>) -> Vec<Hidden> {
    let mut needs = Needs::default();
    if let Some(rule) = rule(call.op).filter(|_| is_on_gpu(call)) {
        rule(call, &mut needs);
    }
    needs.0
}

/// Whether the first tensor of a call, or else of its results, lies on a GPU.
fn is_on_gpu(call: &Call<'_>) -> bool {
    let first = call.args.iter().chain(call.results).find_map(|value| match value {
        Value::Tensor(tensor) => Some(tensor),
        Value::Tensors(tensors) => tensors.first(),
        Value::None
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Ints(_)
        | Value::Float(_)
        | Value::Bools(_)
        | Value::Other => None,
    });
    first.is_some_and(|tensor| !tensor.device.is_cpu())
}

#[cfg(test)]
mod made;

#[cfg(test)]
mod tests {
    use super::made::{Made, cuda};
    use super::*;
    use crate::call::DType;

    #[test]
    fn moments_do_not_add_up() {
        let part = |bytes, stays| Hidden { what: "", bytes, stays };
        let parts = [part(10, Stays::Call), part(5, Stays::Moment), part(7, Stays::Moment)];
        assert_eq!(peak_bytes(&parts, 100), 117);
    }

    #[test]
    fn an_operator_without_a_rule_takes_nothing() {
        assert!(!has_rule("aten::add.Tensor"));
        assert!(!has_rule("mylib::mm"));
        assert!(has_rule("aten::mm") && has_rule("aten::sort.stable"));
    }

    #[test]
    fn tensors_of_the_host_take_nothing() {
        let mut tensor = cuda(DType::F32, &[1 << 20]);
        tensor.device = floodmark_trace::Device::CPU;
        let made = Made::new("aten::sort", vec![Value::Tensor(tensor)]);
        assert_eq!(made.hidden(), []);
    }
}
