//! Manifests into a running cluster: each object is applied as kubectl would apply it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use joiner_api::names::{AWS_API_VERSION, KWOK_API_VERSION, kinds};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiCapabilities, ApiResource, Scope, pinned_kind};
use serde_json::{Value, json};

use crate::cli::MAX_PODS;
use crate::field::text;
use crate::load::documents::cut;
use crate::load::objects::{line_of, read_value};
use crate::load::{Documents, Source, sources};
use crate::report::InputError;

/// Who the fields belong to.
const MANAGER: &str = "joiner-up";

/// Reads the objects of files, older forms converted, in the order in which they stand.
pub fn read(files: &[PathBuf]) -> Result<Vec<Value>, InputError> {
    let sources: Vec<Source> = sources(files)?;
    let mut objects = Vec::new();
    let mut pods = 0_u64;
    Documents::new(&sources).for_each(&mut |document| {
        let name = sources[document.source].name();
        let before = objects.len();
        flatten(read_value(&name, &document)?, &mut objects);
        for (at, object) in objects[before..].iter().enumerate() {
            let Some((field, count)) = count_of(object) else { continue };
            pods = pods.saturating_add(count);
            if pods > MAX_PODS as u64 {
                let within = if objects.len() - before > 1 { format!("items[{at}].") } else { String::new() };
                return Err(InputError {
                    line: line_of(&name, &document, &format!("{within}spec.{field}")).or(document.line),
                    file: name,
                    object: Some(told_of(object)),
                    path: Some(format!("spec.{field}")),
                    value: Some(count.to_string()),
                    message: format!("more than {MAX_PODS} pods or nodes altogether"),
                    remedy: Some("this looks like a mistake: ask for fewer".to_owned()),
                });
            }
        }
        Ok(())
    })?;
    Ok(objects)
}

/// How many pods or nodes an object asks for, and in which field.
fn count_of(object: &Value) -> Option<(&'static str, u64)> {
    let field = match text(object, "/kind") {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" | "NodePool" => "replicas",
        "Job" => "parallelism",
        _ => return None,
    };
    Some((field, object["spec"][field].as_u64()?))
}

/// Reads objects from text that is part of the program.
pub fn read_text(name: &str, text: &str) -> Result<Vec<Value>, InputError> {
    let mut objects = Vec::new();
    cut(text.as_bytes(), 0, name, &mut |document| {
        flatten(read_value(name, &document)?, &mut objects);
        Ok(())
    })?;
    Ok(objects)
}

/// Which of the objects a failure is about.
#[derive(Debug)]
struct At(usize);

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "object {}", self.0 + 1)
    }
}

/// A failure to apply objects, with the place of the object in the files that the last of them came from.
pub fn with_place(error: anyhow::Error, files: &[PathBuf], added: usize) -> anyhow::Error {
    let Some(found) = error.downcast_ref::<InputError>().cloned() else { return error };
    let at = error.downcast_ref::<At>().and_then(|At(at)| at.checked_sub(added));
    // Files are read again: places of a hundred thousand objects are not worth keeping for one.
    match at.and_then(|at| place(files, at, found.object.as_deref()?)) {
        Some((file, line)) => InputError { file, line, ..found }.into(),
        None => found.into(),
    }
}

/// File and line of an object, if it is the one that is meant.
fn place(files: &[PathBuf], wanted: usize, told: &str) -> Option<(String, Option<usize>)> {
    let (mut count, mut found) = (0, None);
    let sources = sources(files).ok().filter(|sources| !sources.contains(&Source::Stdin))?;
    let looked = Documents::new(&sources).for_each(&mut |document| {
        let name = sources[document.source].name();
        let mut objects = Vec::new();
        flatten(read_value(&name, &document)?, &mut objects);
        let before = count;
        count += objects.len();
        let Some(object) = wanted.checked_sub(before).and_then(|at| objects.get(at)) else { return Ok(()) };
        if found.is_none() && told_of(object) == told {
            let item = format!("items[{}].", wanted - before);
            let within = if objects.len() > 1 { item.as_str() } else { "" };
            let line = line_of(&name, &document, &format!("{within}metadata.name"));
            found = Some((name, line.or(document.line)));
        }
        Ok(())
    });
    looked.ok().and(found)
}

/// What messages call an object.
fn told_of(object: &Value) -> String {
    format!("{} `{}`", text(object, "/kind"), text(object, "/metadata/name"))
}

fn flatten(value: Value, objects: &mut Vec<Value>) {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value {
        Value::Object(mut fields) if is_list && fields.get("items").is_some_and(Value::is_array) => {
            if let Some(Value::Array(items)) = fields.remove("items") {
                items.into_iter().for_each(|item| flatten(item, objects));
            }
        }
        value => objects.push(value),
    }
}

