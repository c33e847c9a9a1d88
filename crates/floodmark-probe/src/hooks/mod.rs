//! The functions that torch calls instead of its own while a recording runs.
//!
//! Every hook calls the function that it replaces, with the same arguments, and returns its result. The
//! rest of it runs only while events are recorded, takes no lock that the program could hold, and calls
//! no function of torch that could allocate. On CUDA the allocator's lock is held.
//!
//! From the bottom up: `hook`, `hidden_result` and `tracker`; one file for each group of hooks (`allocations`, `backward`,
//! `saved_tensors`, `workspaces`, [`operators`]); `table`, which lists them; [`patch`], which stores them in slots;
//! [`attach`].

mod allocations;
pub(crate) mod attach;
mod backward;
mod hidden_result;
mod hook;
pub(crate) mod operators;
pub(crate) mod patch;
mod saved_tensors;
mod table;
mod tracker;
mod workspaces;
