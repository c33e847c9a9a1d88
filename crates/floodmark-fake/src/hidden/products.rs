//! Matrix products: the workspaces of cuBLAS, and copies of operands in an unsupported layout.

use super::{Needs, Rule, Stays};
use crate::call::{Call, Machine, TensorInfo};

const MIB: u64 = 1 << 20;

pub(super) fn rule(op: &str) -> Option<Rule> {
    match op {
        "mm" | "_int_mm" => Some(mm),
        "bmm" => Some(bmm),
        "addmm" | "addmm_" | "_addmm_activation" | "addmv" | "addmv_" => Some(addmm),
        "baddbmm" | "baddbmm_" | "addbmm" | "addbmm_" => Some(baddbmm),
        "linear" => Some(linear),
        "matmul" | "mv" | "dot" | "vdot" | "addr" => Some(vectors),
        "_scaled_mm" => Some(scaled),
        _ => None,
    }
}

fn mm(call: &Call<'_>, needs: &mut Needs) {
    operand(needs, call.tensor(0));
    operand(needs, call.tensor(1));
    workspace(call.machine, needs);
}

fn bmm(call: &Call<'_>, needs: &mut Needs) {
    mm(call, needs);
}

fn baddbmm(call: &Call<'_>, needs: &mut Needs) {
    operand(needs, call.tensor(1));
    operand(needs, call.tensor(2));
    workspace(call.machine, needs);
}

fn vectors(call: &Call<'_>, needs: &mut Needs) {
    workspace(call.machine, needs);
}

/// Whole in inference mode, where nothing takes it apart: input, weight, bias.
fn linear(call: &Call<'_>, needs: &mut Needs) {
    if call.tensor(2).is_some_and(is_row) {
        lt_workspaces(call.machine, needs);
    } else {
        workspace(call.machine, needs);
    }
}

/// A bias of one dimension is added by cuBLASLt.
fn addmm(call: &Call<'_>, needs: &mut Needs) {
    operand(needs, call.tensor(1));
    operand(needs, call.tensor(2));
    let is_matrix = call.tensor(2).is_some_and(|tensor| tensor.sizes.len() == 2);
    if is_matrix && call.tensor(0).is_some_and(is_row) {
        lt_workspaces(call.machine, needs);
    } else {
        workspace(call.machine, needs);
    }
}

fn is_row(bias: &TensorInfo) -> bool {
    bias.sizes.len() == 1 && bias.is_contiguous()
}

fn scaled(call: &Call<'_>, needs: &mut Needs) {
    lt_workspaces(call.machine, needs);
}

/// A copy of an operand if neither of its last two dimensions is contiguous for cuBLAS.
fn operand(needs: &mut Needs, operand: Option<&TensorInfo>) {
    if let Some(operand) = operand.filter(|operand| !is_a_matrix_of_blas(operand)) {
        needs.call("an operand, laid out for cuBLAS", operand.bytes());
    }
}

fn is_a_matrix_of_blas(tensor: &TensorInfo) -> bool {
    let rank = tensor.sizes.len();
    if rank < 2 {
        return true;
    }
    let (rows, columns) = (tensor.sizes[rank - 2], tensor.sizes[rank - 1]);
    let (row_step, column_step) = (tensor.strides[rank - 2], tensor.strides[rank - 1]);
    (column_step == 1 && row_step >= columns.max(1))
        || (row_step == 1 && column_step >= rows.max(1))
}

/// cuBLAS's workspace: torch gives one to the handle of each thread, and since 2.15 to each call.
pub(super) fn workspace(machine: &Machine, needs: &mut Needs) {
    let stays = if machine.torch >= (2, 15) { Stays::Call } else { Stays::Thread };
    needs.push("cuBLAS workspace", cublas_bytes(machine), stays);
}

/// cuBLASLt has a workspace of its own: for each call in torch before 2.9 and from 2.15, else for each thread.
/// Before 2.15 the handle of cuBLAS, which is requested too, allocates its workspace.
fn lt_workspaces(machine: &Machine, needs: &mut Needs) {
    if machine.torch < (2, 15) {
        workspace(machine, needs);
    }
    let is_kept = (2, 9) <= machine.torch && machine.torch < (2, 15);
    needs.push("cuBLASLt workspace", MIB, if is_kept { Stays::Thread } else { Stays::Call });
}

