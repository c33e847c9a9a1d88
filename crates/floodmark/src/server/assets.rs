//! The page itself: built from `web/` and compiled into the program, so that it needs no other file.

/// What the browser loads first.
pub(crate) const INDEX: &str = include_str!("../../page/index.html");
/// All that runs in it.
pub(crate) const SCRIPT: &str = include_str!("../../page/page.js");
/// How it looks.
pub(crate) const STYLE: &str = include_str!("../../page/page.css");
