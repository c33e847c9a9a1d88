//! Makes an entry point for every name of CUDA that `src/` does not define itself.
//!
//! `symbols/*.txt` has the names that the libraries of CUDA 12 and 13 export, one a line. A name with
//! `ok` after it only starts work on the device, which here does nothing and succeeds. All others answer
//! "not supported", and are remembered with their names (`src/unsupported.rs`).

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// A file of names, and what its library answers when it does not support a call.
const LIBRARIES: [(&str, i32); 13] = [
    ("cudart", 801),
    ("driver", 801),
    ("nvml", 3),
    ("cupti", 27),
    ("cublas", 15),
    ("cublaslt", 15),
    ("cudnn", 3000),
    ("cusparse", 10),
    ("cusparselt", 10),
    ("cusolver", 9),
    ("cufft", 16),
    ("curand", 999),
    ("nccl", 5),
];

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=symbols");
    // The stand-ins for CUDA's libraries name this one as what they need.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfloodmark_phantom.so");
    // Its functions call each other, also where CUDA's of the same names were loaded before it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    let mut defined = HashSet::new();
    defined_in(Path::new("src"), &mut defined);
    let mut code = String::new();
    let mut seen = HashSet::new();
    let mut refused = Vec::new();
    for (library, refusal) in LIBRARIES {
        let path = PathBuf::from(format!("symbols/{library}.txt"));
        let names = fs::read_to_string(&path).expect("the list of names is there");
        for line in names.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, is_ok) = line.strip_suffix(" ok").map_or((line, false), |name| (name, true));
            if defined.contains(name) || !seen.insert(name.to_owned()) {
                continue;
            }
            if !is_ok {
                refused.push(name.to_owned());
            }
            let body = if is_ok {
                "0".to_owned()
            } else {
                format!("crate::unsupported::refuse(\"{library}\", \"{name}\", {refusal})")
            };
            writeln!(code, "#[unsafe(no_mangle)] extern \"C\" fn {name}() -> i32 {{ {body} }}")
                .expect("a string takes all");
        }
    }
    refused.sort_unstable();
    writeln!(code, "pub(crate) static REFUSED: [&str; {}] = {refused:?};", refused.len())
        .expect("a string takes all");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("entry_points.rs");
    fs::write(out, code).expect("the build folder can be written");
}

/// The names of `extern "C"` functions in the sources below `folder`.
fn defined_in(folder: &Path, found: &mut HashSet<String>) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("the sources can be read").path();
        if path.is_dir() {
            defined_in(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).expect("sources are text");
        for (at, mark) in text.match_indices("extern \"C\" fn ") {
            let rest = &text[at + mark.len()..];
            let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            found.insert(rest[..end.unwrap_or(rest.len())].to_owned());
        }
        // Names in the braces of a macro that makes entry points.
        let beginnings = ["! {\n    cu", "! {\n    nvml"];
        for (at, _) in beginnings.iter().flat_map(|mark| text.match_indices(mark)) {
            let block = &text[at + "! {\n    ".len()..];
            let block = &block[..block.find("\n}").unwrap_or(block.len())];
            found
                .extend(block.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned));
        }
    }
}
