//! Pictures in pixels, read with the `png` crate.

use std::io::Cursor;

use floodmark_export::{
    Chart, Mark, Options, Quantity, Series, write_chart_png, write_chart_svg, write_png, write_svg,
};

use crate::{STEPS, on, text, trace, written};

struct Pixels {
    width: usize,
    height: usize,
    rgb: Vec<[u8; 3]>,
}

impl Pixels {
    fn read(png: &[u8]) -> Self {
        let mut reader = png::Decoder::new(Cursor::new(png)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgba, png::BitDepth::Eight));
        let rgb = bytes.chunks_exact(4).map(|pixel| {
            assert_eq!(pixel[3], 255, "a picture has a ground");
            [pixel[0], pixel[1], pixel[2]]
        });
        let rgb = rgb.collect();
        Self { width: info.width as usize, height: info.height as usize, rgb }
    }

    fn count(&self, colour: [u8; 3]) -> usize {
        self.rgb.iter().filter(|pixel| **pixel == colour).count()
    }

    /// The number of different pixels of two pictures.
    fn difference(&self, other: &Self) -> usize {
        assert_eq!((self.width, self.height), (other.width, other.height));
        self.rgb.iter().zip(&other.rgb).filter(|(one, other)| one != other).count()
    }
}

fn marked(name: &str) -> Chart {
    let points = vec![(0.0, 1.0), (100.0, 2.0)];
    Chart {
        across: Quantity::Count,
        series: vec![Series { name: "all".into(), points }],
        marks: vec![Mark { at: 50.0, name: name.into(), ..Mark::default() }],
        ..Chart::default()
    }
}

fn drawn(chart: &Chart) -> Pixels {
    let mut png = Vec::new();
    write_chart_png(chart, &mut png).unwrap();
    Pixels::read(&png)
}

fn svg(chart: &Chart) -> String {
    let mut svg = Vec::new();
    write_chart_svg(chart, &mut svg).unwrap();
    String::from_utf8(svg).unwrap()
}

#[test]
fn a_picture_has_the_colours_of_what_it_shows() {
    let pixels = Pixels::read(&written(write_png, &trace(STEPS), &on("cuda:0")));
    assert_eq!((pixels.width, pixels.height), (2200, 1080));
    assert_eq!(pixels.rgb[0], [255; 3]);
    let white = pixels.count([255; 3]) * 100 / pixels.rgb.len();
    assert!((30..90).contains(&white), "{white} % are white");
    for (what, colour) in [
        ("parameters", [0x10, 0x57, 0xb6]),
        ("activations and forward", [0x46, 0x9a, 0xce]),
        ("temporaries and backward", [0xbe, 0x7f, 0x05]),
        ("allocated, and ink", [0x16, 0x20, 0x2b]),
        ("reserved", [0x6b, 0x76, 0x84]),
    ] {
        assert!(pixels.count(colour) > 500, "{what}: {}", pixels.count(colour));
    }
}

#[test]
fn the_same_recording_is_the_same_bytes() {
    let write = || written(write_png, &trace(STEPS), &Options::default());
    assert_eq!(write(), write());
}

#[test]
fn labels_in_other_scripts_are_drawn() {
    let blank = drawn(&marked(""));
    let names = [
        "\u{421}\u{43b}\u{43e}\u{439}.\u{3bc}\u{2192}",
        "\u{41a}\u{43b}\u{435}\u{439}.\u{3bb}\u{2190}",
    ];
    let [one, other] = names.map(|name| drawn(&marked(name)));
    assert!(one.difference(&blank) > 400);
    assert!(one.difference(&other) > 200, "letters are not boxes");
    // A font of the machine draws it, or a box stands for it.
    assert!(drawn(&marked("\u{51fa}\u{529b}")).difference(&blank) > 200);
    let all = svg(&marked("\u{421}\u{43b}\u{43e}\u{439}.\u{3bc}\u{2192}\u{51fa}\u{529b}"));
    assert!(all.contains(">\u{421}\u{43b}\u{43e}\u{439}.\u{3bc}\u{2192}\u{51fa}\u{529b}</text>"));
}

#[test]
fn hostile_names_are_escaped_and_shortened() {
    let names = [
        "</text><script>alert(1)</script>".to_owned(),
        "a\u{0}\u{1b}[31m\u{202e}b\u{ffff}\"'&amp;".to_owned(),
        "\u{301}".repeat(10_000),
        "x".repeat(10_000),
        "\u{51fa}".repeat(10_000),
    ];
    for name in names {
        let mut chart = marked(&name);
        chart.title.clone_from(&name);
        chart.subtitle.clone_from(&name);
        chart.across_name.clone_from(&name);
        chart.series[0].name.clone_from(&name);
        let svg = svg(&chart);
        assert!(!svg.contains("<script") && !svg.contains(['\u{0}', '\u{1b}', '\u{202e}']));
        assert!(svg.len() < 20_000, "{} bytes", svg.len());
        assert_eq!(drawn(&chart).width, 2200);
    }
}

#[test]
fn the_pixels_are_those_of_the_svg() {
    let svg = text(write_svg, &trace(STEPS), &on("cuda:0"));
    assert!(
        svg.contains("font-family=\"'DejaVu Sans', ") && svg.contains(">peak 19.00 MiB</text>")
    );
    assert!(!svg.contains("<image"));
}
