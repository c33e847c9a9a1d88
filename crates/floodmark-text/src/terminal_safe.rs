//! Text of a traced program that is safe in a terminal.
//!
//! Names of files, modules and phases come from the traced program, and a terminal executes control sequences. Characters that
//! would move the cursor, change a colour or the direction of writing are replaced by visible signs.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text on one line, with its control characters replaced.
pub fn safe_text(text: &str) -> Cow<'_, str> {
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars().map(|letter| if obeyed(letter) { sign(letter) } else { letter }).collect(),
    )
}

/// The same for a text of several lines.
pub fn safe_lines(text: &str) -> Cow<'_, str> {
    let is_bad = |letter: char| letter == '\r' || obeyed_in_lines(letter);
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars().map(|letter| if is_bad(letter) { sign(letter) } else { letter }).collect(),
    )
}

/// JSON with escaped control characters. Its strings stay the same.
pub fn escaped(json: &str) -> Cow<'_, str> {
    if !json.contains(obeyed_in_lines) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if obeyed_in_lines(letter) {
            // All of these are below U+10000, so each has one escape.
            let _ = write!(text, "\\u{:04x}", u32::from(letter));
        } else {
            text.push(letter);
        }
    }
    Cow::Owned(text)
}

/// Whether a terminal executes a character of a text with several lines.
pub fn obeyed_in_lines(letter: char) -> bool {
    obeyed(letter) && !matches!(letter, '\n' | '\r' | '\t')
}

/// Whether a terminal executes a character instead of showing it.
fn obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            // Invisible characters, and those that change the direction.
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The visible sign for a control character: Unicode has `␛` and others for those of ASCII.
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
    fn escaped_json_has_the_same_strings() {
        let names = ["a\u{9b}31m", "b\u{7f}\u{202e}", "größe", "\x1b\n"];
        let json = serde_json::to_string_pretty(&names).unwrap();
        let shown = escaped(&json);
        assert!(!shown.contains(obeyed_in_lines));
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), names);
    }

    #[test]
    fn control_characters_become_signs() {
        assert_eq!(safe_text("model.py:3 (größe)"), "model.py:3 (größe)");
        assert_eq!(safe_text("\x1b[2J\x1b]0;x\x07\r\n\t"), "␛[2J␛]0;x␇␍␊␉");
        assert_eq!(safe_text("a\u{7f}b\u{9b}31m"), "a␡b\u{fffd}31m");
        assert_eq!(safe_text("a\u{202e}b\u{2066}c\u{feff}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
    }
}
