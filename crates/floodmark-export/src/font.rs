//! An alphabet of strokes, for text in pixels.
//!
//! A letter is its strokes, apart by spaces; a stroke is its points, two characters each: `x` from `0` on, `y` from `a`, three
//! below the baseline `d`, over `k`, the height of small letters, to `n`, that of capitals. A stroke that begins with `~` is
//! bent: its corners are cut off twice. What is not in the alphabet is a box.

use crate::scene::{Anchor, Point};

/// How many units a font size has: capitals are ten units high.
const UNITS: f32 = 13.6;
/// Between two letters.
const GAP: f32 = 2.2;

const SPACE: f32 = 3.2;

/// The strokes of a text whose baseline begins, ends or is centred at a point.
pub(crate) fn strokes(text: &str, at: Point, size: f32, anchor: Anchor) -> Vec<Vec<Point>> {
    let unit = size / UNITS;
    let width = width(text, size);
    let mut x = at.0
        - match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
    let mut strokes = Vec::new();
    for letter in text.chars() {
        for stroke in shape(letter).split_whitespace() {
            let points = points(stroke);
            strokes
                .push(points.iter().map(|&(px, py)| (x + px * unit, at.1 - py * unit)).collect());
        }
        x += advance(letter) * unit;
    }
    strokes
}

/// How wide a text is. Browsers' own letters are about as wide.
pub(crate) fn width(text: &str, size: f32) -> f32 {
    let units: f32 = text.chars().map(advance).sum();
    (units - GAP).max(0.0) * size / UNITS
}

fn advance(letter: char) -> f32 {
    let shape = shape(letter);
    let widest = shape.bytes().filter(u8::is_ascii_digit).max();
    GAP + widest.map_or(SPACE, |digit| f32::from(digit - b'0'))
}

fn points(stroke: &str) -> Vec<Point> {
    let (bent, stroke) = match stroke.strip_prefix('~') {
        Some(rest) => (true, rest),
        None => (false, stroke),
    };
    let pairs = stroke.as_bytes().chunks_exact(2);
    let found: Vec<Point> =
        pairs.map(|pair| (f32::from(pair[0]) - 48.0, f32::from(pair[1]) - 100.0)).collect();
    if bent { cut(&cut(&found)) } else { found }
}

/// Cuts corners off: each line keeps its middle half. The ends of what is not closed stay.
fn cut(points: &[Point]) -> Vec<Point> {
    let is_closed = points.first() == points.last();
    let between =
        |a: Point, b: Point, share: f32| (a.0 + (b.0 - a.0) * share, a.1 + (b.1 - a.1) * share);
    let mut found = Vec::new();
    for pair in points.windows(2) {
        found.extend([between(pair[0], pair[1], 0.25), between(pair[0], pair[1], 0.75)]);
    }
    if is_closed {
        found.extend(found.first().copied());
    } else if let (Some(first), Some(last)) = (found.first_mut(), points.first()) {
        *first = *last;
        if let (Some(end), Some(point)) = (found.last_mut(), points.last()) {
            *end = *point;
        }
    }
    found
}

