//! Converts `PyTorch`'s memory snapshots to traces and back.
//!
//! `torch.cuda.memory._dump_snapshot` writes a pickle: the segments and blocks of that time, and the history of allocations
//! before it, as far as torch's ring buffer reaches. [`read_snapshot`] reads the files of torch 2.0 to 2.15, also those of
//! the C++ pickler, gzip and zstd around them, and plain lists of segments. [`write_snapshot`] writes what torch's own
//! `_memory_viz.py` reads.
//!
//! A pickle is data here. No opcode runs code. The reader trusts no length before it has read the bytes, and builds no
//! tree of objects: each complete dict becomes one small value. The crate opens no path, prints nothing and never panics.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. `error`: why a snapshot cannot be read; `address_ranges`: ranges of addresses, added and removed.
//! 2. `pickle`: opcodes, the bytes that are read, and a pickler; `format`: torch's dict keys, and which version added them.
//! 3. `contents`: blocks, segments, trace entries and call stacks, in compact form.
//! 4. `unpickler`: runs the opcodes of a pickle, and collects its contents.
//! 5. `import`: from the contents to a trace, with what was live before the history; `write`: from a trace to a pickle.
//! 6. `read`: recognizes a file by its first bytes, decompresses and reads it.

mod address_ranges;
mod contents;
mod error;
mod format;
mod import;
mod pickle;
mod read;
mod unpickler;
mod write;

pub use error::SnapshotError;
pub use read::{is_snapshot, read_snapshot, read_snapshot_from};
pub use write::write_snapshot;
