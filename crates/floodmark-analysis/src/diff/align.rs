//! Finds the same location in two traces with different ids and folders.
//!
//! - A file below `site-packages` or `dist-packages`, or of Python's own library, is identified by its
//!   path from there.
//! - Every other file is the one with the same path in the other trace. Files that only one trace has are paired by how
//!   their paths end: the longest ending that exactly one of them has on each side. The scripts that the two programs
//!   began with are paired even if they have other names, and so are the files that the question names as renamed.
//! - A frame is the same when its file and function are, and it lies as many lines below the function's
//!   `def`: changes elsewhere in the file do not matter.
//!
//! Addresses are never compared.

use std::collections::{BTreeMap, BTreeSet};

use floodmark_trace::{StackId, Trace, library_part};
use hashbrown::HashMap;

use crate::allocation::main_script::main_script;

/// Which of two traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first one: before.
    A,
    /// The second one: after.
    B,
}

/// A location that both traces may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spot(u32);

/// Returns the same [`Spot`] for the same location in two traces.
pub(crate) struct Aligner<'a> {
    functions: [Functions<'a>; 2],
    /// The name in A of each file of B.
    renamed: BTreeMap<&'a str, &'a str>,
    /// File, function, which of that name, lines below its `def`.
    spots: HashMap<(&'a str, &'a str, usize, i64), Spot>,
}

impl<'a> Aligner<'a> {
    /// `given` has the renamed files: the path in `a`, or its end, and the path in `b`.
    pub(crate) fn new(a: &'a Trace, b: &'a Trace, given: &[(String, String)]) -> Self {
        let functions = [Functions::in_trace(a), Functions::in_trace(b)];
        let scripts = main_script(a).zip(main_script(b));
        let files = functions.each_ref().map(Functions::users_files);
        let renamed = renamed(files, given, scripts);
        Self { functions, renamed, spots: HashMap::new() }
    }

    /// The location of a node of one trace's call tree.
    pub(crate) fn spot(&mut self, side: Side, trace: &'a Trace, node: StackId) -> Option<Spot> {
        let stack = trace.stack(node);
        let code = trace.code(stack.code)?;
        let functions = match side {
            Side::A => &self.functions[0],
            Side::B => &self.functions[1],
        };
        let which = functions.which(&code.file, &code.name, code.first_line);
        let file = library_part(&code.file).unwrap_or(match side {
            Side::A => &code.file,
            Side::B => self.renamed.get(code.file.as_str()).copied().unwrap_or(&code.file),
        });
        let below = i64::from(stack.line) - i64::from(code.first_line);
        let next = Spot(u32::try_from(self.spots.len()).unwrap_or(u32::MAX));
        Some(*self.spots.entry((file, &code.name, which, below)).or_insert(next))
    }
}

/// Where the functions of a trace begin.
struct Functions<'a>(BTreeMap<(&'a str, &'a str), BTreeSet<u32>>);

impl<'a> Functions<'a> {
    fn in_trace(trace: &'a Trace) -> Self {
        let nodes = (0..trace.stack_count()).filter_map(|at| u32::try_from(at).ok());
        let codes: BTreeSet<_> = nodes.map(|at| trace.stack(StackId(at)).code).collect();
        let mut functions: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
        for code in codes.into_iter().filter_map(|id| trace.code(id)) {
            let place = (code.file.as_str(), code.name.as_str());
            functions.entry(place).or_default().insert(code.first_line);
        }
        Self(functions)
    }

    /// Before Python 3.11 every `forward` of a file has the same name: their order distinguishes
    /// them.
    fn which(&self, file: &str, name: &str, first_line: u32) -> usize {
        let lines = self.0.get(&(file, name));
        lines.map_or(0, |lines| lines.range(..first_line).count())
    }

    fn users_files(&self) -> BTreeSet<&'a str> {
        let files = self.0.keys().map(|(file, _)| *file);
        files.filter(|file| library_part(file).is_none()).collect()
    }
}

/// No path is compared further than this many names.
const LONGEST_ENDING: usize = 16;

