//! A custom resource definition: the kind it makes known and the schemas of its versions.

use std::collections::VecDeque;
use std::sync::Arc;

use joiner_cel::with_room;
use parking_lot::Mutex;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

use super::{Cause, Structural};

/// Definitions read last, by the hash of what they say. One is read when it is checked and again when it is put to use, by every
/// server of a process, and reading it means compiling its rules.
static LATEST: Mutex<VecDeque<(u128, Arc<Definition>)>> = Mutex::new(VecDeque::new());

/// So many are remembered.
const REMEMBERED: usize = 32;

/// A definition that can be served.
#[derive(Debug)]
pub struct Definition {
    /// The API group.
    pub group: String,
    /// The name in paths.
    pub plural: String,
    /// The kind.
    pub kind: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The versions, in the order of the definition.
    pub versions: Vec<Version>,
}

/// One version of a custom resource.
#[derive(Debug)]
pub struct Version {
    /// Its name, such as `v1`.
    pub name: String,
    /// Whether it can be asked for.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// Whether `status` has a path of its own.
    pub status: bool,
    /// Its schema.
    pub structural: Structural,
}

impl Definition {
    /// Reads a definition, or finds it among those read before.
    ///
    /// # Errors
    ///
    /// As [`Definition::parse`].
    pub fn read(definition: &Value) -> Result<Arc<Definition>, Vec<Cause>> {
        let hash = xxh3_128(said(definition).as_bytes());
        if let Some((_, known)) = LATEST.lock().iter().find(|(known, _)| *known == hash) {
            return Ok(known.clone());
        }
        let read = Arc::new(Self::parse(definition)?);
        let mut latest = LATEST.lock();
        if latest.len() == REMEMBERED {
            latest.pop_front();
        }
        latest.push_back((hash, read.clone()));
        Ok(read)
    }

    /// Reads a definition.
    ///
    /// # Errors
    ///
    /// The causes for which Kubernetes would refuse it.
    pub fn parse(definition: &Value) -> Result<Definition, Vec<Cause>> {
        with_room(|| Self::parse_here(definition))
    }

    fn parse_here(definition: &Value) -> Result<Definition, Vec<Cause>> {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let mut causes = Vec::new();
        for (pointer, field) in [
            ("/spec/group", "spec.group"),
            ("/spec/names/plural", "spec.names.plural"),
            ("/spec/names/kind", "spec.names.kind"),
        ] {
            if text(pointer).is_empty() {
                causes.push(Cause::required(field, ""));
            }
        }
        let (group, plural, name) = (text("/spec/group"), text("/spec/names/plural"), text("/metadata/name"));
        if name != format!("{plural}.{group}") {
            let detail = "must be spec.names.plural+\".\"+spec.group";
            causes.push(Cause::invalid("metadata.name", &name.into(), detail));
        }
        let scope = text("/spec/scope");
        match scope {
            "Cluster" | "Namespaced" => {}
            "" => causes.push(Cause::required("spec.scope", "")),
            other => {
                let supported = ["Cluster", "Namespaced"].map(Value::from);
                causes.push(Cause::not_supported("spec.scope", &other.into(), &supported));
            }
        }
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        let versions = versions.map(Vec::as_slice).unwrap_or_default();
        // What all versions say is told once, at a place of its own.
        let shared = is_shared(versions, "schema");
        let mut read = Vec::new();
        for (index, version) in versions.iter().enumerate() {
            let path = format!("spec.versions[{index}]");
            let schema_path = if shared {
                "spec.validation.openAPIV3Schema".to_owned()
            } else {
                format!("{path}.schema.openAPIV3Schema")
            };
            match parse_version(version, &path, &schema_path) {
                Ok(version) => read.push(version),
                Err(faults) => {
                    for fault in faults {
                        if !causes.contains(&fault) {
                            causes.push(fault);
                        }
                    }
                }
            }
        }
        let stored = versions.iter().filter(|version| version.get("storage") == Some(&Value::Bool(true)));
        if stored.count() != 1 {
            let detail = "must have exactly one version marked as storage version";
            causes.push(Cause::invalid_shown("spec.versions", &shown(versions), detail));
        }
        if !causes.is_empty() {
            return Err(causes);
        }
        Ok(Definition {
            group: group.to_owned(),
            plural: plural.to_owned(),
            kind: text("/spec/names/kind").to_owned(),
            namespaced: scope == "Namespaced",
            versions: read,
        })
    }

    /// The schema of a version.
    pub fn version(&self, name: &str) -> Option<&Structural> {
        self.versions.iter().find(|version| version.name == name).map(|version| &version.structural)
    }
}

/// Everything that reading a definition depends on.
fn said(definition: &Value) -> String {
    let at = |pointer: &str| definition.pointer(pointer).unwrap_or(&Value::Null);
    let mut text = String::new();
    for pointer in ["/metadata/name", "/spec/group", "/spec/names/plural", "/spec/names/kind", "/spec/scope"]
    {
        text.push_str(&format!("{}\n", at(pointer)));
    }
    for version in at("/spec/versions").as_array().into_iter().flatten() {
        let flag = |name: &str| version.get(name) == Some(&Value::Bool(true));
        let status = version.pointer("/subresources/status").is_some();
        let (name, schema) = (version.get("name"), version.get("schema"));
        text.push_str(&format!("{name:?} {} {} {status} ", flag("served"), flag("storage")));
        text.push_str(&schema.unwrap_or(&Value::Null).to_string());
    }
    text
}

/// Whether all versions say the same about a subject.
fn is_shared(versions: &[Value], subject: &str) -> bool {
    versions.windows(2).all(|pair| pair[0].get(subject) == pair[1].get(subject))
}

/// Versions as Kubernetes shows them: by the names of its fields in Go, and without what all of them share.
fn shown(versions: &[Value]) -> String {
    let fields = [
        ("Schema", "schema"),
        ("Subresources", "subresources"),
        ("AdditionalPrinterColumns", "additionalPrinterColumns"),
        ("SelectableFields", "selectableFields"),
    ];
    let shown: Vec<String> = versions
        .iter()
        .map(|version| {
            let flag = |name: &str| version.get(name) == Some(&Value::Bool(true));
            let get = |name: &str| version.get(name).unwrap_or(&Value::Null);
            let mut text = format!(
                "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{}",
                get("name"),
                flag("served"),
                flag("storage"),
                flag("deprecated"),
                get("deprecationWarning")
            );
            for (name, field) in fields {
                let value = if is_shared(versions, field) { &Value::Null } else { get(field) };
                text.push_str(&format!(",\"{name}\":{value}"));
            }
            text + "}"
        })
        .collect();
    format!("[{}]", shown.join(","))
}

fn parse_version(version: &Value, path: &str, schema_path: &str) -> Result<Version, Vec<Cause>> {
    let flag = |name: &str| version.get(name).and_then(Value::as_bool) == Some(true);
    let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        return Err(vec![Cause::required(&format!("{path}.name"), "")]);
    }
    let Some(schema) = version.pointer("/schema/openAPIV3Schema") else {
        return Err(vec![Cause::required(&format!("{path}.schema.openAPIV3Schema"), "")]);
    };
    let status = version.pointer("/subresources/status").is_some();
    Ok(Version {
        name: name.to_owned(),
        served: flag("served"),
        storage: flag("storage"),
        status,
        structural: Structural::parse(schema, status, schema_path)?,
    })
}
