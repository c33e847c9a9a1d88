//! The state of one thread: where it writes, its last stack, its open phases and operators.

use std::sync::atomic::{AtomicU64, Ordering};

use floodmark_trace::Device;
use floodmark_trace::journal::{
    Definition, FLAG_BACKWARD, FLAG_NAME_LEFT_OUT, FLAG_OP_CALL, FLAG_STACK_LEFT_OUT, Record,
};

use super::name_table::TextNumber;
use super::recording::Recording;
use super::thread_journal::ThreadJournal;
use crate::journal::Position;
use crate::python::{self, RawFrame};
use crate::stacks::autograd_nodes::{self, BackwardState, RingPages};
use crate::stacks::{EPOCH, Node, SeenFrame, Shortcuts, follow, innermost, keep_common};

/// The number of the threads that share a state; the file has no such thread.
pub(super) const SHARED_THREAD: u32 = u32::MAX;
/// State that only its own thread touches.
#[derive(Debug, Default)]
pub(crate) struct Local {
    recording: u64,
    pub(super) number: u32,
    /// Threads without a state of their own share this one. It has nothing that differs between
    /// threads.
    pub(crate) is_shared: bool,
    journal: Position,
    frames: Vec<RawFrame>,
    seen: Vec<SeenFrame>,
    shortcuts: Shortcuts,
    epoch: u32,
    torch_thread: Option<usize>,
    ring: RingPages,
    pub(crate) phases: Vec<TextNumber>,
    pub(crate) ops: Vec<RunningOp>,
    /// How many operator calls began on this thread.
    op_calls: u32,
    /// The call of its latest block.
    op_call_of_block: u32,
    /// The device of this thread's latest block outside host memory.
    pub(crate) last_device: Option<Device>,
    /// Blocks that this thread has passed to cuBLAS.
    pub(crate) workspaces: Vec<u64>,
    /// Streams and pools that have a number, by their handle.
    pub(crate) handles: Vec<(u8, u64, TextNumber)>,
}

/// An operator that runs on a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningOp {
    pub(crate) name: TextNumber,
    /// The number of the call.
    pub(crate) call: u32,
}

impl Local {
    /// Clears the state of an earlier thread or recording.
    #[inline]
    pub(super) fn join(
        &mut self,
        recording: &Recording,
        is_shared: bool,
        last_nanos: &'static AtomicU64,
    ) {
        if self.recording != recording.journal.id {
            self.join_anew(recording, is_shared, last_nanos);
        }
    }

    #[cold]
    fn join_anew(
        &mut self,
        recording: &Recording,
        is_shared: bool,
        last_nanos: &'static AtomicU64,
    ) {
        let number = if is_shared {
            SHARED_THREAD
        } else {
            recording.next_thread.fetch_add(1, Ordering::Relaxed)
        };
        let journal = std::mem::take(&mut self.journal);
        if !journal.is_in(&recording.journal) {
            recording.budget.add_thread(self.shortcuts.held_bytes());
        }
        // The lists keep their memory: a thread that allocates none needs no heap of its own in the allocator.
        *self = Self {
            recording: recording.journal.id,
            number,
            is_shared,
            journal: if journal.is_in(&recording.journal) {
                journal
            } else {
                Position::new(&recording.journal, last_nanos)
            },
            frames: emptied(&mut self.frames),
            seen: emptied(&mut self.seen),
            shortcuts: std::mem::take(&mut self.shortcuts),
            phases: emptied(&mut self.phases),
            ops: emptied(&mut self.ops),
            workspaces: emptied(&mut self.workspaces),
            handles: emptied(&mut self.handles),
            ..Self::default()
        };
    }

    /// This thread allocated a block: its address is no longer a workspace.
    pub(crate) fn note_block(&mut self, device: Device, addr: u64) {
        if !device.is_cpu() && !self.is_shared {
            self.last_device = Some(device);
            self.workspaces.retain(|&known| known != addr);
        }
    }

    /// Starts an operator call. Returns its number.
    pub(crate) fn begin_op_call(&mut self) -> u32 {
        self.op_calls = self.op_calls.wrapping_add(1);
        self.op_calls
    }

    /// The number of the latest call.
    pub(crate) fn latest_op_call(&self) -> u32 {
        self.op_calls
    }

    /// Whether the next block is the first of the running operator call.
    pub(crate) fn is_first_of_op_call(&mut self) -> bool {
        let Some(op) = self.ops.last() else { return false };
        std::mem::replace(&mut self.op_call_of_block, op.call) != op.call
    }

    /// Writes a record with what this thread adds to every record.
    pub(crate) fn write(&mut self, recording: &Recording, mut record: Record, payload: &[u8]) {
        // Empty in shared state, where the phase and operator may be another thread's.
        let phase = self.phases.last().copied().unwrap_or_default();
        let op = self.ops.last().map(|op| op.name).unwrap_or_default();
        (record.phase, record.op) = (phase.number, op.number);
        if phase.is_left_out || op.is_left_out {
            record.flags |= FLAG_NAME_LEFT_OUT;
        }
        self.journal(recording).write(record, payload);
    }

