//! Charts, as SVG and as PNG.

use floodmark_export::{
    Chart, Emphasis, Mark, Quantity, Series, chart_of, write_chart_svg, write_png, write_svg,
};

use crate::{STEPS, on, text, trace, written};

#[test]
fn the_whole_picture() {
    insta::assert_snapshot!(text(write_svg, &trace(STEPS), &on("cuda:0")));
}

#[test]
fn the_lines_are_what_was_recorded() {
    let chart = chart_of(&trace(STEPS), &on("cuda:0")).unwrap();
    let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["reserved", "active", "allocated"]);
    let highest = |at: usize| chart.series[at].points.iter().map(|p| p.1).fold(0.0, f64::max);
    assert_eq!(highest(2).to_bits(), f64::from(19 << 20).to_bits());
    assert_eq!(chart.peak.unwrap().1.to_bits(), highest(2).to_bits());
    let bands: Vec<&str> = chart.bands.iter().map(|band| band.name.as_str()).collect();
    assert_eq!(bands, ["forward", "backward", "optimizer", "forward"]);
    assert_eq!(chart.marks[0].name, "step 0");
}

#[test]
fn lines_that_lie_on_each_other_are_one() {
    let legend = |script: &str| -> Vec<bool> {
        let svg = text(write_svg, &trace(script), &on("cuda:0"));
        let has = |name: &str| svg.contains(&format!(">{name}</text>"));
        ["allocated, active", "allocated", "active", "reserved"].map(has).into()
    };
    assert_eq!(legend("alloc a cuda:0 1MiB"), [true, false, false, true]);
    let used_by_a_stream = "alloc a cuda:0 1MiB\nfree a deferred\nalloc b cuda:0 1MiB\ncomplete a";
    assert_eq!(legend(used_by_a_stream), [false, true, true, true]);
}

#[test]
fn the_cpu_has_one_line() {
    let chart = chart_of(&trace(STEPS), &on("cpu")).unwrap();
    assert_eq!(chart.series.len(), 1);
}

/// The file is taken apart as a reader of PNG does.
#[test]
fn a_png_is_whole_and_mostly_white() {
    let png = written(write_png, &trace(STEPS), &on("cuda:0"));
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let mut at = 8;
    let mut kinds = Vec::new();
    let mut packed = Vec::new();
    while at < png.len() {
        let length = u32::from_be_bytes(png[at..at + 4].try_into().unwrap()) as usize;
        let (kind, content) = (&png[at + 4..at + 8], &png[at + 8..at + 8 + length]);
        let sum = u32::from_be_bytes(png[at + 8 + length..][..4].try_into().unwrap());
        assert_eq!(crc32fast::hash(&png[at + 4..at + 8 + length]), sum);
        kinds.push(String::from_utf8(kind.to_vec()).unwrap());
        if kind == b"IDAT" {
            packed.extend_from_slice(content);
        }
        at += 12 + length;
    }
    assert_eq!(kinds, ["IHDR", "IDAT", "IEND"]);
    let mut rows = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&packed[..]), &mut rows)
        .unwrap();
    let (width, height) = (2200, 1080);
    assert_eq!(rows.len(), height * (1 + width * 3));
    let mut above = vec![0_u8; width * 3];
    let mut white = 0;
    for row in rows.chunks_exact(1 + width * 3) {
        assert_eq!(row[0], 2);
        above.iter_mut().zip(&row[1..]).for_each(|(up, change)| *up = up.wrapping_add(*change));
        white += above.chunks_exact(3).filter(|pixel| *pixel == [255; 3]).count();
    }
    let share = white * 100 / (width * height);
    assert!((40..98).contains(&share), "{share} % are white");
}

#[test]
fn names_that_would_run_into_each_other_are_left_out_the_important_stay() {
    let mark = |at: i32, emphasis| Mark { at: f64::from(at), name: format!("mark {at}"), emphasis };
    let mut marks: Vec<Mark> = (0..50).map(|at| mark(at, Emphasis::Quiet)).collect();
    marks.push(mark(77, Emphasis::Strong));
    marks.extend((75..80).map(|at| mark(at, Emphasis::Plain)));
    let series = vec![Series { name: "all".into(), points: vec![(0.0, 1.0), (100.0, 2.0)] }];
    let across = Quantity::Count;
    let chart = Chart { across, series, marks, ..Chart::default() };
    let mut out = Vec::new();
    write_chart_svg(&chart, &mut out).unwrap();
    let svg = String::from_utf8(out).unwrap();
    let named: Vec<i32> = (0..100).filter(|at| svg.contains(&format!(">mark {at}<"))).collect();
    assert!(named.contains(&77) && !named.contains(&76) && !named.contains(&78), "{named:?}");
    assert!(named.len() > 5 && named.windows(2).all(|pair| pair[1] - pair[0] > 3), "{named:?}");
}

#[test]
fn an_empty_chart_is_a_picture_too() {
    let mut out = Vec::new();
    write_chart_svg(&Chart::default(), &mut out).unwrap();
    assert!(out.ends_with(b"</svg>\n"));
}
