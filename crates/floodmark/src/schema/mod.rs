//! The JSON Schema of all answers, generated from their types.
//!
//! `floodmark schema` prints [`of_commands`], which is also `docs/reference/schema.json`. The tests in `generated.rs`
//! generate from it the reference page, the types of the page and those of the Python package, and the reference pages
//! of the commands; `make types` writes the files.
//!
//! `typescript.rs` and `typed_dicts.rs` stay by hand: `json-schema-to-typescript` and `datamodel-code-generator` would
//! make `make types` need npm and pip beside cargo, and no kept crate writes TypeScript or `TypedDict` from a schema.
//! Neither generator writes the final variants of flattened enums, by which a type checker tells rows apart.

use floodmark_analysis::{
    AdviceReport, Annotation, Diff, Estimate, Leaks, Ledger, OomMessages, OomReport, Report,
    Simulation,
};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use crate::commands::doctor::Doctor;
use crate::commands::gpus::GpuRow;
use crate::commands::info::Info;
use crate::fit::Fit;
use crate::plan::Plan;

#[cfg(test)]
#[expect(clippy::format_push_string, reason = "a test writes the text, once")]
mod command_pages;
#[cfg(test)]
mod document;
#[cfg(test)]
mod generated;
#[cfg(test)]
#[expect(clippy::format_push_string, reason = "a test writes the text, once")]
mod markdown;
#[cfg(test)]
#[expect(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "a test writes the text, once"
)]
mod typed_dicts;
#[cfg(test)]
#[expect(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "a test writes the text, once"
)]
mod typescript;

/// What `floodmark COMMAND --json` prints: a property for each command.
///
/// Bytes are integers. `format` changes when a field changes its meaning; fields may be added.
#[derive(JsonSchema)]
#[schemars(rename = "Answers")]
#[expect(dead_code, reason = "only its schema is used")]
struct CommandAnswers {
    /// What filled a device at its peak or at another time.
    report: Report,
    /// Whose memory is in use on a GPU.
    ledger: Ledger,
    /// A source file with the bytes of each line.
    annotate: Annotation,
    /// What grew between two traces.
    diff: Diff,
    /// Which lines grow from step to step.
    leaks: Leaks,
    /// The summary of a trace, or of each rank of a folder.
    info: Info,
    /// Why an allocation failed.
    oom: OomReport,
    /// What torch's out-of-memory messages in a text mean.
    #[serde(rename = "oom -")]
    oom_messages: OomMessages,
    /// What other allocator settings, or another amount of memory, would have done.
    simulate: Simulation,
    /// What to change, with the bytes that each change saves.
    advise: AdviceReport,
    /// Whether a program fits on a simulated GPU.
    estimate: Estimate,
    /// The largest value with which a program fits on a simulated GPU.
    fit: Fit,
    /// What to change so that a program fits on a simulated GPU.
    plan: Plan,
    /// The GPUs that can be simulated.
    gpus: Vec<GpuRow>,
    /// What works in this environment.
    doctor: Doctor,
}

/// The schema of everything that `--json` prints.
pub(crate) fn of_commands() -> Schema {
    schema_of::<CommandAnswers>()
}

/// The schema of one answer.
pub(crate) fn schema_of<T: JsonSchema>() -> Schema {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.untagged_enum_variant_titles = true;
    let settings = settings.with_transform(RecursiveTransform(left_out_instead_of_null));
    settings.into_generator().into_root_schema_for::<T>()
}

/// The schema of a type that is read: a field with a default is optional.
#[cfg(test)]
fn schema_of_input<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>()
}

/// Removes `null` from the type of an optional field: the answers leave it out instead.
fn left_out_instead_of_null(schema: &mut Schema) {
    let required: Vec<Value> =
        schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(fields)) = schema.get_mut("properties") else { return };
    for (name, field) in fields {
        if required.iter().any(|one| one == name) {
            continue;
        }
        let Some(field) = field.as_object_mut() else { continue };
        if let Some(Value::Array(types)) = field.get_mut("type") {
            types.retain(|one| one != "null");
        }
        if let Some(Value::Array(variants)) = field.get_mut("anyOf") {
            variants.retain(|one| one["type"] != "null");
        }
    }
}
