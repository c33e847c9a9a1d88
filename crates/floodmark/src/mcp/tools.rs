//! The tools: each calls the function of a command. [`super::programs`] has those that run a program.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use clap::{CommandFactory, Parser};
use floodmark_analysis::{AdviceReport, Diff, Estimate, Leaks, Ledger, Report, Simulation};
use floodmark_files::traces::read_log;
use floodmark_text::answer_text::AnswerText;
use floodmark_text::output_style::OutputStyle;
use floodmark_text::short_path::with_program_folders;
use floodmark_text::text_table::render;
use rmcp::model::{Tool, ToolAnnotations};
use schemars::Schema;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::{Object, properties, words};
use super::folders::Folders;
use super::programs::{TIME_LIMIT, USUAL_SECONDS};
use super::refusal::Refusal;
use crate::args::{Cli, Command, usage_error};
use crate::commands::answer::Answer;
use crate::commands::info::Info;
use crate::commands::oom::OomAnswer;
use crate::commands::{advise, diff, info, leaks, ledger, oom, report, simulate};
use crate::fit::Fit;
use crate::plan::Plan;
use crate::schema::schema_of;
use crate::text::failure::{Context, Result};

pub(super) const ESTIMATE: &str = "estimate";
pub(super) const ESTIMATE_MODEL: &str = "estimate_model";
/// The tools that run a program.
const RUN_PROGRAMS: [&str; 4] = [ESTIMATE, ESTIMATE_MODEL, "fit", "plan"];
/// The argument of `oom` with the text of a message, instead of a path.
const MESSAGE: &str = "message";

/// The answer of a tool.
#[derive(Debug)]
pub(super) struct ToolAnswer {
    /// What the command prints into a pipe.
    pub(super) text: String,
    /// What the command prints with `--json`.
    pub(super) json: Value,
}

/// A command that is a tool, and the schema of its answer.
type ToolCommand = (&'static str, fn() -> Schema);

const TOOLS: [ToolCommand; 12] = [
    ("info", schema_of::<Info>),
    ("report", schema_of::<Report>),
    ("oom", schema_of::<OomAnswer>),
    ("diff", schema_of::<Diff>),
    ("leaks", schema_of::<Leaks>),
    ("ledger", schema_of::<Ledger>),
    ("simulate", schema_of::<Simulation>),
    ("advise", schema_of::<AdviceReport>),
    (ESTIMATE, schema_of::<Estimate>),
    (ESTIMATE_MODEL, schema_of::<Estimate>),
    ("fit", schema_of::<Fit>),
    ("plan", schema_of::<Plan>),
];

/// All tools, or without `runs_programs` those that only read traces.
pub(super) fn tools(runs_programs: bool) -> Vec<Tool> {
    let offered = TOOLS.iter().filter(|(name, _)| runs_programs || !runs_program(name));
    let program = Cli::command();
    offered.map(|(name, output)| tool(&program, name, output())).collect()
}

fn tool(program: &clap::Command, name: &'static str, output: Schema) -> Tool {
    let command = command_of(program, command_name(name));
    let about = match name {
        ESTIMATE_MODEL => {
            "Estimate what the model of a Python function needs on a simulated GPU".to_owned()
        }
        _ => command.get_about().map(ToString::to_string).unwrap_or_default(),
    };
    let reads_only = !runs_program(name);
    let annotations = ToolAnnotations::new()
        .read_only(reads_only)
        .destructive(!reads_only)
        .open_world(!reads_only);
    Tool::new(name, about, Arc::new(input_schema(name, command)))
        .with_raw_output_schema(Arc::new(output_schema(output)))
        .with_annotations(annotations)
}

/// Whether a tool runs a program.
pub(super) fn runs_program(name: &str) -> bool {
    RUN_PROGRAMS.contains(&name)
}

/// The command of a tool.
pub(super) fn command_name(tool: &str) -> &str {
    if tool == ESTIMATE_MODEL { ESTIMATE } else { tool }
}

fn command_of<'a>(program: &'a clap::Command, name: &str) -> &'a clap::Command {
    program.find_subcommand(name).expect("a tool is a command")
}

fn input_schema(name: &str, command: &clap::Command) -> Object {
    let (mut properties, mut required) = properties(command);
    match name {
        "oom" => {
            required.clear();
            properties["trace"]["description"] =
                "A `.flood` file, a torch memory snapshot, a folder with one per rank, or a text with torch's message"
                    .into();
            let about = "torch's out-of-memory message, or a log that has it, in place of `trace`";
            properties.insert(MESSAGE.to_owned(), json!({"type": "string", "description": about}));
        }
        name if runs_program(name) => {
            if command.get_name() == ESTIMATE {
                properties["output"]["description"] =
                    "Keep the trace in this new `.flood` file [default: it is removed]".into();
            }
            required.extend(add_program(name, &mut properties));
        }
        _ => {}
    }
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    object(schema)
}

