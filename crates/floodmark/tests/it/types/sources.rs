//! The structs and enums of some folders, as serde's derive sees them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, ExprLit, Item, Lit, LitStr, Meta};

/// Items by name: those that serde writes, and aliases.
pub(crate) struct Sources(BTreeMap<String, Item>);

impl Sources {
    pub(crate) fn read(root: &Path, folders: &[&str]) -> Self {
        let mut texts = Vec::new();
        for folder in folders {
            let mut paths = Vec::new();
            find_sources(&root.join(folder), &mut paths);
            paths.sort();
            texts.extend(paths.iter().map(|path| std::fs::read_to_string(path).unwrap()));
        }
        Self::parse(&texts.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn parse(texts: &[&str]) -> Self {
        let mut items = BTreeMap::new();
        for text in texts {
            for item in syn::parse_file(text).unwrap().items {
                let name = match &item {
                    Item::Struct(found) if is_written(&found.attrs) => found.ident.to_string(),
                    Item::Enum(found) if is_written(&found.attrs) => found.ident.to_string(),
                    Item::Type(found) => found.ident.to_string(),
                    _ => continue,
                };
                items.entry(name).or_insert(item);
            }
        }
        Self(items)
    }

    pub(crate) fn get(&self, name: &str) -> &Item {
        self.0
            .get(name)
            .unwrap_or_else(|| panic!("`{name}` is not found, or serde does not write it"))
    }
}

/// The Rust files of a folder and of those inside it.
fn find_sources(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_sources(&path, paths);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            paths.push(path);
        }
    }
}

fn is_written(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("derive")).any(|derive| {
        let mut found = false;
        let _ = derive.parse_nested_meta(|meta| {
            found |= meta.path.segments.last().is_some_and(|last| last.ident == "Serialize");
            Ok(())
        });
        found
    })
}

/// What serde is told about an item, a field or a variant.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word that serde is told")]
pub(crate) struct Told {
    pub(crate) rename: Option<String>,
    pub(crate) rename_all: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) is_skipped: bool,
    pub(crate) is_optional: bool,
    pub(crate) is_flattened: bool,
    pub(crate) is_untagged: bool,
}

impl Told {
    pub(crate) fn of(attributes: &[Attribute]) -> Self {
        let mut told = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            attribute
                .parse_nested_meta(|meta| {
                    let name = meta.path.get_ident().unwrap().to_string();
                    let text = || Ok::<_, syn::Error>(meta.value()?.parse::<LitStr>()?.value());
                    match name.as_str() {
                        "rename" => told.rename = Some(text()?),
                        "rename_all" => told.rename_all = Some(text()?),
                        "tag" => told.tag = Some(text()?),
                        "skip_serializing_if" => told.is_optional = !text()?.is_empty(),
                        "skip" | "skip_serializing" => told.is_skipped = true,
                        "flatten" => told.is_flattened = true,
                        "untagged" => told.is_untagged = true,
                        "default" => {}
                        other => panic!("what does `serde({other})` mean in TypeScript?"),
                    }
                    Ok(())
                })
                .unwrap();
        }
        told
    }
}

/// What the comment says, in one line.
pub(crate) fn doc(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Meta::NameValue(value) = &attribute.meta
            && let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &value.value
        {
            lines.push(text.value().trim().to_owned());
        }
    }
    lines.join(" ").trim().replace("*/", "* /")
}
