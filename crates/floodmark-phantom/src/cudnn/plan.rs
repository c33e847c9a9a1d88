//! The contents of a plan: its convolution, and the choices of its kernel.
//!
//! It is read from the plan's documented representation as JSON.

use serde_json::Value;

/// Which product of a convolution a plan computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Data,
    Filter,
}

/// The data type of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Float,
    Half,
    BFloat16,
}

impl Number {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "CUDNN_DATA_FLOAT" => Some(Self::Float),
            "CUDNN_DATA_HALF" => Some(Self::Half),
            "CUDNN_DATA_BFLOAT16" => Some(Self::BFloat16),
            _ => None,
        }
    }

    /// The bytes of one number.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Float => 4,
            Self::Half | Self::BFloat16 => 2,
        }
    }
}

/// One convolution without groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Convolution {
    pub(super) direction: Direction,
    pub(super) number: Number,
    /// Whether the channels of a pixel are adjacent.
    pub(super) channels_last: bool,
    pub(super) input: Vec<u64>,
    pub(super) filter: Vec<u64>,
    pub(super) output: Vec<u64>,
    /// Whether it steps over more than one place at a time.
    pub(super) strided: bool,
}

/// The choices for a kernel, as cuDNN's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choices {
    pub(super) tile: u64,
    /// Terms of a sum that the kernel takes at a time.
    pub(super) depth: u64,
    /// Tiles of a cluster along the rows and along the columns of the product.
    pub(super) cluster: (u64, u64),
    /// Whether it may keep parts of sums in its workspace.
    pub(super) may_split: bool,
}

/// A plan of one convolution by a kernel of the family that [`super::splits`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExecutionPlan {
    pub(super) convolution: Convolution,
    pub(super) choices: Choices,
}

/// Kernels of the family have these knobs and no others.
const KNOBS: [&str; 6] =
    ["TILE_SIZE", "TILEK", "IDX_MODE", "WORKSPACE", "TILE_CGA_M", "TILE_CGA_N"];

impl ExecutionPlan {
    /// Reads a plan; `None` for another kind.
    pub(super) fn read(text: &str) -> Option<Self> {
        let plan: Value = serde_json::from_str(text).ok()?;
        let engine = plan.get("engine")?;
        if engine.get("smVersion")?.as_u64()? != 900 {
            return None;
        }
        let choices = choices(engine.get("knobChoices")?)?;
        Some(Self { convolution: convolution(plan.get("operationGraph")?)?, choices })
    }
}

fn choices(knobs: &Value) -> Option<Choices> {
    let knob = |name: &str| knobs.get(format!("CUDNN_KNOB_TYPE_{name}"))?.as_u64();
    if knobs.as_object()?.len() != KNOBS.len() || knob("IDX_MODE").is_none() {
        return None;
    }
    let depth = match knob("TILEK")? {
        0 => 32,
        1 => 64,
        _ => return None,
    };
    let cluster = (knob("TILE_CGA_M")?, knob("TILE_CGA_N")?);
    let whole = cluster.0 > 0 && cluster.1 > 0;
    let may_split = knob("WORKSPACE")? == 0;
    whole.then_some(Choices { tile: knob("TILE_SIZE")?, depth, cluster, may_split })
}

fn convolution(graph: &Value) -> Option<Convolution> {
    let [node] = graph.get("nodes")?.as_array()?.as_slice() else { return None };
    let (direction, names) = match node.get("operation")?.as_str()? {
        "CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR" => {
            (Direction::Forward, ["X", "W", "Y"])
        }
        "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR" => {
            (Direction::Data, ["dX", "W", "dY"])
        }
        "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR" => {
            (Direction::Filter, ["X", "dW", "dY"])
        }
        _ => return None,
    };
    let [input, filter, output] = names.map(|name| tensor(graph, node.get(name)?));
    let (input, filter, output) = (input?, filter?, output?);
    let number = input.number;
    if [filter.number, output.number] != [number; 2] {
        return None;
    }
    let channels_last = input.channels_last;
    let (input, filter, output) = (input.sizes, filter.sizes, output.sizes);
    let strided = numbers(node.get("stride")?)?.iter().any(|&stride| stride != 1);
    let grouped = input.get(1)? != filter.get(1)?;
    let found = Convolution { direction, number, channels_last, input, filter, output, strided };
    (!grouped).then_some(found)
}

