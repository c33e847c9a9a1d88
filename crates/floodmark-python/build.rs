//! Builds the library of the phantom engine, which the extension module contains as bytes and loads at run time.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let set = |name| env::var(name).expect("cargo sets it");
    let phantom = PathBuf::from(set("CARGO_MANIFEST_DIR")).join("../floodmark-phantom");
    println!("cargo::rerun-if-changed={}", phantom.display());
    for below in ["slots", "cuda-model", "phantom-control", "phantom-macros"] {
        println!("cargo::rerun-if-changed={}/../floodmark-{below}", phantom.display());
    }
    let (folder, target) = (PathBuf::from(set("OUT_DIR")).join("phantom"), set("TARGET"));
    let mut cargo = Command::new(set("CARGO"));
    // Optimize it in a development build too, without the size optimizations of a wheel.
    if set("PROFILE") == "debug" {
        cargo
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    }
    let built = cargo
        .args(["build", "--release", "--lib", "--target", &target, "--target-dir"])
        .arg(&folder)
        .current_dir(&phantom)
        // Remove variables of the build that runs this script: they must not affect the build that it starts.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .expect("cargo can be run");
    assert!(built.success(), "the phantom GPU could not be built");
    let library = folder.join(target).join("release/libfloodmark_phantom.so");
    println!("cargo::rustc-env=FLOODMARK_PHANTOM={}", library.display());
}
