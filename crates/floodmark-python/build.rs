//! Builds the phantom GPU, a library of its own that this one carries and does not link.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let phantom = here.join("../floodmark-phantom");
    println!("cargo::rerun-if-changed={}", phantom.display());
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("phantom");
    let target = env::var("TARGET").expect("cargo sets it");
    let built = Command::new(env::var_os("CARGO").expect("cargo sets it"))
        .args(["build", "--release", "--lib", "--target", &target, "--target-dir"])
        .arg(&folder)
        .current_dir(&phantom)
        // These are about the build that runs this script, not about the one that it runs.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .expect("cargo can be run");
    assert!(built.success(), "the phantom GPU could not be built");
    let library = folder.join(target).join("release").join("libfloodmark_phantom.so");
    assert!(Path::new(&library).exists(), "{} was not built", library.display());
    println!("cargo::rustc-env=FLOODMARK_PHANTOM={}", library.display());
}
