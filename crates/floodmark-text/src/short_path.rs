//! Shortens paths.

use std::cell::RefCell;
use std::path::Path;

use floodmark_analysis::below_packages;

thread_local! {
    /// The folders of the recorded programs, each with a slash at its end.
    static PROGRAM_FOLDERS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Renders an answer with paths relative to the folders of its programs. A recording may come from another machine with other
/// folders.
pub fn with_program_folders<T>(folders: &[String], render: impl FnOnce() -> T) -> T {
    let before = PROGRAM_FOLDERS.replace(folders.to_vec());
    let rendered = render();
    PROGRAM_FOLDERS.set(before);
    rendered
}

/// A path, or a text that begins with one, relative to the current directory, to the folder of installed packages, or to the
/// folder of the recorded program.
pub fn shorten(text: &str) -> &str {
    let here = std::env::current_dir().ok();
    PROGRAM_FOLDERS.with_borrow(|folders| shorten_below(text, here.as_deref(), folders))
}

fn shorten_below<'a>(text: &'a str, here: Option<&Path>, folders: &[String]) -> &'a str {
    let packaged = below_packages(text);
    if packaged.len() < text.len() {
        return packaged;
    }
    let below = here.and_then(Path::to_str).and_then(|here| text.strip_prefix(here));
    let below = below.and_then(|below| below.strip_prefix('/'));
    let of_program = || folders.iter().find_map(|folder| text.strip_prefix(folder.as_str()));
    below.or_else(of_program).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_from_here_or_from_its_package() {
        let here = Some(Path::new("/home/ada"));
        let shorten = |text| shorten_below(text, here, &["/job/".to_owned()]);
        assert_eq!(shorten("/home/ada/train.py:3 (main)"), "train.py:3 (main)");
        assert_eq!(shorten("/home/adam/train.py"), "/home/adam/train.py");
        assert_eq!(shorten("/home/ada/.venv/lib/python3.12/site-packages/x/y.py"), "x/y.py");
        assert_eq!(shorten("before recording"), "before recording");
        assert_eq!(shorten("/job/src/net.py:3 (forward)"), "src/net.py:3 (forward)");
        assert_eq!(shorten("/jobs/net.py"), "/jobs/net.py");
    }
}
