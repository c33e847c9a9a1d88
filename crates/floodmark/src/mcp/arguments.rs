//! The arguments of a tool, made from the options of its command: their JSON Schema, and their conversion to a command
//! line.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use serde_json::{Map, Value, json};

use super::folders::Folders;
use super::refusal::Refusal;

pub(super) type Object = Map<String, Value>;

/// Options that tools do not offer: they are about a terminal.
const OF_A_TERMINAL: [&str; 7] = ["json", "csv", "fail_above", "quiet", "force", "run", "help"];
/// Arguments for the program and its own arguments, which end the command line.
const OF_A_PROGRAM: [&str; 2] = ["is_module", "words"];

/// The JSON type of an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Flag,
    Integer,
    Text,
    Texts,
}

impl Kind {
    fn from_arg(arg: &Arg) -> Self {
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            Self::Flag
        } else if matches!(arg.get_action(), ArgAction::Append) {
            Self::Texts
        } else if is::<u16>(arg) || is::<u32>(arg) || is::<usize>(arg) {
            Self::Integer
        } else {
            Self::Text
        }
    }

    fn schema(self) -> Value {
        match self {
            Self::Flag => json!({"type": "boolean"}),
            Self::Integer => json!({"type": "integer", "minimum": 0}),
            Self::Text => json!({"type": "string"}),
            Self::Texts => json!({"type": "array", "items": {"type": "string"}}),
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Flag => "true or false",
            Self::Integer => "an integer of 0 or more",
            Self::Text => "a string",
            Self::Texts => "an array of strings",
        }
    }
}

fn is<T: 'static>(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<T>()
}

/// The options of a command that its tool offers.
fn offered(command: &Command) -> impl Iterator<Item = &Arg> {
    let left_out = |arg: &&Arg| {
        let id = arg.get_id().as_str();
        OF_A_TERMINAL.contains(&id) || OF_A_PROGRAM.contains(&id)
    };
    command.get_arguments().filter(move |arg| !left_out(arg))
}

/// The schema of the arguments, and the names of the required ones.
pub(super) fn properties(command: &Command) -> (Object, Vec<String>) {
    let mut properties = Object::new();
    let mut required = Vec::new();
    for arg in offered(command) {
        let name = arg.get_id().to_string();
        if is_needed(arg) {
            required.push(name.clone());
        }
        properties.insert(name, schema(arg));
    }
    (properties, required)
}

/// Whether an argument is required. The trace is, also where the command takes the newest one of the folder.
fn is_needed(arg: &Arg) -> bool {
    arg.is_required_set() || arg.get_id() == "trace"
}

fn schema(arg: &Arg) -> Value {
    let kind = Kind::from_arg(arg);
    let mut schema = kind.schema();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let default = help.find(" [default:").filter(|_| is_needed(arg));
    let help = help[..default.unwrap_or(help.len())].to_owned();
    schema["description"] = help.into();
    let values: Vec<Value> = arg
        .get_possible_values()
        .iter()
        .filter(|_| kind == Kind::Text)
        .map(|value| value.get_name().into())
        .collect();
    if !values.is_empty() {
        schema["enum"] = values.into();
    }
    if let Some(default) = arg.get_default_values().first().filter(|_| kind != Kind::Flag) {
        let text = default.to_string_lossy();
        let number = text.parse::<u64>().ok().filter(|_| kind == Kind::Integer);
        schema["default"] = number.map_or_else(|| text.into_owned().into(), Value::from);
    }
    schema
}

