//! The files that the server may read: those in the folders and traces of its command line. A path or symbolic link
//! that leads outside them is refused.

use std::env;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::refusal::Refusal;
use crate::text::failure::{Context, Result};
use crate::traces::trace_paths::is_named_like_a_trace;

/// How deep to search a folder for traces.
pub(super) const DEPTH: usize = 3;
/// The most traces that are listed.
pub(super) const MOST_LISTED: usize = 1000;

/// The paths of the command line, without symbolic links.
#[derive(Debug)]
pub(super) struct Folders(Vec<PathBuf>);

impl Folders {
    /// Opens these paths, or the working directory if there are none.
    pub(super) fn open(paths: &[PathBuf]) -> Result<Self> {
        let here = [PathBuf::from(".")];
        let paths = if paths.is_empty() { &here } else { paths };
        let canonical = paths.iter().map(|path| {
            path.canonicalize().with_context(|| format!("Failed to read `{}`", path.display()))
        });
        Ok(Self(canonical.collect::<Result<_>>()?))
    }

    /// Resolves a path: an absolute one, or one relative to the first folder that contains it.
    pub(super) fn resolve(&self, given: &Path) -> Result<PathBuf, Refusal> {
        let mut absent = None;
        for path in self.meant_by(given) {
            match path.canonicalize() {
                Ok(found) if self.contains(&found) => return self.checked_parts(found),
                Ok(_) => return Err(self.outside()),
                Err(_) if self.would_contain(&path) => absent = absent.or(Some(path)),
                Err(_) => {}
            }
        }
        // The command reports a missing file.
        absent.ok_or_else(|| self.outside())
    }

    fn meant_by(&self, given: &Path) -> Vec<PathBuf> {
        let folders = self.0.iter().filter(|path| path.is_dir()).cloned();
        // `join` of an absolute path returns that path.
        folders.chain(env::current_dir().ok()).map(|folder| folder.join(given)).collect()
    }

    fn contains(&self, canonical: &Path) -> bool {
        self.0.iter().any(|allowed| canonical.starts_with(allowed))
    }

    /// Whether a path that does not exist would be inside a folder.
    fn would_contain(&self, path: &Path) -> bool {
        let existing = path.ancestors().find_map(|ancestor| {
            let found = ancestor.canonicalize().ok()?;
            Some((found, path.strip_prefix(ancestor).ok()?))
        });
        // Refuse `..` after a missing folder: it would lead outside once the folder exists.
        existing.is_some_and(|(existing, rest)| {
            let is_below = rest.components().all(|part| matches!(part, Component::Normal(_)));
            is_below && self.contains(&existing)
        })
    }

