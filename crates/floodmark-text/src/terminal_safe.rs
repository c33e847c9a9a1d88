//! Texts of strangers, as a terminal may have them.
//!
//! A file name, a module or a phase comes from the traced program, and a terminal obeys what it is sent. What would
//! move the cursor, change a colour or turn the direction of writing is shown as a sign instead.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text without anything that a terminal would obey, on one line.
pub fn safe_text(text: &str) -> Cow<'_, str> {
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars().map(|letter| if obeyed(letter) { sign(letter) } else { letter }).collect(),
    )
}

/// The same for a text of several lines, which it keeps.
pub fn safe_lines(text: &str) -> Cow<'_, str> {
    let is_bad = |letter: char| letter == '\r' || obeyed_in_lines(letter);
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars().map(|letter| if is_bad(letter) { sign(letter) } else { letter }).collect(),
    )
}

/// JSON without anything that a terminal would obey, but for the ends of lines: what is escaped is still the same text.
pub fn escaped(json: &str) -> Cow<'_, str> {
    if !json.contains(obeyed_in_lines) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if obeyed_in_lines(letter) {
            // All of them are below U+10000: one escape each.
            let _ = write!(text, "\\u{:04x}", u32::from(letter));
        } else {
            text.push(letter);
        }
    }
    Cow::Owned(text)
}

/// The same as [`obeyed`] in a text of several lines.
pub fn obeyed_in_lines(letter: char) -> bool {
    obeyed(letter) && !matches!(letter, '\n' | '\r' | '\t')
}

/// Whether a terminal would do something else than to show it.
fn obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            // Invisible, or of the other direction.
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Unicode has pictures of the control characters of ASCII: `␛` is one.
pub fn sign(letter: char) -> char {
    match u32::from(letter) {
        code @ ..0x20 => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        0x7f => '\u{2421}',
        _ => '\u{fffd}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_the_same_text_when_it_is_escaped() {
        let names = ["a\u{9b}31m", "b\u{7f}\u{202e}", "größe", "\x1b\n"];
        let json = serde_json::to_string_pretty(&names).unwrap();
        let shown = escaped(&json);
        assert!(!shown.contains(obeyed_in_lines));
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), names);
    }

    #[test]
    fn what_a_terminal_obeys_becomes_a_sign() {
        assert_eq!(safe_text("model.py:3 (größe)"), "model.py:3 (größe)");
        assert_eq!(safe_text("\x1b[2J\x1b]0;x\x07\r\n\t"), "␛[2J␛]0;x␇␍␊␉");
        assert_eq!(safe_text("a\u{7f}b\u{9b}31m"), "a␡b\u{fffd}31m");
        assert_eq!(safe_text("a\u{202e}b\u{2066}c\u{feff}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
    }
}
