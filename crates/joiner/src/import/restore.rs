//! Objects into a server, as they were: one write each, without a request, made ready on all cores.

use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_apiserver::direct::{Direct, Restored};
use joiner_apiserver::resources::Resource;
use joiner_apiserver::rest::PatchLanguage;
use joiner_apiserver::selector::LabelSelector;
use joiner_apiserver::service::ApiServer;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::{controller, kind, links, text};
use crate::report::InputError;

/// Who the fields belong to.
const MANAGER: &str = "joiner-up";
/// Objects made ready at a time: their texts and values are held together only for so many.
const CHUNK: usize = 4096;
/// The label of pods that tells their revision.
const REVISION: &str = "controller-revision-hash";
/// The label under which revisions of StatefulSets keep their hash.
const HASH_OF_REVISION: &str = "controller.kubernetes.io/hash";
/// Counts the templates of a DaemonSet.
const GENERATION: &str = "pod-template-generation";

/// What became of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Nodes.
    pub nodes: usize,
    /// Pods.
    pub pods: usize,
    /// Objects of kinds that the server does not know, by kind.
    pub unknown: BTreeMap<String, usize>,
}

impl Loaded {
    /// What the user should know.
    pub fn notes(&self) -> Vec<String> {
        if self.unknown.is_empty() {
            return Vec::new();
        }
        let list: Vec<String> = self.unknown.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        vec![format!("left out, because the simulated cluster does not know the kind: {}", list.join(", "))]
    }
}

/// A number that stands for the uids of objects, in any order; 0 without any.
///
/// Of a cluster that was simulated with the same seed the file has the very uids that a new one would make first. A seed with this mixed in
/// makes others.
pub fn mark(objects: &[Value]) -> u64 {
    let uids = objects.iter().map(|object| text(object, "/metadata/uid")).filter(|uid| !uid.is_empty());
    // FNV-1a of each: uids are chance already, there is nothing to spread.
    let hash = |uid: &str| {
        uid.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    uids.fold(0, |mark, uid| mark ^ hash(uid))
}

/// Puts objects into a server that has nothing yet but what every new one has.
pub fn restore(server: &ApiServer, mut objects: Vec<Value>) -> anyhow::Result<Loaded> {
    let api = server.direct(MANAGER);
    refuse_a_used_cluster(&api)?;
    let mut loader =
        Loader { revisions: BTreeMap::new(), known: BTreeMap::new(), loaded: Loaded::default(), api };
    // Before references are followed: what is not here owns nothing.
    objects.retain(|object| loader.knows(object));
    links::relink(&mut objects, || loader.api.new_uid());
    loader.revisions = daemon_revisions(&objects);
    // Claims that a pod made for itself come after their pods.
    objects.sort_by_key(|object| {
        kind(object) == "PersistentVolumeClaim"
            && controller(object).is_some_and(|owner| kind(owner) == "Pod")
    });
    let mut rest = objects.into_iter();
    loop {
        let chunk: Vec<Value> = rest.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            break;
        }
        loader.take(chunk)?;
    }
    // Nobody watched: what came when is of no interest.
    server.forget_history();
    Ok(loader.loaded)
}

/// A folder with a cluster in it is gone on with, not mixed with another.
fn refuse_a_used_cluster(api: &Direct) -> anyhow::Result<()> {
    for plural in ["nodes", "pods"] {
        let resource = api.resource("", plural)?;
        if !api.list(&resource, None, &LabelSelector::default()).0.is_empty() {
            return Err(InputError {
                path: Some("--from".to_owned()),
                message: "the folder of `--data-dir` has a cluster already".to_owned(),
                remedy: Some("leave `--from` out to go on with it, or name another folder".to_owned()),
                ..InputError::default()
            }
            .into());
        }
    }
    Ok(())
}

struct Loader {
    api: Direct,
    known: BTreeMap<(String, String), Option<Arc<Resource>>>,
    /// The present revision of each DaemonSet, by namespace and name.
    revisions: BTreeMap<(String, String), String>,
    loaded: Loaded,
}

impl Loader {
    fn take(&mut self, chunk: Vec<Value>) -> anyhow::Result<()> {
        let mut placed: Vec<(Arc<Resource>, Value)> = Vec::with_capacity(chunk.len());
        for mut object in chunk {
            let Some(resource) = self.resource(&object) else { continue };
            if resource.namespaced && text(&object, "/metadata/namespace").is_empty() {
                object["metadata"]["namespace"] = "default".into();
            }
            if self.is_there(&resource, &object)? {
                continue;
            }
            match kind(&object) {
                "Node" => self.loaded.nodes += 1,
                "Pod" => self.loaded.pods += 1,
                _ => {}
            }
            placed.push((resource, object));
        }
        let api = &self.api;
        let ready: Vec<Result<Restored, InputError>> = placed
            .into_par_iter()
            .map(|(resource, object)| {
                let told = format!("{} `{}`", resource.kind, text(&object, "/metadata/name"));
                let ready = api.prepare_restored(&resource, object);
                ready.map_err(|failure| refused(told, &failure.message))
            })
            .collect();
        let mut restored = Vec::with_capacity(ready.len());
        for object in ready {
            let object = object?;
            let revision = self.revision_of(object.value())?;
            restored.push(object);
            restored.extend(revision);
        }
        self.api.put_restored(restored).map_err(|(told, failure)| refused(told, &failure.message))?;
        Ok(())
    }