    /// Writes a definition.
    pub(crate) fn define<S: AsRef<str>>(
        &mut self,
        recording: &Recording,
        definition: &Definition<S>,
    ) {
        let (record, payload) = definition.to_record();
        self.write(recording, record, &payload);
    }

    /// Writes an allocation or a failed one, with its call stack.
    pub(crate) fn write_alloc(&mut self, recording: &Recording, mut record: Record) {
        // Host memory is reported outside every lock.
        let (node, backward) = self.stack(recording, record.device.is_cpu());
        record.set_stack(node.id);
        if backward {
            record.flags |= FLAG_BACKWARD;
        }
        if node.is_incomplete() {
            record.flags |= FLAG_STACK_LEFT_OUT;
        }
        if self.is_first_of_op_call() {
            record.flags |= FLAG_OP_CALL;
        }
        self.write(recording, record, &[]);
    }

    fn journal<'a>(&'a mut self, recording: &'a Recording) -> ThreadJournal<'a> {
        ThreadJournal { recording, thread: self.number, at: &mut self.journal }
    }

    /// Gives the names of modules to the call tree, through this thread's journal.
    pub(crate) fn name_modules(
        &mut self,
        recording: &Recording,
        root: usize,
        named: &[(usize, String, String)],
    ) {
        let mut tree = recording.tree.lock();
        tree.name_modules(root, named, &mut self.journal(recording));
    }

    /// The call stack now, and whether backward is running.
    ///
    /// With `may_wait` it may wait for the GIL, where frames cannot be read without it.
    pub(crate) fn stack(&mut self, recording: &Recording, may_wait: bool) -> (Node, bool) {
        let running = autograd_nodes::backward_state();
        if !recording.has_stacks() {
            return (Node::default(), running != BackwardState::NotRunning);
        }
        python::walk(may_wait, &mut self.frames);
        let epoch = EPOCH.load(Ordering::Acquire);
        if epoch != self.epoch {
            self.epoch = epoch;
            self.seen.clear();
        }
        keep_common(&self.frames, &mut self.seen);
        follow(&self.shortcuts, epoch, &self.frames, &mut self.seen);
        if self.seen.len() < self.frames.len() {
            let mut journal =
                ThreadJournal { recording, thread: self.number, at: &mut self.journal };
            let mut tree = recording.tree.lock();
            let shortcuts = &mut self.shortcuts;
            tree.extend(&self.frames, &mut self.seen, shortcuts, epoch, &mut journal);
            if tree.needs_gil_work {
                recording.gil_request.request();
            }
        }
        let (node, inside, has_engine) = innermost(&self.seen);
        match running {
            BackwardState::NotRunning => (node, false),
            // A leaf's accumulation, or a graph from before the recording.
            BackwardState::Unknown if has_engine || !inside.is_empty() => (node, true),
            BackwardState::Unknown if recording.forgets_nodes.load(Ordering::Relaxed) => {
                (Node::INCOMPLETE, true)
            }
            BackwardState::Unknown => (Node::default(), true),
            BackwardState::Backward(forward) if inside.is_empty() => (forward, true),
            BackwardState::Backward(forward) => {
                let inside = inside.to_vec();
                let mut tree = recording.tree.lock();
                (tree.below(forward, &inside, &mut self.journal(recording)), true)
            }
        }
    }

    /// Stores the call stack of an autograd node that was just created.
    pub(crate) fn remember_node(&mut self, recording: &Recording, sequence: u64) {
        // torch may have been loaded after this thread was first seen. Threads that share a state share no number.
        if self.torch_thread.is_none() && !self.is_shared {
            self.torch_thread = autograd_nodes::torch_thread();
        }
        let is_remembered = self.torch_thread.is_some_and(|thread| {
            let has_memory = self.ring.make_room(sequence, &recording.budget);
            if has_memory {
                let (node, _) = self.stack(recording, true);
                autograd_nodes::remember(thread, sequence, node);
            }
            has_memory
        });
        if !is_remembered && autograd_nodes::is_attached() {
            recording.forgets_nodes.store(true, Ordering::Relaxed);
        }
    }

    /// The thread ends: the next thread that takes this state is another one.
    pub(super) fn leave(&mut self, recording: &Recording, keeps_chunk: bool) {
        if !keeps_chunk {
            self.journal.seal(&recording.journal);
        }
        self.recording = 0;
    }

    /// The time of the last record.
    pub(super) fn last_nanos(&self) -> u64 {
        self.journal.last_nanos
    }
}

/// The same list without its items.
fn emptied<T>(list: &mut Vec<T>) -> Vec<T> {
    list.clear();
    std::mem::take(list)
}

#[cfg(test)]
mod tests;
