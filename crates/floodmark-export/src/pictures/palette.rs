//! The colours of pictures: those of the page's light theme (`web/src/base/colours.ts`).

use super::scene::Paint;

pub(crate) type Rgb = [u8; 3];

pub(crate) const GROUND: Paint = Paint::solid(rgb(0xff_ffff));
pub(crate) const INK: Paint = Paint::solid(rgb(0x16_202b));
pub(crate) const QUIET: Paint = Paint::solid(rgb(0x55_616f));
pub(crate) const GRID: Paint = Paint::solid(rgb(0xe6_eaee));
pub(crate) const ALARM: Paint = Paint::solid(rgb(0xa3_2a12));
/// The fill below a line without layers.
pub(crate) const BAR: Paint = Paint::solid(rgb(0xcf_e1f4));

const ALLOCATED: Rgb = rgb(0x16_202b);
const ACTIVE: Rgb = rgb(0x8a_4a00);
const RESERVED: Rgb = rgb(0x6b_7684);
/// The unknown, and all that is outside of groups.
const REST: Rgb = rgb(0x8b_95a1);
const BEFORE: Rgb = rgb(0x62_6d7a);

const GROUPS: [Rgb; 13] = [
    rgb(0x10_57b6),
    rgb(0x46_9ace),
    rgb(0x13_7569),
    rgb(0x5a_a464),
    rgb(0xa6_242b),
    rgb(0xbe_7f05),
    rgb(0x4b_4485),
    rgb(0x27_77be),
    rgb(0x83_0037),
    rgb(0xb1_839d),
    rgb(0x5a_7006),
    rgb(0x9b_943d),
    rgb(0x26_4868),
];

/// Categories and phases have the same colour in every picture.
const KNOWN: [(&str, usize); 13] = [
    ("parameter", 0),
    ("activation", 1),
    ("buffer", 2),
    ("gradient", 4),
    ("temporary", 5),
    ("optimizer state", 6),
    ("input", 11),
    ("workspace", 9),
    ("communication", 8),
    ("KV cache", 10),
    ("forward", 1),
    ("backward", 5),
    ("optimizer", 6),
];

const PHASES: [(&str, Rgb); 3] =
    [("forward", rgb(0xc9_d0d8)), ("backward", rgb(0x8e_99a6)), ("optimizer", rgb(0x5f_6b79))];
const OTHER_PHASE: Rgb = rgb(0xe3_e7ec);

/// The colour of a group: that of its category or phase, or else one by its index.
pub(crate) fn group(name: &str, index: usize) -> Rgb {
    match name {
        "other" | "unknown" => REST,
        "before recording" => BEFORE,
        _ => {
            let known = KNOWN.iter().find(|(known, _)| *known == name);
            GROUPS.get(known.map_or(index, |(_, at)| *at)).copied().unwrap_or(BEFORE)
        }
    }
}

/// The grey of a band: colours belong to categories.
pub(crate) fn phase(name: &str) -> Rgb {
    let known = PHASES.iter().find(|(known, _)| *known == name);
    known.map_or(OTHER_PHASE, |(_, grey)| *grey)
}

/// The colour of a line. A level has the same colour in every chart.
pub(crate) fn line(name: &str, index: usize) -> Rgb {
    let levels = [("allocated", ALLOCATED), ("active", ACTIVE), ("reserved", RESERVED)];
    let known = levels.iter().find(|(level, _)| name.contains(level));
    // Only dark colours are visible as a line.
    known.map_or(GROUPS[index % GROUPS.len() / 2 * 2], |(_, colour)| *colour)
}

/// A readable text colour on a colour.
pub(crate) fn readable_on(colour: Rgb) -> Paint {
    if contrast(colour, GROUND.rgb) >= contrast(colour, INK.rgb) { GROUND } else { INK }
}

/// The contrast of two colours, 1 to 21 (WCAG 2).
pub(crate) fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

fn luminance(colour: Rgb) -> f64 {
    let [red, green, blue] = colour.map(|value| {
        let share = f64::from(value) / 255.0;
        if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

const fn rgb(value: u32) -> Rgb {
    let [_, red, green, blue] = value.to_be_bytes();
    [red, green, blue]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/base/colours.ts"));

    fn hex([red, green, blue]: Rgb) -> String {
        format!("\"#{red:02x}{green:02x}{blue:02x}\"")
    }

    /// The text between two texts, without spaces.
    fn between(from: &str, to: &str) -> String {
        let (_, rest) = PAGE.split_once(from).unwrap();
        rest.split_once(to).unwrap().0.split_whitespace().collect()
    }

    #[test]
    fn the_colours_are_those_of_the_page() {
        let light = between("export const LIGHT", "};");
        let named = [
            ("panel", GROUND.rgb),
            ("ink", INK.rgb),
            ("quiet", QUIET.rgb),
            ("grid", GRID.rgb),
            ("alarm", ALARM.rgb),
            ("bar", BAR.rgb),
            ("allocated", ALLOCATED),
            ("active", ACTIVE),
            ("reserved", RESERVED),
            ("rest", REST),
            ("before", BEFORE),
        ];
        for (name, colour) in named {
            assert!(light.contains(&format!("{name}:{}", hex(colour))), "{name} differs");
        }
        for name in ["forward", "backward", "optimizer", "other"] {
            assert!(light.contains(&format!("{name}:{}", hex(phase(name)))), "{name} differs");
        }
        assert_eq!(
            between("const LIGHT_GROUPS: readonly string[] = [", ",\n]"),
            GROUPS.map(hex).join(",")
        );
        let known = between("const CATEGORIES", "};") + &between("const PHASES", "};");
        for (name, at) in KNOWN {
            let quoted = known.contains(&format!("\"{}\":{at}", name.replace(' ', "")));
            assert!(quoted || known.contains(&format!("{name}:{at}")), "{name} differs");
        }
    }

    #[test]
    fn text_and_lines_can_be_seen_on_their_ground() {
        for ink in [INK, QUIET, ALARM] {
            assert!(contrast(ink.rgb, GROUND.rgb) >= 4.5);
        }
        for (index, name) in ["allocated", "active", "reserved"].into_iter().enumerate() {
            assert!(contrast(line(name, index), GROUND.rgb) >= 3.0, "{name}");
        }
        for index in 0..20 {
            assert!(contrast(line("x", index), GROUND.rgb) >= 3.0, "line {index}");
            let fill = group("x", index);
            assert!(contrast(readable_on(fill).rgb, fill) >= 4.5, "group {index}");
        }
    }
}