fn cublas_bytes(machine: &Machine) -> u64 {
    let is_large = match machine.torch {
        (2, 0..=11) => machine.capability == 90,
        (2, 12..=14) => matches!(machine.capability / 10, 9 | 10 | 12),
        _ => matches!(machine.capability / 10, 9..=12),
    };
    let usual = if is_large { 32 * MIB } else { 8 * MIB + MIB / 8 };
    machine.cublas_workspace.unwrap_or(usual)
}

/// The bytes that `CUBLAS_WORKSPACE_CONFIG` requests: `:KIB:COUNT`, any number of times.
pub fn workspace_bytes(config: &str) -> Option<u64> {
    let numbers: Option<Vec<u64>> =
        config.strip_prefix(':')?.split(':').map(|part| part.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len().is_multiple_of(2))?;
    Some(numbers.chunks_exact(2).map(|pair| pair[0] * pair[1] * 1024).sum())
}

#[cfg(test)]
mod tests {
    use super::super::Hidden;
    use super::super::made::{Made, cuda, strided};
    use super::*;
    use crate::call::DType;

    #[test]
    fn a_product_takes_the_workspace_of_its_thread() {
        let made = Made::new("aten::mm", vec![cuda(DType::F32, &[512, 512]).into(); 2]);
        let whole = Hidden { what: "cuBLAS workspace", bytes: 33_554_432, stays: Stays::Thread };
        assert_eq!(made.hidden(), [whole]);
    }

    #[test]
    fn an_expanded_gradient_is_copied() {
        let grad = strided(DType::BF16, &[8192, 3072], &[0, 0]);
        let made = Made::new("aten::mm", vec![grad.into(), cuda(DType::BF16, &[3072, 768]).into()]);
        assert_eq!(made.most(), 50_331_648);
    }

    #[test]
    fn a_transposed_operand_is_not() {
        let weight = strided(DType::BF16, &[768, 3072], &[1, 768]);
        let made =
            Made::new("aten::mm", vec![cuda(DType::BF16, &[8192, 768]).into(), weight.into()]);
        assert_eq!(made.most(), 0);
    }

    #[test]
    fn a_newer_torch_takes_the_workspace_for_each_call() {
        let mut made = Made::new("aten::mm", vec![cuda(DType::F32, &[512, 512]).into(); 2]);
        made.machine.torch = (2, 15);
        assert_eq!(made.most(), 33_554_432);
    }

    #[test]
    fn a_bias_is_added_by_cublas_lt() {
        let of = |torch| {
            let (row, matrix) = (cuda(DType::F32, &[64]), cuda(DType::F32, &[64, 64]));
            let mut made =
                Made::new("aten::addmm", vec![row.into(), matrix.clone().into(), matrix.into()]);
            made.machine.torch = torch;
            made.hidden().iter().map(|part| (part.bytes, part.stays)).collect::<Vec<_>>()
        };
        assert_eq!(of((2, 4)), [(32 * MIB, Stays::Thread), (MIB, Stays::Call)]);
        assert_eq!(of((2, 11)), [(32 * MIB, Stays::Thread), (MIB, Stays::Thread)]);
        assert_eq!(of((2, 15)), [(MIB, Stays::Call)]);
    }

    #[test]
    fn a_whole_linear_has_workspaces_too() {
        let matrix = cuda(DType::F32, &[64, 64]);
        let args = vec![matrix.clone().into(), matrix.into(), cuda(DType::F32, &[64]).into()];
        let found: Vec<u64> =
            Made::new("aten::linear", args).hidden().iter().map(|part| part.bytes).collect();
        assert_eq!(found, [32 * MIB, MIB]);
    }

    #[test]
    fn the_variable_gives_the_size() {
        assert_eq!(workspace_bytes(":4096:2:16:8"), Some(8_519_680));
        assert_eq!(workspace_bytes(":4096:8"), Some(33_554_432));
        assert_eq!(workspace_bytes("4096"), None);
    }
}
