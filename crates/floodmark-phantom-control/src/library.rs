//! Loads the phantom into this process, and calls it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};

use crate::account::Account;
use crate::answer_kind::AnswerKind;
use crate::certainty::Certainty;
use crate::settings::Settings;

/// How long a message of the phantom may be.
const MESSAGE_BYTES: usize = 512;

type Start = unsafe extern "C" fn(*const u8, usize, *mut c_char, usize) -> c_int;
type Claim = unsafe extern "C" fn(*mut c_char, usize) -> c_int;
type TakeOver = extern "C" fn() -> c_int;
type Restore = extern "C" fn();
type WriteAccount = unsafe extern "C" fn(*mut c_char, usize) -> usize;
type GetCertainty = extern "C" fn(u64, u64) -> c_int;
type SetCertainty = extern "C" fn(u64, u64, c_int);
type SetAnswer = extern "C" fn(c_int, i64);
type SetGroupSize = extern "C" fn(c_int, u64);

/// The phantom, loaded. It stays until the process ends: CUDA cannot be unloaded.
#[derive(Debug)]
pub struct PhantomLibrary {
    /// The file in memory that it was loaded from.
    image: File,
    start: Start,
    claim: Claim,
    take_over: TakeOver,
    restore: Restore,
    account: WriteAccount,
    certainty: GetCertainty,
    set_certainty: SetCertainty,
    set_answer: SetAnswer,
    set_group_size: SetGroupSize,
}

/// Why there is no simulated device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no memory for the library's file.
    #[error("the library of the simulated GPU could not be written to memory")]
    Image(#[source] io::Error),
    /// The system's loader refused it.
    #[error("the library of the simulated GPU could not be loaded: {0}")]
    Loader(String),
    /// It is not the library that belongs to this one.
    #[error("the library of the simulated GPU has no function `{0}`")]
    NoFunction(&'static str),
    /// The library refused the machine, or cannot work in this process.
    #[error("the simulated GPU could not be started: {0}")]
    Start(String),
}

impl PhantomLibrary {
    /// Loads the library from its bytes and starts the machine. Its symbols are not visible yet: see [`Self::claim`].
    pub fn start(image: &[u8], settings: &Settings) -> Result<Self, LoadError> {
        let image = in_memory(image).map_err(LoadError::Image)?;
        let handle = open(&image, libc::RTLD_LOCAL)?;
        // SAFETY: the library declares its functions with these types.
        let library = unsafe {
            Self {
                image,
                start: function(handle, c"floodmark_phantom_start")?,
                claim: function(handle, c"floodmark_phantom_claim")?,
                take_over: function(handle, c"floodmark_phantom_take_over")?,
                restore: function(handle, c"floodmark_phantom_restore")?,
                account: function(handle, c"floodmark_phantom_account")?,
                certainty: function(handle, c"floodmark_phantom_certainty")?,
                set_certainty: function(handle, c"floodmark_phantom_set_certainty")?,
                set_answer: function(handle, c"floodmark_phantom_answer")?,
                set_group_size: function(handle, c"floodmark_phantom_group_size")?,
            }
        };
        library.restart(settings)?;
        Ok(library)
    }

    /// Replaces the started machine, as long as nothing was allocated.
    pub fn restart(&self, settings: &Settings) -> Result<(), LoadError> {
        let text =
            serde_json::to_vec(settings).map_err(|error| LoadError::Start(error.to_string()))?;
        // SAFETY: both ranges are valid for their lengths.
        outcome(|message, room| unsafe { (self.start)(text.as_ptr(), text.len(), message, room) })
    }

    /// Makes the library's symbols visible to all that is loaded later, under the names of CUDA's libraries.
    pub fn claim(&self) -> Result<(), LoadError> {
        open(&self.image, libc::RTLD_GLOBAL)?;
        // SAFETY: the message buffer has this length.
        outcome(|message, room| unsafe { (self.claim)(message, room) })
    }

    /// Replaces CUDA in loaded objects. Returns whether memory is then requested from this library.
    pub fn take_over(&self) -> bool {
        (self.take_over)() != 0
    }

    /// Undoes [`Self::take_over`].
    pub fn restore(&self) {
        (self.restore)();
    }

    /// What happened on the devices so far.
    pub fn account(&self) -> Account {
        let mut text = vec![0_u8; 1 << 12];
        loop {
            // SAFETY: the buffer is valid for its length.
            let needed = unsafe { (self.account)(text.as_mut_ptr().cast(), text.len()) };
            if needed <= text.len() {
                break;
            }
            // More may be refused meanwhile.
            text.resize(needed * 2, 0);
        }
        let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        serde_json::from_slice(&text[..length]).unwrap_or_default()
    }

    /// How certain the value of these bytes is.
    pub fn certainty(&self, addr: u64, length: u64) -> Certainty {
        Certainty::from_number((self.certainty)(addr, length))
    }

    /// Sets how certain the value of these bytes is from now on.
    pub fn set_certainty(&self, addr: u64, length: u64, certainty: Certainty) {
        (self.set_certainty)(addr, length, certainty as c_int);
    }

    /// Sets what this thread reads from now on where no value is known.
    pub fn set_answer(&self, kind: AnswerKind, value: i64) {
        (self.set_answer)(kind as c_int, value);
    }

    /// Sets the number of ranks of a color's communicators; 0 clears it.
    pub fn set_group_size(&self, color: i32, ranks: u64) {
        (self.set_group_size)(color, ranks);
    }
}

fn in_memory(bytes: &[u8]) -> io::Result<File> {
    // SAFETY: a system call with a name that ends with a zero.
    let descriptor =
        unsafe { libc::memfd_create(c"libfloodmark_phantom.so".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just opened, and nothing else has it.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(bytes)?;
    Ok(file)
}

fn open(image: &File, visibility: c_int) -> Result<*mut c_void, LoadError> {
    let path = CString::new(format!("/proc/self/fd/{}", image.as_raw_fd()))
        .map_err(|error| LoadError::Loader(error.to_string()))?;
    // SAFETY: the library's constructors are those of Rust's standard library.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | visibility) };
    if handle.is_null() { Err(LoadError::Loader(last_error())) } else { Ok(handle) }
}

fn last_error() -> String {
    // SAFETY: the text belongs to this thread until its next call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return String::new();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

/// A function of the library.
///
/// # Safety
/// `F` is the type of that function, a pointer.
unsafe fn function<F: Copy>(handle: *mut c_void, name: &'static CStr) -> Result<F, LoadError> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle is open.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() {
        return Err(LoadError::NoFunction(name.to_str().unwrap_or_default()));
    }
    // SAFETY: by this function's contract; the sizes are equal.
    Ok(unsafe { std::mem::transmute_copy(&found) })
}

fn outcome(call: impl FnOnce(*mut c_char, usize) -> c_int) -> Result<(), LoadError> {
    let mut message = [0_u8; MESSAGE_BYTES];
    if call(message.as_mut_ptr().cast(), message.len()) == 0 {
        return Ok(());
    }
    let length = message.iter().position(|byte| *byte == 0).unwrap_or(message.len());
    Err(LoadError::Start(String::from_utf8_lossy(&message[..length]).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_library_is_refused() {
        let settings = Settings::usual((9, 0), 1 << 30);
        let error = PhantomLibrary::start(b"not a library", &settings).unwrap_err().to_string();
        assert!(error.contains("could not be loaded"), "{error}");
    }
}
