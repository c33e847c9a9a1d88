//! From Rust's types to TypeScript's.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Fields, GenericArgument, Item, PathArguments, Type};

use super::sources::{Sources, Told, doc};

const HEAD: &str = "// Made from the Rust types by `make types`: not to be edited.\n";

pub(crate) struct Emitter<'a> {
    sources: &'a Sources,
    written: BTreeMap<&'a str, &'a str>,
    done: BTreeSet<String>,
    waiting: Vec<String>,
    /// The parameters of the type that is being written.
    parameters: Vec<String>,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(sources: &'a Sources, written: &[(&'a str, &'a str)]) -> Self {
        let written = written.iter().copied().collect();
        Self { sources, written, done: BTreeSet::new(), waiting: vec![], parameters: vec![] }
    }

    /// The answers, and all that they lead to, in the order in which they are met.
    pub(crate) fn emit(mut self, answers: &[&str]) -> String {
        let mut text = HEAD.to_owned();
        for answer in answers {
            self.waiting.push((*answer).to_owned());
            while let Some(name) = self.waiting.pop() {
                if self.done.insert(name.clone()) {
                    text += "\n";
                    text += &self.item(&name);
                }
            }
        }
        text
    }

    fn item(&mut self, name: &str) -> String {
        if let Some(written) = self.written.get(name) {
            return format!("export type {name} = {written};\n");
        }
        let sources = self.sources;
        match sources.get(name) {
            Item::Struct(found) => {
                let parameters = found.generics.type_params();
                self.parameters = parameters.map(|one| one.ident.to_string()).collect();
                let name = generic(name, &self.parameters);
                let (fields, flattened) = self.fields(&found.fields);
                let parts: Vec<String> = std::iter::once(fields).chain(flattened).collect();
                let comment = comment(&doc(&found.attrs), "");
                format!("{comment}export type {name} = {};\n", parts.join(" & "))
            }
            Item::Enum(found) => {
                self.parameters.clear();
                let told = Told::of(&found.attrs);
                let variants: Vec<String> =
                    found.variants.iter().map(|variant| self.variant(variant, &told)).collect();
                let comment = comment(&doc(&found.attrs), "");
                format!("{comment}export type {name} =\n  | {};\n", variants.join("\n  | "))
            }
            Item::Type(found) => format!("export type {name} = {};\n", self.of(&found.ty)),
            _ => unreachable!("only these are kept"),
        }
    }

    /// The fields as an object, and what is poured into it.
    fn fields(&mut self, fields: &Fields) -> (String, Vec<String>) {
        let mut text = "{\n".to_owned();
        let mut flattened = Vec::new();
        for field in fields {
            let told = Told::of(&field.attrs);
            if told.is_skipped {
                continue;
            }
            let of = self.of(&field.ty);
            if told.is_flattened {
                flattened.push(of);
                continue;
            }
            let name = told.rename.unwrap_or_else(|| field.ident.as_ref().unwrap().to_string());
            text += &comment(&doc(&field.attrs), "  ");
            if told.is_optional {
                text += &format!("  {name}?: {};\n", of.trim_end_matches(" | null"));
            } else {
                text += &format!("  {name}: {of};\n");
            }
        }
        (text + "}", flattened)
    }

    fn variant(&mut self, variant: &syn::Variant, told: &Told) -> String {
        let own = Told::of(&variant.attrs);
        let name = own.rename.unwrap_or_else(|| cased(&variant.ident.to_string(), told));
        match &variant.fields {
            Fields::Unit if told.is_untagged => "null".to_owned(),
            Fields::Unit => match &told.tag {
                Some(tag) => format!("{{ {tag}: \"{name}\" }}"),
                None => format!("\"{name}\""),
            },
            Fields::Named(_) => {
                let (fields, _) = self.fields(&variant.fields);
                let fields = fields.replace('\n', "\n    ");
                match (&told.tag, told.is_untagged) {
                    (Some(tag), _) => format!("({{ {tag}: \"{name}\" }} & {fields})"),
                    (None, true) => fields,
                    (None, false) => format!("{{ {name}: {fields} }}"),
                }
            }
            Fields::Unnamed(unnamed) => {
                let of = self.of(&unnamed.unnamed.first().expect("one field").ty);
                if told.is_untagged { of } else { format!("{{ {name}: {of} }}") }
            }
        }
    }

    fn of(&mut self, of: &Type) -> String {
        match of {
            Type::Reference(reference) => self.of(&reference.elem),
            Type::Slice(slice) => list(&self.of(&slice.elem)),
            Type::Array(array) => list(&self.of(&array.elem)),
            Type::Tuple(tuple) => {
                let parts: Vec<String> = tuple.elems.iter().map(|part| self.of(part)).collect();
                format!("[{}]", parts.join(", "))
            }
            Type::Path(path) => self.of_path(path.path.segments.last().expect("a name")),
            _ => panic!("a type that no answer has had so far"),
        }
    }

    fn of_path(&mut self, last: &syn::PathSegment) -> String {
        let mut arguments = Vec::new();
        if let PathArguments::AngleBracketed(given) = &last.arguments {
            for argument in &given.args {
                if let GenericArgument::Type(of) = argument {
                    arguments.push(self.of(of));
                }
            }
        }
        match (last.ident.to_string().as_str(), arguments.as_slice()) {
            ("String" | "str" | "char", []) => "string".to_owned(),
            ("bool", []) => "boolean".to_owned(),
            (
                "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize"
                | "f32" | "f64",
                [],
            ) => "number".to_owned(),
            ("Vec" | "VecDeque" | "BTreeSet", [of]) => list(of),
            ("Option", [of]) => format!("{of} | null"),
            ("Box" | "Arc" | "Rc" | "Cow", [of]) => of.clone(),
            ("BTreeMap" | "HashMap", [_, of]) => format!("Record<string, {of}>"),
            (name, arguments) => {
                if !self.parameters.iter().any(|parameter| parameter == name) {
                    self.waiting.insert(0, name.to_owned());
                }
                generic(name, arguments)
            }
        }
    }
}

fn generic(name: &str, arguments: &[String]) -> String {
    if arguments.is_empty() { name.to_owned() } else { format!("{name}<{}>", arguments.join(", ")) }
}

fn list(of: &str) -> String {
    if of.contains(' ') { format!("({of})[]") } else { format!("{of}[]") }
}

fn comment(doc: &str, indent: &str) -> String {
    if doc.is_empty() { String::new() } else { format!("{indent}/** {doc} */\n") }
}

fn cased(name: &str, told: &Told) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    match told.rename_all.as_deref() {
        Some("snake_case") => snake,
        Some("kebab-case") => snake.replace('_', "-"),
        Some("lowercase") => name.to_lowercase(),
        None => name.to_owned(),
        Some(other) => panic!("what does `rename_all = \"{other}\"` mean?"),
    }
}
