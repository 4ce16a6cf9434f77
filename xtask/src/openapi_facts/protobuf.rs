//! The numbers and types that fields have in protobuf, from the published `generated.proto` files.
//!
//! Names in those files are almost those of JSON. Where they are not, and where a message is written into its parent in JSON, the Go
//! types decide. The result is `{"kinds": {"apps/v1/Deployment": MESSAGE}, "messages": {MESSAGE: [[number, name, type], …]}}`: an empty
//! name means that the fields belong to the parent, a type begins with `[]` if repeated and with `{}` for a map with text keys, and a
//! message that stands for a bare list has one field called `[]`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use super::tags::Tags;

type Fields = Vec<(u32, String, String)>;

/// Reads all messages below the modules.
pub fn facts(
    modules: &[PathBuf],
    tags: &Tags,
    definitions: &BTreeMap<String, Value>,
) -> anyhow::Result<Value> {
    let mut messages = BTreeMap::new();
    for module in modules {
        visit(module, &mut messages)?;
    }
    let mut named = BTreeMap::new();
    for (message, fields) in &messages {
        let definition = definition_name(message);
        let known = tags.get(&definition);
        let bare_list = known.is_none()
            && fields.len() == 1
            && fields.iter().all(|(_, name, kind)| name == "items" && kind.starts_with("[]"));
        let fields: Vec<Value> = fields
            .iter()
            .map(|(number, name, kind)| {
                let name = known.and_then(|known| known.numbers.get(number)).unwrap_or(name);
                if bare_list { json!([number, "[]", kind]) } else { json!([number, name, kind]) }
            })
            .collect();
        named.insert(message.clone(), fields);
    }
    let by_definition: BTreeMap<String, &String> =
        messages.keys().map(|message| (definition_name(message), message)).collect();
    let mut kinds = BTreeMap::new();
    for (definition, schema) in definitions {
        let Some(message) = by_definition.get(definition) else { continue };
        for kind in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            let part = |name: &str| kind[name].as_str().unwrap_or_default();
            let group = if part("group").is_empty() { String::new() } else { format!("{}/", part("group")) };
            kinds.insert(format!("{group}{}/{}", part("version"), part("kind")), (*message).clone());
        }
    }
    Ok(json!({"kinds": kinds, "messages": named}))
}

/// `k8s.io.api.core.v1.Pod` → `io.k8s.api.core.v1.Pod`.
fn definition_name(message: &str) -> String {
    match message.strip_prefix("k8s.io.") {
        Some(rest) => {
            format!("io.k8s.{}", rest.replace("apiextensions_apiserver", "apiextensions-apiserver"))
        }
        None => message.to_owned(),
    }
}

fn visit(dir: &Path, messages: &mut BTreeMap<String, Fields>) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read `{}`", dir.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            visit(&entry.path(), messages)?;
        } else if entry.file_name() == "generated.proto" {
            read(&fs::read_to_string(entry.path())?, messages);
        }
    }
    Ok(())
}

/// These files have one field per line.
fn read(text: &str, messages: &mut BTreeMap<String, Fields>) {
    let mut package = "";
    let mut current: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name.trim_end_matches(';');
        } else if let Some(name) = line.strip_prefix("message ") {
            let name = format!("{package}.{}", name.trim_end_matches('{').trim());
            messages.entry(name.clone()).or_default();
            current = Some(name);
        } else if line == "}" {
            current = None;
        } else if let Some(message) = &current
            && let Some(field) = field(line, package)
        {
            messages.entry(message.clone()).or_default().push(field);
        }
    }
}

fn field(line: &str, package: &str) -> Option<(u32, String, String)> {
    if line.starts_with("//") {
        return None;
    }
    let (left, number) = line.strip_suffix(';')?.split_once(" = ")?;
    let number = number.split_whitespace().next()?.parse().ok()?;
    let (kind, name) = left.rsplit_once(' ')?;
    let full = |kind: &str| {
        let kind = kind.trim().trim_start_matches('.');
        let scalar = kind.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
        if scalar || kind.contains('.') { kind.to_owned() } else { format!("{package}.{kind}") }
    };
    let kind = if let Some(kind) = kind.strip_prefix("repeated ") {
        format!("[]{}", full(kind))
    } else if let Some(kind) = kind.strip_prefix("map<string,") {
        format!("{{}}{}", full(kind.trim_end_matches('>')))
    } else {
        full(kind.strip_prefix("optional ").unwrap_or(kind))
    };
    Some((number, name.to_owned(), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        let text = "package k8s.io.api.core.v1;\nmessage A {\n  // old = 1;\n  optional string name = 1;\n  repeated B list = 2;\n\
            \x20 map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity> m = 3;\n}\n";
        let mut messages = BTreeMap::new();
        read(text, &mut messages);
        let text = |text: &str| text.to_owned();
        let expected = vec![
            (1, text("name"), text("string")),
            (2, text("list"), text("[]k8s.io.api.core.v1.B")),
            (3, text("m"), text("{}k8s.io.apimachinery.pkg.api.resource.Quantity")),
        ];
        assert_eq!(messages["k8s.io.api.core.v1.A"], expected);
    }
}
