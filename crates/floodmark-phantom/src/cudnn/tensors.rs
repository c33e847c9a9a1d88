//! Descriptors of tensors, filters and layers of the older calls, which store their values.

use std::ffi::{c_int, c_void};

use super::{BAD_PARAM, SUCCESS};
use crate::guard::OrNull;
use crate::status::put;

/// A tensor or a filter: the type of its numbers and its shape.
#[derive(Debug, Default)]
pub(super) struct Tensor {
    pub(super) kind: c_int,
    /// The layout of a filter; `None` for tensors, which have strides.
    format: c_int,
    pub(super) sizes: Vec<c_int>,
    strides: Vec<c_int>,
}

impl Tensor {
    /// A tensor without gaps.
    pub(super) fn dense(kind: c_int, sizes: &[c_int]) -> Self {
        let mut strides: Vec<c_int> = sizes
            .iter()
            .rev()
            .scan(1, |next: &mut c_int, size| Some(std::mem::replace(next, *next * size)))
            .collect();
        strides.reverse();
        Self { kind, format: 0, sizes: sizes.to_vec(), strides }
    }
}

/// How many bytes a number of that kind takes.
pub(super) fn bytes_of(kind: c_int) -> u64 {
    match kind {
        1 | 10 => 8,
        2 | 9 => 2,
        3 | 5 | 8 | 11 | 12 | 13 => 1,
        _ => 4,
    }
}

/// Returns a new descriptor.
///
/// # Safety
/// The pointer is null or can be written to.
pub(super) unsafe fn new_descriptor<T: Default>(to: *mut *mut T) -> i32 {
    // SAFETY: by this function's contract.
    unsafe { put(to, Box::into_raw(Box::<T>::default())) };
    SUCCESS
}

/// Destroys a descriptor.
///
/// # Safety
/// It came from [`new_descriptor`] with the same type, and is not used again.
pub(super) unsafe fn destroy_descriptor<T>(descriptor: *mut T) -> i32 {
    if !descriptor.is_null() {
        // SAFETY: by this function's contract.
        drop(unsafe { Box::from_raw(descriptor) });
    }
    SUCCESS
}

/// The numbers that a caller points to.
///
/// # Safety
/// There are `count` of them, or the pointer is null.
unsafe fn numbers(from: *const c_int, count: c_int) -> Vec<c_int> {
    match usize::try_from(count) {
        // SAFETY: by this function's contract.
        Ok(count) if !from.is_null() => unsafe { std::slice::from_raw_parts(from, count) }.to_vec(),
        _ => Vec::new(),
    }
}