fn shape(letter: char) -> &'static str {
    match letter {
        ' ' => "",
        '0' => "~3d0d0n6n6d3d",
        '1' => "1l3n3d 1d5d",
        '2' => "~0k0n6n6j3g0d 0d6d",
        '3' => "~0l0n6n6i2i ~2i6i6d0d0f",
        '4' => "5d5n0g7g",
        '5' => "6n1n0i ~0i2j6j6d0d0f",
        '6' => "~3d0d0j6j6d3d ~0g0l2n5n",
        '7' => "0n6n2d",
        '8' => "~3i0i0n6n6i3i ~3i0i0d6d6i3i",
        '9' => "~3n0n0h6h6n3n ~6k6f4d1d",
        'A' => "0d4n8d 1g7g",
        'B' => "0d0n3n ~3n6n6i3i 0i3i ~3i7i7d3d 3d0d",
        'C' => "~7k6n0n0d6d7g",
        'D' => "0d0n2n ~2n7n7d2d 2d0d",
        'E' => "6n0n0d6d 0i5i",
        'F' => "6n0n0d 0i5i",
        'G' => "~7k6n0n0d7d7i 7i4i",
        'H' => "0d0n 6d6n 0i6i",
        'I' => "1d1n",
        'J' => "5n5f ~5f5d0d0g",
        'K' => "0d0n 6n0g 2j6d",
        'L' => "0n0d5d",
        'M' => "0d0n4f8n8d",
        'N' => "0d0n6d6n",
        'O' => "~4d0d0n8n8d4d",
        'P' => "0d0n3n ~3n6n6h3h 3h0h",
        'Q' => "~4d0d0n8n8d4d 5g8c",
        'R' => "0d0n3n ~3n6n6h3h 3h0h 3h6d",
        'S' => "~6l6n0n0i3i ~3i6i6d0d0f",
        'T' => "0n6n 3n3d",
        'U' => "0n0g ~0g0d6d6g 6g6n",
        'V' => "0n4d8n",
        'W' => "0n2d5l8d9n",
        'X' => "0n6d 6n0d",
        'Y' => "0n3i6n 3i3d",
        'Z' => "0n6n0d6d",
        'a' => "~3d0d0k5k5d3d 5k5d",
        'b' => "0n0d ~3d0d0k5k5d3d",
        'c' => "~5i5k0k0d5d5f",
        'd' => "5n5d ~3d0d0k5k5d3d",
        'e' => "0h5h ~5h5k0k0d4d5e",
        'f' => "~4n1n1k 1k1d 0k3k",
        'g' => "~3d0d0k5k5d3d 5k5c ~5c5a1a0b",
        'h' => "0n0d ~0h0k5k5h 5h5d",
        'i' => "1k1d 1m1n",
        'j' => "2k2c ~2c2a0a 2m2n",
        'k' => "0n0d 5k0g 2h5d",
        'l' => "1n1d",
        'm' => "0k0d ~0h0k4k4h 4h4d ~4h4k8k8h 8h8d",
        'n' => "0k0d ~0h0k5k5h 5h5d",
        'o' => "~3d0d0k5k5d3d",
        'p' => "0k0a ~3d0d0k5k5d3d",
        'q' => "5k5a ~3d0d0k5k5d3d",
        'r' => "0k0d ~0h0k3k",
        's' => "~4j4k0k0h2h ~2h4h4d0d0e",
        't' => "1m1f ~1f1d3d 0k3k",
        'u' => "0k0g ~0g0d5d5g 5k5d",
        'v' => "0k3d6k",
        'w' => "0k2d4j6d8k",
        'x' => "0k5d 5k0d",
        'y' => "0k3d 6k3d2a0a",
        'z' => "0k5k0d5d",
        '.' => "1d1e",
        ',' => "1e0b",
        ':' => "1d1e 1j1k",
        ';' => "1e0b 1j1k",
        '-' | '\u{2013}' | '\u{2212}' => "0h4h",
        '_' => "0c6c",
        '/' => "0b5n",
        '\\' => "0n5b",
        '(' => "~3n0l0e3b",
        ')' => "~0n3l3e0b",
        '[' => "3n1n1b3b",
        ']' => "0n2n2b0b",
        '{' => "~3n1n2h0h ~0h2h1b3b",
        '}' => "~0n2n1h3h ~3h1h2b0b",
        '|' => "1n1b",
        '%' => "~1n0n0j3j3n1n ~5d4d4h7h7d5d 6n1d",
        '+' => "3e3k 0h6h",
        '=' => "0f6f 0j6j",
        '<' => "6k0h6e",
        '>' => "0k6h0e",
        '*' => "2n2j 0m4k 4m0k",
        '#' => "2d3n 5d6n 0g7g 1k8k",
        '\'' | '`' => "1n1k",
        '"' => "1n1k 3n3k",
        '!' => "1n1g 1e1d",
        '?' => "~0l0n6n6i3i3g 3e3d",
        '&' => "~7d1l1n4n4k0h0d4d7h",
        '$' => "~6l6n0n0i3i ~3i6i6d0d0f 3b3n",
        '^' => "0k3n6k",
        '~' => "~0g1j4f6i",
        '@' => "~5f3f3j6j6f8f8n0n0c7c",
        '\u{00b5}' => "0k0a ~0g0d5d5g 5k5d",
        '\u{00b7}' => "1h1h",
        '\u{2026}' => "0d0e 3d3e 6d6e",
        _ => "0d0n5n5d0d",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printable_letter_of_ascii_but_space_has_strokes_of_its_own() {
        let unknown = shape('\u{1}');
        for letter in '!'..='~' {
            assert!(letter == '\u{1}' || shape(letter) != unknown, "{letter}");
            for stroke in strokes(&letter.to_string(), (0.0, 0.0), UNITS, Anchor::Start) {
                assert!(stroke.len() >= 2, "{letter}");
                for (x, y) in stroke {
                    assert!((0.0..=9.0).contains(&x) && (-10.0..=3.0).contains(&y), "{letter}");
                }
            }
        }
    }

    #[test]
    fn a_longer_text_is_wider() {
        assert!(width("1.5 GiB", 12.0) > width("1.5", 12.0));
        assert!(width("", 12.0).abs() < f32::EPSILON);
    }
}