struct Tensor {
    number: Number,
    sizes: Vec<u64>,
    channels_last: bool,
}

fn tensor(graph: &Value, name: &Value) -> Option<Tensor> {
    let tensors = graph.get("tensors")?.as_array()?;
    let tensor = tensors.iter().find(|tensor| tensor.get("name") == Some(name))?;
    let sizes = numbers(tensor.get("dim")?)?;
    let strides = numbers(tensor.get("stride")?)?;
    let number = Number::from_name(tensor.get("dataType")?.as_str()?)?;
    let whole = sizes.len() > 2 && sizes.len() == strides.len() && !sizes.contains(&0);
    let channels_last = strides.get(1) == Some(&1);
    whole.then_some(Tensor { number, sizes, channels_last })
}

fn numbers(values: &Value) -> Option<Vec<u64>> {
    values.as_array()?.iter().map(Value::as_u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan as cuDNN 9.19 wrote it, without the parts that are not read.
    const PLAN: &str = r#"{"operationGraph":{"tensors":[
        {"name":"119","dataType":"CUDNN_DATA_FLOAT","dim":[128,64,3,3],"stride":[576,9,3,1]},
        {"name":"120","dataType":"CUDNN_DATA_FLOAT","dim":[32,64,56,56],"stride":[200704,3136,56,1]},
        {"name":"121","dataType":"CUDNN_DATA_FLOAT","dim":[32,128,28,28],"stride":[100352,784,28,1]}],
        "nodes":[{"operation":"CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR",
        "stride":[2,2],"X":"120","dW":"119","dY":"121"}]},
        "engine":{"engineId":68,"smVersion":900,"knobChoices":{"CUDNN_KNOB_TYPE_TILE_SIZE":1,
        "CUDNN_KNOB_TYPE_TILEK":0,"CUDNN_KNOB_TYPE_IDX_MODE":1,"CUDNN_KNOB_TYPE_WORKSPACE":0,
        "CUDNN_KNOB_TYPE_TILE_CGA_M":1,"CUDNN_KNOB_TYPE_TILE_CGA_N":2}}}"#;

    #[test]
    fn a_plan_has_its_convolution_and_choices() {
        let plan = ExecutionPlan::read(PLAN).expect("it is of the family");
        let convolution = Convolution {
            direction: Direction::Filter,
            number: Number::Float,
            channels_last: false,
            input: vec![32, 64, 56, 56],
            filter: vec![128, 64, 3, 3],
            output: vec![32, 128, 28, 28],
            strided: true,
        };
        let choices = Choices { tile: 1, depth: 32, cluster: (1, 2), may_split: true };
        assert_eq!(plan, ExecutionPlan { convolution, choices });
    }

    #[test]
    fn numbers_of_16_bits_and_channels_last_are_read() {
        let text = PLAN.replace("CUDNN_DATA_FLOAT", "CUDNN_DATA_BFLOAT16");
        let text = text.replace("TILEK\":0", "TILEK\":1");
        let text = text.replace("[200704,3136,56,1]", "[200704,1,3584,64]");
        let ExecutionPlan { convolution, choices } =
            ExecutionPlan::read(&text).expect("it is of the family");
        assert_eq!((convolution.number, choices.depth), (Number::BFloat16, 64));
        assert!(convolution.channels_last);
    }

    #[test]
    fn plans_of_other_kinds_are_not_read() {
        let other = [
            ("\"smVersion\":900", "\"smVersion\":800"),
            ("TYPE_TILEK", "TYPE_STAGES"),
            ("\"CUDNN_KNOB_TYPE_TILE_CGA_M\":1,", ""),
            ("[128,64,3,3]", "[128,2,3,3]"),
            ("CONVOLUTION_BACKWARD_FILTER", "MATMUL"),
            ("CUDNN_DATA_FLOAT", "CUDNN_DATA_INT8"),
            (
                "\"120\",\"dataType\":\"CUDNN_DATA_FLOAT\"",
                "\"120\",\"dataType\":\"CUDNN_DATA_HALF\"",
            ),
            ("TILEK\":0", "TILEK\":2"),
            ("\"X\":\"120\"", "\"X\":\"7\""),
        ];
        for (from, to) in other {
            assert_eq!(ExecutionPlan::read(&PLAN.replace(from, to)), None, "{to}");
        }
    }
}
