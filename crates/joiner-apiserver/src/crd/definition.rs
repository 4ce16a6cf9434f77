//! A custom resource definition: the kind it makes known and the schemas of its versions.

use serde_json::Value;

use super::{Cause, Structural};

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
    /// Reads a definition.
    ///
    /// # Errors
    ///
    /// The causes for which Kubernetes would refuse it.
    pub fn parse(definition: &Value) -> Result<Definition, Vec<Cause>> {
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
        let mut read = Vec::new();
        for (index, version) in versions.into_iter().flatten().enumerate() {
            match parse_version(version, &format!("spec.versions[{index}]")) {
                Ok(version) => read.push(version),
                Err(faults) => causes.extend(faults),
            }
        }
        let stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
        let stored = versions.into_iter().flatten().filter(stored).count();
        if stored != 1 {
            let detail = "must have exactly one version marked as storage version";
            let value = definition.pointer("/spec/versions").unwrap_or(&Value::Null);
            causes.push(Cause::invalid("spec.versions", value, detail));
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

fn parse_version(version: &Value, path: &str) -> Result<Version, Vec<Cause>> {
    let flag = |name: &str| version.get(name).and_then(Value::as_bool) == Some(true);
    let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        return Err(vec![Cause::required(&format!("{path}.name"), "")]);
    }
    let at = format!("{path}.schema.openAPIV3Schema");
    let Some(schema) = version.pointer("/schema/openAPIV3Schema") else {
        return Err(vec![Cause::required(&at, "schemas are required")]);
    };
    let status = version.pointer("/subresources/status").is_some();
    Ok(Version {
        name: name.to_owned(),
        served: flag("served"),
        storage: flag("storage"),
        status,
        structural: Structural::parse(schema, status, &at)?,
    })
}
