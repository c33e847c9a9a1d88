//! Calls that were refused, by name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::guard;

static REFUSED: Mutex<BTreeMap<(&'static str, &'static str), u64>> = Mutex::new(BTreeMap::new());

/// Remembers the call and gives back what its library says when it does not support one.
pub(crate) fn refuse(library: &'static str, name: &'static str, status: i32) -> i32 {
    guard::call_or(name, (), || note(library, name));
    status
}

/// Counts a call that could not be answered.
pub(crate) fn note(library: &'static str, name: &'static str) {
    let mut refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    *refused.entry((library, name)).or_default() += 1;
}

/// Every refused call: library, name and how often, one a line.
pub(crate) fn account() -> String {
    let refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut account = String::new();
    for ((library, name), count) in &*refused {
        account += &format!("{library} {name} {count}\n");
    }
    account
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_is_counted_under_its_name() {
        assert_eq!(refuse("cublas", "cublasOfATest", 15), 15);
        assert_eq!(refuse("cublas", "cublasOfATest", 15), 15);
        assert!(account().contains("cublas cublasOfATest 2\n"));
    }
}
