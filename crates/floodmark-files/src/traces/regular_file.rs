//! Opens traces, snapshots and files of a journal, if they are regular files.
//!
//! The end of a pipe or a device is unknown, and it has no journal: reading `/dev/zero` would never end.

use std::fs::{self, File, FileType, Metadata};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::traces::open::OpenError;

/// The name of stdin in other programs.
const STDIN: &str = "-";

/// What a path leads to, if it is no regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Irregular {
    /// `-`.
    Stdin,
    /// A folder.
    Folder,
    /// A pipe, with or without a name.
    Pipe,
    /// A character device, such as `/dev/zero` or a terminal.
    CharacterDevice,
    /// A block device: a disk.
    BlockDevice,
    /// A socket.
    Socket,
    /// Another kind of file.
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

/// Opens a regular file. Everything else is an error before a byte is read.
pub(crate) fn open_regular(path: &Path) -> Result<File, OpenError> {
    if path == Path::new(STDIN) {
        return Err(OpenError::NotAFile(Irregular::Stdin));
    }
    // Checked before it is opened: opening a pipe waits for its writer, and opening a device may start it.
    check(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    // The path may lead to another file by now.
    check(&file.metadata()?)?;
    Ok(file)
}

/// Whether [`open_regular`] refuses the path, also later.
pub fn is_irregular(path: &Path) -> bool {
    path == Path::new(STDIN) || fs::metadata(path).is_ok_and(|found| check(&found).is_err())
}

fn check(found: &Metadata) -> Result<(), OpenError> {
    Irregular::from_type(found.file_type()).map_or(Ok(()), |kind| Err(OpenError::NotAFile(kind)))
}
