//! The types of the page, made from the types that are answered: `web/src/api/types.gen.ts`.
//!
//! The sources are read as they stand, with the parser that derive macros use: no derive stands beside serde's on every
//! struct, nothing of it is in the shipped program, and a struct that is new appears by itself. What serde writes
//! by hand is in [`WRITTEN_BY_HAND`], a line each.
//!
//! `FLOODMARK_UPDATE_TYPES=1 cargo test -p floodmark --test it types` writes the file; without it, the test says whether the
//! file is current.

mod emit;
mod sources;

use std::path::Path;

use emit::Emitter;
use sources::Sources;

/// What the routes of `server/answer.rs` answer, and what `api/follow` tells.
const ANSWERS: &[&str] = &[
    "Traces",
    "Timeline",
    "TimelineTile",
    "Bands",
    "AllocationTile",
    "Hit",
    "Report",
    "AllocationCard",
    "Icicle",
    "Segments",
    "Lifetimes",
    "Steps",
    "Diff",
    "Ranks",
    "AdviceReport",
    "Simulation",
    "Problem",
    "Grown",
    "Ended",
];

/// Types that say themselves how they are written.
const WRITTEN_BY_HAND: &[(&str, &str)] = &[
    ("Bytes", "number"),
    ("Device", "string"),
    ("Losses", "string[]"),
    ("TorchVersion", "string"),
    ("TimelineBy", "\"category\" | \"module\" | \"phase\" | \"line\""),
    ("At", "\"peak\" | \"oom\" | \"end\" | \"time\""),
    (
        "By",
        "\"line\" | \"stack\" | \"module\" | \"op\" | \"phase\" | \"category\" | \"tensor\" | \"step\" | \"segment\"",
    ),
];

/// Where the types are; of two with the same name, the first is meant.
const FOLDERS: &[&str] = &[
    "crates/floodmark/src/server",
    "crates/floodmark-analysis/src",
    "crates/floodmark-allocator/src",
    "crates/floodmark-trace/src",
];

const FILE: &str = "web/src/api/types.gen.ts";

#[test]
fn the_types_of_the_page_are_those_of_the_answers() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let sources = Sources::read(root, FOLDERS);
    let types = Emitter::new(&sources, WRITTEN_BY_HAND).emit(ANSWERS);
    let path = root.join(FILE);
    if std::env::var_os("FLOODMARK_UPDATE_TYPES").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &types).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == types, "`{FILE}` is not current: run `make types`");
}

#[test]
fn serde_attributes_become_what_they_mean() {
    let sources = Sources::parse(&[r#"
        /// A row.
        #[derive(Serialize)]
        pub struct Row<'a> {
            /// Its name.
            #[serde(rename = "where")]
            pub place: &'a str,
            #[serde(skip)]
            pub hidden: u32,
            #[serde(skip_serializing_if = "Option::is_none")]
            pub rare: Option<Bytes>,
            pub maybe: Option<Vec<Kind>>,
            pub by_name: BTreeMap<String, (u32, f64)>,
            #[serde(flatten)]
            pub detail: Detail,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Kind { OutOfMemory, Fine }
        #[derive(Serialize)]
        #[serde(untagged)]
        pub enum Detail { Line { line: u32 }, Op { op: String } }
        "#]);
    let types = Emitter::new(&sources, &[("Bytes", "number")]).emit(&["Row"]);
    let body = types.split_once("\n\n").unwrap().1;
    insta::assert_snapshot!(body, @r#"
    /** A row. */
    export type Row = {
      /** Its name. */
      where: string;
      rare?: Bytes;
      maybe: Kind[] | null;
      by_name: Record<string, [number, number]>;
    } & Detail;

    export type Bytes = number;

    export type Kind =
      | "out_of_memory"
      | "fine";

    export type Detail =
      | {
          line: number;
        }
      | {
          op: string;
        };
    "#);
}
