//! The file or folder of an export, which is complete as soon as it has its name.
//!
//! An export is written beside its path with a temporary name, and renamed at the end. After an error nothing is left. An
//! existing file is replaced only on request, and a folder only if an export has written everything in it.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use floodmark_export::{ExportError, Files};
use tempfile::{Builder, TempDir};

use crate::progress::Progress;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    /// The path exists, and is not to be replaced.
    #[error("it exists")]
    Exists,
    /// The folder is to be replaced, and has a file that is not part of an export.
    #[error("the folder has `{name}`, which is not part of an export")]
    NotOurs {
        /// The name of the file.
        name: String,
    },
    /// The trace could not be written.
    #[error(transparent)]
    Export(#[from] ExportError),
}

impl From<io::Error> for NotWritten {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return Self::Exists;
        }
        Self::Export(error.into())
    }
}

/// Writes a file.
pub fn write_file(
    to: &Path,
    force: bool,
    progress: Arc<dyn Progress>,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
) -> Result<(), NotWritten> {
    let found = fs::metadata(to).ok();
    if found.is_some() && !force {
        return Err(NotWritten::Exists);
    }
    let progress = Arc::new(Written { bytes: AtomicU64::new(0), progress });
    // A pipe or a device cannot be replaced by a file.
    if found.is_some_and(|found| !found.is_file()) {
        let mut out = BufWriter::new(Counted { file: File::create(to)?, progress });
        write(&mut out)?;
        return Ok(out.flush()?);
    }
    let mut builder = Builder::new();
    let file =
        builder.prefix(".floodmark-").make_in(folder_of(to), |path| File::create_new(path))?;
    let mut out = BufWriter::new(Counted { file, progress });
    write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?.file;
    if force {
        file.persist(to).map_err(|failed| failed.error)?;
    } else {
        file.persist_noclobber(to).map_err(|failed| failed.error)?;
    }
    Ok(())
}

/// A folder that is being written.
#[derive(Debug)]
pub struct Folder {
    to: PathBuf,
    beside: TempDir,
    progress: Arc<Written>,
}

impl Folder {
    /// Begins a folder. `is_ours` returns whether an export could have written a file of this name.
    pub fn new(
        to: &Path,
        force: bool,
        progress: Arc<dyn Progress>,
        is_ours: impl Fn(&str) -> bool,
    ) -> Result<Self, NotWritten> {
        match fs::read_dir(to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A file.
            Err(_) if to.exists() => return Err(NotWritten::Exists),
            Err(error) => return Err(error.into()),
            Ok(entries) => {
                for entry in entries {
                    let name = entry?.file_name().to_string_lossy().into_owned();
                    if !force {
                        return Err(NotWritten::Exists);
                    }
                    if !is_ours(&name) {
                        return Err(NotWritten::NotOurs { name });
                    }
                }
            }
        }
        // An error of the system without the temporary name.
        fs::metadata(folder_of(to))?;
        let mut builder = Builder::new();
        builder.prefix(".floodmark-").permissions(Permissions::from_mode(0o777));
        let beside = builder.tempdir_in(folder_of(to))?;
        let progress = Arc::new(Written { bytes: AtomicU64::new(0), progress });
        Ok(Self { to: to.to_owned(), beside, progress })
    }

    /// Gives the folder its name.
    pub fn finish(self) -> Result<(), NotWritten> {
        let new = self.beside.path().to_owned();
        if self.to.exists() {
            // The folder has only files of exports, as was checked before.
            fs::remove_dir_all(&self.to)?;
        }
        fs::rename(new, &self.to)?;
        // The folder was renamed: it must not be removed.
        let _ = self.beside.keep();
        Ok(())
    }
}

impl Files for Folder {
    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + Send>> {
        let name = Path::new(name);
        debug_assert!(name.components().all(|part| matches!(part, Component::Normal(_))));
        let path = self.beside.path().join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let progress = Arc::clone(&self.progress);
        Ok(Box::new(BufWriter::new(Counted { file: File::create_new(path)?, progress })))
    }
}

/// The parent folder of a path.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Counts the bytes of all files of an export.
#[derive(Debug)]
struct Written {
    bytes: AtomicU64,
    progress: Arc<dyn Progress>,
}

impl Written {
    fn more(&self, count: u64) {
        let before = self.bytes.fetch_add(count, Ordering::Relaxed);
        self.progress.at(before + count, None);
    }
}

/// A file that counts its bytes. It lies below the buffer, because formats write a few bytes at a time.
struct Counted<W> {
    file: W,
    progress: Arc<Written>,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.progress.more(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
