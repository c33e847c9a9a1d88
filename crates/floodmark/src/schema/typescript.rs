//! The types of a schema in TypeScript.

use serde_json::Value;

use super::document::{Field, Shape, definitions, description, shapes};

const HEAD: &str = "// Made from the Rust types by `make types`: not to be edited.\n";

/// A TypeScript type for each definition.
pub(super) fn typescript(root: &Value) -> String {
    let mut text = HEAD.to_owned();
    for (name, schema) in definitions(root) {
        let comment = comment(schema, "");
        text += &format!("\n{comment}export type {name} = {};\n", type_of(schema, ""));
    }
    text
}

fn type_of(schema: &Value, indent: &str) -> String {
    let parts: Vec<String> = shapes(schema).iter().map(|shape| of_shape(shape, indent)).collect();
    parts.join(" | ")
}

fn of_shape(shape: &Shape<'_>, indent: &str) -> String {
    match shape {
        Shape::Texts(texts) => {
            texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(" | ")
        }
        Shape::Plain("integer" | "number") => "number".to_owned(),
        Shape::Named(name) | Shape::Plain(name) => (*name).to_owned(),
        Shape::List(items) => match type_of(items, indent) {
            of if of.contains(' ') => format!("({of})[]"),
            of => format!("{of}[]"),
        },
        Shape::Tuple(places) => {
            let places: Vec<String> = places.iter().map(|one| type_of(one, indent)).collect();
            format!("[{}]", places.join(", "))
        }
        Shape::Map(values) => format!("Record<string, {}>", type_of(values, indent)),
        Shape::Union(variants) => {
            variants.iter().map(|one| type_of(one, indent)).collect::<Vec<_>>().join(" | ")
        }
        Shape::Fields(fields) => {
            let own = object(&fields.own, indent);
            if fields.variants.is_empty() {
                return own;
            }
            let deeper = format!("{indent}    ");
            let variants = fields.variants.iter().map(|one| type_of(one, &deeper));
            let variants: String = variants.map(|one| format!("\n{indent}  | {one}")).collect();
            format!("{own} & ({variants}\n{indent})")
        }
    }
}

fn object(fields: &[Field<'_>], indent: &str) -> String {
    if fields.is_empty() {
        return "Record<never, never>".to_owned();
    }
    let deeper = format!("{indent}  ");
    let mut text = "{\n".to_owned();
    for Field { name, schema, is_required } in fields {
        let mark = if *is_required { "" } else { "?" };
        let comment = comment(schema, &deeper);
        text += &format!("{comment}{deeper}{name}{mark}: {};\n", type_of(schema, &deeper));
    }
    format!("{text}{indent}}}")
}

fn comment(schema: &Value, indent: &str) -> String {
    match description(schema).replace("*/", "* /").split_whitespace().collect::<Vec<_>>().join(" ")
    {
        none if none.is_empty() => none,
        text => format!("{indent}/** {text} */\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schemars::JsonSchema;
    use serde::Serialize;

    use super::*;
    use crate::schema::schema_of;

    #[test]
    #[expect(dead_code, reason = "only the schema is used")]
    fn serde_attributes_become_what_they_mean() {
        /// A row.
        #[derive(Serialize, JsonSchema)]
        struct Row<'a> {
            /// Its name.
            #[serde(rename = "class_name")]
            class: &'a str,
            #[serde(skip)]
            hidden: u32,
            #[serde(skip_serializing_if = "Option::is_none")]
            rare: Option<u64>,
            maybe: Option<Vec<Kind>>,
            by_name: BTreeMap<String, (u32, f64)>,
            #[serde(flatten)]
            detail: Detail,
        }
        #[derive(Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        enum Kind {
            /// It ran out.
            OutOfMemory,
            Fine,
        }
        #[derive(Serialize, JsonSchema)]
        #[serde(untagged)]
        enum Detail {
            Line { line: u32 },
            Op { op: String },
        }
        #[derive(JsonSchema)]
        struct Answers {
            row: Row<'static>,
        }
        let root = Value::from(schema_of::<Answers>());
        let text = typescript(&root);
        let (_, types) = text.split_once("\n\n").unwrap();
        insta::assert_snapshot!(types, @r#"
        /** A row. */
        export type Row = {
          /** Its name. */
          class_name: string;
          rare?: number;
          maybe: Kind[] | null;
          by_name: Record<string, [number, number]>;
        } & (
          | {
              line: number;
            }
          | {
              op: string;
            }
        );

        export type Kind = "fine" | "out_of_memory";
        "#);
    }
}
