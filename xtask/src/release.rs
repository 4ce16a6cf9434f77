//! `cargo xtask release --dry-run`: whether everything that carries the version carries the same, and the bill of materials of the program (CycloneDX).
//!
//! The bill lists what is linked into the program on Linux: the crates that cargo resolves for it without build scripts, macros and tests, each with its
//! version, licence and the checksum of `Cargo.lock`. The same sources give the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use serde_json::{Value, json};

/// What the image is built for.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// The program.
const PROGRAM: &str = "joiner";

/// Options of the chore.
#[derive(ClapArgs)]
pub struct Args {
    /// Check and write files, publish nothing: all that it can do, said out loud
    #[arg(long, required = true)]
    dry_run: bool,
}

/// Checks and writes.
pub fn run(args: &Args, root: &Path) -> Result<()> {
    debug_assert!(args.dry_run, "clap asks for it");
    let metadata = metadata(root)?;
    let program = package(&metadata, PROGRAM)?;
    let version = program["version"].as_str().context("the program has no version")?;
    same_versions(root, version)?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock"))?;
    let bill = bill(&metadata, &checksums(&lock))?;
    let folder = root.join("target/release-files");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{PROGRAM}-{version}.cdx.json"));
    std::fs::write(&file, format!("{}\n", serde_json::to_string_pretty(&bill)?))?;
    let count = bill["components"].as_array().map_or(0, Vec::len);
    println!("version {version}: the workspace and both charts agree");
    println!("{}: {count} crates, {TARGET}", file.display());
    println!("\nleft to do, by hand: SECURITY.md, \"Making a release\", from step 4");
    Ok(())
}

fn metadata(root: &Path) -> Result<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", TARGET])
        .current_dir(root)
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn package<'m>(metadata: &'m Value, name: &str) -> Result<&'m Value> {
    let packages = metadata["packages"].as_array().context("no packages")?;
    packages.iter().find(|of| of["name"] == name).with_context(|| format!("no package `{name}`"))
}

fn same_versions(root: &Path, version: &str) -> Result<()> {
    for chart in ["joiner", "joiner-crd"] {
        let path = format!("charts/{chart}/Chart.yaml");
        let about: Value = serde_saphyr::from_str(&std::fs::read_to_string(root.join(&path))?)?;
        for field in ["version", "appVersion"] {
            if about[field] != version {
                bail!(
                    "{path}: `{field}` is {} and not `{version}`, the version of the workspace",
                    about[field]
                );
            }
        }
    }
    Ok(())
}

/// Checksums of crates from the registry, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    let (mut name, mut version) = (String::new(), String::new());
    for line in lock.lines() {
        let Some((field, value)) = line.split_once(" = ") else { continue };
        let value = value.trim_matches('"').to_owned();
        match field {
            "name" => name = value,
            "version" => version = value,
            "checksum" => drop(found.insert((name.clone(), version.clone()), value)),
            _ => {}
        }
    }
    found
}

/// What the program is linked with.
fn bill(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let program = package(metadata, PROGRAM)?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("nothing is resolved")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let node_of: BTreeMap<String, &Value> = nodes.iter().map(|node| (text(&node["id"]), node)).collect();
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package_of: BTreeMap<String, &Value> = packages.iter().map(|of| (text(&of["id"]), of)).collect();
    let is_macro = |id: &str| {
        package_of.get(id).is_some_and(|of| {
            of["targets"].as_array().into_iter().flatten().any(|target| {
                target["kind"].as_array().into_iter().flatten().any(|kind| kind == "proc-macro")
            })
        })
    };
    let begin = text(&program["id"]);
    let mut seen = BTreeSet::from([begin.clone()]);
    let mut open = vec![begin.clone()];
    let mut links = BTreeMap::new();
    while let Some(id) = open.pop() {
        let mut uses = BTreeSet::new();
        for dependency in node_of.get(&id).and_then(|node| node["deps"].as_array()).into_iter().flatten() {
            let linked =
                dependency["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null());
            let other = text(&dependency["pkg"]);
            if linked && !is_macro(&other) {
                if seen.insert(other.clone()) {
                    open.push(other.clone());
                }
                uses.insert(other);
            }
        }
        links.insert(id, uses);
    }
    let address = |id: &str| {
        let of = package_of.get(id).copied().unwrap_or(&Value::Null);
        format!("pkg:cargo/{}@{}", text(&of["name"]), text(&of["version"]))
    };
    let component = |id: &str| {
        let of = package_of.get(id).copied().unwrap_or(&Value::Null);
        let (name, version) = (text(&of["name"]), text(&of["version"]));
        let mut made = json!({"type": "library", "bom-ref": address(id), "name": name, "version": version, "purl": address(id)});
        if let Some(licence) = of["license"].as_str() {
            made["licenses"] = json!([{"expression": licence}]);
        }
        if let Some(sum) = checksums.get(&(name, version)) {
            made["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        made
    };
    let mut own = component(&begin);
    own["type"] = json!("application");
    let mut components: Vec<Value> = seen.iter().filter(|id| **id != begin).map(|id| component(id)).collect();
    components.sort_by_key(|of| of["purl"].as_str().map(str::to_owned));
    let mut dependencies: Vec<Value> = links
        .iter()
        .map(|(id, uses)| {
            let mut uses: Vec<String> = uses.iter().map(|id| address(id)).collect();
            uses.sort();
            json!({"ref": address(id), "dependsOn": uses})
        })
        .collect();
    dependencies.sort_by_key(|of| of["ref"].as_str().map(str::to_owned));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
        "dependencies": dependencies,
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_and_nothing_else() {
        let crate_of = |name: &str, kind: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT", "targets": [{"kind": [kind]}]});
        let uses = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [crate_of("joiner", "bin"), crate_of("a", "lib"), crate_of("b", "lib"), crate_of("build", "lib"),
                crate_of("test", "lib"), crate_of("derive", "proc-macro"), crate_of("syn", "lib")],
            "resolve": {"nodes": [
                {"id": "joiner", "deps": [uses("a", Value::Null), uses("build", json!("build")), uses("test", json!("dev")), uses("derive", Value::Null)]},
                {"id": "a", "deps": [uses("b", Value::Null)]}, {"id": "b", "deps": []},
                {"id": "derive", "deps": [uses("syn", Value::Null)]}]},
        });
        let sums = checksums("[[package]]\nname = \"b\"\nversion = \"1.0.0\"\nchecksum = \"0123\"\n");
        let bill = bill(&metadata, &sums).unwrap();
        let names: Vec<&str> =
            bill["components"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(bill["components"][1]["hashes"][0]["content"], "0123");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT");
        assert_eq!(bill["metadata"]["component"]["type"], "application");
    }
}
