//! What was tried before: a file for each try, in the user's cache folder.
//!
//! The name of a file is the hash of what a try depends on and is known before it: its arguments (and the files that they
//! name), the environment, the installed packages, the GPU profile and the changes. The file has the answer, and the hashes
//! of the program's own files that the try imported, wherever they lie: after a change in one of them the answer counts no
//! more. So `fit` and `plan` share what they found. Data that the program reads is not part of it; `--no-cache` is for that.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::args::ProgramArgs;
use crate::requests::estimate::EstimateRequest;
use crate::tries::{Question, TryAnswer};

/// The version of what is kept: a cache of another one is not read.
const FORMAT: u32 = 4;

/// Of a file that is larger, size and time of change stand for its contents.
const LARGE_FILE: u64 = 16 << 20;

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

/// What is kept of a try.
#[derive(Serialize, Deserialize)]
struct Entry {
    answer: TryAnswer,
    /// When it ran: seconds since 1970.
    at: u64,
    /// When the command that ran it began: nanoseconds since 1970.
    command: u64,
    /// The program's own files that it imported, and their folders, with their hashes.
    files: BTreeMap<PathBuf, String>,
}

/// The cache of one program.
pub(super) struct Cache {
    /// The folder, and the hash of what all tries have in common; none without a cache.
    found: Option<(PathBuf, Sha256)>,
    /// When this command began: nanoseconds since 1970. Two commands may begin in one second.
    command: u64,
}

impl Cache {
    pub(super) fn new(program: &ProgramArgs, python: &OsStr) -> Self {
        let found = folder().and_then(|folder| Some((folder, common(program, python)?)));
        Self { found, command: nanos(SystemTime::now()) }
    }

    /// A cache that keeps nothing.
    pub(super) fn none() -> Self {
        Self { found: None, command: 0 }
    }

    /// The answer of an earlier try, if the program is still the same.
    pub(super) fn get(&self, question: &Question) -> Option<TryAnswer> {
        // A try in which a step was measured says all that another one does.
        let request = EstimateRequest { measures_step: true, ..question.request.clone() };
        let measured = Question { request, ..question.clone() };
        let entry = self.read(question).or_else(|| self.read(&measured))?;
        let earlier = (entry.command != self.command).then_some(entry.at);
        Some(TryAnswer { earlier, ..entry.answer })
    }

    fn read(&self, question: &Question) -> Option<Entry> {
        let text = fs::read(self.path(question)?).ok()?;
        let entry: Entry = serde_json::from_slice(&text).ok()?;
        let is_same = |(path, hash): (&PathBuf, &String)| fingerprint(path).as_ref() == Some(hash);
        entry.files.iter().all(is_same).then_some(entry)
    }

    /// Keeps the answer of a try that imported these files. A try whose files are unknown, or changed while it ran, is not
    /// kept, and what cannot be written is tried again the next time.
    pub(super) fn put(
        &self,
        question: &Question,
        answer: &TryAnswer,
        files: &[PathBuf],
        began: SystemTime,
    ) {
        let Some(hashes) = hashes_of(files, began).filter(|hashes| !hashes.is_empty()) else {
            return;
        };
        let entry = Entry {
            answer: answer.clone(),
            at: seconds(began),
            command: self.command,
            files: hashes,
        };
        self.write(question, &entry);
    }

    /// Keeps another answer to a question that was answered.
    pub(super) fn replace(&self, question: &Question, answer: &TryAnswer) {
        if let Some(entry) = self.read(question) {
            self.write(question, &Entry { answer: answer.clone(), ..entry });
        }
    }

    fn write(&self, question: &Question, entry: &Entry) {
        let Some(path) = self.path(question) else { return };
        let Ok(text) = serde_json::to_vec(entry) else { return };
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
        let Question { request, environment } = question;
        let mut hash = common.clone();
        let mut add = |bytes: &[u8]| {
            hash.update(bytes.len().to_le_bytes());
            hash.update(bytes);
        };
        add(&serde_json::to_vec(request).ok()?);
        add(format!("{environment:?}").as_bytes());
        // What an argument names, such as a file of settings.
        let words = request.run.words();
        for word in words.iter().filter_map(|word| word.to_str()) {
            let value = word.split_once('=').map_or(word, |(_, value)| value);
            let of_file =
                Some(Path::new(value)).filter(|path| path.is_file()).and_then(fingerprint);
            add(of_file.unwrap_or_default().as_bytes());
        }
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
    add(format!("{} {FORMAT}", env!("CARGO_PKG_VERSION")).as_bytes());
    add(std::env::current_dir().ok()?.as_os_str().as_encoded_bytes());
    let packages =
        Command::new(python).args(["-c", PACKAGES]).stdin(Stdio::null()).output().ok()?;
    add(&packages.stdout);
    for (name, value) in environment() {
        add(name.as_encoded_bytes());
        add(value.as_encoded_bytes());
    }
    add(program.words.first()?.as_encoded_bytes());
    Some(hash)
}

/// The hashes of files and of their folders; none where one cannot be read, or has changed since a try began.
fn hashes_of(files: &[PathBuf], began: SystemTime) -> Option<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    for file in files {
        if fs::metadata(file).ok()?.modified().ok()? >= began {
            return None;
        }
        found.insert(file.clone(), fingerprint(file)?);
        let folder = file.parent()?;
        if !found.contains_key(folder) {
            found.insert(folder.to_owned(), fingerprint(folder)?);
        }
    }
    Some(found)
}

/// The hash of what a file has, and of a folder the names of the Python files in it: a new one may hide another.
fn fingerprint(path: &Path) -> Option<String> {
    let about = fs::metadata(path).ok()?;
    if about.is_dir() {
        let entries = fs::read_dir(path).ok()?.flatten().map(|entry| entry.file_name());
        let is_python =
            |name: &OsString| Path::new(name).extension().is_some_and(|end| end == "py");
        let names: BTreeSet<OsString> = entries.filter(is_python).collect();
        return Some(hex(&Sha256::digest(format!("{names:?}"))));
    }
    if about.len() > LARGE_FILE {
        return Some(format!("{} {:?}", about.len(), about.modified().ok()?));
    }
    Some(hex(&Sha256::digest(fs::read(path).ok()?)))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
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

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command as Words};

    /// The file of a try of `floodmark fit …`.
    fn file_of(words: &str) -> PathBuf {
        let words = format!("floodmark fit --vary N=1,2 {words}");
        let Words::Fit(args) = Cli::try_parse_from(words.split_whitespace()).unwrap().command
        else {
            panic!("a fit");
        };
        let request = EstimateRequest::of_try(&args.phantom, args.program).unwrap();
        let cache = Cache { found: Some((PathBuf::new(), Sha256::new())), command: 0 };
        cache.path(&Question { request, environment: args.environment }).unwrap()
    }

    #[test]
    fn what_a_try_depends_on_is_in_the_name_of_its_file() {
        let all = [
            "-m train",
            "-m train 8",
            "-m test",
            "--gpu h100 -m train",
            "--memory 1GiB -m train",
            "--gpus 2 -m train",
            "--world 2 -m train",
            "--world 2 --rank 1 -m train",
            "--steps 2 -m train",
            "--steps 2 --measure-step -m train",
            "--engine fake -m train",
            "--with fused -m train",
            "--answer a.py:1=1 -m train",
            "--env N=1 -m train",
        ];
        let files: BTreeSet<PathBuf> = all.map(file_of).into();
        assert_eq!(files.len(), all.len());
        assert_eq!(file_of("-m train"), file_of("--jobs 2 --json -m train"));
    }
}