    /// Whether the server knows the kind of an object; counts those it does not know.
    fn knows(&mut self, object: &Value) -> bool {
        let known = self.resource(object).is_some();
        if !known {
            let told = format!("{} ({})", kind(object), text(object, "/apiVersion"));
            *self.loaded.unknown.entry(told).or_default() += 1;
        }
        known
    }

    fn resource(&mut self, object: &Value) -> Option<Arc<Resource>> {
        let key = (text(object, "/apiVersion").to_owned(), kind(object).to_owned());
        let api = &self.api;
        let find = |key: &(String, String)| api.resource_of_kind(&key.0, &key.1).ok();
        match self.known.get(&key) {
            Some(found) => found.clone(),
            None => {
                let found = find(&key);
                self.known.insert(key, found.clone());
                found
            }
        }
    }

    /// Whether every new cluster has it; namespaces of those get their labels.
    fn is_there(&self, resource: &Arc<Resource>, object: &Value) -> anyhow::Result<bool> {
        if !matches!(kind(object), "Namespace" | "PriorityClass" | "ServiceAccount") {
            return Ok(false);
        }
        let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        if self.api.get(resource, namespace, name).is_err() {
            return Ok(false);
        }
        if kind(object) == "Namespace" {
            let patch = json!({"metadata": {"labels": object["metadata"]["labels"]}});
            self.api.patch(resource, ("", name), "", PatchLanguage::Merge, patch)?;
        }
        Ok(true)
    }

    /// The revision that a DaemonSet's or StatefulSet's pods were made from: without it their controller would replace them.
    fn revision_of(&self, owner: &Value) -> anyhow::Result<Option<Restored>> {
        let (namespace, name) = (text(owner, "/metadata/namespace"), text(owner, "/metadata/name"));
        let (revision, hash_label) = match kind(owner) {
            "StatefulSet" => (text(owner, "/status/updateRevision").to_owned(), HASH_OF_REVISION),
            "DaemonSet" => {
                let hash = self.revisions.get(&(namespace.to_owned(), name.to_owned()));
                (hash.map(|hash| format!("{name}-{hash}")).unwrap_or_default(), REVISION)
            }
            _ => return Ok(None),
        };
        if revision.is_empty() {
            return Ok(None);
        }
        let mut template = owner["spec"]["template"].clone();
        let mut labels = template["metadata"]["labels"].clone();
        if !labels.is_object() {
            labels = json!({});
        }
        labels[hash_label] = revision.rsplit('-').next().unwrap_or_default().into();
        template["$patch"] = "replace".into();
        let object = json!({
            "metadata": {
                "name": revision, "namespace": namespace, "labels": labels, "uid": self.api.new_uid(),
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": kind(owner), "name": name, "uid": text(owner, "/metadata/uid"),
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "data": {"spec": {"template": template}},
            "revision": 1,
        });
        let resource = self.api.resource("apps", "controllerrevisions")?;
        let told = format!("ControllerRevision `{revision}`");
        let ready = self.api.prepare_restored(&resource, object);
        Ok(Some(ready.map_err(|failure| refused(told, &failure.message))?))
    }
}

/// The newest revision among each DaemonSet's pods.
fn daemon_revisions(objects: &[Value]) -> BTreeMap<(String, String), String> {
    let mut newest: BTreeMap<(String, String), (i64, String)> = BTreeMap::new();
    for pod in objects.iter().filter(|object| kind(object) == "Pod") {
        let Some(owner) = controller(pod).filter(|owner| kind(owner) == "DaemonSet") else { continue };
        let label = |key: &str| pod["metadata"]["labels"][key].as_str();
        let Some(hash) = label(REVISION) else { continue };
        let generation = label(GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0);
        let key = (text(pod, "/metadata/namespace").to_owned(), text(owner, "/name").to_owned());
        let known = newest.entry(key).or_insert_with(|| (generation, hash.to_owned()));
        if generation > known.0 {
            *known = (generation, hash.to_owned());
        }
    }
    newest.into_iter().map(|(key, (_, hash))| (key, hash)).collect()
}

fn refused(told: String, message: &str) -> InputError {
    InputError {
        object: Some(told),
        message: format!("the cluster refuses it: {message}"),
        remedy: Some("correct it in the file or leave it out".to_owned()),
        ..InputError::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use joiner_apiserver::service::Settings;

    #[test]
    fn a_cluster_makes_no_uid_that_its_file_has() {
        let made = |seed| {
            let server =
                ApiServer::new(Arc::new(jiff::Timestamp::now), &Settings { seed, ..Settings::default() });
            let api = server.direct(MANAGER);
            (0..100).map(|_| api.new_uid()).collect::<Vec<_>>()
        };
        let before = made(1);
        let mut file: Vec<Value> = before.iter().map(|uid| json!({"metadata": {"uid": uid}})).collect();
        let mixed = 1 ^ mark(&file);
        assert!(made(mixed).iter().all(|uid| !before.contains(uid)));
        file.reverse();
        assert_eq!(1 ^ mark(&file), mixed, "in any order");
        assert_eq!(mark(&[json!({"metadata": {"name": "a"}})]), 0);
    }
}