/// Adds the arguments for the program of a tool; returns the names of the required ones.
fn add_program(name: &str, properties: &mut Object) -> Vec<String> {
    let mut add = |name: &str, schema: Value| properties.insert(name.to_owned(), schema);
    let text = |about: &str| json!({"type": "string", "description": about});
    let mut required = vec!["program".to_owned()];
    if name == ESTIMATE_MODEL {
        add("program", text("Python file with the function"));
        add("factory", text("Function without arguments that returns a `torch.nn.Module`"));
        required.push("factory".to_owned());
    } else {
        add("program", text("Python script to run on the simulated GPU"));
        let about = "Arguments of the program";
        let schema = json!({"type": "array", "items": {"type": "string"}, "description": about});
        add("args", schema);
    }
    let about = "Seconds after which the program is ended, without an answer";
    let schema =
        json!({"type": "integer", "minimum": 1, "default": USUAL_SECONDS, "description": about});
    add(TIME_LIMIT, schema);
    required
}

/// The output schema of a tool. MCP requires an object, also for a union.
fn output_schema(schema: Schema) -> Object {
    let mut schema = object(schema.into());
    schema.entry("type").or_insert_with(|| "object".into());
    schema
}

fn object(value: Value) -> Object {
    let Value::Object(object) = value else { unreachable!("a schema is an object") };
    object
}

/// Answers a call of a tool that only reads traces.
pub(super) fn answer(name: &str, mut given: Object, folders: &Folders) -> Result<ToolAnswer> {
    let failed = || format!("Failed to answer `{name}`");
    if name == "oom" {
        let message = given.remove(MESSAGE).filter(|message| !message.is_null());
        match (message, given.get("trace").is_some_and(|trace| !trace.is_null())) {
            (Some(Value::String(message)), false) => {
                let log = read_log(message.as_bytes())?;
                return shown(&oom::explain(log).context("Failed to explain `message`")?);
            }
            (Some(Value::String(_)), true) | (None, false) => {
                return Err(Refusal::TraceOrMessage).with_context(failed);
            }
            (Some(_), _) => {
                let wrong = Refusal::WrongType { name: MESSAGE.to_owned(), wanted: "a string" };
                return Err(wrong).with_context(failed);
            }
            (None, true) => {}
        }
    }
    let words = words(command_of(&Cli::command(), name), &given, folders).with_context(failed)?;
    match parse(words).with_context(failed)? {
        Command::Info(args) => {
            let answer = info::answer(&args)?;
            let text = answer.text(OutputStyle::Plain);
            Ok(ToolAnswer { text, json: serde_json::to_value(&answer.found)? })
        }
        Command::Report(args) => shown(&report::answer(&args)?),
        Command::Oom(args) => shown(&oom::answer(&args)?),
        Command::Diff(args) => shown(&diff::answer(&args)?),
        Command::Leaks(args) => shown(&leaks::answer(&args)?),
        Command::Ledger(args) => shown(&ledger::answer(&args)?),
        Command::Simulate(args) => shown(&simulate::answer(&args)?),
        Command::Advise(args) => shown(&advise::answer(&args)?),
        Command::Run(_)
        | Command::Estimate(_)
        | Command::Fit(_)
        | Command::Plan(_)
        | Command::Gpus(_)
        | Command::Annotate(_)
        | Command::View(_)
        | Command::Export(_)
        | Command::Top(_)
        | Command::Metrics(_)
        | Command::Mcp(_)
        | Command::Doctor(_)
        | Command::Schema
        | Command::Completions(_)
        | Command::Man(_) => unreachable!("`{name}` is not one of `TOOLS`"),
    }
}

/// The text of a trace's resource: its summary, and the report at its peak.
pub(super) fn overview(path: &Path) -> Result<String> {
    let parse_command = |name: &str, options: &[&str]| {
        let words = [name].into_iter().chain(options.iter().copied()).map(OsString::from);
        parse(words.chain(["--".into(), path.into()]).collect())
    };
    let (Command::Info(info), Command::Report(report)) =
        (parse_command("info", &[])?, parse_command("report", &["--top=10"])?)
    else {
        unreachable!("the words are those of two commands")
    };
    let holds = info::answer(&info)?.text(OutputStyle::Plain);
    Ok(format!("{holds}\n{}", shown(&report::answer(&report)?)?.text))
}

/// Parses the command line of a call.
pub(super) fn parse(words: Vec<OsString>) -> Result<Command, Refusal> {
    let words: Vec<OsString> = std::iter::once("floodmark".into()).chain(words).collect();
    let parsed = Cli::try_parse_from(&words).map_err(|_| {
        let text = usage_error(&words);
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        // Leave out the usage and the reference to `--help`.
        let text = text.split("\n\nUsage:").next().unwrap_or(text);
        let text = text.split("\n\nFor more information").next().unwrap_or(text);
        Refusal::Usage(text.trim_end().to_owned())
    })?;
    Ok(parsed.command)
}

fn shown<T>(answer: &Answer<T>) -> Result<ToolAnswer>
where
    T: Serialize,
    AnswerText: for<'a> From<&'a T>,
{
    let notes = answer.notes.iter().flat_map(|note| [note.as_str(), "\n"]).collect::<String>();
    let text = notes + &with_program_folders(&answer.folders, || render(&answer.found));
    Ok(ToolAnswer { text, json: serde_json::to_value(&answer.found)? })
}
