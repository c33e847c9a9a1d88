//! The reference page of a schema.

use std::collections::BTreeSet;

use serde_json::Value;

use super::document::{Field, Shape, definitions, description, fields, shapes};

const HEAD: &str = "\
# JSON

Every answer has `--json`; in Python, `.to_dict()` returns the same. [`schema.json`](schema.json) is its JSON Schema
(draft 2020-12), which `floodmark schema` prints too: the property `report` is the answer of `floodmark report --json`, and so on.
`make types` makes this page, the schema, the types of the Python package and those of the page in the browser from the Rust types.

- Bytes are integers, times are seconds since the recording began.
- A field that does not apply is null. Fields marked *optional* are left out where they do not apply.
- `format` changes when a field changes its meaning. Fields may be added without that, so ignore those that you do not use.
- What a recording misses is in `losses`, in words.
";

/// The page: a table of the commands, then every type, in the order of its first use.
pub(super) fn markdown(root: &Value) -> String {
    let mut text = HEAD.to_owned();
    text += "\n## Commands\n\n| command | answer | |\n| --- | --- | --- |\n";
    for Field { name, schema, .. } in fields(root) {
        let description = description(schema);
        text += &format!("| `floodmark {name} --json` | {} | {description} |\n", type_of(schema));
    }
    text += "\n## Types\n";
    for name in in_order(root) {
        let schema = &definitions(root)[name];
        text += &format!("\n### {name}\n\n{}\n", description(schema));
        text += &body(name, schema);
    }
    text
}

/// The names of the definitions, in the order of their first use.
fn in_order(root: &Value) -> Vec<&str> {
    let mut order = Vec::new();
    let mut seen = BTreeSet::new();
    for Field { schema, .. } in fields(root) {
        visit(root, schema, &mut order, &mut seen);
    }
    order
}

fn visit<'a>(
    root: &'a Value,
    schema: &'a Value,
    order: &mut Vec<&'a str>,
    seen: &mut BTreeSet<&'a str>,
) {
    for shape in shapes(schema) {
        match shape {
            Shape::Named(name) => {
                if seen.insert(name) {
                    order.push(name);
                    visit(root, &definitions(root)[name], order, seen);
                }
            }
            Shape::List(inner) | Shape::Map(inner) => visit(root, inner, order, seen),
            Shape::Tuple(parts) | Shape::Union(parts) => {
                for part in parts {
                    visit(root, part, order, seen);
                }
            }
            Shape::Fields(fields) => {
                let own = fields.own.iter().map(|field| field.schema);
                for part in own.chain(fields.variants) {
                    visit(root, part, order, seen);
                }
            }
            Shape::Texts(_) | Shape::Plain(_) => {}
        }
    }
}

/// The part of a type after its description: its fields or variants.
fn body(name: &str, schema: &Value) -> String {
    let mut text = String::new();
    for shape in shapes(schema) {
        match shape {
            Shape::Fields(fields) => {
                text += &table(&fields.own);
                for variant in fields.variants {
                    let title = variant["title"].as_str().unwrap_or_default();
                    let description = description(variant);
                    text += &format!("\n#### {name}: {}\n\n{description}\n", title.to_lowercase());
                    text += &table(&super::document::fields(variant));
                }
            }
            Shape::Union(variants) => {
                text.push('\n');
                for variant in variants {
                    let description = match description(variant) {
                        "" => String::new(),
                        description => format!(": {description}"),
                    };
                    text += &format!("- {}{description}\n", type_of(variant));
                }
            }
            Shape::Named(_)
            | Shape::Texts(_)
            | Shape::Plain(_)
            | Shape::List(_)
            | Shape::Tuple(_)
            | Shape::Map(_) => text += &format!("\n{}\n", of_shape(&shape)),
        }
    }
    text
}

fn table(fields: &[Field<'_>]) -> String {
    if fields.is_empty() {
        return String::new();
    }
    let mut text = "\n| field | type | |\n| --- | --- | --- |\n".to_owned();
    for Field { name, schema, is_required } in fields {
        let optional = if *is_required { "" } else { ", *optional*" };
        let description = description(schema).replace('|', "\\|").replace('\n', " ");
        text += &format!("| `{name}` | {}{optional} | {description} |\n", type_of(schema));
    }
    text
}

fn type_of(schema: &Value) -> String {
    let parts: Vec<String> = shapes(schema).iter().map(of_shape).collect();
    parts.join(" or ")
}

fn of_shape(shape: &Shape<'_>) -> String {
    let all = |schemas: &[Value]| schemas.iter().map(type_of).collect::<Vec<_>>();
    match shape {
        Shape::Named(name) => format!("[{name}](#{})", name.to_lowercase()),
        Shape::Texts(texts) => {
            texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ")
        }
        Shape::Plain(name) => (*name).to_owned(),
        Shape::List(items) => format!("list of {}", type_of(items)),
        Shape::Tuple(places) => format!("list of {}", all(places).join(", ")),
        Shape::Map(values) => format!("object: {} by name", type_of(values)),
        Shape::Union(variants) => all(variants).join(" or "),
        Shape::Fields(_) => "object".to_owned(),
    }
}
