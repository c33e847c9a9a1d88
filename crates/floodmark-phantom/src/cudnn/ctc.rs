//! The loss of connectionist temporal classification.
//!
//! Its workspace is a model that was not measured: for each step and sequence, the forward and backward
//! probabilities of the labels with blanks between them, and the probabilities of the alphabet.

use std::ffi::{c_int, c_void};

use super::tensors::{Tensor, destroy_descriptor, new_descriptor};
use super::{BAD_PARAM, SUCCESS};
use crate::guard::OrNull;
use crate::status::put;

/// A loss, as the program describes it.
#[derive(Debug, Default)]
pub(super) struct Loss {
    longest_label: u64,
}

/// `sizes` is steps, batch, alphabet.
fn workspace(sizes: &[c_int], longest_label: u64) -> Option<u64> {
    let [steps, batch, alphabet] = sizes else { return None };
    let number = |value: &c_int| u64::try_from(*value).ok();
    let (steps, batch, alphabet) = (number(steps)?, number(batch)?, number(alphabet)?);
    Some(4 * steps * batch * (2 * (2 * longest_label + 1) + alphabet))
}

#[crate::entry_point]
unsafe extern "C" fn cudnnCreateCTCLossDescriptor(to: *mut *mut Loss) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { new_descriptor(to) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnDestroyCTCLossDescriptor(descriptor: OrNull<Loss>) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe { destroy_descriptor(descriptor) }
}

#[crate::entry_point]
extern "C" fn cudnnSetCTCLossDescriptorEx(
    _descriptor: *mut Loss,
    _kind: c_int,
    _normalization: c_int,
    _gradient: c_int,
) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnSetCTCLossDescriptor_v9(
    descriptor: *mut Loss,
    _kind: c_int,
    _normalization: c_int,
    _gradient: c_int,
    longest_label: c_int,
) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    let Some(loss) = (unsafe { descriptor.as_mut() }) else { return BAD_PARAM };
    loss.longest_label = u64::try_from(longest_label).unwrap_or(0);
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetCTCLossWorkspaceSize(
    _handle: *mut c_void,
    probabilities: *const Tensor,
    _gradients: *const Tensor,
    _labels: *const c_int,
    label_lengths: *const c_int,
    _input_lengths: *const c_int,
    _algorithm: c_int,
    _loss: *const Loss,
    bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    let Some(tensor) = (unsafe { probabilities.as_ref() }) else { return BAD_PARAM };
    let batch = tensor.sizes.get(1).and_then(|&batch| usize::try_from(batch).ok()).unwrap_or(0);
    if label_lengths.is_null() {
        return BAD_PARAM;
    }
    // SAFETY: there is a length for each sequence of the batch, on the host, by cuDNN's contract.
    let lengths = unsafe { std::slice::from_raw_parts(label_lengths, batch) };
    let longest = lengths.iter().copied().max().and_then(|longest| u64::try_from(longest).ok());
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { answer(tensor, longest.unwrap_or(0), bytes) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetCTCLossWorkspaceSize_v8(
    _handle: *mut c_void,
    _algorithm: c_int,
    loss: *const Loss,
    probabilities: *const Tensor,
    _gradients: *const Tensor,
    bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's descriptors and pointer, by cuDNN's contract.
    unsafe {
        let (Some(loss), Some(tensor)) = (loss.as_ref(), probabilities.as_ref()) else {
            return BAD_PARAM;
        };
        answer(tensor, loss.longest_label, bytes)
    }
}

/// Writes the workspace of a loss over that tensor.
///
/// # Safety
/// The pointer is null or can be written to.
unsafe fn answer(tensor: &Tensor, longest_label: u64, bytes: *mut usize) -> i32 {
    let Some(size) = workspace(&tensor.sizes, longest_label) else { return BAD_PARAM };
    // SAFETY: by this function's contract.
    unsafe { put(bytes, usize::try_from(size).unwrap_or(usize::MAX)) };
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnCTCLoss() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnCTCLoss_v8() -> i32 {
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_needs_its_tensor_to_have_three_sizes() {
        assert_eq!(workspace(&[10, 2, 5], 3), Some(4 * 20 * (14 + 5)));
        assert_eq!(workspace(&[10, 2], 3), None);
        assert_eq!(workspace(&[10, -2, 5], 3), None);
    }
}
