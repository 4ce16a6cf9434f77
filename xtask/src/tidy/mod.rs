//! Rules of the code base that the compiler cannot check; each finding names file and line.
//!
//! * `pure`: the deciding crates stay free of clocks, environment, files, network, threads, async, logging and hash maps
//!   of the standard library.
//! * `arrows`: crates depend on each other only along the map of ARCHITECTURE.md.
//! * `counts`: numbers in the documents that can be counted, and the table of crates.
//! * `sources`: unfinished code, skipped tests, module names, the essay on top of each library.
//! * `texts`: blanks at line ends, paths of one machine, private registries, leftover snapshots, licences.

mod arrows;
mod counts;
mod pure;
mod sources;
mod texts;
mod tokens;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A broken rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File, relative to the repository.
    pub file: String,
    /// Line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    fn new(file: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { file: file.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file, self.line.max(1), self.message)
    }
}

/// Runs `cargo xtask tidy`.
pub fn run(root: &Path) -> Result<()> {
    let mut files = Vec::new();
    walk(root, root, &mut files)?;
    files.sort();
    let mut findings = texts::check_tree(&files);
    for file in &files {
        let Ok(text) = fs::read_to_string(root.join(file)) else {
            continue; // not text
        };
        findings.extend(check_file(file, &text));
    }
    findings.extend(arrows::check(root)?);
    findings.extend(counts::check(root, &files));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings in {} files", findings.len(), files.len());
    }
    println!("tidy: {} files, nothing to complain about", files.len());
    Ok(())
}

/// All checks that look at one file.
fn check_file(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = texts::check(file, text);
    if file.ends_with(".rs") {
        let tokens = tokens::tokens(text);
        findings.extend(sources::check(file, text, &tokens));
        findings.extend(pure::check(file, &tokens));
    }
    findings
}

/// Files of the repository, as paths with `/` relative to it; what git ignores is left out.
fn walk(root: &Path, dir: &Path, files: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("reading `{}`", dir.display()))? {
        let path: PathBuf = entry?.path();
        let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) else {
            continue;
        };
        let name = name.replace('\\', "/");
        let ignored = ["target", ".git", "bench/inputs", "bench/peer/peer"].contains(&name.as_str())
            || name.ends_with("node_modules");
        if ignored {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, files)?;
        } else {
            files.push(name);
        }
    }
    Ok(())
}
