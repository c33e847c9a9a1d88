//! What was tried before: a file for each try, in the user's cache folder.
//!
//! The name of a file is the hash of all that a try depends on and that can be seen from here: the program's own Python
//! files, its arguments, the environment, the installed packages, the GPU profile and the changes. So `fit` and `plan` share
//! what they found. Data that the program reads is not part of it; `--no-cache` is for that.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::commands::args::{PhantomArgs, ProgramArgs};
use crate::commands::estimate::machine;
use crate::commands::tries::{Question, TryAnswer};

/// Files of a program are looked for in so many folders inside each other.
const MOST_FOLDERS: usize = 4;
/// More files than this are no program of one folder.
const MOST_FILES: usize = 2000;

/// Variables that differ from shell to shell and say nothing of a program.
const NOT_OF_PROGRAMS: [&str; 12] = [
    "_",
    "COLUMNS",
    "DISPLAY",
    "LINES",
    "OLDPWD",
    "PS1",
    "SHLVL",
    "SSH_AUTH_SOCK",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "TERM",
];

/// Prints the installed packages and their versions.
const PACKAGES: &str = "import importlib.metadata as m, sys; print(sys.version, sys.executable, \
                        sorted((d.name or '', d.version) for d in m.distributions()))";

/// The cache of one program.
pub(super) struct Cache {
    /// The folder, and the hash of what all tries have in common; none without a cache.
    found: Option<(PathBuf, Sha256)>,
}

impl Cache {
    pub(super) fn new(program: &ProgramArgs, python: &OsStr) -> Self {
        Self { found: folder().and_then(|folder| Some((folder, common(program, python)?))) }
    }

    /// A cache that keeps nothing.
    pub(super) fn none() -> Self {
        Self { found: None }
    }

    pub(super) fn get(&self, question: &Question) -> Option<TryAnswer> {
        let read = |question: &Question| {
            let text = fs::read(self.path(question)?).ok()?;
            serde_json::from_slice(&text).ok()
        };
        // A try in which a step was measured says all that another one does.
        let phantom = PhantomArgs { measure_step: true, ..question.phantom.clone() };
        let measured = Question { phantom, ..question.clone() };
        read(question).or_else(|| read(&measured))
    }

    /// Keeps an answer. What cannot be written is tried again the next time.
    pub(super) fn put(&self, question: &Question, answer: &TryAnswer) {
        let Some(path) = self.path(question) else { return };
        let Ok(text) = serde_json::to_vec(answer) else { return };
        let Some(folder) = path.parent() else { return };
        let _ = fs::create_dir_all(folder);
        // Another command may read it at the same time.
        if let Ok(file) = tempfile::NamedTempFile::new_in(folder)
            && fs::write(file.path(), text).is_ok()
        {
            let _ = file.persist(path);
        }
    }

    fn path(&self, question: &Question) -> Option<PathBuf> {
        let (folder, common) = self.found.as_ref()?;
        let Question { phantom, program, environment } = question;
        let mut hash = common.clone();
        let mut add = |bytes: &[u8]| {
            hash.update(bytes.len().to_le_bytes());
            hash.update(bytes);
        };
        add(&serde_json::to_vec(&machine(phantom).ok()?).ok()?);
        let changes: Vec<String> = phantom.changes.iter().map(ToString::to_string).collect();
        let counted = (phantom.count_operators, phantom.measure_step);
        let options = (phantom.engine, phantom.steps, counted);
        add(format!("{options:?} {changes:?}").as_bytes());
        add(format!("{} {:?} {environment:?}", program.is_module, program.words).as_bytes());
        Some(folder.join(format!("{}.json", hex(&hash.finalize()))))
    }
}

/// The user's cache folder for tries.
fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute());
    let base = match named {
        Some(path) => PathBuf::from(path),
        None => {
            PathBuf::from(std::env::var_os("HOME").filter(|home| !home.is_empty())?).join(".cache")
        }
    };
    Some(base.join("floodmark").join("tries"))
}

/// The hash of what all tries have in common; none where that is unknown.
fn common(program: &ProgramArgs, python: &OsStr) -> Option<Sha256> {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update(bytes.len().to_le_bytes());
        hash.update(bytes);
    };
    add(env!("CARGO_PKG_VERSION").as_bytes());
    add(std::env::current_dir().ok()?.as_os_str().as_encoded_bytes());
    let packages =
        Command::new(python).args(["-c", PACKAGES]).stdin(Stdio::null()).output().ok()?;
    add(&packages.stdout);
    for (name, value) in environment() {
        add(name.as_encoded_bytes());
        add(value.as_encoded_bytes());
    }
    let script = PathBuf::from(program.words.first()?);
    let folder = if program.is_module { PathBuf::from(".") } else { folder_of(&script) };
    if !program.is_module {
        add(&fs::read(&script).ok()?);
    }
    let mut files = Vec::new();
    python_files(&folder, MOST_FOLDERS, &mut files);
    files.sort();
    for file in files {
        add(file.as_os_str().as_encoded_bytes());
        add(&fs::read(&file).unwrap_or_default());
    }
    Some(hash)
}

fn folder_of(script: &Path) -> PathBuf {
    match script.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

fn environment() -> Vec<(OsString, OsString)> {
    let is_of_program = |name: &OsString| {
        let name = name.to_string_lossy();
        !NOT_OF_PROGRAMS.contains(&&*name) && !name.starts_with("XDG_SESSION")
    };
    let mut found: Vec<_> = std::env::vars_os().filter(|(name, _)| is_of_program(name)).collect();
    found.sort();
    found
}

fn python_files(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if is_hidden
            || name == "node_modules"
            || name == "site-packages"
            || found.len() >= MOST_FILES
        {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 1 => python_files(&path, depth - 1, found),
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|kind| kind == "py") => {
                found.push(path);
            }
            Ok(_) | Err(_) => {}
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
