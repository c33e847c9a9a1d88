//! A file of the recorder. The program may close its descriptor and open another file under the same number.
//!
//! So the descriptor has a high number, which loops over "all" descriptors rarely reach, and device and inode are
//! compared before each write. A file of the program is neither written nor closed.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The kernel's table of descriptors grows with the highest number, so the recorder's stay below this one.
const TABLE_END: libc::rlim_t = 4096;
/// How many numbers below the end are tried first.
const HIGHEST: libc::rlim_t = 64;
/// 0 to 2 are standard input, output and error, also while the program has them closed.
const LOWEST: libc::c_int = 3;

/// Identifies a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(crate) fn new(found: &Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }

    /// Whether `path` names this file.
    pub(crate) fn is_at(self, path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok_and(|found| Self::new(&found) == self)
    }
}

/// A file that this recording created.
#[derive(Debug)]
pub(crate) struct OwnFile {
    /// Not closed on drop: the number may belong to the program by then.
    file: ManuallyDrop<File>,
    pub(crate) identity: Identity,
}

impl OwnFile {
    /// Creates a file. Fails where there is one, also a symbolic link.
    pub(crate) fn create_new(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).custom_flags(libc::O_NOFOLLOW);
        let file = high(options.open(path)?)?;
        let identity = Identity::new(&file.metadata()?);
        Ok(Self { file: ManuallyDrop::new(file), identity })
    }

    /// Opens the file again under its name, where the program has closed the descriptor.
    pub(crate) fn reopen(&mut self, path: &Path) -> io::Result<()> {
        if self.names().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = high(options.open(path)?)?;
        if Identity::new(&file.metadata()?) != self.identity {
            return Err(io::ErrorKind::NotFound.into());
        }
        // The old descriptor belongs to the program.
        self.file = ManuallyDrop::new(file);
        Ok(())
    }

    /// The descriptor, for calls right after creation.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The number of names of the file. Fails when the descriptor is another file's.
    pub(crate) fn names(&self) -> io::Result<u64> {
        let found = self.file.metadata().map_err(|error| match error.raw_os_error() {
            Some(libc::EBADF) => io::Error::other("the program closed the recorder's descriptor"),
            _ => error,
        })?;
        if Identity::new(&found) == self.identity {
            return Ok(found.nlink());
        }
        Err(io::Error::other(
            "the program closed the recorder's descriptor and opened another file under its number",
        ))
    }
}

impl Write for OwnFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.names()?;
        (&*self.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if self.names().is_ok() {
            // SAFETY: dropped once, and not used after this.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

/// The same file under a high number.
fn high(file: File) -> io::Result<File> {
    let mut lowest = highest_start();
    loop {
        // SAFETY: duplicates a descriptor that is open; the result is owned by nothing else.
        let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) };
        if copy >= 0 {
            // SAFETY: as above.
            return Ok(unsafe { File::from_raw_fd(copy) });
        }
        if lowest == LOWEST {
            break;
        }
        // All numbers from there on are in use, or the limit was lowered.
        lowest = (lowest / 2).max(LOWEST);
    }
    // Only its current number is free.
    if file.as_raw_fd() >= LOWEST {
        Ok(file)
    } else {
        Err(io::Error::from_raw_os_error(libc::EMFILE))
    }
}

fn highest_start() -> libc::c_int {
    let end = limit(libc::RLIMIT_NOFILE).min(TABLE_END);
    libc::c_int::try_from(end.saturating_sub(HIGHEST)).unwrap_or(LOWEST).max(LOWEST)
}

/// Fails where the limit of file sizes is lower. Writing more would send a signal to the program.
pub(crate) fn check_length(bytes: usize) -> io::Result<()> {
    if limit(libc::RLIMIT_FSIZE) < bytes as libc::rlim_t {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    Ok(())
}

fn limit(resource: libc::__rlimit_resource_t) -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes the one struct that is passed.
    let failed = unsafe { libc::getrlimit(resource, &raw mut limit) };
    if failed == 0 { limit.rlim_cur } else { libc::RLIM_INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_high() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = OwnFile::create_new(&folder.path().join("a")).unwrap();
        assert!(file.descriptor() >= highest_start() && highest_start() > 200);
        assert_eq!(file.names().unwrap(), 1);
        assert!(file.identity.is_at(&folder.path().join("a")));
    }

    #[test]
    fn a_file_of_the_program_is_neither_written_nor_closed() {
        let folder = tempfile::TempDir::new().unwrap();
        let mut own = OwnFile::create_new(&folder.path().join("own")).unwrap();
        own.write_all(b"ours").unwrap();
        let theirs = File::create(folder.path().join("theirs")).unwrap();
        // SAFETY: closes our descriptor without the recorder, as a program may.
        unsafe { libc::dup2(theirs.as_raw_fd(), own.descriptor()) };
        let error = own.write_all(b"ours").unwrap_err();
        assert!(error.to_string().contains("opened another file"), "{error}");
        let number = own.descriptor();
        drop(own);
        // SAFETY: reads the flags of a descriptor.
        assert!(unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0, "it is the program's");
        // SAFETY: ours again, from `dup2`.
        unsafe { libc::close(number) };
        assert_eq!(std::fs::read(folder.path().join("theirs")).unwrap(), b"");
        assert_eq!(std::fs::read(folder.path().join("own")).unwrap(), b"ours");
    }

    #[test]
    fn a_closed_descriptor_is_an_error() {
        let folder = tempfile::TempDir::new().unwrap();
        let mut own = OwnFile::create_new(&folder.path().join("own")).unwrap();
        // SAFETY: closes our descriptor without the recorder, as a program may.
        unsafe { libc::close(own.descriptor()) };
        let error = own.write_all(b"ours").unwrap_err();
        assert_eq!(error.to_string(), "the program closed the recorder's descriptor");
        own.reopen(&folder.path().join("own")).unwrap();
        own.write_all(b"ours").unwrap();
        assert_eq!(std::fs::read(folder.path().join("own")).unwrap(), b"ours");
    }

    #[test]
    fn a_used_name_is_left_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(OwnFile::create_new(&link).is_err());
        assert!(!target.exists());
    }
}
