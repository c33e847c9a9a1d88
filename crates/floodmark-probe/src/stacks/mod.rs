//! Call stacks: a number for each stack, and the forward stack of each autograd node.
//!
//! From the bottom up: [`node`], `seen_frame` and `code_role`; `shortcuts`, a thread's own table; [`call_tree`], which all
//! threads share; [`autograd_nodes`].

pub(crate) mod autograd_nodes;
pub(crate) mod call_tree;
mod code_role;
pub(crate) mod node;
mod seen_frame;
mod shortcuts;

pub(crate) use call_tree::{CallTree, DefinitionWriter};
pub(crate) use node::{EPOCH, Node};
pub(crate) use seen_frame::{SeenFrame, innermost, keep_common};
pub(crate) use shortcuts::{Shortcuts, follow};
