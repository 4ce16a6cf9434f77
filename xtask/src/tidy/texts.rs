//! Rules for every text file, and for the tree as a whole.

use super::Finding;

/// Checks one text file.
pub fn check(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if is_recorded(file) {
        return findings;
    }
    // Put together here, so that this file passes its own check.
    let machine_paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp/br", "iefs")];
    for (index, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t']) {
            findings.push(Finding::new(file, index + 1, "blanks at the end of the line"));
        }
        if let Some(path) = machine_paths.iter().find(|path| line.contains(**path)) {
            findings.push(Finding::new(file, index + 1, format!("`{path}` is a path of one machine")));
        }
        if let Some(why) = private_registry(file, line) {
            findings.push(Finding::new(file, index + 1, why));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(Finding::new(file, text.lines().count(), "no newline at the end of the file"));
    }
    findings
}

/// Data and output recorded byte by byte: not ours to tidy.
fn is_recorded(file: &str) -> bool {
    let data = file.starts_with("bench/data/") || file.contains("/data/") || file.contains("/web/dist/");
    let output = [".snap", ".stdout", ".stderr", ".jsonl"].iter().any(|ending| file.ends_with(ending));
    // Third-party texts come as they are.
    (data && !file.ends_with(".md") && !file.ends_with(".rs")) || output || file.contains("LICENSE")
}

/// A clone has to build from the public registries alone.
fn private_registry(file: &str, line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    if file == "Cargo.lock" {
        let foreign = line.starts_with("source = ") && !line.contains("github.com/rust-lang/crates.io-index");
        return foreign.then_some("a dependency that does not come from crates.io");
    }
    if file.ends_with(".cargo/config.toml") && (line.starts_with("[source") || line.starts_with("[registr")) {
        return Some("a registry of one site: keep it in your own Cargo home");
    }
    let settings = [concat!("GOPR", "OXY="), concat!("index", "-url ="), concat!("npm_config_reg", "istry=")];
    settings
        .iter()
        .any(|setting| line.contains(setting))
        .then_some("a registry of one site: keep it in your own environment")
}

/// Checks on which files there are.
pub fn check_tree(files: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let exists = |name: &str| files.iter().any(|file| file == name);
    for needed in ["LICENSE", "deny.toml"] {
        if !exists(needed) {
            findings.push(Finding::new(needed, 0, "missing"));
        }
    }
    for file in files {
        if file.ends_with(".snap.new") || file.ends_with(".pending-snap") {
            findings.push(Finding::new(
                file,
                0,
                "a snapshot nobody has accepted: look at it, then accept or fix",
            ));
        }
        // Data of others says where it comes from and under which licence.
        if let Some((dir, _)) = file.rsplit_once('/')
            && (dir.ends_with("/data") || dir.ends_with("/tests/data"))
            && !exists(&format!("{dir}/README.md"))
        {
            findings.push(Finding::new(file, 0, format!("`{dir}` has no README.md with origin and licence")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(file: &str, text: &str) -> Vec<usize> {
        check(file, text).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn blanks_and_missing_newlines_are_found() {
        assert_eq!(lines("a.md", "fine\nblank \ntab\t\n"), [2, 3]);
        assert_eq!(lines("a.md", "one\ntwo"), [2]);
        assert!(lines("crates/x/tests/snapshots/a.snap", "blank \nno end").is_empty());
        assert_eq!(lines("crates/x/data/README.md", "blank \n"), [1]);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        assert_eq!(lines("a.rs", concat!("x\nlet p = \"/wo", "rk/x\";\n")), [2]);
        assert!(lines("a.rs", "let p = \"/works/x\";\n").is_empty());
    }

    #[test]
    fn private_registries_are_found() {
        assert_eq!(lines("Cargo.lock", "source = \"registry+https://example.com/index\"\n"), [1]);
        assert!(
            lines("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n")
                .is_empty()
        );
        assert_eq!(lines(".cargo/config.toml", "[source.crates-io]\n"), [1]);
        assert_eq!(lines("a.sh", concat!("export GOPR", "OXY=x\n")), [1]);
    }

    #[test]
    fn the_tree_is_checked() {
        let files = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let complete = files(&["LICENSE", "deny.toml", "crates/x/data/README.md", "crates/x/data/a.json"]);
        assert!(check_tree(&complete).is_empty());
        let found = check_tree(&files(&["LICENSE", "crates/x/data/a.json", "crates/x/tests/a.snap.new"]));
        assert_eq!(found.len(), 3);
    }
}
