//! The types of a schema in Python: a `TypedDict` for each object, an alias for everything else.

use serde_json::Value;

use super::document::{Field, Shape, definitions, description, fields, shapes};

/// The header of the file with the types of answers.
pub(super) const ANSWERS: &str = "\
\"\"\"What `.to_dict()` of an answer, its rows and other dictionaries hold.

Made from the Rust types by `make types`: not to be edited.
\"\"\"

from __future__ import annotations

from typing import Literal, TypedDict, Union, final
";

/// The header of the file with the types of options.
pub(super) const OPTIONS: &str = "\
\"\"\"The options of a recording.

Made from the Rust types by `make types`: not to be edited.
\"\"\"

from __future__ import annotations

from typing import TypedDict
";

/// The longest line.
const WIDTH: usize = 100;

/// A Python definition for each definition of the schema, in an order that defines each before its use.
pub(super) fn typed_dicts(head: &str, root: &Value) -> String {
    let mut text = head.to_owned();
    let (objects, others): (Vec<_>, Vec<_>) =
        definitions(root).iter().partition(|(_, schema)| schema["type"] == "object");
    let (first, last): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|(_, schema)| !alias(schema).contains("Union"));
    for (name, schema) in first {
        text += &format!("\n{}{name} = {}\n", comment(schema), alias(schema));
    }
    for (name, schema) in objects {
        let Some(Shape::Fields(found)) = shapes(schema).into_iter().next() else { continue };
        if found.variants.is_empty() {
            text += &class(name, schema, &found.own);
            continue;
        }
        let mut names = Vec::new();
        for variant in found.variants {
            let variant_name = format!("{}{name}", variant["title"].as_str().unwrap_or_default());
            let own = super::document::fields(schema);
            let all: Vec<Field<'_>> = own.into_iter().chain(fields(variant)).collect();
            text += &class(&variant_name, variant, &all);
            names.push(variant_name);
        }
        text += &format!("\n{}{name} = Union[\n", comment(schema));
        text += &names.iter().map(|name| format!("    {name},\n")).collect::<String>();
        text += "]\n";
    }
    for (name, schema) in last {
        text += &format!("\n{}{name} = {}\n", comment(schema), alias(schema));
    }
    text
}

/// A class; a base class has its optional fields. Variants of a union are final, so that a type checker narrows the
/// union by the keys that a program tests.
fn class(name: &str, schema: &Value, fields: &[Field<'_>]) -> String {
    let (required, optional): (Vec<_>, Vec<_>) = fields.iter().partition(|field| field.is_required);
    let description = description(schema);
    let mark = if schema["title"].is_string() { "@final\n" } else { "" };
    if optional.is_empty() {
        return body(&format!("{mark}class {name}(TypedDict):"), description, &required);
    }
    if required.is_empty() {
        return body(
            &format!("{mark}class {name}(TypedDict, total=False):"),
            description,
            &optional,
        );
    }
    let base = format!("_{name}Optional");
    body(&format!("class {base}(TypedDict, total=False):"), "", &optional)
        + &body(&format!("{mark}class {name}({base}):"), description, &required)
}

fn body(head: &str, doc: &str, fields: &[&Field<'_>]) -> String {
    let mut text = format!("\n\n{head}\n");
    if !doc.is_empty() {
        text += &docstring(doc);
        text.push('\n');
    }
    for field in fields {
        text += &format!("    {}: {}\n", field.name, type_of(field.schema));
        text += &docstring(description(field.schema));
    }
    if doc.is_empty() && fields.is_empty() {
        text += "    pass\n";
    }
    text
}

fn type_of(schema: &Value) -> String {
    let parts: Vec<String> = shapes(schema).iter().map(of_shape).collect();
    parts.join(" | ")
}

/// As [`type_of`], in syntax that Python 3.10 can evaluate.
fn alias(schema: &Value) -> String {
    match type_of(schema) {
        union if union.contains(" | ") => format!("Union[{}]", union.replace(" | ", ", ")),
        one => one,
    }
}

fn of_shape(shape: &Shape<'_>) -> String {
    let all = |schemas: &[Value]| schemas.iter().map(type_of).collect::<Vec<_>>();
    match shape {
        Shape::Named(name) => (*name).to_owned(),
        Shape::Texts(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
            format!("Literal[{}]", texts.join(", "))
        }
        Shape::Plain("integer") => "int".to_owned(),
        Shape::Plain("number") => "float".to_owned(),
        Shape::Plain("boolean") => "bool".to_owned(),
        Shape::Plain("null") => "None".to_owned(),
        Shape::Plain(_) => "str".to_owned(),
        Shape::List(items) => format!("list[{}]", type_of(items)),
        Shape::Tuple(places) => format!("list[{}]", all(places).join(" | ")),
        Shape::Map(values) => format!("dict[str, {}]", type_of(values)),
        Shape::Union(variants) => {
            let texts = variants.iter().map(|one| one["const"].as_str()).collect::<Option<_>>();
            texts.map_or_else(|| all(variants).join(" | "), |texts| of_shape(&Shape::Texts(texts)))
        }
        Shape::Fields(_) => "dict[str, object]".to_owned(),
    }
}

fn comment(schema: &Value) -> String {
    wrapped(description(schema), WIDTH - 2).iter().map(|line| format!("# {line}\n")).collect()
}

fn docstring(text: &str) -> String {
    let lines = wrapped(text, WIDTH - 10);
    match lines.as_slice() {
        [] => String::new(),
        lines => format!("    \"\"\"{}\"\"\"\n", lines.join("\n    ")),
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
