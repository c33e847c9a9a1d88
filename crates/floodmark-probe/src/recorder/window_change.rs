//! Stopping the hooks while no window is open.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::recording::Recording;
use crate::switches::{ENABLED, IS_WATCHED};

/// Held while a window opens or closes, or the recorder starts or ends.
pub(crate) static WINDOW_CHANGE: Mutex<()> = Mutex::new(());

/// Stops recording if no window is open or opening. Returns whether it did. Does not wait for a lock: hooks call it.
pub(crate) fn disable_if_unused(recording: &Recording) -> bool {
    if IS_WATCHED.load(Ordering::Acquire) {
        return false;
    }
    let Some(_change) = WINDOW_CHANGE.try_lock() else { return false };
    let is_unused = recording.windows.try_lock().is_some_and(|windows| windows.open.is_empty());
    if is_unused {
        ENABLED.store(false, Ordering::SeqCst);
    }
    is_unused
}
