//! Lets the tests of this crate find the symbol that a shared object exports by itself.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=floodmark_slots_at_rest");
}
