//! The charts: rendered by helm and by joiner alike, taken by a real API server, and granting what is used and nothing else.
//!
//! helm comes from `cargo xtask helm`, the API server from `cargo xtask control-plane build`. Where they are not built the tests that need them are named
//! as not run, and with `CI=true` they fail.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod definitions;
mod kwok_commands;
mod rendering;
mod rights;
mod server;

use std::path::{Path, PathBuf};

/// The folder of the charts.
fn charts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts").canonicalize().unwrap()
}

/// The values files that users of Karpenter write, by name.
fn values() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts/values");
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    found.sort();
    found
}

/// Runs joiner in process: exit code, output, errors.
fn joiner(arguments: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = joiner::Streams { out: &mut out, err: &mut err, width: 100, unicode: true };
    let line = std::iter::once("joiner").chain(arguments.iter().copied()).map(Into::into);
    let code = joiner::run(line, &mut streams);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (code, text(out), text(err))
}
