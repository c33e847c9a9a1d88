//! The files of the page: built from `web/`, and compiled into the program.

/// The HTML document.
pub(crate) const INDEX: &str = include_str!("../../page/index.html");
/// The JavaScript bundle.
pub(crate) const SCRIPT: &str = include_str!("../../page/page.js");
/// The style sheet.
pub(crate) const STYLE: &str = include_str!("../../page/page.css");
