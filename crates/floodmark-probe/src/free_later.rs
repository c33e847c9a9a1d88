//! Frees what has no name on disk any more, on a thread of its own.
//!
//! To free the blocks of a file, when the last one closes it, takes some file systems milliseconds. Nothing waits
//! for that.

use crate::own_thread;

/// Drops `thing` soon.
pub(crate) fn free_later(thing: impl Send + 'static) {
    // Where no thread can be made, it is dropped with the closure.
    let _ = own_thread::spawn("floodmark-free", move || drop(thing));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::ThreadId;

    use super::*;

    struct Reports(Sender<ThreadId>);

    impl Drop for Reports {
        fn drop(&mut self) {
            let _ = self.0.send(std::thread::current().id());
        }
    }

    #[test]
    fn a_value_is_dropped_on_another_thread() {
        let (send, dropped) = channel();
        free_later(Reports(send));
        assert_ne!(dropped.recv(), Ok(std::thread::current().id()));
    }
}
