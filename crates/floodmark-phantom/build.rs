//! Generates an entry point for every name of CUDA that `src/` does not define itself.
//!
//! `symbols/*.txt` has the names that the libraries of CUDA 12 and 13 export, one a line, each with what
//! happens to a call:
//!
//! - `src`: a file of `src/` defines the function. The test binary does not link if none does, and the
//!   library does not link if a function without this mark is defined.
//! - `ok`: the call only starts work on the device. It does nothing and succeeds.
//! - no mark: the call returns "not supported" and is counted by name (`src/unsupported.rs`).

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

/// A file of names, and the status that its library returns for an unsupported call.
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
    println!("cargo::rerun-if-changed=symbols");
    // The stand-ins for CUDA's libraries name this library as their dependency.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfloodmark_phantom.so");
    // Its functions call each other, also where CUDA's of the same names were loaded before it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    let mut code = String::new();
    let mut seen = HashSet::new();
    let mut refused = Vec::new();
    let mut defined = Vec::new();
    for (library, refusal) in LIBRARIES {
        let path = PathBuf::from(format!("symbols/{library}.txt"));
        let names = fs::read_to_string(&path).expect("the list of names is there");
        for line in names.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, mark) = line.split_once(' ').unwrap_or((line, ""));
            if !seen.insert(name.to_owned()) {
                continue;
            }
            let body = match mark {
                "src" => {
                    defined.push(name.to_owned());
                    continue;
                }
                "ok" => "{ crate::streams::note_library_work(); 0 }".to_owned(),
                "" => {
                    refused.push(name.to_owned());
                    format!("crate::guard::refuse(\"{library}\", \"{name}\", {refusal})")
                }
                other => panic!("`{other}` after `{name}` in {} is no mark", path.display()),
            };
            writeln!(code, "#[unsafe(no_mangle)] extern \"C\" fn {name}() -> i32 {{ {body} }}")
                .expect("a string takes all");
        }
    }
    refused.sort_unstable();
    writeln!(code, "pub(crate) static REFUSED: [&str; {}] = {refused:?};", refused.len())
        .expect("a string takes all");
    code.push_str(&declarations(&defined));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("entry_points.rs");
    fs::write(out, code).expect("the build folder can be written");
}

/// The names that `src/` defines, for a test that links only if it defines all of them.
fn declarations(defined: &[String]) -> String {
    let mut code = String::from("#[cfg(test)]\nmod defined {\n    unsafe extern \"C\" {\n");
    for name in defined {
        writeln!(code, "        fn {name}();").expect("a string takes all");
    }
    let count = defined.len();
    write!(
        code,
        "    }}\n    pub(super) static DEFINED: [(&str, unsafe extern \"C\" fn()); {count}] = [\n"
    )
    .expect("a string takes all");
    for name in defined {
        writeln!(code, "        ({name:?}, {name}),").expect("a string takes all");
    }
    code.push_str("    ];\n}\n");
    code
}
