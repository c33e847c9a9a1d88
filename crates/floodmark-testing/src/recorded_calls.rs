//! Recorded calls of torch's operators, which `bench/fixtures/fake_hidden.py` writes as lines of JSON.

use floodmark_fake::hidden::{Hidden, Stays, hidden, peak_bytes};
use floodmark_fake::{Call, DType, Machine, TensorInfo, Value};
use floodmark_trace::Device;
use serde_json::Value as Json;

/// The allocator rounds requests up to a multiple of this.
const BLOCK: u64 = 512;

/// A call, and the memory that it allocated.
#[derive(Debug)]
pub struct Recorded {
    /// Its qualified name: `aten::mm`.
    pub op: String,
    /// Its arguments.
    pub args: Vec<Value>,
    /// Its results.
    pub results: Vec<Value>,
    /// The peak of the call's allocations, without those that outlive it beside the results.
    pub peak: u64,
    /// The bytes of the results' storages, if they were as large as the sizes of the results.
    pub results_bytes: u64,
}

impl Recorded {
    /// The call of a line; `None` if the line is no call.
    pub fn parse(line: &str) -> Option<Self> {
        let json: Json = serde_json::from_str(line).ok()?;
        let values = |key: &str| json[key].as_array().map(|list| list.iter().map(value).collect());
        let kept: u64 = json["kept"].as_array()?.iter().filter_map(Json::as_u64).sum();
        Some(Self {
            op: json["op"].as_str()?.to_owned(),
            args: values("args")?,
            results: values("results")?,
            peak: json["peak"].as_u64()? - kept,
            results_bytes: json["plain"].as_u64()?,
        })
    }

    /// The bytes that the call allocates beside its results, by the rules.
    pub fn hidden(&self, machine: &Machine) -> Vec<Hidden> {
        let (op, args, results) = (self.op.as_str(), &self.args, &self.results);
        hidden(&Call { op, args, results, is_backward: false, machine })
    }

    /// The peak by the rules, with the results of fake tensors.
    pub fn expected(&self, machine: &Machine) -> u64 {
        let parts = self.hidden(machine);
        let larger: u64 = parts.iter().map(|part| self.larger(part)).sum();
        let rounded: Vec<Hidden> =
            parts.iter().map(|part| Hidden { bytes: block(part), ..*part }).collect();
        peak_bytes(&rounded, self.results_bytes + larger)
    }

    /// The bytes of a result's storage beyond its sizes.
    fn larger(&self, part: &Hidden) -> u64 {
        let Stays::Result(at) = part.stays else { return 0 };
        let own = match self.results.get(at) {
            Some(Value::Tensor(tensor)) => tensor.bytes().next_multiple_of(BLOCK),
            _ => 0,
        };
        block(part).saturating_sub(own)
    }
}

fn block(part: &Hidden) -> u64 {
    part.bytes.next_multiple_of(BLOCK)
}

/// The GPU of the recordings, simulated.
pub fn h200() -> Machine {
    Machine { torch: (2, 11), capability: 90, multiprocessors: 132, cublas_workspace: None }
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::None,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => {
            number.as_i64().map_or_else(|| Value::Float(number.as_f64().unwrap_or(0.0)), Value::Int)
        }
        Json::Array(list) if list.first().is_some_and(Json::is_boolean) => {
            Value::Bools(list.iter().filter_map(Json::as_bool).collect())
        }
        Json::Array(list) => Value::Ints(list.iter().filter_map(Json::as_i64).collect()),
        Json::Object(object) => match (object.get("tensor"), object.get("tensors")) {
            (Some(one), _) => Value::Tensor(tensor(one)),
            (_, Some(Json::Array(list))) => Value::Tensors(list.iter().map(tensor).collect()),
            _ => Value::Other,
        },
        Json::String(_) => Value::Other,
    }
}

fn tensor(json: &Json) -> TensorInfo {
    let numbers = |at: usize| -> Vec<u64> {
        json[at]
            .as_array()
            .map(|list| list.iter().filter_map(Json::as_u64).collect())
            .unwrap_or_default()
    };
    let device = if json[3] == "cuda" { Device::cuda(0) } else { Device::CPU };
    TensorInfo {
        device,
        dtype: dtype(json[0].as_str().unwrap_or("")),
        sizes: numbers(1),
        strides: numbers(2),
    }
}

fn dtype(name: &str) -> DType {
    match name {
        "b1" => DType::Bool,
        "u8" => DType::U8,
        "i8" => DType::I8,
        "i16" => DType::I16,
        "i32" => DType::I32,
        "i64" => DType::I64,
        "f16" => DType::F16,
        "bf16" => DType::BF16,
        "f32" => DType::F32,
        "f64" => DType::F64,
        other => DType::Other(other.parse().unwrap_or(0)),
    }
}
