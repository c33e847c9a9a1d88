//! What a snapshot contains, in compact form: no tree of Python objects.

pub(crate) mod call_tree;
pub(crate) mod dict_items;
pub(crate) mod hash;
pub(crate) mod snapshot;
pub(crate) mod strings;
pub(crate) mod trace_entries;
pub(crate) mod value;
