//! Charts, as SVG and as PNG.

use floodmark_export::{
    Chart, Emphasis, Mark, Options, Quantity, Series, chart_of, write_chart_svg, write_svg,
};
use floodmark_trace::{Loss, Losses};

use crate::{STEPS, on, text, trace};

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
fn layers_are_stacked_up_to_what_is_allocated() {
    let chart = chart_of(&trace(STEPS), &on("cuda:0")).unwrap();
    let names: Vec<&str> = chart.layers.iter().map(|layer| layer.name.as_str()).collect();
    let all = ["parameter", "optimizer state", "gradient", "input", "activation", "temporary"];
    assert_eq!(names, all);
    assert_eq!(chart.layers.last().unwrap().points, chart.series.last().unwrap().points);
}

#[test]
fn a_picture_names_the_devices_it_leaves_out() {
    let subtitle = |options: &Options| chart_of(&trace(STEPS), options).unwrap().subtitle;
    let of_two = subtitle(&Options::default());
    assert!(of_two.ends_with("the highest peak of 2 devices"), "{of_two}");
    assert!(!subtitle(&on("cuda:0")).contains("devices"));
}

#[test]
fn a_picture_has_losses_and_not_derived_data() {
    let subtitle = |losses: Vec<Loss>| {
        let mut recorded = trace(STEPS);
        recorded.losses = Losses(losses);
        chart_of(&recorded, &on("cuda:0")).unwrap().subtitle
    };
    let derived = || Loss::Derived("categories are derived".to_owned());
    assert!(!subtitle(vec![derived()]).contains("categories"));
    let lost = subtitle(vec![derived(), Loss::NotRecorded("stacks".to_owned())]);
    assert!(lost.contains("not complete: stacks"), "{lost}");
}

#[test]
fn the_cpu_has_one_line() {
    let chart = chart_of(&trace(STEPS), &on("cpu")).unwrap();
    assert_eq!(chart.series.len(), 1);
}

/// A program that is idle for a minute and then runs for a fifth of a second.
#[test]
fn an_idle_stretch_is_short_and_has_its_length() {
    let work = "alloc a cuda:0 1MiB at model.py:1 in fc\nfree a\n".repeat(100);
    let script = format!("wait 60000\n{work}");
    let chart = chart_of(&trace(&script), &on("cuda:0")).unwrap();
    let axis = chart.axis.as_ref().unwrap();
    assert!(axis.length < 1.0 && axis.breaks[0].to > 59.0, "{axis:?}");
    assert!(chart.peak.unwrap().0 > 59.0, "times stay what they are");
    let svg = text(write_svg, &trace(&script), &on("cuda:0"));
    assert!(svg.contains(">60.0 s idle</text>"), "{svg}");
}

#[test]
fn of_names_that_would_overlap_the_important_ones_are_drawn() {
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
    let svg = String::from_utf8(out).unwrap();
    assert!(svg.contains(">no memory was recorded</text>") && svg.ends_with("</svg>\n"), "{svg}");
}

#[test]
fn a_long_legend_is_cut_and_counts_the_rest() {
    let series = |number: u32| Series {
        name: format!("a series with a long name {number}"),
        points: vec![(0.0, f64::from(number))],
    };
    let chart = Chart { series: (1..=40).map(series).collect(), ..Chart::default() };
    let mut out = Vec::new();
    write_chart_svg(&chart, &mut out).unwrap();
    let svg = String::from_utf8(out).unwrap();
    let named = svg.matches(">a series with").count();
    assert!(named > 5 && svg.contains(&format!(">and {} more</text>", 40 - named)), "{named}");
}
