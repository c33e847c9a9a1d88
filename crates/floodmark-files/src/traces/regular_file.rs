//! The one way in which a trace, a snapshot or a chunk of a journal is opened: regular files only.
//!
//! A pipe or a device has no end that can be known, and no journal beside it; `/dev/zero` would be read for ever.

use std::fs::{self, File, FileType, Metadata};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::traces::open::OpenError;

/// The name by which other programs mean stdin.
const STDIN: &str = "-";

/// What a name leads to that is no regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Irregular {
    /// `-`.
    Stdin,
    /// A folder.
    Folder,
    /// A pipe with or without a name.
    Pipe,
    /// A device of characters, such as `/dev/zero` or a terminal.
    CharacterDevice,
    /// A device of blocks: a disk.
    BlockDevice,
    /// A socket.
    Socket,
    /// What this system calls something else.
    Other,
}

impl std::fmt::Display for Irregular {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stdin => "stdin",
            Self::Folder => "a folder",
            Self::Pipe => "a pipe (FIFO)",
            Self::CharacterDevice => "a character device",
            Self::BlockDevice => "a block device",
            Self::Socket => "a socket",
            Self::Other => "something else",
        })
    }
}

impl Irregular {
    /// What to do instead.
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::Stdin => "write the data into a file first; a file named `-` is `./-`",
            Self::Pipe => "write the data into a file first, then name the file",
            Self::Folder => "name a file in the folder",
            Self::CharacterDevice | Self::BlockDevice | Self::Socket | Self::Other => {
                "name a `.flood` file or a torch memory snapshot"
            }
        }
    }

    fn from_type(kind: FileType) -> Option<Self> {
        if kind.is_file() {
            None
        } else if kind.is_dir() {
            Some(Self::Folder)
        } else if kind.is_fifo() {
            Some(Self::Pipe)
        } else if kind.is_char_device() {
            Some(Self::CharacterDevice)
        } else if kind.is_block_device() {
            Some(Self::BlockDevice)
        } else if kind.is_socket() {
            Some(Self::Socket)
        } else {
            Some(Self::Other)
        }
    }
}

/// Opens a regular file; an error for everything else, before a byte is read.
pub(crate) fn open_regular(path: &Path) -> Result<File, OpenError> {
    if path == Path::new(STDIN) {
        return Err(OpenError::NotAFile(Irregular::Stdin));
    }
    // Before it is opened: to open a pipe waits for its writer, and to open a device may start it.
    check(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    // The name may lead to another file by now.
    check(&file.metadata()?)?;
    Ok(file)
}

/// Whether a name leads to something that [`open_regular`] refuses, however long one waits.
pub fn is_irregular(path: &Path) -> bool {
    path == Path::new(STDIN) || fs::metadata(path).is_ok_and(|found| check(&found).is_err())
}

fn check(found: &Metadata) -> Result<(), OpenError> {
    Irregular::from_type(found.file_type()).map_or(Ok(()), |kind| Err(OpenError::NotAFile(kind)))
}