/// Adds what manifests for `plan` may leave out, before everything else: namespaces that objects are in, and node classes that pools
/// refer to. Says what was added.
pub fn complete(objects: &mut Vec<Value>) -> Vec<String> {
    let text = |object: &Value, path: &str| text(object, path).to_owned();
    let mut there: BTreeSet<(String, String)> =
        objects.iter().map(|object| (text(object, "/kind"), text(object, "/metadata/name"))).collect();
    there.extend(
        ["", "default", "kube-system", "kube-public", "kube-node-lease"]
            .map(|name| ("Namespace".to_owned(), name.to_owned())),
    );
    let mut added = Vec::new();
    for object in objects.iter() {
        let namespace = text(object, "/metadata/namespace");
        if there.insert(("Namespace".to_owned(), namespace.clone())) {
            added.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        }
        let class = text(object, "/spec/template/spec/nodeClassRef/name");
        let kind = text(object, "/spec/template/spec/nodeClassRef/kind");
        let version = match kind.as_str() {
            kinds::KWOK_NODE_CLASS => KWOK_API_VERSION,
            kinds::EC2_NODE_CLASS => AWS_API_VERSION,
            _ => continue,
        };
        if there.insert((kind.clone(), class.clone())) {
            added.push(json!({"apiVersion": version, "kind": kind, "metadata": {"name": class}}));
        }
    }
    let notes = added
        .iter()
        .map(|object| {
            format!(
                "{} `{}` is not in the files and was added",
                text(object, "/kind"),
                text(object, "/metadata/name")
            )
        })
        .collect();
    objects.splice(0..0, added);
    notes
}

/// Applies objects one after the other; what is in no namespace goes into `default`. Pods that stand on a node stand there again.
pub async fn apply(client: &Client, objects: &[Value]) -> anyhow::Result<()> {
    let mut known: Vec<(GroupVersionKind, ApiResource, ApiCapabilities)> = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        let text = |path: &str| text(object, path);
        let (group, version) = match text("/apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text("/apiVersion")),
        };
        let kind = GroupVersionKind::gvk(group, version, text("/kind"));
        let name = text("/metadata/name");
        let told = told_of(object);
        let known_at = match known.iter().position(|(known, _, _)| *known == kind) {
            Some(found) => found,
            None => {
                let (resource, abilities) = pinned_kind(client, &kind).await.map_err(|_| {
                    let message =
                        format!("the cluster knows no kind `{}` in `{}`", kind.kind, kind.api_version());
                    let remedy = "check `kind` and `apiVersion`, or apply its definition first".to_owned();
                    let object = Some(told.clone());
                    let error = InputError { object, message, remedy: Some(remedy), ..InputError::default() };
                    anyhow::Error::new(error).context(At(at))
                })?;
                known.push((kind, resource, abilities));
                known.len() - 1
            }
        };
        let (_, resource, abilities) = &known[known_at];
        let api: Api<DynamicObject> = match abilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), resource),
            Scope::Namespaced => {
                let namespace = match text("/metadata/namespace") {
                    "" => "default",
                    namespace => namespace,
                };
                Api::namespaced_with(client.clone(), namespace, resource)
            }
        };
        let parameters = PatchParams::apply(MANAGER).force();
        api.patch(name, &parameters, &Patch::Apply(object)).await.map_err(|error| match error {
            kube::Error::Api(status) => anyhow::Error::new(InputError {
                object: Some(told),
                message: format!("the cluster refuses it: {}", status.message),
                ..InputError::default()
            })
            .context(At(at)),
            error => anyhow::Error::new(error).context(told),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::up::assembly::Design;
    use joiner_api::names::AWS_GROUP;

    #[test]
    fn the_demo_is_made_of_objects() {
        let objects = read_text("the demo", super::super::demo::MANIFESTS).unwrap();
        assert!(objects.len() > 10);
        assert!(objects.iter().all(|object| object["metadata"]["name"].is_string()));
    }

    #[test]
    fn namespaces_and_classes_that_are_missing_are_added() {
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        let pool = json!({"kind": "NodePool", "metadata": {"name": "a"}, "spec": {"template": {"spec": {"nodeClassRef": class}}}});
        let pod = json!({"kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}});
        let mut objects = vec![pool.clone(), pool, pod.clone(), pod];
        let notes = complete(&mut objects);
        assert_eq!(
            notes,
            [
                "KWOKNodeClass `default` is not in the files and was added",
                "Namespace `shop` is not in the files and was added",
            ]
        );
        assert_eq!(objects.len(), 6);
        assert_eq!(complete(&mut objects), Vec::<String>::new());
    }

    #[tokio::test]
    async fn the_examples_are_applied_as_one_folder() {
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let objects = read(&[PathBuf::from(examples)]).unwrap();
        let clock = joiner_sim::clock::Clock::at_home(jiff::Timestamp::now());
        let design = Design {
            clock,
            seed: 1,
            catalogue: None,
            folder: None,
            restored: Vec::new(),
            startup_taints: None,
        };
        let parts = design.assemble().unwrap();
        // What differs between two files of the same object must be allowed to change, either way round.
        apply(&parts.client, &objects).await.unwrap();
        apply(&parts.client, &objects).await.unwrap();
        let kind = GroupVersionKind::gvk(AWS_GROUP, "v1", "EC2NodeClass");
        let (resource, _) = pinned_kind(&parts.client, &kind).await.unwrap();
        let classes: Api<DynamicObject> = Api::all_with(parts.client.clone(), &resource);
        let class = classes.get("default").await.unwrap();
        assert_eq!(class.data["spec"]["role"], "KarpenterNodeRole-shop");
        assert_eq!(class.data["status"]["conditions"][0]["type"], "Ready");
    }

    #[test]
    fn lists_are_taken_apart() {
        let text = r#"{"apiVersion":"v1","kind":"List","items":[{"kind":"Pod"},{"kind":"PodList","items":[{"kind":"Pod"}]}]}"#;
        let mut objects = Vec::new();
        flatten(serde_json::from_str(text).unwrap(), &mut objects);
        assert_eq!(objects.len(), 2);
    }
}
