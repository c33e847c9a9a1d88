//! Opens the user's browser without showing the token.
//!
//! Every user of a machine can read the arguments of every process, and the address of a viewer contains its token. So
//! the browser opens a file that only the user can read, and that file redirects to the address.

use std::fmt::Write as _;
use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A file that redirects to an address. Dropping this value removes it.
#[derive(Debug)]
pub(crate) struct Redirect {
    folder: TempDir,
}

impl Redirect {
    const NAME: &str = "floodmark-view.html";

    /// Writes the file, readable by its owner alone.
    pub(crate) fn to(address: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("floodmark-view-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(private_folder())?;
        let path = folder.path().join(Self::NAME);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        write!(
            file,
            "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
             <title>floodmark</title>\n<meta http-equiv=\"refresh\" content=\"0; url={address}\">\n\
             <p><a href=\"{address}\">Open the viewer</a></p>\n"
        )?;
        Ok(Self { folder })
    }

    /// The URL of the file.
    fn url(&self) -> String {
        let path = self.folder.path().join(Self::NAME);
        let mut url = "file://".to_owned();
        for &byte in path.as_os_str().as_encoded_bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                    url.push(byte.into());
                }
                other => {
                    let _ = write!(url, "%{other:02X}");
                }
            }
        }
        url
    }
}

/// The folder of the login session if there is one: only the user can read it, and it ends with the session.
fn private_folder() -> PathBuf {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    session.filter(|folder| Path::is_dir(folder)).unwrap_or_else(std::env::temp_dir)
}

/// Opens a redirect in the user's browser.
pub(crate) fn open_browser(program: &str, redirect: &Redirect) {
    let quiet = || Stdio::null();
    let mut command = Command::new(program);
    command.arg(redirect.url()).stdin(quiet()).stdout(quiet()).stderr(quiet());
    if let Ok(mut child) = command.spawn() {
        // Reap the process.
        std::thread::spawn(move || child.wait());
    }
}

/// The program that opens addresses: `$BROWSER`, or the desktop's. `None` without a screen: a text browser would take
/// over the terminal.
pub(crate) fn browser() -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let chosen = set("BROWSER").filter(|program| !program.contains([' ', ':', '%']));
    if chosen.is_some() {
        return chosen;
    }
    if cfg!(target_os = "macos") {
        return Some("open".to_owned());
    }
    set("DISPLAY").or_else(|| set("WAYLAND_DISPLAY")).map(|_| "xdg-open".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_the_users_alone_and_ends_with_its_value() {
        let redirect = Redirect::to("http://127.0.0.1:1/token/").unwrap();
        let path = redirect.folder.path().join(Redirect::NAME);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(redirect.folder.path())), (0o600, 0o700));
        assert!(std::fs::read_to_string(&path).unwrap().contains("url=http://127.0.0.1:1/token/"));
        assert_eq!(redirect.url(), format!("file://{}", path.display()));
        drop(redirect);
        assert!(!path.exists());
    }
}
