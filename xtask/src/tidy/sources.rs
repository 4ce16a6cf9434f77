//! Rules for every Rust source: nothing unfinished, no skipped tests, telling module names, an essay on top of libraries.

use super::Finding;
use super::tokens::Token;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = ["utils", "util", "common", "helpers", "misc", "manager", "stuff"];

/// Doc lines a library has to open with.
const ESSAY_LINES: usize = 15;

/// Checks one source file.
pub fn check(file: &str, text: &str, tokens: &[Token]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let parts = file.trim_end_matches(".rs").split('/');
    if let Some(name) = parts.into_iter().find(|part| EMPTY_NAMES.contains(part)) {
        findings.push(Finding::new(file, 0, format!("module `{name}`: name it after what is inside")));
    }
    if file.ends_with("/src/lib.rs") {
        let essay = text.lines().take_while(|line| line.starts_with("//!")).count();
        if essay < ESSAY_LINES {
            findings.push(Finding::new(
                file,
                0,
                format!(
                    "opens with {essay} doc lines; say in at least {ESSAY_LINES} what it is for, with an example, its \
                     main types and what was turned down"
                ),
            ));
        }
    }
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text == text);
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "todo" | "unimplemented" if is(at + 1, "!") => {
                findings.push(Finding::new(
                    file,
                    token.line,
                    format!("`{}!`: finish it or leave it out", token.text),
                ));
            }
            "ignore" if at > 0 && is(at - 1, "[") && at > 1 && is(at - 2, "#") => {
                findings.push(Finding::new(file, token.line, "`#[ignore]`: a test runs or is removed"));
            }
            "mod" if tokens.get(at + 1).is_some_and(|name| EMPTY_NAMES.contains(&name.text.as_str())) => {
                let name = &tokens[at + 1].text;
                findings.push(Finding::new(
                    file,
                    token.line,
                    format!("module `{name}`: name it after what is inside"),
                ));
            }
            _ => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    fn messages(file: &str, source: &str) -> Vec<String> {
        check(file, source, &tokens(source)).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn unfinished_code_and_skipped_tests_are_found() {
        for bad in
            ["fn f() {\n todo!() }", "fn f() {\n unimplemented!(\"x\") }", "#[test]\n#[ignore] fn f() {}"]
        {
            let found = messages("crates/x/src/a.rs", bad);
            assert!(found.len() == 1 && found[0].starts_with("crates/x/src/a.rs:2: "), "{bad}: {found:?}");
        }
        assert!(messages("crates/x/src/a.rs", "// todo!() and #[ignore]\nlet todo = 1;").is_empty());
    }

    #[test]
    fn empty_module_names_are_found() {
        assert_eq!(messages("crates/x/src/utils.rs", "").len(), 1);
        assert_eq!(messages("crates/x/src/common/pods.rs", "").len(), 1);
        assert_eq!(messages("crates/x/src/a.rs", "mod helpers { }").len(), 1);
        assert!(messages("crates/x/src/budget.rs", "mod common_sense;").is_empty());
    }

    #[test]
    fn a_library_opens_with_an_essay() {
        let short = "//! Hello.\n\npub fn f() {}\n";
        assert_eq!(messages("crates/x/src/lib.rs", short).len(), 1);
        let long = "//! One more line.\n".repeat(ESSAY_LINES);
        assert!(messages("crates/x/src/lib.rs", &long).is_empty());
        assert!(messages("crates/x/src/main.rs", short).is_empty());
    }
}
