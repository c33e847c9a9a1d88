//! A map whose values are computed on first use. A second request for the same key waits for the value; others do not.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use floodmark_analysis::QuestionError;

/// Values by key, or the error that computing one returned.
#[derive(Debug)]
pub(crate) struct MadeOnce<K, V>(Mutex<HashMap<K, Slot<V>>>);

type Slot<V> = Arc<OnceLock<Result<Arc<V>, QuestionError>>>;

impl<K, V> Default for MadeOnce<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V> MadeOnce<K, V> {
    /// The value of a key; `make` computes it on first use.
    pub(crate) fn get(
        &self,
        key: K,
        make: impl FnOnce() -> Result<V, QuestionError>,
    ) -> Result<Arc<V>, QuestionError> {
        let slot = {
            let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(key).or_default())
        };
        slot.get_or_init(|| make().map(Arc::new)).clone()
    }
}
