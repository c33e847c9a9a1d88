//! Shorter forms of a location, for narrow output: a terminal, a picture, a page.
//!
//! The rule, for all of them (the page has a port in `web/src/base/paths.ts`; both are tested with
//! `fixtures/locations.json`):
//!
//! 1. A path into a folder of installed packages begins below that folder.
//! 2. Folders are dropped, the outermost first: `…/gpt2/modeling.py:118 (Attention.forward)`.
//! 3. Then the class: `modeling.py:118 (forward)`.
//! 4. Then the function: `modeling.py:118`. The file and the line stay.
//!
//! The name of a module or tensor loses its outer modules: `….mlp.c_proj`, then `c_proj`; also of a derived one, such as
//! `BertLayer (modeling_bert:669).linear (modeling_bert:109)`. Other texts have no shorter form.

/// Folders into which packages are installed.
const PACKAGES: [&str; 2] = ["/site-packages/", "/dist-packages/"];

/// A path, or a text that begins with one, below the folder of installed packages.
pub fn below_packages(text: &str) -> &str {
    let found = PACKAGES.iter().find_map(|folder| Some(text.rfind(folder)? + folder.len()));
    found.filter(|_| text.starts_with('/')).map_or(text, |at| &text[at..])
}

/// The text and shorter forms of it, the longest first. The last one is the shortest useful form.
pub fn shorter_forms(text: &str) -> Vec<String> {
    let text = below_packages(text);
    let mut forms = vec![text.to_owned()];
    if let Some((path, line, after)) = parts_of_location(text) {
        let file = path.rsplit('/').next().unwrap_or(path);
        forms.extend(without_folders(path, '/').map(|path| format!("{path}{line}{after}")));
        let short = format!("{file}{line}");
        let function = after.strip_prefix(" (").and_then(|rest| rest.split_once(')'));
        if let Some((function, mark)) = function {
            let inner = function.rsplit('.').next().unwrap_or(function);
            forms.extend([
                format!("{short} ({function}){mark}"),
                format!("{short} ({inner}){mark}"),
                format!("{short}{mark}"),
            ]);
        }
        forms.push(short);
    } else if !text.contains(' ') || text.ends_with(')') {
        let mark = if text.contains('/') { '/' } else { '.' };
        forms.extend(without_folders(text, mark));
        forms.extend(text.rsplit(mark).next().map(str::to_owned));
    }
    forms.dedup();
    forms
}

/// The longest form that fits; where none does, the last one.
pub fn fitting_form(text: &str, fits: impl Fn(&str) -> bool) -> String {
    let mut forms = shorter_forms(text);
    let at = forms.iter().position(|form| fits(form)).unwrap_or(forms.len() - 1);
    forms.swap_remove(at)
}

/// Whether a text is a location: a file and a line, and perhaps a function.
pub fn is_location(text: &str) -> bool {
    parts_of_location(text).is_some()
}

/// `dir/file.py`, `:118` and ` (forward)`.
fn parts_of_location(text: &str) -> Option<(&str, &str, &str)> {
    let at = text.match_indices(':').map(|(at, _)| at).find(|&at| {
        let after = &text[at + 1..];
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && (after.len() == digits || after[digits..].starts_with(" ("))
    })?;
    let digits = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
    let (path, rest) = text.split_at(at);
    let (line, after) = rest.split_at(1 + digits);
    Some((path, line, after))
}

/// `…/b/c`, then `…/c`.
fn without_folders(path: &str, mark: char) -> impl Iterator<Item = String> {
    let inner = path.match_indices(mark).map(|(at, _)| at).filter(|&at| at > 0);
    inner.map(move |at| format!("…{}", &path[at..]))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn locations_have_the_forms_of_the_table() {
        let table = include_str!("../../../../fixtures/locations.json");
        let table: Value = serde_json::from_str(table).unwrap();
        for row in table.as_array().unwrap() {
            let text = row["text"].as_str().unwrap();
            let forms: Vec<&str> =
                row["forms"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert_eq!(shorter_forms(text), forms, "{text}");
        }
    }

    #[test]
    fn the_longest_form_that_fits_is_taken() {
        let text = "/lib/site-packages/gpt2/modeling.py:118 (Attention.forward)";
        let in_room = |room: usize| fitting_form(text, |form| form.chars().count() <= room);
        assert_eq!(in_room(44), "gpt2/modeling.py:118 (Attention.forward)");
        assert_eq!(in_room(38), "…/modeling.py:118 (Attention.forward)");
        assert_eq!(in_room(26), "modeling.py:118 (forward)");
        assert_eq!(in_room(3), "modeling.py:118");
    }

    #[test]
    fn only_a_file_with_a_line_is_a_location() {
        assert!(is_location("train.py:3") && is_location("a:b/train.py:3 (main) (backward)"));
        assert!(
            !is_location("before recording") && !is_location("aten::mm") && !is_location("12:30 h")
        );
    }
}
