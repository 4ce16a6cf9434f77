//! The deciding crates work on values handed in: whatever reaches outside, or differs between two runs, is refused here.
//! Tests may read fixtures, so `tests/`, `benches/` and `#[cfg(test)]` items are left alone.

use super::Finding;
use super::tokens::Token;

const PURE: [&str; 13] = [
    "crates/joiner-api/src/",
    "crates/joiner-controllers/src/claims.rs",
    "crates/joiner-controllers/src/command.rs",
    "crates/joiner-controllers/src/observed_times.rs",
    "crates/joiner-controllers/src/pods.rs",
    "crates/joiner-controllers/src/provision.rs",
    "crates/joiner-controllers/src/steps/",
    "crates/joiner-core/src/",
    "crates/joiner-record/src/",
    "crates/joiner-state/src/",
    "crates/joiner-provider/src/",
    "crates/joiner-provider-aws/src/",
    "crates/joiner-provider-kwok/src/",
];

/// What is not pure in them: the KWOK provider over a client, behind a feature of its own; the feed of types, which waits; the suite for
/// providers, which calls them.
const NOT_PURE: [&str; 5] = [
    "crates/joiner-provider-kwok/src/live.rs",
    "crates/joiner-provider-kwok/src/live/",
    "crates/joiner-provider/src/feed.rs",
    "crates/joiner-provider/src/conformance.rs",
    "crates/joiner-provider/src/conformance/",
];

/// Paths of the controllers that steps have no use for: whoever could call the API server or a cloud could act.
const CONTROLLERS: &str = "crates/joiner-controllers/src/";
const OUTSIDE: [(&str, &str); 6] = [
    ("kube::Api", "return commands; the executor carries them out"),
    ("kube::Client", "return commands; the executor carries them out"),
    ("kube::api::Api", "return commands; the executor carries them out"),
    ("joiner_provider::Provider", "return commands; the executor carries them out"),
    ("crate::engine", "take facts as arguments; the loop gathers them"),
    ("crate::executor", "return commands; the executor carries them out"),
];

/// Paths of the standard library, and what to do instead.
const PATHS: [(&str, &str); 14] = [
    ("std::time::Instant", "take the time as an argument"),
    ("std::time::SystemTime", "take the time as an argument"),
    ("std::env", "take settings as arguments; only `joiner` reads the environment"),
    ("std::fs", "take contents as arguments; only `joiner` reads files"),
    ("std::net", "no network here"),
    ("std::os", "nothing of the operating system here"),
    ("std::process", "no processes here"),
    ("std::thread", "no threads here; use rayon where work is split"),
    ("std::io::stdin", "take contents as arguments"),
    ("std::io::stdout", "return values; only `joiner` prints"),
    ("std::io::stderr", "return values; only `joiner` prints"),
    (
        "std::collections::HashMap",
        "its order differs between runs; use `BTreeMap`, or hashbrown with a fixed hasher",
    ),
    (
        "std::collections::HashSet",
        "its order differs between runs; use `BTreeSet`, or hashbrown with a fixed hasher",
    ),
    ("std::collections::hash_map", "its order differs between runs; use `BTreeMap`"),
];

/// What paths that may be refused begin with.
const ROOTS: [&str; 4] = ["std", "crate", "kube", "joiner_provider"];

/// Crates and words that have no place here.
const WORDS: [(&str, &str); 9] = [
    ("async", "no async here"),
    ("await", "no async here"),
    ("tokio", "no async here"),
    ("tracing", "return explanations; the shell logs"),
    ("log", "return explanations; the shell logs"),
    ("println", "return values; only `joiner` prints"),
    ("eprintln", "return values; only `joiner` prints"),
    ("RandomState", "randomly seeded; use foldhash's `FixedState`"),
    ("thread_rng", "take a seed as an argument"),
];

/// Checks one source file.
pub fn check(file: &str, tokens: &[Token]) -> Vec<Finding> {
    if !PURE.iter().any(|prefix| file.starts_with(prefix))
        || NOT_PURE.iter().any(|path| file.starts_with(path))
    {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        let after = tokens.get(at + 1).map(|next| next.text.as_str());
        let before = at.checked_sub(1).map(|at| tokens[at].text.as_str());
        if token.in_test {
            at += 1;
        } else if after == Some("::") && before != Some("::") && ROOTS.contains(&token.text.as_str()) {
            let mut paths = Vec::new();
            at = expand(tokens, at, "", &mut paths);
            for (path, line) in paths {
                findings.extend(
                    forbidden(file, &path).map(|why| Finding::new(file, line, format!("`{path}`: {why}"))),
                );
            }
        } else {
            if let Some((word, why)) = WORDS.iter().find(|(word, _)| *word == token.text) {
                // A field or method of that name is harmless; a keyword, a macro or a crate is not.
                let counts = match *word {
                    "async" => true,
                    "await" => before == Some("."),
                    "println" | "eprintln" => after == Some("!"),
                    "tokio" | "tracing" | "log" => after == Some("::") && before != Some("::"),
                    _ => true,
                };
                if counts {
                    findings.push(Finding::new(file, token.line, format!("`{word}`: {why}")));
                }
            }
            let called = tokens.get(at + 2).is_some_and(|next| next.text == "(");
            if token.text == "::" && after == Some("now") && called {
                findings.push(Finding::new(file, token.line, "`::now()`: take the time as an argument"));
            }
            at += 1;
        }
    }
    findings
}