    /// Checks the files of a rank folder, and the journal of a trace: they may be links that lead outside.
    fn checked_parts(&self, path: PathBuf) -> Result<PathBuf, Refusal> {
        let mut parts = Vec::new();
        if path.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            parts.extend(
                entries.map(|entry| entry.path()).filter(|path| is_named_like_a_trace(path)),
            );
        } else {
            parts.push(path.clone());
        }
        for part in parts {
            let mut journal = part.clone().into_os_string();
            journal.push(".journal");
            let journal = PathBuf::from(journal);
            let files = fs::read_dir(&journal).into_iter().flatten().flatten();
            let files = files.map(|entry| entry.path());
            for path in [part, journal].into_iter().chain(files) {
                if path.canonicalize().is_ok_and(|found| !self.contains(&found)) {
                    return Err(self.outside());
                }
            }
        }
        Ok(path)
    }

    fn outside(&self) -> Refusal {
        let allowed: Vec<String> =
            self.0.iter().map(|path| format!("`{}`", path.display())).collect();
        Refusal::Outside { allowed: allowed.join(", ") }
    }

    /// All traces with their paths relative to their folder, sorted.
    pub(super) fn traces(&self) -> Vec<(String, PathBuf)> {
        let mut found = Vec::new();
        for allowed in &self.0 {
            let mut paths = Vec::new();
            if allowed.is_dir() {
                self.look_into(allowed, DEPTH, &mut paths);
            } else {
                paths.push(allowed.clone());
            }
            paths.sort();
            for path in paths {
                let below = path.strip_prefix(allowed).unwrap_or(&path);
                let name = if below.as_os_str().is_empty() { &path } else { below };
                found.push((name.display().to_string(), path));
            }
        }
        found.truncate(MOST_LISTED);
        found
    }

    /// Searches a folder. Does not follow links to folders, which may form a cycle.
    fn look_into(&self, folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !is_hidden && depth > 1 {
                self.look_into(&path, depth - 1, found);
            } else if !is_folder && is_named_like_a_trace(&path) && self.resolve(&path).is_ok() {
                found.push(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_leads_out_is_refused_and_what_is_absent_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let allowed = root.join("allowed");
        fs::create_dir_all(allowed.join("ranks")).unwrap();
        fs::write(root.join("secret.flood"), "x").unwrap();
        fs::write(allowed.join("x.flood"), "x").unwrap();
        symlink(root.join("secret.flood"), allowed.join("link.flood")).unwrap();
        symlink(root.join("secret.flood"), allowed.join("ranks/rank-0.flood")).unwrap();
        symlink(&root, allowed.join("out")).unwrap();
        symlink(allowed.join("x.flood"), allowed.join("ranks/in.pickle")).unwrap();
        let folders = Folders::open(std::slice::from_ref(&allowed)).unwrap();
        let resolve = |path: &str| folders.resolve(Path::new(path));

        assert_eq!(resolve("x.flood"), Ok(allowed.join("x.flood")));
        assert_eq!(resolve("ranks/../x.flood"), Ok(allowed.join("x.flood")));
        assert_eq!(resolve("absent.flood"), Ok(allowed.join("absent.flood")));
        assert_eq!(resolve("ranks/in.pickle"), Ok(allowed.join("x.flood")));
        let secret = root.join("secret.flood");
        for path in [
            "../secret.flood",
            "../absent.flood",
            "absent/../../absent.flood",
            "absent/../../secret.flood",
            "out/secret.flood",
            "out/absent.flood",
            "link.flood",
            "ranks",
            "/etc/passwd",
            "/absent",
            "..",
            secret.to_str().unwrap(),
        ] {
            assert!(matches!(resolve(path), Err(Refusal::Outside { .. })), "{path}");
        }
        let names: Vec<String> = folders.traces().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["ranks/in.pickle", "x.flood"]);
    }

    #[test]
    fn the_journal_of_a_trace_may_not_lead_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let allowed = root.join("allowed");
        fs::create_dir_all(allowed.join("y.flood.journal")).unwrap();
        fs::create_dir_all(root.join("journal")).unwrap();
        for name in ["x.flood", "y.flood"] {
            fs::write(allowed.join(name), "x").unwrap();
        }
        fs::write(root.join("journal/ledger"), "x").unwrap();
        symlink(root.join("journal"), allowed.join("x.flood.journal")).unwrap();
        symlink(root.join("journal/ledger"), allowed.join("y.flood.journal/ledger")).unwrap();
        let folders = Folders::open(&[allowed]).unwrap();
        for name in ["x.flood", "y.flood"] {
            let refused = folders.resolve(Path::new(name));
            assert!(matches!(refused, Err(Refusal::Outside { .. })), "{name}");
        }
    }

    #[test]
    fn traces_are_listed_to_a_depth() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir_all(folder.path().join(".hidden")).unwrap();
        for path in ["a/b/x.flood", "a/b/c/y.flood", ".hidden/z.flood", "a/note.txt"] {
            fs::write(folder.path().join(path), "x").unwrap();
        }
        let folders = Folders::open(&[folder.path().to_owned(), deep.join("y.flood")]).unwrap();
        let names: Vec<String> = folders.traces().into_iter().map(|(name, _)| name).collect();
        let one = deep.join("y.flood").canonicalize().unwrap();
        assert_eq!(names, ["a/b/x.flood".to_owned(), one.display().to_string()]);
    }
}
