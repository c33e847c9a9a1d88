//! Shortens and wraps texts. Lengths are columns of a terminal: some characters take two columns.

use floodmark_analysis::fitting_form;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A text that fits `room` columns: its beginning, if it is too long.
pub fn cut_end(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let kept = beginning(text.chars(), room.saturating_sub(1));
    if room == 0 { kept } else { kept + "…" }
}

/// A location or a name that fits `room` columns: it loses its folders first, and keeps its file and line.
pub fn cut_location(text: &str, room: usize) -> String {
    let form = fitting_form(text, |form| form.width() <= room);
    if form.width() <= room || room == 0 {
        return cut_end(&form, room);
    }
    let reversed = beginning(form.chars().rev(), room - 1);
    std::iter::once('…').chain(reversed.chars().rev()).collect()
}

/// The first characters that fit `room` columns.
fn beginning(letters: impl Iterator<Item = char>, room: usize) -> String {
    let mut taken = 0;
    let fits = |letter: &char| {
        taken += letter.width().unwrap_or(0);
        taken <= room
    };
    letters.take_while(fits).collect()
}

/// Lines of at most `width` columns, if words allow it.
pub fn wrap(text: &str, width: usize, first: &str, next: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.width() + 1 + word.width() > width {
            lines.push(std::mem::replace(&mut line, next.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// Wraps lines again that were wrapped before. The first line and each line with an arrow begin a paragraph.
pub fn rewrap(lines: impl Iterator<Item = String>, width: usize) -> Vec<String> {
    let mut paragraphs: Vec<String> = Vec::new();
    for line in lines {
        match paragraphs.last_mut() {
            Some(paragraph) if !line.starts_with('→') => {
                *paragraph += " ";
                *paragraph += line.trim_start();
            }
            _ => paragraphs.push(line),
        }
    }
    let indent = |paragraph: &str| if paragraph.starts_with('→') { "  " } else { "" };
    paragraphs.iter().flat_map(|one| wrap(one, width, "", indent(one))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_character_takes_two_columns() {
        assert_eq!([cut_end("模型.py", 7), cut_end("模型.py", 6)], ["模型.py", "模型.…"]);
        assert_eq!([cut_end("模型.py", 4), cut_location("模型.py:3", 8)], ["模…", "…型.py:3"]);
        assert_eq!(wrap("模型 模型", 8, "", ""), ["模型", "模型"]);
    }

    #[test]
    fn a_text_that_is_too_long_loses_one_end() {
        assert_eq!([cut_end("größer", 6), cut_end("größer", 4)], ["größer", "grö…"]);
        assert_eq!([cut_location("größer", 6), cut_location("größer", 4)], ["größer", "…ßer"]);
        assert_eq!(cut_location("a/b.py:3 (f)", 11), "…/b.py:3 (f)".trim_start_matches("…/"));
        let lines = ["one two", "three", "→ four", "  five six"].map(str::to_owned);
        let wide = rewrap(lines.clone().into_iter(), 40);
        assert_eq!(wide, ["one two three", "→ four five six"]);
        let narrow = rewrap(wide.into_iter(), 9);
        assert_eq!(narrow, ["one two", "three", "→ four", "  five", "  six"]);
        assert_eq!([cut_end("x", 0), cut_location("xy", 0), cut_location("xy", 1)], ["", "", "…"]);
    }
}
