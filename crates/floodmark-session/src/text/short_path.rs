//! Paths as short as they can be without being wrong.

use std::path::Path;

use floodmark_analysis::below_packages;

/// What is left of a path, or of a text that begins with one: below the current directory, or below the
/// folder into which packages are installed.
pub fn shorten(text: &str) -> &str {
    let here = std::env::current_dir().ok();
    shorten_below(text, here.as_deref())
}

fn shorten_below<'a>(text: &'a str, here: Option<&Path>) -> &'a str {
    let packaged = below_packages(text);
    if packaged.len() < text.len() {
        return packaged;
    }
    let below = here.and_then(Path::to_str).and_then(|here| text.strip_prefix(here));
    below.and_then(|below| below.strip_prefix('/')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_from_here_or_from_its_package() {
        let here = Some(Path::new("/home/ada"));
        let shorten = |text| shorten_below(text, here);
        assert_eq!(shorten("/home/ada/train.py:3 (main)"), "train.py:3 (main)");
        assert_eq!(shorten("/home/adam/train.py"), "/home/adam/train.py");
        assert_eq!(shorten("/home/ada/.venv/lib/python3.12/site-packages/x/y.py"), "x/y.py");
        assert_eq!(shorten("before recording"), "before recording");
    }
}
