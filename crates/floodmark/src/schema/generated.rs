//! Tests of the generated files: they write them with `FLOODMARK_UPDATE_TYPES=1` (`make types`), and compare them
//! without.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use floodmark_analysis::{
    AdviceReport, AllocationCard, AllocationTile, Bands, CategoryPeak, Diff, DiffCurves, DiffTree,
    FragmentationCurve, Hit, Icicle, Lifetimes, OomReport, RangeChanges, RankLines, Ranks, Report,
    Sandwich, Segments, SimulatedSegments, Simulation, SourceFiles, Steps, TensorLifetime,
    Timeline, TimelineTile,
};
use floodmark_trace::{RecordingOptions, StepTotals};
use schemars::JsonSchema;
use serde_json::Value;

use super::command_pages::{EXAMPLE, list_of_commands, page_of, shown};
use super::markdown::markdown;
use super::typed_dicts::{ANSWERS, OPTIONS, typed_dicts};
use super::typescript::typescript;
use super::{CommandAnswers, of_commands, schema_of, schema_of_input};
use crate::args::Cli;
use crate::plan::Plan;
use crate::server::answer::Traces;
use crate::server::follow::{Ended, Grown};
use crate::server::refusal::Problem;
use crate::server::source::AnnotatedFile;

/// The types of the page: the answers of `server/answer.rs`, and the events of `api/follow`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct PageAnswers {
    traces: Traces<'static>,
    timeline: Timeline,
    timeline_tile: TimelineTile,
    bands: Bands,
    allocation_tile: AllocationTile,
    hit: Hit,
    report: Report,
    allocation: AllocationCard,
    icicle: Icicle,
    sandwich: Sandwich,
    segments: Segments,
    simulated_segments: SimulatedSegments,
    source_files: SourceFiles,
    source: AnnotatedFile,
    fragmentation: FragmentationCurve,
    lifetimes: Lifetimes,
    range: RangeChanges,
    steps: Steps,
    diff: Diff,
    diff_curves: DiffCurves,
    diff_tree: DiffTree,
    ranks: Ranks,
    rank_lines: RankLines,
    oom: OomReport,
    advise: AdviceReport,
    simulate: Simulation,
    plan: Plan,
    problem: Problem,
    grown: Grown,
    ended: Ended,
}

/// The types of the Python package: the answers of the commands, and those that only Python has.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct PythonAnswers {
    #[serde(flatten)]
    answers: CommandAnswers,
    lifetimes: Vec<TensorLifetime>,
    category_peaks: Vec<CategoryPeak>,
    ended_steps: Vec<StepTotals>,
}

fn file_of_checkout(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

fn check(path: &str, made: &str) {
    let file = file_of_checkout(path);
    if std::env::var_os("FLOODMARK_UPDATE_TYPES").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, made).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == made, "`{path}` is not current: run `make types`");
}

#[test]
fn the_schema_is_that_of_the_answers() {
    let text = serde_json::to_string_pretty(&of_commands()).unwrap() + "\n";
    check("docs/reference/schema.json", &text);
}

#[test]
fn the_reference_page_is_that_of_the_schema() {
    check("docs/reference/json.md", &markdown(&Value::from(of_commands())));
}

#[test]
fn the_types_of_the_page_are_those_of_its_answers() {
    check("web/src/api/types.gen.ts", &typescript(&Value::from(schema_of::<PageAnswers>())));
}

#[test]
fn the_types_of_the_python_package_are_those_of_its_answers() {
    let root = Value::from(schema_of::<PythonAnswers>());
    check("python/floodmark/reports/answer_types.py", &typed_dicts(ANSWERS, &root));
}

/// The options that Python passes.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct PythonOptions {
    recording: RecordingOptions,
}

#[test]
fn the_options_of_the_python_package_are_those_of_the_recorder() {
    let root = Value::from(schema_of_input::<PythonOptions>());
    check("python/floodmark/recording/option_types.py", &typed_dicts(OPTIONS, &root));
}

#[test]
fn every_command_has_a_page_with_an_example() {
    const FOLDER: &str = "docs/reference/commands";
    let mut program = Cli::command();
    program.build();
    let mut pages = vec!["README.md".to_owned()];
    check(&format!("{FOLDER}/README.md"), &list_of_commands(&program));
    for command in shown(&program) {
        let path = format!("{FOLDER}/{}.md", command.get_name());
        let written = std::fs::read_to_string(file_of_checkout(&path)).unwrap_or_default();
        let examples = written.split_once(EXAMPLE).map_or("", |(_, examples)| examples);
        check(&path, &(page_of(&mut command.clone()) + examples));
        assert!(
            examples.contains("```"),
            "`{path}` has no example: write one below `## Example`; `python tools/check_commands.py --write {path}` adds its output"
        );
        pages.push(format!("{}.md", command.get_name()));
    }
    for entry in std::fs::read_dir(file_of_checkout(FOLDER)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(pages.contains(&name), "`{FOLDER}/{name}` is the page of no command: remove it");
    }
}
