//! Calls that were refused, by name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use floodmark_phantom_control::UnsupportedCall;

type Name = Cow<'static, str>;

static REFUSED: Mutex<BTreeMap<(&'static str, Name), u64>> = Mutex::new(BTreeMap::new());

/// Counts a refused call.
pub(crate) fn note(library: &'static str, name: impl Into<Name>) {
    let mut refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    *refused.entry((library, name.into())).or_default() += 1;
}

/// Whether a call of that name was refused.
pub(crate) fn is_refused(name: &str) -> bool {
    let refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    refused.keys().any(|(_, refused)| refused == name)
}

/// Every refused call, and how often.
pub(crate) fn calls() -> Vec<UnsupportedCall> {
    let refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    let call = |((library, name), &count): (&(&str, Name), &u64)| UnsupportedCall {
        library: (*library).to_owned(),
        name: name.clone().into_owned(),
        count,
    };
    refused.iter().map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_under_its_name() {
        note("cublas", "cublasOfATest");
        note("cublas", "cublasOfATest");
        let found = calls().into_iter().find(|call| call.name == "cublasOfATest").unwrap();
        assert_eq!((found.library.as_str(), found.count), ("cublas", 2));
    }
}
