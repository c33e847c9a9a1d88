//! What a plan says of itself: the convolution that it runs and the choices of its kernel.
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

/// One convolution of floats of 32 bits, without groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Convolution {
    pub(super) direction: Direction,
    pub(super) input: Vec<u64>,
    pub(super) filter: Vec<u64>,
    pub(super) output: Vec<u64>,
    /// Whether it steps over more than one place at a time.
    pub(super) strided: bool,
}

/// What was chosen for a kernel, in cuDNN's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choices {
    pub(super) tile: u64,
    /// Tiles of a cluster along the rows and along the columns of the product.
    pub(super) cluster: (u64, u64),
    /// Whether it may keep parts of sums in its workspace.
    pub(super) may_split: bool,
}

/// A plan of one convolution by a kernel of the family that [`super::splits`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) convolution: Convolution,
    pub(super) choices: Choices,
}

/// Kernels of the family have these knobs and no others.
const KNOBS: [&str; 6] =
    ["TILE_SIZE", "TILEK", "IDX_MODE", "WORKSPACE", "TILE_CGA_M", "TILE_CGA_N"];

impl Plan {
    /// Reads a plan, or nothing where it is of another kind.
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
    if knobs.as_object()?.len() != KNOBS.len() || knob("IDX_MODE").is_none() || knob("TILEK")? != 0
    {
        return None;
    }
    let cluster = (knob("TILE_CGA_M")?, knob("TILE_CGA_N")?);
    let whole = cluster.0 > 0 && cluster.1 > 0;
    let may_split = knob("WORKSPACE")? == 0;
    whole.then_some(Choices { tile: knob("TILE_SIZE")?, cluster, may_split })
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
    let strided = numbers(node.get("stride")?)?.iter().any(|&stride| stride != 1);
    let grouped = input.get(1)? != filter.get(1)?;
    (!grouped).then_some(Convolution { direction, input, filter, output, strided })
}

/// The sizes of a tensor of floats.
fn tensor(graph: &Value, name: &Value) -> Option<Vec<u64>> {
    let tensors = graph.get("tensors")?.as_array()?;
    let tensor = tensors.iter().find(|tensor| tensor.get("name") == Some(name))?;
    let sizes = numbers(tensor.get("dim")?)?;
    let floats = tensor.get("dataType")?.as_str()? == "CUDNN_DATA_FLOAT";
    let whole = sizes.len() > 2 && sizes.iter().all(|&size| size > 0);
    (floats && whole).then_some(sizes)
}

fn numbers(values: &Value) -> Option<Vec<u64>> {
    values.as_array()?.iter().map(Value::as_u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cuDNN 9.19 wrote of a plan, less what is not read.
    const PLAN: &str = r#"{"operationGraph":{"tensors":[
        {"name":"119","dataType":"CUDNN_DATA_FLOAT","dim":[128,64,3,3]},
        {"name":"120","dataType":"CUDNN_DATA_FLOAT","dim":[32,64,56,56]},
        {"name":"121","dataType":"CUDNN_DATA_FLOAT","dim":[32,128,28,28]}],
        "nodes":[{"operation":"CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR",
        "stride":[2,2],"X":"120","dW":"119","dY":"121"}]},
        "engine":{"engineId":68,"smVersion":900,"knobChoices":{"CUDNN_KNOB_TYPE_TILE_SIZE":1,
        "CUDNN_KNOB_TYPE_TILEK":0,"CUDNN_KNOB_TYPE_IDX_MODE":1,"CUDNN_KNOB_TYPE_WORKSPACE":0,
        "CUDNN_KNOB_TYPE_TILE_CGA_M":1,"CUDNN_KNOB_TYPE_TILE_CGA_N":2}}}"#;

    #[test]
    fn a_plan_says_what_it_computes_and_how() {
        let plan = Plan::read(PLAN).expect("it is of the family");
        let convolution = Convolution {
            direction: Direction::Filter,
            input: vec![32, 64, 56, 56],
            filter: vec![128, 64, 3, 3],
            output: vec![32, 128, 28, 28],
            strided: true,
        };
        let choices = Choices { tile: 1, cluster: (1, 2), may_split: true };
        assert_eq!(plan, Plan { convolution, choices });
    }

    #[test]
    fn plans_of_other_kinds_are_not_read() {
        let other = [
            ("\"smVersion\":900", "\"smVersion\":800"),
            ("TYPE_TILEK", "TYPE_STAGES"),
            ("\"CUDNN_KNOB_TYPE_TILE_CGA_M\":1,", ""),
            ("[128,64,3,3]", "[128,2,3,3]"),
            ("CONVOLUTION_BACKWARD_FILTER", "MATMUL"),
            ("CUDNN_DATA_FLOAT", "CUDNN_DATA_BFLOAT16"),
            ("\"X\":\"120\"", "\"X\":\"7\""),
        ];
        for (from, to) in other {
            assert_eq!(Plan::read(&PLAN.replace(from, to)), None, "{to}");
        }
    }
}