/// The names in A of the files of B.
fn renamed<'a>(
    [mut a, mut b]: [BTreeSet<&'a str>; 2],
    given: &[(String, String)],
    scripts: Option<(&'a str, &'a str)>,
) -> BTreeMap<&'a str, &'a str> {
    let mut renamed = BTreeMap::new();
    for (old, new) in given {
        if let (Some(in_a), Some(in_b)) = (named(&a, old), named(&b, new)) {
            a.remove(in_a);
            b.remove(in_b);
            renamed.insert(in_b, in_a);
        }
    }
    let both: Vec<&str> = a.intersection(&b).copied().collect();
    for file in both {
        a.remove(file);
        b.remove(file);
    }
    for names in (1..=LONGEST_ENDING).rev() {
        let (endings_a, endings_b) = (endings(&a, names), endings(&b, names));
        for (ending, in_b) in endings_b {
            if let (Some(in_b), Some(Some(in_a))) = (in_b, endings_a.get(ending)) {
                a.remove(in_a);
                b.remove(in_b);
                renamed.insert(in_b, *in_a);
            }
        }
    }
    if let Some((in_a, in_b)) = scripts.filter(|(in_a, in_b)| a.contains(in_a) && b.contains(in_b))
    {
        renamed.insert(in_b, in_a);
    }
    renamed
}

/// The file with this path, or the only one whose path ends with it.
fn named<'a>(files: &BTreeSet<&'a str>, path: &str) -> Option<&'a str> {
    if let Some(file) = files.get(path) {
        return Some(file);
    }
    let is_end = |file: &&&str| file.strip_suffix(path).is_some_and(|rest| rest.ends_with('/'));
    let mut found = files.iter().filter(is_end);
    found.next().copied().filter(|_| found.next().is_none())
}

/// The last `names` names of each path, with the one file that has them; none where several have.
fn endings<'a>(files: &BTreeSet<&'a str>, names: usize) -> BTreeMap<&'a str, Option<&'a str>> {
    let mut endings = BTreeMap::new();
    for &file in files {
        let Some(ending) = ending(file, names) else { continue };
        endings.entry(ending).and_modify(|only| *only = None).or_insert(Some(file));
    }
    endings
}

fn ending(file: &str, names: usize) -> Option<&str> {
    let slash = file.rmatch_indices('/').nth(names - 1).map(|(at, _)| at + 1);
    let is_whole = file.matches('/').count() + 1 == names;
    slash.map(|at| &file[at..]).or(is_whole.then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paired(a: &[&'static str], b: &[&'static str]) -> Vec<(&'static str, &'static str)> {
        paired_with(a, b, &[], None)
    }

    fn paired_with(
        a: &[&'static str],
        b: &[&'static str],
        given: &[(&str, &str)],
        scripts: Option<(&'static str, &'static str)>,
    ) -> Vec<(&'static str, &'static str)> {
        let given: Vec<(String, String)> =
            given.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
        let files = [a, b].map(|files| files.iter().copied().collect());
        renamed(files, &given, scripts).into_iter().collect()
    }

    #[test]
    fn the_scripts_of_two_programs_are_paired_under_any_names() {
        let (a, b) = (["/p/train.py", "/p/net.py"], ["/q/train_v2.py", "/q/net.py"]);
        let scripts = Some(("/p/train.py", "/q/train_v2.py"));
        let both = [("/q/net.py", "/p/net.py"), ("/q/train_v2.py", "/p/train.py")];
        assert_eq!(paired_with(&a, &b, &[], scripts), both);
        // A file of the same name comes first.
        let b = ["/q/main.py", "/q/train.py", "/q/net.py"];
        let scripts = Some(("/p/train.py", "/q/main.py"));
        assert_eq!(paired_with(&a, &b, &[], scripts)[1], ("/q/train.py", "/p/train.py"));
    }

    #[test]
    fn a_file_that_was_renamed_is_paired_as_the_question_says() {
        let (a, b) = (["/p/old/net.py", "/p/net.py"], ["/p/new/model.py", "/p/net.py"]);
        let renamed = [("/p/new/model.py", "/p/old/net.py")];
        assert_eq!(paired_with(&a, &b, &[("old/net.py", "model.py")], None), renamed);
        assert_eq!(paired_with(&a, &b, &[("net.py", "model.py")], None), []);
    }

    #[test]
    fn files_are_paired_by_their_longest_unique_ending() {
        assert_eq!(
            paired(
                &["/a/p/train.py", "/a/p/x/net.py", "/a/p/y/net.py", "/same.py"],
                &["/b/q/train.py", "/b/q/x/net.py", "/b/q/y/net.py", "/same.py"],
            ),
            [
                ("/b/q/train.py", "/a/p/train.py"),
                ("/b/q/x/net.py", "/a/p/x/net.py"),
                ("/b/q/y/net.py", "/a/p/y/net.py"),
            ]
        );
        assert_eq!(paired(&["train.py"], &["/b/train.py"]), [("/b/train.py", "train.py")]);
        assert_eq!(paired(&["/a/x/net.py", "/a/y/net.py"], &["/b/z/net.py"]), []);
    }
}