/// Writes as many numbers as the caller has room for.
///
/// # Safety
/// There is room for `room` of them, or the pointer is null.
unsafe fn put_numbers(to: *mut c_int, room: c_int, values: &[c_int]) {
    let count = usize::try_from(room).unwrap_or(0).min(values.len());
    if !to.is_null() {
        // SAFETY: by this function's contract.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, count) };
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnCreateTensorDescriptor(to: *mut *mut Tensor) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { new_descriptor(to) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnDestroyTensorDescriptor(descriptor: OrNull<Tensor>) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe { destroy_descriptor(descriptor) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnSetTensorNdDescriptor(
    descriptor: *mut Tensor,
    kind: c_int,
    count: c_int,
    sizes: *const c_int,
    strides: *const c_int,
) -> i32 {
    // SAFETY: the caller's descriptor and arrays, by cuDNN's contract.
    unsafe {
        let Some(descriptor) = descriptor.as_mut() else { return BAD_PARAM };
        let (sizes, strides) = (numbers(sizes, count), numbers(strides, count));
        *descriptor = Tensor { kind, format: 0, sizes, strides };
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetTensorNdDescriptor(
    descriptor: *const Tensor,
    room: c_int,
    kind: *mut c_int,
    count: *mut c_int,
    sizes: *mut c_int,
    strides: *mut c_int,
) -> i32 {
    // SAFETY: the caller's descriptor and arrays, by cuDNN's contract.
    unsafe {
        let Some(descriptor) = descriptor.as_ref() else { return BAD_PARAM };
        put(kind, descriptor.kind);
        put(count, c_int::try_from(descriptor.sizes.len()).unwrap_or(0));
        put_numbers(sizes, room, &descriptor.sizes);
        put_numbers(strides, room, &descriptor.strides);
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnCreateFilterDescriptor(to: *mut *mut Tensor) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { new_descriptor(to) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnDestroyFilterDescriptor(descriptor: OrNull<Tensor>) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe { destroy_descriptor(descriptor) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnSetFilterNdDescriptor(
    descriptor: *mut Tensor,
    kind: c_int,
    format: c_int,
    count: c_int,
    sizes: *const c_int,
) -> i32 {
    // SAFETY: the caller's descriptor and array, by cuDNN's contract.
    unsafe {
        let Some(descriptor) = descriptor.as_mut() else { return BAD_PARAM };
        *descriptor = Tensor { format, ..Tensor::dense(kind, &numbers(sizes, count)) };
    }
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnGetFilterNdDescriptor(
    descriptor: *const Tensor,
    room: c_int,
    kind: *mut c_int,
    format: *mut c_int,
    count: *mut c_int,
    sizes: *mut c_int,
) -> i32 {
    // SAFETY: the caller's descriptor and array, by cuDNN's contract.
    unsafe {
        let Some(descriptor) = descriptor.as_ref() else { return BAD_PARAM };
        put(kind, descriptor.kind);
        put(format, descriptor.format);
        put(count, c_int::try_from(descriptor.sizes.len()).unwrap_or(0));
        put_numbers(sizes, room, &descriptor.sizes);
    }
    SUCCESS
}

/// A descriptor whose contents do not affect memory.
#[derive(Debug, Default)]
pub(super) struct Layer;

#[crate::entry_point]
unsafe extern "C" fn cudnnCreateActivationDescriptor(to: *mut *mut Layer) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { new_descriptor(to) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnDestroyActivationDescriptor(descriptor: OrNull<Layer>) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe { destroy_descriptor(descriptor) }
}

#[crate::entry_point]
extern "C" fn cudnnSetActivationDescriptor(
    _descriptor: *mut Layer,
    _mode: c_int,
    _nan: c_int,
    _coefficient: f64,
) -> i32 {
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudnnCreateSpatialTransformerDescriptor(to: *mut *mut Layer) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { new_descriptor(to) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnDestroySpatialTransformerDescriptor(descriptor: OrNull<Layer>) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe { destroy_descriptor(descriptor) }
}

#[crate::entry_point]
extern "C" fn cudnnSetSpatialTransformerNdDescriptor(
    _descriptor: *mut Layer,
    _sampler: c_int,
    _kind: c_int,
    _count: c_int,
    _sizes: *const c_int,
) -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnSpatialTfGridGeneratorForward() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnSpatialTfGridGeneratorBackward() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnSpatialTfSamplerForward() -> i32 {
    SUCCESS
}

#[crate::entry_point]
extern "C" fn cudnnSpatialTfSamplerBackward() -> i32 {
    SUCCESS
}

/// The state of random numbers for dropout is the program's; only the rate is kept.
#[derive(Debug, Default)]
pub(super) struct Dropout {
    pub(super) rate: f32,
}

#[crate::entry_point]
unsafe extern "C" fn cudnnCreateDropoutDescriptor(to: *mut *mut Dropout) -> i32 {
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { new_descriptor(to) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnDestroyDropoutDescriptor(descriptor: OrNull<Dropout>) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    unsafe { destroy_descriptor(descriptor) }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnSetDropoutDescriptor(
    descriptor: *mut Dropout,
    _handle: *mut c_void,
    rate: f32,
    _states: *mut c_void,
    _length: usize,
    _seed: u64,
) -> i32 {
    // SAFETY: the caller's descriptor, by cuDNN's contract.
    match unsafe { descriptor.as_mut() } {
        Some(descriptor) => {
            descriptor.rate = rate;
            SUCCESS
        }
        None => BAD_PARAM,
    }
}

#[crate::entry_point]
unsafe extern "C" fn cudnnRestoreDropoutDescriptor(
    descriptor: *mut Dropout,
    handle: OrNull<c_void>,
    rate: f32,
    states: OrNull<c_void>,
    length: usize,
    seed: u64,
) -> i32 {
    // SAFETY: the same contract.
    unsafe { cudnnSetDropoutDescriptor(descriptor, handle, rate, states, length, seed) }
}

/// The state of one thread's random numbers, in bytes.
const RANDOM_STATE: u64 = 24;

#[crate::entry_point]
unsafe extern "C" fn cudnnDropoutGetStatesSize(_handle: *mut c_void, bytes: *mut usize) -> i32 {
    // One state for each thread that the device can hold: 6,488,064 bytes on an H200.
    let threads = crate::machine::machine().map_or(0, |machine| {
        let settings = &machine.settings;
        i64::from(settings.multiprocessors) * i64::from(settings.threads_per_multiprocessor)
    });
    let size = u64::try_from(threads).unwrap_or(0) * RANDOM_STATE;
    // SAFETY: the caller's pointer, by cuDNN's contract.
    unsafe { put(bytes, usize::try_from(size).unwrap_or(usize::MAX)) };
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_without_gaps_has_the_strides_of_its_sizes() {
        let tensor = Tensor::dense(0, &[4, 3, 5]);
        assert_eq!(tensor.strides, [15, 5, 1]);
    }

    #[test]
    fn a_descriptor_returns_its_values() {
        let mut descriptor = std::ptr::null_mut();
        let (mut kind, mut count, mut sizes, mut strides) = (0, 0, [0; 2], [0; 2]);
        // SAFETY: all pointers are to local variables, and the descriptor is destroyed once.
        unsafe {
            cudnnCreateTensorDescriptor(&raw mut descriptor);
            let (to, apart) = ([2, 3, 4], [12, 4, 1]);
            cudnnSetTensorNdDescriptor(descriptor, 2, 3, to.as_ptr(), apart.as_ptr());
            let (kind, count) = (&raw mut kind, &raw mut count);
            let (sizes, strides) = (sizes.as_mut_ptr(), strides.as_mut_ptr());
            cudnnGetTensorNdDescriptor(descriptor, 2, kind, count, sizes, strides);
            cudnnDestroyTensorDescriptor(descriptor);
        }
        assert_eq!((kind, count), (2, 3));
        assert_eq!((sizes, strides), ([2, 3], [12, 4]), "no more than there is room for");
    }
}
