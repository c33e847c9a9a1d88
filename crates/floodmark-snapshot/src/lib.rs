//! `PyTorch`'s own memory snapshots, as traces, and traces as snapshots.
//!
//! `torch.cuda.memory._dump_snapshot` writes a pickle: the segments and blocks of that moment, and the history
//! of allocations that led there, as far as its ring goes. [`read_snapshot`] reads the files of torch 2.0 to
//! 2.15, also those of the C++ pickler, gzip and zstd around them, and plain lists of segments;
//! [`write_snapshot`] writes what torch's own `_memory_viz.py` reads.
//!
//! ```text
//!  bytes ─► source ─► machine ─► open, parts ─► tape, tree ─► before, derive ─► import ─► Trace
//!           (gzip,    (opcodes)  (one dict      (small)       (what the file
//!            zstd)               at a time)                    does not say)
//! ```
//!
//! A pickle is data here. No opcode can run code, no length is trusted before its bytes are read, and no tree
//! of objects is built: a dict is one small value as soon as it is whole. The crate opens no path, prints
//! nothing and must never panic.

mod annotations;
mod at_end;
mod before;
mod containers;
mod derive;
mod error;
mod fast;
mod fields;
mod import;
mod machine;
mod memo;
mod opcode;
mod open;
mod parts;
mod pickler;
mod ranges;
mod read;
mod source;
mod tape;
mod texts;
mod tree;
mod value;
mod version;
mod words;
mod write;

pub use error::SnapshotError;
pub use read::{is_snapshot, read_snapshot, read_snapshot_from};
pub use write::write_snapshot;
