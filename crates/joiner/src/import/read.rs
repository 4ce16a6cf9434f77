//! Files into objects and recorded changes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use joiner_api::convert::{Options, to_v1};
use joiner_api::names::GROUP;
use rayon::prelude::*;
use serde_json::Value;

use super::{Change, Import, kind, recording, text};
use crate::load::objects::{line_of, read_value};
use crate::load::source::sources_of;
use crate::load::{Document, Documents, Source};
use crate::report::InputError;
use crate::snapshot::file;

/// Documents that are parsed at a time.
const BATCH: usize = 2048;

/// Kinds that nobody in a simulated cluster reads, or that its own controllers make anew.
const LEFT_OUT: &[&str] = &[
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "ControllerRevision",
    "Endpoints",
    "EndpointSlice",
    "Event",
    "Ingress",
    "Lease",
    "LimitRange",
    "NetworkPolicy",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "Secret",
    "VolumeAttachment",
];

/// Reads files: older forms are converted, lists taken apart, and objects put in order. What has ended or is on its way out is left
/// out.
pub fn read(files: &[PathBuf]) -> Result<Import, InputError> {
    let sources = sources_of("--from", files)?;
    let names: Vec<String> = sources.iter().map(Source::name).collect();
    let mut reader = Reader::default();
    let mut batch: Vec<Document> = Vec::new();
    Documents::new(&sources).for_each(&mut |document| {
        batch.push(document);
        if batch.len() == BATCH {
            reader.take(&names, std::mem::take(&mut batch))?;
        }
        Ok(())
    })?;
    reader.take(&names, batch)?;
    let mut import = reader.import;
    if import.objects.is_empty() && import.changes.is_empty() {
        let message = "there is nothing in it that a cluster could be made of";
        return Err(InputError::of_file(
            &names.join(", "),
            message,
            "give a snapshot, or lists as `kubectl get -o yaml` prints them",
        ));
    }
    file::sort(&mut import.objects);
    import.changes.sort_by_key(|change| change.after);
    Ok(import)
}

#[derive(Default)]
struct Reader {
    import: Import,
    seen: BTreeSet<String>,
}

impl Reader {
    fn take(&mut self, names: &[String], batch: Vec<Document>) -> Result<(), InputError> {
        let parsed: Vec<Result<Value, InputError>> = batch
            .par_iter()
            .map(|document| match &document.value {
                // Moved below: no need for a copy.
                Some(_) => Ok(Value::Null),
                None => read_value(&names[document.source], document),
            })
            .collect();
        for (mut document, value) in batch.into_iter().zip(parsed) {
            let value = match document.value.take() {
                Some(value) => value,
                None => value?,
            };
            self.add(&names[document.source], &document, value)?;
        }
        Ok(())
    }

    fn add(&mut self, file: &str, document: &Document, mut value: Value) -> Result<(), InputError> {
        let is_list = kind(&value).ends_with("List") && value["items"].is_array();
        if is_list {
            if let Value::Array(items) = value["items"].take() {
                items.into_iter().try_for_each(|item| self.add(file, document, item))?;
            }
            return Ok(());
        }
        let complaint = |path: &str, message: &str, remedy: &str| InputError {
            file: file.to_owned(),
            line: line_of(file, document, path),
            object: Some(named(&value)).filter(|name| !name.is_empty()),
            path: Some(path.to_owned()),
            message: message.to_owned(),
            remedy: Some(remedy.to_owned()),
            ..InputError::default()
        };
        for field in ["apiVersion", "kind"] {
            if !value.get(field).is_some_and(Value::is_string) {
                let message = "missing, so this is no Kubernetes object";
                return Err(complaint(field, message, "every object names its `apiVersion` and `kind`"));
            }
        }
        if recording::is_change(&value) {
            let change = Change::parse(&value)
                .map_err(|(path, message)| complaint(path, message, "check the recording"))?;
            self.import.changes.push(change);
            return Ok(());
        }
        if text(&value, "/metadata/name").is_empty() {
            return Err(complaint(
                "metadata.name",
                "missing, and nobody knows what to call it",
                "every object has a name",
            ));
        }
        if LEFT_OUT.contains(&kind(&value)) || is_over(&value) {
            return Ok(());
        }
        let identity = identity(&value);
        if self.seen.contains(&identity) {
            let message = "an object of this kind and name is there twice";
            return Err(complaint("metadata.name", message, "keep one of them"));
        }
        self.seen.insert(identity);
        if is_older(&value) {
            let converted = to_v1(value.clone(), &Options::default())
                .map_err(|error| complaint("apiVersion", &error.to_string(), "convert it by hand"))?;
            self.import.objects.extend(converted.objects);
        } else {
            self.import.objects.push(value);
        }
        Ok(())
    }
}

/// Group, kind, namespace and name of an object.
fn identity(object: &Value) -> String {
    let group = text(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let namespace = text(object, "/metadata/namespace");
    format!("{group}/{}/{namespace}/{}", kind(object), text(object, "/metadata/name"))
}

fn named(object: &Value) -> String {
    match (kind(object), text(object, "/metadata/name")) {
        ("", _) => String::new(),
        (kind, "") => kind.to_owned(),
        (kind, name) => format!("{kind} `{name}`"),
    }
}

/// Pools and claims of versions before the present one.
fn is_older(object: &Value) -> bool {
    let (group, version) = text(object, "/apiVersion").split_once('/').unwrap_or_default();
    group == GROUP && version != "v1" && kind(object) != "NodeOverlay"
}

/// What has ended, or is being deleted: nobody of the simulated cluster began the deletion.
fn is_over(object: &Value) -> bool {
    let ended = match kind(object) {
        "Pod" => matches!(text(object, "/status/phase"), "Succeeded" | "Failed"),
        "Job" => {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            conditions.into_iter().flatten().any(|condition| {
                condition["status"] == "True"
                    && (condition["type"] == "Complete" || condition["type"] == "Failed")
            })
        }
        _ => false,
    };
    ended || !text(object, "/metadata/deletionTimestamp").is_empty()
}