/// Reads a path or use tree from `at` on: every full path in it with its line; where reading stopped is returned.
fn expand(tokens: &[Token], mut at: usize, prefix: &str, paths: &mut Vec<(String, usize)>) -> usize {
    let mut path = prefix.to_owned();
    let mut line = tokens.get(at).map_or(0, |token| token.line);
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "{" if path.ends_with("::") || at == 0 => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text != "}") {
                    let next = expand(tokens, at, &path, paths);
                    at = next.max(at + 1);
                    if tokens.get(at).is_some_and(|token| token.text == ",") {
                        at += 1;
                    }
                }
                return at + 1;
            }
            "::" => path.push_str("::"),
            "*" if path.ends_with("::") => {
                path.push('*');
                at += 1;
                break;
            }
            word if word.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && (path.is_empty() || path.ends_with("::")) =>
            {
                path.push_str(word);
                line = token.line;
            }
            _ => break,
        }
        at += 1;
    }
    if path != prefix {
        paths.push((path, line));
    }
    at
}

/// Why a path is refused. A glob is refused if it brings a refused name in.
fn forbidden(file: &str, path: &str) -> Option<&'static str> {
    let covers = |refused: &str| {
        let inside = path.strip_prefix(refused).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        let glob = path.strip_suffix('*').is_some_and(|module| refused.starts_with(module));
        inside || glob || path.strip_suffix("::self") == Some(refused)
    };
    let outside = OUTSIDE.iter().filter(|_| file.starts_with(CONTROLLERS));
    PATHS.iter().chain(outside).find(|(refused, _)| covers(refused)).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    fn lines(source: &str) -> Vec<usize> {
        check("crates/joiner-core/src/pack.rs", &tokens(source))
            .into_iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn refused_paths_are_found_however_they_are_written() {
        for bad in [
            "use std::collections::HashMap;",
            "use std::collections::{BTreeMap, HashSet};",
            "use std::{collections::{BTreeMap, HashMap}, fmt};",
            "use std::collections::*;",
            "let t = std::time::Instant::now();",
            "use std::time::{Duration, SystemTime as Clock};",
            "use std::env;",
            "let x = std::fs::read(path)?;",
            "use std::fs::{self, File};",
            "use std::net::IpAddr;",
            "std::process::exit(1);",
            "std::thread::spawn(f);",
            "std::io::stdout().flush();",
            "async fn f() {}",
            "x.await;",
            "tracing::info!(\"x\");",
            "println!(\"x\");",
            "let s = RandomState::new();",
            "let t = jiff::Timestamp::now();",
        ] {
            assert!(!lines(bad).is_empty(), "not found: {bad}");
        }
    }

    #[test]
    fn allowed_code_passes() {
        for good in [
            "use std::collections::{BTreeMap, VecDeque};",
            "use std::time::Duration;",
            "use hashbrown::HashMap;",
            "// std::fs::read and println!(\"x\")",
            "let text = \"std::env\";",
            "#[cfg(test)] mod tests { use std::fs; fn f() { println!(\"x\"); } }",
            "let log = model.log;",
            "use std::fmt::{self, Write as _}; use std::io::Write;",
            "fn now(&self) -> i64 { self.now }",
        ] {
            assert_eq!(lines(good), Vec::<usize>::new(), "found: {good}");
        }
    }

    #[test]
    fn the_line_is_that_of_the_name() {
        assert_eq!(lines("use std::collections::{\n    BTreeMap,\n    HashMap,\n};\nuse std::fs;"), [3, 5]);
    }

    #[test]
    fn steps_of_the_controllers_reach_nobody() {
        let found = |file: &str, source: &str| !check(file, &tokens(source)).is_empty();
        let step = "crates/joiner-controllers/src/steps/lifecycle.rs";
        for bad in [
            "use kube::{Api, ResourceExt};",
            "use kube::api::{Api, Patch};",
            "fn f(client: &kube::Client) {}",
            "use joiner_provider::{Error, Provider};",
            "use crate::engine::Engine;",
            "use crate::{command::Step, executor::Executor};",
            "async fn f() {}",
        ] {
            assert!(found(step, bad), "not found: {bad}");
            assert!(!found("crates/joiner-controllers/src/reports.rs", bad), "found outside of steps: {bad}");
        }
        assert!(!found(step, "use kube::ResourceExt; use crate::command::Step; use joiner_provider::Error;"));
    }

    #[test]
    fn other_crates_may_do_what_they_like() {
        assert!(check("crates/joiner/src/main.rs", &tokens("use std::fs;")).is_empty());
        assert!(check("crates/joiner-core/tests/scenarios.rs", &tokens("use std::fs;")).is_empty());
    }
}
