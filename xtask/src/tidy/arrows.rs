//! Which of our crates may depend on which, and what `joiner-core` may not depend on at all.
//!
//! Dev-dependencies are free: tests may look at anything.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::Finding;

/// A crate and those of ours it may use. `joiner-oracle` judges the others and `joiner-testbed`
/// runs a real control plane beside them: only tests and chores use the two.
const MAP: [(&str, &[&str]); 19] = [
    ("joiner-api", &[]),
    ("joiner-core", &[]),
    ("joiner-oracle", &[]),
    ("joiner-testbed", &[]),
    ("joiner-state", &["joiner-api", "joiner-core"]),
    ("joiner-manifest", &["joiner-api", "joiner-core"]),
    ("joiner-record", &["joiner-state", "joiner-api", "joiner-core"]),
    ("joiner-provider", &["joiner-api", "joiner-core"]),
    ("joiner-provider-kwok", &["joiner-provider-aws", "joiner-provider", "joiner-api"]),
    ("joiner-provider-capi", &["joiner-provider", "joiner-api"]),
    ("joiner-provider-aws", &["joiner-provider", "joiner-api"]),
    ("joiner-provider-nodegroup", &["joiner-provider", "joiner-api"]),
    (
        "joiner-controllers",
        &["joiner-state", "joiner-record", "joiner-provider", "joiner-core", "joiner-api"],
    ),
    ("joiner-cel", &[]),
    ("joiner-apiserver", &["joiner-cel", "joiner-api"]),
    ("joiner-sim", &["*"]),
    ("joiner-web", &["joiner-state", "joiner-record", "joiner-core"]),
    ("joiner", &["*"]),
    ("xtask", &["joiner-oracle", "joiner-testbed"]),
];

/// Crates that would bring Kubernetes, async, logging, clocks or input and output into the core.
const NOT_IN_CORE: [&str; 14] = [
    "k8s-openapi",
    "kube",
    "kube-client",
    "kube-core",
    "kube-runtime",
    "schemars",
    "tokio",
    "futures",
    "tracing",
    "log",
    "jiff",
    "chrono",
    "rand",
    "reqwest",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `None` is a normal dependency.
    kind: Option<String>,
}

/// Asks cargo for the members and checks them.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("starting `cargo metadata`")?;
    if !output.status.success() {
        bail!(
            "`cargo metadata` ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("reading `cargo metadata`")?;
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let manifest = Path::new(&package.manifest_path);
        let file = manifest.strip_prefix(root).unwrap_or(manifest).to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(manifest).unwrap_or_default();
        for message in complaints(package) {
            let line = line_of(&text, &message.0);
            findings.push(Finding::new(&file, line, message.1));
        }
    }
    Ok(findings)
}

/// Pairs of the dependency's name and what is wrong with it.
fn complaints(package: &Package) -> Vec<(String, String)> {
    let name = package.name.as_str();
    let Some((_, allowed)) = MAP.iter().find(|(crate_name, _)| *crate_name == name) else {
        return vec![(
            name.to_owned(),
            format!("crate `{name}` is not in the map of crates: add its row here and in ARCHITECTURE.md"),
        )];
    };
    let mut complaints = Vec::new();
    for dependency in &package.dependencies {
        if dependency.kind.as_deref() == Some("dev") {
            continue;
        }
        let target = dependency.name.as_str();
        let ours = target == "xtask" || target == "joiner" || target.starts_with("joiner-");
        let any = allowed.contains(&"*")
            && !["joiner-oracle", "joiner-testbed", "joiner", "xtask"].contains(&target);
        if ours && !any && !allowed.contains(&target) {
            complaints.push((target.to_owned(), format!("`{name}` may not depend on `{target}`")));
        }
        if name == "joiner-core" && NOT_IN_CORE.contains(&target) {
            complaints.push((
                target.to_owned(),
                format!("`joiner-core` may not depend on `{target}`: it decides on plain values"),
            ));
        }
    }
    complaints
}

fn line_of(manifest: &str, dependency: &str) -> usize {
    let starts =
        |line: &str| line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']));
    manifest.lines().position(starts).map_or(0, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        Package {
            name: name.into(),
            manifest_path: String::new(),
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency { name: (*name).into(), kind: kind.map(str::to_owned) })
                .collect(),
        }
    }

    fn count(name: &str, dependencies: &[(&str, Option<&str>)]) -> usize {
        complaints(&package(name, dependencies)).len()
    }

    #[test]
    fn arrows_against_the_map_are_found() {
        assert_eq!(count("joiner-core", &[("joiner-api", None)]), 1);
        assert_eq!(count("joiner-api", &[("joiner-core", Some("build"))]), 1);
        assert_eq!(count("joiner", &[("joiner-oracle", None)]), 1);
        assert_eq!(count("joiner-web", &[("joiner-api", None), ("joiner-state", None)]), 1);
        assert_eq!(count("joiner-new", &[]), 1);
    }

    #[test]
    fn kubernetes_in_the_core_is_found() {
        assert_eq!(count("joiner-core", &[("k8s-openapi", None), ("tokio", None), ("microlp", None)]), 2);
    }

    #[test]
    fn arrows_along_the_map_and_in_tests_pass() {
        assert_eq!(count("joiner-state", &[("joiner-api", None), ("joiner-core", None)]), 0);
        assert_eq!(count("joiner", &[("joiner-state", None), ("joiner-oracle", Some("dev"))]), 0);
        assert_eq!(count("joiner-core", &[("joiner-oracle", Some("dev"))]), 0);
    }

    #[test]
    fn the_line_of_a_dependency_is_found() {
        assert_eq!(line_of("[dependencies]\nkube-core = 1\nkube.workspace = true\n", "kube"), 3);
        assert_eq!(line_of("[dependencies]\n", "kube"), 0);
    }
}
