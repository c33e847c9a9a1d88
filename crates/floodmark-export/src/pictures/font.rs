//! The bundled fonts, and the width of text in them.

use std::sync::LazyLock;

use floodmark_analysis::fitting_form;
use ttf_parser::Face;
use unicode_width::UnicodeWidthChar;

pub(crate) const REGULAR: &[u8] = include_bytes!("../../fonts/DejaVuSans.ttf");
pub(crate) const BOLD: &[u8] = include_bytes!("../../fonts/DejaVuSans-Bold.ttf");

/// The fonts for browsers: the bundled one if it is installed, then one with letters of the same width, then narrower ones.
pub(crate) const FAMILIES: &str = "'DejaVu Sans', Verdana, 'Segoe UI', 'Noto Sans', sans-serif";

/// The width of a character without a glyph, in font sizes for each column of a terminal.
const UNKNOWN: f32 = 0.55;

/// The highest number of characters of a text.
const MOST_LETTERS: usize = 300;

static FACES: LazyLock<[Face<'static>; 2]> = LazyLock::new(|| {
    [REGULAR, BOLD].map(|bytes| Face::parse(bytes, 0).expect("the bundled fonts are fonts"))
});

/// The size and the weight of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Style {
    pub(crate) size: f32,
    pub(crate) is_bold: bool,
}

/// The width of a text, in pixels.
pub(crate) fn width(text: &str, style: Style) -> f32 {
    text.chars().map(|each| advance(each, style)).sum()
}

/// The beginning of a text. The number of characters is limited too, because combining marks have no width.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(MOST_LETTERS).map(printable).collect()
}

/// A text that fits a width. A location loses its folders first, and a text that is still too long ends with `…`. Control
/// characters become spaces.
pub(crate) fn fitted(text: &str, style: Style, room: f32) -> String {
    let text = fitting_form(&shortened(text), |form| width(form, style) <= room);
    let mut kept = String::new();
    let (mut used, mut fitting_bytes) = (0.0, 0);
    let dots = advance('\u{2026}', style);
    for each in text.chars() {
        used += advance(each, style);
        if used > room {
            kept.truncate(fitting_bytes);
            return if dots > room {
                String::new()
            } else {
                kept.trim_end().to_owned() + "\u{2026}"
            };
        }
        kept.push(each);
        if used + dots <= room {
            fitting_bytes = kept.len();
        }
    }
    kept
}

/// Replaces characters that XML does not allow, and those that change the direction of text, by spaces.
pub(crate) fn printable(each: char) -> char {
    match each {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => ' ',
        control if control.is_control() => ' ',
        other => other,
    }
}

fn advance(each: char, style: Style) -> f32 {
    let [regular, bold] = &*FACES;
    let faces = if style.is_bold { [bold, regular] } else { [regular, bold] };
    let known = faces.iter().find_map(|face| {
        let units = face.glyph_hor_advance(face.glyph_index(each)?)?;
        Some(f32::from(units) / f32::from(face.units_per_em()))
    });
    let columns = || if each.width() == Some(2) { 2.0 } else { 1.0 };
    style.size * known.unwrap_or_else(|| UNKNOWN * columns())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { size: 12.0, is_bold: false };

    #[test]
    fn the_font_has_the_letters_that_labels_are_made_of() {
        let face = &FACES[0];
        for each in "Az09_./:\u{e9}\u{3a9}\u{3bc}\u{416}\u{44f}\u{2192}\u{2264}\u{2211}\u{2500}\u{2588}\u{2026}".chars() {
            assert!(face.glyph_index(each).is_some(), "{each}");
        }
        assert!(face.glyph_index('\u{51fa}').is_none());
    }

    #[test]
    fn a_long_text_is_shortened_to_the_room_there_is() {
        assert_eq!(fitted("step 1", STYLE, 100.0), "step 1");
        let long = fitted(&"x".repeat(10_000), STYLE, 100.0);
        assert!(long.ends_with("x\u{2026}") && width(&long, STYLE) <= 100.0, "{long}");
        assert_eq!(fitted("step 1", STYLE, 2.0), "");
        let location = "/home/ada/run/model/mlp.py:12 (MLP.forward)";
        assert_eq!(fitted(location, STYLE, 180.0), "\u{2026}/mlp.py:12 (MLP.forward)");
        assert_eq!(fitted("a\u{0}b\u{202e}c\n", STYLE, 100.0), "a b c ");
    }

    #[test]
    fn wide_characters_have_more_room() {
        assert!(width("\u{51fa}", STYLE) > 1.5 * width("a", STYLE));
        let bold = Style { is_bold: true, ..STYLE };
        assert!(width("Memory", bold) > width("Memory", STYLE));
    }
}
