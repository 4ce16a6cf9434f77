//! How the program is linked.

#![allow(clippy::print_stdout)] // That is how build scripts speak to cargo.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let linked_at_start = !target("FEATURE").split(',').any(|feature| feature == "crt-static");
    if target("OS") == "linux" && target("ENV") == "gnu" && linked_at_start {
        // At a fixed address, as Go programs are: otherwise every start reads and rewrites 70,000 addresses in the tables of dependencies,
        // and a short command holds three megabytes for nothing.
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
