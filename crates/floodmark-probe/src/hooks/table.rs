//! All hooks.

use super::hook::Hook;
use super::{allocations, backward, saved_tensors, workspaces};

/// Every hook, with the address of its replacement.
pub(super) fn all_hooks() -> Vec<(&'static Hook, usize)> {
    vec![
        (&allocations::REPORT, allocations::report as allocations::Report as usize),
        (&allocations::REPORT_OOM, allocations::report_oom as allocations::ReportOom as usize),
        (&allocations::CPU_NEW, allocations::cpu_new as allocations::CpuNew as usize),
        (&allocations::CPU_DELETE, allocations::cpu_delete as allocations::CpuDelete as usize),
        (&allocations::CPU_OOM, allocations::cpu_oom as allocations::CpuOom as usize),
        (&backward::NEXT_NUMBER, backward::next_number as backward::NextNumber as usize),
        (&backward::EXECUTE, backward::execute as backward::Execute as usize),
        (&backward::IS_ACCELERATOR, backward::is_accelerator as backward::IsAccelerator as usize),
        (
            &workspaces::SET_WORKSPACE,
            workspaces::set_workspace as workspaces::SetWorkspace as usize,
        ),
        (&workspaces::LT_MATMUL, workspaces::lt_matmul as workspaces::LtMatmul as usize),
        (&saved_tensors::SAVE, saved_tensors::save as saved_tensors::Save as usize),
        (
            &saved_tensors::UNPACK,
            saved_tensors::unpack_entry as saved_tensors::UnpackEntry as usize,
        ),
        (
            &saved_tensors::UNPACK_INTRUSIVE,
            saved_tensors::unpack_intrusive_entry as saved_tensors::UnpackEntry as usize,
        ),
        (
            &saved_tensors::POST_ACCUMULATE,
            saved_tensors::post_accumulate as saved_tensors::PostAccumulate as usize,
        ),
    ]
}
