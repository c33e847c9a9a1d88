//! The tables of a trace as Arrow messages.
//!
//! Every table is a stream of its own: its frames, without their headers, are a plain Arrow IPC stream.

mod decode;
mod encode;
mod layout;
mod message;

pub(crate) use decode::{TableDecoder, resolve};
pub(crate) use encode::TableEncoder;
pub(crate) use layout::TABLES;
