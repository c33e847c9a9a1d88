//! A JSON Schema as Rust types, for the generators.

use serde_json::{Map, Value};

pub(super) type Object = Map<String, Value>;

/// The values that a schema allows.
pub(super) enum Shape<'a> {
    /// The values of a schema in `$defs`.
    Named(&'a str),
    /// One of these texts.
    Texts(Vec<&'a str>),
    /// `string`, `integer`, `number`, `boolean` or `null`.
    Plain(&'a str),
    List(&'a Value),
    /// A list with one schema per item.
    Tuple(&'a [Value]),
    /// An object with any keys and values of one schema.
    Map(&'a Value),
    /// One of these.
    Union(&'a [Value]),
    /// An object with these fields, and those of one variant if there are variants.
    Fields(Fields<'a>),
}

/// The fields of an object.
pub(super) struct Fields<'a> {
    pub(super) own: Vec<Field<'a>>,
    pub(super) variants: &'a [Value],
}

/// A field of an object.
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) schema: &'a Value,
    pub(super) is_required: bool,
}

/// The definitions of a root schema by name.
pub(super) fn definitions(root: &Value) -> &Object {
    root["$defs"].as_object().expect("there are named types")
}

pub(super) fn description(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// The shapes of a schema: `["string", "null"]` has two.
pub(super) fn shapes(schema: &Value) -> Vec<Shape<'_>> {
    let kind = &schema["type"];
    let Some(kinds) = kind.as_array() else {
        return vec![shape(schema, kind.as_str().unwrap_or_default())];
    };
    kinds.iter().map(|one| shape(schema, one.as_str().expect("a name"))).collect()
}

fn shape<'a>(schema: &'a Value, kind: &'a str) -> Shape<'a> {
    if let Some(path) = schema["$ref"].as_str() {
        return Shape::Named(path.rsplit('/').next().expect("a name"));
    }
    if kind == "null" {
        return Shape::Plain(kind);
    }
    if let Some(text) = schema["const"].as_str() {
        return Shape::Texts(vec![text]);
    }
    if let Some(texts) = schema["enum"].as_array() {
        return Shape::Texts(texts.iter().filter_map(Value::as_str).collect());
    }
    let variants = ["anyOf", "oneOf"].iter().find_map(|key| schema[key].as_array());
    let variants = variants.map_or(&[][..], Vec::as_slice);
    match kind {
        "array" => match schema["prefixItems"].as_array() {
            Some(places) => Shape::Tuple(places),
            None => Shape::List(&schema["items"]),
        },
        "object" => values(schema)
            .map_or_else(|| Shape::Fields(Fields { own: fields(schema), variants }), Shape::Map),
        "" => Shape::Union(variants),
        _ => Shape::Plain(kind),
    }
}

/// The schema of the values of a map. schemars writes keys that are numbers as a pattern.
fn values(schema: &Value) -> Option<&Value> {
    let of_patterns = || schema["patternProperties"].as_object()?.values().next();
    Some(&schema["additionalProperties"]).filter(|values| values.is_object()).or_else(of_patterns)
}

/// The fields of an object in their order.
pub(super) fn fields(schema: &Value) -> Vec<Field<'_>> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object();
    let fields = properties.into_iter().flatten();
    fields
        .map(|(name, schema)| Field { name, schema, is_required: required.contains(&&**name) })
        .collect()
}
