//! The kind of a file that is not a recording, from its first bytes.

use std::fmt;

/// The kind of a file that is not a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OtherFile {
    /// A file of `torch.save`.
    Checkpoint,
    /// A pickle.
    Pickle,
    /// JSON.
    Json,
    /// Text: a script, a log.
    Text,
    /// A file that is compressed with gzip.
    Gzip,
    /// None of these.
    Unknown,
}

impl OtherFile {
    /// The kind of a file that begins with these bytes.
    pub(crate) fn from_beginning(beginning: &[u8]) -> Self {
        let is_text = |text: &str| {
            !text.contains(|letter: char| letter.is_control() && !letter.is_whitespace())
        };
        match beginning {
            [b'P', b'K', 3, 4, ..] => Self::Checkpoint,
            [0x80, ..] => Self::Pickle,
            [0x1f, 0x8b, ..] => Self::Gzip,
            _ => match valid_text(beginning) {
                Some(text) if text.trim_start().starts_with(['{', '[']) => Self::Json,
                Some(text) if is_text(text) => Self::Text,
                Some(_) | None => Self::Unknown,
            },
        }
    }

    /// What to do.
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::Checkpoint | Self::Json | Self::Gzip | Self::Unknown => {
                "floodmark reads recordings (`.flood`) and torch's memory snapshots (`.pickle`); record one with \
                 `floodmark run script.py`"
            }
            Self::Pickle => {
                "`torch.cuda.memory._dump_snapshot(path)` writes a pickle that floodmark reads"
            }
            Self::Text => {
                "record a script with `floodmark run script.py`; `floodmark oom` reads a log with torch's message"
            }
        }
    }
}

/// The first bytes as text; the last character may be cut.
fn valid_text(beginning: &[u8]) -> Option<&str> {
    match std::str::from_utf8(beginning) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&beginning[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

impl fmt::Display for OtherFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checkpoint => "a checkpoint (zip)",
            Self::Pickle => "a pickle of something else",
            Self::Json => "JSON",
            Self::Text => "a text file",
            Self::Gzip => "a gzip file of something else",
            Self::Unknown => "a file of another kind",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_recognized_by_its_first_bytes() {
        let kinds: [(&[u8], &str); 8] = [
            (b"PK\x03\x04\x00\x00", "a checkpoint (zip)"),
            (b"\x80\x04\x95", "a pickle of something else"),
            (b" {\"a\": 1}", "JSON"),
            (b"import torch\n\tx", "a text file"),
            ("größe".as_bytes(), "a text file"),
            (&"größe".as_bytes()[..3], "a text file"),
            (b"\x1f\x8b\x08", "a gzip file of something else"),
            (b"\x00\x01\x02", "a file of another kind"),
        ];
        for (bytes, kind) in kinds {
            assert_eq!(OtherFile::from_beginning(bytes).to_string(), kind, "{bytes:02x?}");
        }
    }
}
