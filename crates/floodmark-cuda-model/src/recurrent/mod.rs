//! The bytes that cuDNN requests to run a recurrent network: weights, workspace and reserve space.
//!
//! cuDNN answers `cudnnGetRNNTempSpaceSizes` only with a GPU. Both engines of an estimate need the answer without one: the
//! phantom, which answers for cuDNN, and fake tensors, whose operators run no kernel.
//!
//! The formulas were fitted to the answers of cuDNN 9.19 on an H200, for 63,055 networks, and give every
//! one of them to the byte (`bench/fixtures/rnn_sizes.py`, `bench/results/rnn-h200.md`). cuDNN does not document
//! them. The purpose of each part is inferred from its size. Other versions of cuDNN and other GPUs were not
//! recorded.
//!
//! - [`Network`] and [`Batch`]: what a program describes to cuDNN.
//! - `workspace.rs`, `reserve.rs`: the two temporary buffers.
//! - `algorithm.rs`: the algorithm that torch requests.

mod algorithm;
mod network;
mod reserve;
mod workspace;

pub use algorithm::{Algorithm, Gpu};
pub use network::{Batch, Cell, Network, Number, Pass};