/// Converts a call to a command line: `report --by=module -- /folder/x.flood`. Resolves paths in the folders.
pub(super) fn words(
    command: &Command,
    given: &Object,
    folders: &Folders,
) -> Result<Vec<OsString>, Refusal> {
    let known: Vec<&Arg> = offered(command).collect();
    check_names(given, known.iter().map(|arg| arg.get_id().as_str()))?;
    let mut words = vec![OsString::from(command.get_name())];
    let mut positional = Vec::new();
    for arg in known {
        let name = arg.get_id().as_str();
        let value = given.get(name).filter(|value| !value.is_null());
        let Some(value) = value else {
            if is_needed(arg) {
                return Err(Refusal::Missing { name: name.to_owned() });
            }
            continue;
        };
        for text in texts(arg, value)? {
            let text = match text {
                Some(text) if is_path(arg, &text) => {
                    Some(folders.resolve(Path::new(&text))?.into_os_string())
                }
                other => other.map(OsString::from),
            };
            match (arg.get_long(), text) {
                (Some(long), None) => words.push(format!("--{long}").into()),
                (Some(long), Some(text)) => {
                    let mut word = OsString::from(format!("--{long}="));
                    word.push(text);
                    words.push(word);
                }
                (None, text) => positional.extend(text),
            }
        }
    }
    words.push("--".into());
    words.extend(positional);
    Ok(words)
}

/// Whether a value is a path: to a trace or source file, or to a GPU profile.
fn is_path(arg: &Arg, text: &str) -> bool {
    let ends_in_toml = || {
        let extension = Path::new(text).extension();
        extension.is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
    };
    is::<PathBuf>(arg) || (arg.get_id() == "gpu" && ends_in_toml())
}

/// The values of an argument as text; `None` for a flag.
fn texts(arg: &Arg, value: &Value) -> Result<Vec<Option<String>>, Refusal> {
    let kind = Kind::from_arg(arg);
    let wrong = || Refusal::WrongType { name: arg.get_id().to_string(), wanted: kind.wanted() };
    Ok(match (kind, value) {
        (Kind::Flag, Value::Bool(is_set)) => {
            if *is_set {
                vec![None]
            } else {
                vec![]
            }
        }
        (Kind::Integer, Value::Number(number)) if number.is_u64() => vec![Some(number.to_string())],
        // Seconds, or bytes.
        (Kind::Text, Value::Number(number)) => vec![Some(number.to_string())],
        (Kind::Text, Value::String(text)) => vec![Some(text.clone())],
        (Kind::Texts, value) => strings(value).ok_or_else(wrong)?.into_iter().map(Some).collect(),
        _ => return Err(wrong()),
    })
}

/// The strings of an array.
pub(super) fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|one| one.as_str().map(str::to_owned)).collect()
}

fn check_names<'a>(given: &Object, known: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    let known: Vec<&str> = known.collect();
    match given.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            Err(Refusal::NoSuchArgument { name: name.clone(), known: known.join(", ") })
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn words_of(tool: &str, given: Value) -> Result<Vec<String>, Refusal> {
        let folders = Folders::open(&[]).unwrap();
        let program = Cli::command();
        let command = program.find_subcommand(tool).unwrap();
        let Value::Object(given) = given else { panic!("not an object") };
        let words = words(command, &given, &folders)?;
        Ok(words.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn a_call_becomes_words_that_cannot_be_options() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let trace = here.join("-x").into_os_string().into_string().unwrap();
        let given = json!({
            "trace": "-x", "at": 1.5, "top": 3, "torch_frames": true, "by": "--json", "rank": null,
        });
        let words = words_of("report", given).unwrap();
        let expected =
            ["report", "--by=--json", "--at=1.5", "--top=3", "--torch-frames", "--", &trace];
        assert_eq!(words, expected);
    }

    #[test]
    fn what_a_tool_does_not_take_is_named() {
        let wrong = |given: Value| words_of("leaks", given).unwrap_err().to_string();
        assert_eq!(
            wrong(json!({"trace": "x", "csv": true})),
            "the tool has no argument `csv`; it has `trace`, `device`, `rank`, `top`"
        );
        assert_eq!(wrong(json!({})), "the argument `trace` is missing");
        let wanted = "the argument `top` must be an integer of 0 or more";
        assert_eq!(wrong(json!({"trace": "x", "top": -1})), wanted);
        assert_eq!(wrong(json!({"trace": "x", "top": "3"})), wanted);
        assert_eq!(wrong(json!({"trace": true})), "the argument `trace` must be a string");
    }
}
