//! A simulated CUDA device.
//!
//! This library has the entry points of CUDA's runtime, driver and math libraries under their own names.
//! Loaded with its symbols visible to all, it is what torch's CUDA code calls: the real
//! caching allocator and the real host code of every operator run, and where work would be handed to a
//! device, nothing happens. So memory is what it would be on a machine with that device, to the byte,
//! and computed values are meaningless. A call that no file here answers is refused by name: an invented
//! success could change what is allocated.
//!
//! The crate does not use traces, and no crate links it.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`answer`]: the assumed value of a read; [`contents`]: which bytes have a value; [`host_memory`]: the program's own
//!    memory, read without a fault; [`memory`]: addresses up to a capacity; [`stand_ins`]: files by the names of CUDA's
//!    libraries; [`status`]: error numbers; [`streams`]: streams, events, captures; [`unsupported`]: refused calls;
//!    [`visible_devices`]: `CUDA_VISIBLE_DEVICES`.
//! 2. [`guard`]: a panic in an entry point becomes an error of its library; [`machine`]: the devices and their memory;
//!    [`calls`]: entry points that several libraries have in the same form.
//! 3. [`entry_points`]: what `build.rs` generates from `symbols/`; [`loaded_libraries`]: replaces CUDA's libraries in objects
//!    that are bound to them already; [`transfer`]: copies between host and devices.
//! 4. [`control`]: the functions that our Python code calls; [`copies`]: copies and fills with the checks of CUDA.
//! 5. [`runtime`]: `libcudart`; [`cublas_host`]: results that cuBLAS returns to the host; [`cudnn`]: cuDNN.
//! 6. [`cublas`]: cuBLAS; [`cufft`]: cuFFT; [`cupti`]: CUPTI; [`cusolver`]: cuSOLVER; [`cusparse`]: cuSPARSE;
//!    [`driver`]: `libcuda`; [`nccl`]: NCCL; [`nvml`]: NVML; [`reuse`]: forgets old values when torch allocates memory again.

#![allow(non_snake_case, reason = "the names of entry points are CUDA's")]

mod answer;
mod calls;
mod contents;
mod control;
mod copies;
mod cublas;
mod cublas_host;
mod cudnn;
mod cufft;
mod cupti;
mod cusolver;
mod cusparse;
mod driver;
mod entry_points;
mod guard;
mod host_memory;
mod loaded_libraries;
mod machine;
mod memory;
mod nccl;
mod nvml;
mod reuse;
mod runtime;
mod stand_ins;
mod status;
mod streams;
mod transfer;
mod unsupported;
mod visible_devices;

use floodmark_phantom_macros::entry_point;
