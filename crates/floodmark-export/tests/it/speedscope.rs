//! Files for speedscope, checked with the rules of its schema and its importer.

use floodmark_analysis::LayerSource;
use floodmark_export::{Options, write_speedscope};
use serde_json::Value;

use crate::{STEPS, on, text, trace};

/// Asserts the rules of `file-format-schema.json` and of the importer for sampled profiles.
pub(crate) fn check(file: &Value) {
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().unwrap();
    for frame in frames {
        assert!(frame["name"].is_string());
        for (key, value) in frame.as_object().unwrap() {
            match key.as_str() {
                "name" | "file" => assert!(value.is_string()),
                "line" | "col" => assert!(value.as_u64().unwrap() > 0),
                other => panic!("a frame has no `{other}`"),
            }
        }
    }
    let profiles = file["profiles"].as_array().unwrap();
    assert!(file["activeProfileIndex"].as_u64().unwrap() < profiles.len() as u64);
    for profile in profiles {
        assert_eq!(profile["type"], "sampled");
        assert_eq!(profile["unit"], "bytes");
        let samples = profile["samples"].as_array().unwrap();
        let weights = profile["weights"].as_array().unwrap();
        assert_eq!(samples.len(), weights.len());
        let indices = samples.iter().flat_map(|sample| sample.as_array().unwrap());
        assert!(indices.clone().all(|at| at.as_u64().unwrap() < frames.len() as u64));
        let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
        let range = profile["endValue"].as_u64().unwrap() - profile["startValue"].as_u64().unwrap();
        assert_eq!(sum, range);
    }
}

fn file(script: &str, options: &Options) -> Value {
    let file = serde_json::from_str(&text(write_speedscope, &trace(script), options)).unwrap();
    check(&file);
    file
}

#[test]
fn the_whole_file() {
    let script = "initial w cuda:0 1KiB
        alloc a cuda:0 2KiB at train.py:3:main > model.py:12:forward
        backward alloc b cuda:0 4KiB at train.py:3:main > model.py:12:forward";
    let file = file(script, &on("cuda:0"));
    insta::assert_snapshot!(serde_json::to_string_pretty(&file).unwrap());
}

#[test]
fn every_device_has_two_profiles_and_the_fullest_is_shown_first() {
    let file = file(STEPS, &Options::default());
    let names: Vec<&Value> =
        file["profiles"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(
        names,
        [
            "cpu: live at the peak",
            "cpu: allocated, over time",
            "cuda:0: live at the peak",
            "cuda:0: allocated, over time",
        ]
    );
    assert_eq!(file["activeProfileIndex"], 2);
}

#[test]
fn layers_are_nested() {
    let script = "phase begin layer a
        phase begin layer a.b
        alloc x cpu 1KiB
        phase end
        alloc y cpu 2KiB
        phase end
        alloc z cpu 4KiB";
    let layers = LayerSource::Phases("layer ".to_owned());
    let file = file(script, &Options { layers, ..on("cpu") });
    let frames = file["shared"]["frames"].as_array().unwrap();
    let names = |sample: &Value| -> Vec<String> {
        let frames = sample
            .as_array()
            .unwrap()
            .iter()
            .map(|at| &frames[usize::try_from(at.as_u64().unwrap()).unwrap()]);
        frames.map(|frame| frame["name"].as_str().unwrap().to_owned()).collect()
    };
    let samples: Vec<_> =
        file["profiles"][0]["samples"].as_array().unwrap().iter().map(names).collect();
    assert_eq!(samples, [vec!["a", "a.b"], vec!["a"], vec!["(outside)"]]);
    assert_eq!(file["profiles"][0]["weights"], serde_json::json!([1024, 2048, 4096]));
}
