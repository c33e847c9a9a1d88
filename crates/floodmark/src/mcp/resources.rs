//! Resources: each trace is one, with its summary as text. `flood:///runs/x.flood` is the URI of `/runs/x.flood`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use rmcp::model::Resource;

use super::folders::Folders;
use super::refusal::Refusal;
use super::tools::overview;
use crate::text::failure::{Context, Result};
use crate::traces::trace_paths::is_named_like_a_trace;

const SCHEME: &str = "flood://";
/// The characters of a path that a URI must encode.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Every trace in the folders.
pub(super) fn list(folders: &Folders) -> Vec<Resource> {
    let traces = folders.traces().into_iter();
    traces
        .map(|(name, path)| {
            Resource::new(uri_of(&path), name)
                .with_description("What the trace holds, and what filled the memory at the peak")
                .with_mime_type("text/plain")
        })
        .collect()
}

/// The text of a resource.
pub(super) fn read(uri: &str, folders: &Folders) -> Result<String> {
    let failed = || format!("Failed to read `{uri}`");
    let path = path_of(uri).ok_or(Refusal::NotAResource).with_context(failed)?;
    let path = folders.resolve(&path).with_context(failed)?;
    overview(&path)
}

fn uri_of(path: &Path) -> String {
    format!("{SCHEME}{}", percent_encode(path.as_os_str().as_bytes(), ENCODED))
}

fn path_of(uri: &str) -> Option<PathBuf> {
    let bytes: Vec<u8> = percent_decode_str(uri.strip_prefix(SCHEME)?).collect();
    let path = PathBuf::from(OsString::from_vec(bytes));
    (path.is_absolute() && is_named_like_a_trace(&path)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_path_whatever_its_name() {
        for name in ["/runs/x.flood", "/a b/ä%20#?.pickle.gz"] {
            let uri = uri_of(Path::new(name));
            assert!(uri.is_ascii() && !uri.contains(['#', '?', ' ']), "{uri}");
            assert_eq!(path_of(&uri).unwrap(), Path::new(name));
        }
        assert_eq!(uri_of(Path::new("/runs/x-1_2.flood")), "flood:///runs/x-1_2.flood");
        for wrong in ["flood://x.flood", "file:///x.flood", "flood:///etc/passwd", ""] {
            assert_eq!(path_of(wrong), None, "{wrong}");
        }
    }
}
