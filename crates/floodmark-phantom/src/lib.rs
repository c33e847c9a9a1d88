//! A simulated CUDA device.
//!
//! This library has the entry points of CUDA's runtime, driver and math libraries under their own names.
//! Loaded with its symbols visible to all, it is what torch's CUDA code calls: the real
//! caching allocator and the real host code of every operator run, and where work would be handed to a
//! device, nothing happens. So memory is what it would be on a machine with that device, to the byte,
//! and computed values are meaningless.
//!
//! - [`settings`] has the properties of the simulated device; [`machine`] has the devices and their memory;
//!   [`visible_devices`] those that the program sees.
//! - [`memory`] allocates addresses up to a capacity; [`contents`] tracks which bytes have a value.
//! - [`copies`] answers for copies and fills, [`transfer`] does them, with [`host_memory`] on the host's side.
//! - [`runtime`], [`driver`] and a file for each library answer calls. What they do not know is refused
//!   by name ([`unsupported`]), never answered with a success that would change what is allocated.
//! - [`guard`] stands around every entry point: a panic in one is an error of its library.
//! - [`reuse`] sees when torch hands memory out again, so that no old value is taken for a new one.
//! - [`stand_ins`] claims the file names of CUDA's libraries; [`late`] takes their place where they are
//!   loaded already; [`control`] is what our own Python calls.
//!
//! It knows nothing of traces, and nothing links it.

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
mod streams;
mod transfer;
mod unsupported;
mod visible_devices;

use floodmark_phantom_macros::entry_point;

/// Entry points that `build.rs` made: names that no file here defines.
mod entry_points {
    include!(concat!(env!("OUT_DIR"), "/entry_points.rs"));
}
