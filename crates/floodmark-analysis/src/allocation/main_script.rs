//! The script that a recorded program began with, and the folder that it ran in.

use std::collections::BTreeMap;
use std::path::Path;

use floodmark_trace::{StackId, Trace, library_part};

/// The file of the program's outermost frames: of several, the one whose stacks allocated most.
pub fn main_script(trace: &Trace) -> Option<&str> {
    let mut bytes: BTreeMap<StackId, u64> = BTreeMap::new();
    for made in trace.allocations.iter().filter(|made| !made.before_recording) {
        *bytes.entry(made.stack).or_default() += made.rounded.0;
    }
    let mut scripts: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, bytes) in bytes {
        let files = trace.frames(stack).filter_map(|(_, frame)| {
            let file = trace.code(frame.code)?.file.as_str();
            let is_python = Path::new(file).extension().is_some_and(|extension| extension == "py");
            (is_python && library_part(file).is_none()).then_some(file)
        });
        if let Some(outermost) = files.last() {
            *scripts.entry(outermost).or_default() += bytes;
        }
    }
    // The first of equals.
    scripts.into_iter().rev().max_by_key(|(_, bytes)| *bytes).map(|(file, _)| file)
}

/// The folder that paths of the program are shown from, with its last slash: its working directory if the command line
/// shows it, otherwise the folder of its script.
pub fn program_folder(trace: &Trace) -> Option<&str> {
    let script = main_script(trace).filter(|script| script.starts_with('/'))?;
    let mut words = trace.header.command.iter().skip(1).map(String::as_str);
    let below = words.find_map(|word| {
        let word = word.strip_prefix("./").unwrap_or(word);
        let as_module = word.replace('.', "/") + ".py";
        [word, as_module.as_str()].into_iter().find_map(|below| script.strip_suffix(below))
    });
    let below = below.filter(|folder| folder.len() > 1 && folder.ends_with('/'));
    let folder = script.rfind('/').map(|slash| &script[..=slash]);
    below.or(folder).filter(|folder| folder.len() > 1)
}
