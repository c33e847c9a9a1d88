//! Closes files without a name on a separate thread.
//!
//! Freeing the blocks of a file takes milliseconds on some file systems, when the last descriptor is closed. Nothing waits
//! for that.

use crate::own_threads;

/// Drops `thing` soon.
pub(crate) fn free_later(thing: impl Send + 'static) {
    // Where no thread can be created, it is dropped with the closure.
    let _ = own_threads::spawn("floodmark-free", move || drop(thing));
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
