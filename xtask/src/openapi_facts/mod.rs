//! `cargo xtask openapi-facts`: packs what the embedded API server needs to know about the fields of built-in kinds.
//!
//! The source is the published OpenAPI of Kubernetes (Go module `k8s.io/kubernetes`, folder `api`): every definition with its
//! properties, list keys and patch strategies, without prose. One fact is not in that document: whether a field that holds its zero
//! value is written out. It comes from the Go types ([`tags`]) and is added to the property as `x-go`. The discovery
//! document is packed beside it as it is, and so are the numbers that fields have in protobuf ([`protobuf`]).

mod protobuf;
mod tags;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args as ClapArgs;
use serde_json::{Map, Value};

/// Kubernetes version whose facts are packed; the staging modules have the same number with a leading zero.
const VERSION: &str = "1.35.4";
const STAGING: &str = "v0.35.4";
/// Smaller is worth the second it takes: the file is in the repository and in the binary.
const COMPRESSION: i32 = 19;

/// Options of the chore.
#[derive(ClapArgs)]
pub struct Args {
    /// Folder with the unpacked module `k8s.io/kubernetes`; downloaded with the Go client when absent
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

/// Writes `openapi.json.zst` and `discovery.json.zst`.
pub fn run(args: &Args, root: &Path) -> anyhow::Result<()> {
    let kubernetes = match &args.from {
        Some(dir) => dir.clone(),
        None => module("k8s.io/kubernetes", &format!("v{VERSION}"))?,
    };
    let api = kubernetes.join("api");
    let mut definitions = definitions(&api.join("openapi-spec/v3"))?;
    let modules = [
        module("k8s.io/api", STAGING)?,
        module("k8s.io/apimachinery", STAGING)?,
        module("k8s.io/apiextensions-apiserver", STAGING)?,
    ];
    let tags = tags::read(&[
        (modules[0].clone(), "", "io.k8s.api"),
        (modules[1].clone(), "pkg/apis/meta", "io.k8s.apimachinery.pkg.apis.meta"),
        (
            modules[2].clone(),
            "pkg/apis/apiextensions",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        ),
    ])?;
    let marked = tags::mark(&mut definitions, &tags);
    let protobuf = protobuf::facts(&modules, &tags, &definitions)?;

    let data = root.join("crates/joiner-apiserver/data");
    let count = definitions.len();
    let document = Value::Object(definitions.into_iter().collect());
    let packed = pack(&data.join("openapi.json.zst"), &serde_json::to_vec(&document)?)?;
    println!("openapi.json.zst: {count} definitions, {marked} fields with a Go fact, {packed} bytes");

    let discovery: Value = read(&api.join("discovery/aggregated_v2.json"))?;
    let packed = pack(&data.join("discovery.json.zst"), &serde_json::to_vec(&discovery)?)?;
    println!("discovery.json.zst: {packed} bytes");

    let packed = pack(&data.join("protobuf.json.zst"), &serde_json::to_vec(&protobuf)?)?;
    println!("protobuf.json.zst: {packed} bytes");
    Ok(())
}

/// Component schemas of all published files in one map; a definition has the same text in every file that repeats it.
fn definitions(dir: &Path) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .with_context(|| format!("cannot read `{}`", dir.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut all = BTreeMap::new();
    for file in files {
        let document: Value = read(&file)?;
        let Some(schemas) = document.pointer("/components/schemas").and_then(Value::as_object) else {
            continue;
        };
        for (name, schema) in schemas {
            let facts = facts(schema);
            if let Some(before) = all.insert(name.clone(), facts.clone())
                && without_kinds(&before) != without_kinds(&facts)
            {
                bail!("definition `{name}` differs in `{}`", file.display());
            }
        }
    }
    Ok(all)
}

/// Definitions used by every group list the group's own kinds, so that list differs from file to file.
fn without_kinds(schema: &Value) -> Value {
    let mut copy = schema.clone();
    if let Some(map) = copy.as_object_mut() {
        map.remove("x-kubernetes-group-version-kind");
    }
    copy
}

/// A schema without prose, references without their prefix and without the `allOf` around them.
fn facts(schema: &Value) -> Value {
    let Some(from) = schema.as_object() else { return schema.clone() };
    let mut to = Map::new();
    for (key, value) in from {
        match key.as_str() {
            "description" | "title" | "example" | "externalDocs" => {}
            "$ref" => {
                let name = value.as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
                to.insert(key.clone(), name.into());
            }
            "allOf" if value.as_array().is_some_and(|list| list.len() == 1) => {
                if let Some(Value::Object(inner)) = value.get(0).map(facts) {
                    to.extend(inner);
                }
            }
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                to.insert(
                    key.clone(),
                    properties.map(|(name, inner)| (name.clone(), facts(inner))).collect(),
                );
            }
            "items" | "additionalProperties" => {
                to.insert(key.clone(), facts(value));
            }
            _ => {
                to.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(to)
}

fn read(file: &Path) -> anyhow::Result<Value> {
    let text = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("`{}` is not JSON", file.display()))
}

fn pack(file: &Path, text: &[u8]) -> anyhow::Result<usize> {
    let packed = zstd::bulk::compress(text, COMPRESSION)?;
    fs::write(file, &packed).with_context(|| format!("cannot write `{}`", file.display()))?;
    Ok(packed.len())
}

/// Folder of a module in the cache of the Go client.
fn module(path: &str, version: &str) -> anyhow::Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{path}@{version}")])
        .current_dir(std::env::temp_dir())
        .output()
        .context("cannot run `go`")?;
    let answer: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`go mod download {path}@{version}` gave no JSON"))?;
    match answer["Dir"].as_str() {
        Some(dir) => Ok(PathBuf::from(dir)),
        None => bail!("cannot download `{path}@{version}`: {}", answer["Error"]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prose_goes_and_references_are_short() {
        let schema = json!({
            "description": "long text",
            "properties": {
                "description": {"type": "string", "description": "a field of that name stays"},
                "spec": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}], "default": {}},
            },
        });
        assert_eq!(
            facts(&schema),
            json!({"properties": {
                "description": {"type": "string"},
                "spec": {"$ref": "io.k8s.api.core.v1.PodSpec", "default": {}},
            }})
        );
    }
}
