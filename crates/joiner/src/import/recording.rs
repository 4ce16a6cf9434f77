//! Recordings as KWOK makes them: a snapshot, and what changed when after it.
//!
//! A change is a document `ResourcePatch`: which object, how long after the start, and whether it was created, patched or deleted. They are
//! played at their time by the cluster's clock. The simulated cluster has controllers of its own, which do the same things a little
//! earlier or later: what is there already is not created again, and what is gone is not changed.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_apiserver::direct::Direct;
use joiner_apiserver::resources::Resource;
use joiner_apiserver::rest::{DeleteOptions, Failure, PatchLanguage};
use joiner_apiserver::service::ApiServer;
use joiner_sim::clock::Clock;
use serde_json::{Value, json};

use super::{kind, links, machines, remove, text};

/// The group of recordings.
const GROUP: &str = "action.kwok.x-k8s.io/";
/// Who the fields belong to.
const MANAGER: &str = "joiner-recording";

/// One recorded change.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// How long after the start.
    pub after: Duration,
    group: String,
    plural: String,
    namespace: String,
    name: String,
    action: Action,
}

#[derive(Debug, Clone, PartialEq)]
enum Action {
    Create(Value),
    Patch(Value),
    Delete,
}

/// Whether a document is a recorded change.
pub fn is_change(document: &Value) -> bool {
    text(document, "/apiVersion").starts_with(GROUP) && kind(document) == "ResourcePatch"
}

impl Change {
    /// Reads a document; of one that is wrong the field and what is wrong with it.
    pub fn parse(document: &Value) -> Result<Self, (&'static str, &'static str)> {
        let plural = text(document, "/resource/resource");
        if plural.is_empty() {
            return Err(("resource.resource", "missing: which resource is meant, such as `pods`"));
        }
        let name = text(document, "/target/name");
        if name.is_empty() {
            return Err(("target.name", "missing: which object is meant"));
        }
        let Some(after) = document.get("durationNanosecond").and_then(Value::as_u64) else {
            return Err(("durationNanosecond", "missing or no number: when the change happened"));
        };
        let template = || match document.get("template") {
            Some(template) if template.is_object() => Ok(template.clone()),
            _ => Err(("template", "missing: what was written")),
        };
        let action = match text(document, "/method") {
            "create" => Action::Create(template()?),
            "patch" => Action::Patch(template()?),
            "delete" => Action::Delete,
            _ => return Err(("method", "neither `create`, `patch` nor `delete`")),
        };
        Ok(Self {
            after: Duration::from_nanos(after),
            group: text(document, "/resource/group").to_owned(),
            plural: plural.to_owned(),
            namespace: text(document, "/target/namespace").to_owned(),
            name: name.to_owned(),
            action,
        })
    }
}

/// Plays changes, each at its time; `told` hears how many are done. Returns how many had no effect.
pub async fn play(server: &ApiServer, clock: &Clock, changes: Vec<Change>, told: impl Fn(usize)) -> usize {
    let api = server.direct(MANAGER);
    let start = clock.now();
    let mut without_effect = 0;
    for (done, change) in changes.into_iter().enumerate() {
        let after = SignedDuration::try_from(change.after).unwrap_or(SignedDuration::MAX);
        clock.sleep_until(start.saturating_add(after).unwrap_or(Timestamp::MAX)).await;
        if make(&api, change).is_err() {
            without_effect += 1;
        }
        told(done + 1);
    }
    without_effect
}

fn make(api: &Direct, change: Change) -> Result<(), Failure> {
    let resource = api.resource(&change.group, &change.plural)?;
    let Change { namespace, name, action, .. } = change;
    let place = (namespace.as_str(), name.as_str());
    match action {
        Action::Create(mut object) => {
            object["apiVersion"] = resource.api_version().into();
            object["kind"] = resource.kind.clone().into();
            object["metadata"]["name"] = name.clone().into();
            if resource.namespaced {
                object["metadata"]["namespace"] = namespace.clone().into();
            }
            remove(&mut object, "/metadata", "uid");
            links::relink_owners(&mut object, |owner_kind, namespace, owner| {
                owner_uid(api, owner_kind, namespace, owner)
            });
            if kind(&object) == "Node" {
                machines::make_unmanaged(&mut object);
            }
            let ready = api.prepare_restored(&resource, object)?;
            api.put_restored(vec![ready]).map_err(|(_, failure)| failure)
        }
        Action::Patch(patch) => apply(api, &resource, place, patch),
        Action::Delete => api.delete(&resource, place.0, place.1, &DeleteOptions::default()).map(|_| ()),
    }
}

/// A patch of the whole object, as a store sees it: the binding of a pod, its end and its status have doors of their own here.
fn apply(
    api: &Direct,
    resource: &std::sync::Arc<Resource>,
    place: (&str, &str),
    mut patch: Value,
) -> Result<(), Failure> {
    if !text(&patch, "/metadata/deletionTimestamp").is_empty() {
        return api.delete(resource, place.0, place.1, &DeleteOptions::default()).map(|_| ());
    }
    for field in ["uid", "resourceVersion", "managedFields", "creationTimestamp", "generation", "selfLink"] {
        remove(&mut patch, "/metadata", field);
    }
    links::relink_owners(&mut patch, |owner_kind, namespace, owner| {
        let namespace = if namespace.is_empty() { place.0 } else { namespace };
        owner_uid(api, owner_kind, namespace, owner)
    });
    if resource.is("", "pods") {
        let node = text(&patch, "/spec/nodeName").to_owned();
        remove(&mut patch, "/spec", "nodeName");
        if !node.is_empty() {
            api.bind(place.0, place.1, &node)?;
        }
    }
    if resource.is("", "nodes") {
        remove(&mut patch, "/spec", "providerID");
    }
    let language = if resource.custom.is_some() { PatchLanguage::Merge } else { PatchLanguage::Strategic };
    let status = patch.as_object_mut().and_then(|fields| fields.remove("status"));
    if let Some(fields) = patch.as_object_mut() {
        fields.retain(|name, value| {
            !matches!(name.as_str(), "apiVersion" | "kind")
                && !value.as_object().is_some_and(serde_json::Map::is_empty)
        });
        if !fields.is_empty() {
            api.patch(resource, place, "", language, patch)?;
        }
    }
    if let Some(status) = status {
        api.patch(resource, place, "status", language, json!({"status": status}))?;
    }
    Ok(())
}

/// Owners of recorded objects are of the usual kinds.
fn owner_uid(api: &Direct, kind: &str, namespace: &str, name: &str) -> Option<String> {
    let (group, plural) = match kind {
        "Deployment" => ("apps", "deployments"),
        "ReplicaSet" => ("apps", "replicasets"),
        "StatefulSet" => ("apps", "statefulsets"),
        "DaemonSet" => ("apps", "daemonsets"),
        "Job" => ("batch", "jobs"),
        "CronJob" => ("batch", "cronjobs"),
        "ReplicationController" => ("", "replicationcontrollers"),
        "Node" => ("", "nodes"),
        "Pod" => ("", "pods"),
        "NodeClaim" => ("karpenter.sh", "nodeclaims"),
        "NodePool" => ("karpenter.sh", "nodepools"),
        _ => return None,
    };
    let resource = api.resource(group, plural).ok()?;
    let namespace = if resource.namespaced { namespace } else { "" };
    let found = api.get(&resource, namespace, name).ok()?;
    Some(found.object().uid().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(method: &str) -> Value {
        json!({
            "apiVersion": "action.kwok.x-k8s.io/v1alpha1", "kind": "ResourcePatch",
            "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
            "target": {"name": "web", "namespace": "shop"},
            "durationNanosecond": 1_500_000_000_u64, "method": method, "template": {"spec": {"replicas": 3}},
        })
    }

    #[test]
    fn changes_are_read() {
        assert!(is_change(&document("patch")));
        let change = Change::parse(&document("patch")).unwrap();
        assert_eq!(change.after, Duration::from_millis(1500));
        assert_eq!((change.plural.as_str(), change.name.as_str()), ("deployments", "web"));
        assert_eq!(change.action, Action::Patch(json!({"spec": {"replicas": 3}})));
        assert_eq!(Change::parse(&document("delete")).unwrap().action, Action::Delete);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (field, named) in [
            ("resource", "resource.resource"),
            ("target", "target.name"),
            ("durationNanosecond", "durationNanosecond"),
            ("method", "method"),
            ("template", "template"),
        ] {
            let mut wrong = document("create");
            wrong.as_object_mut().unwrap().remove(field);
            assert_eq!(Change::parse(&wrong).unwrap_err().0, named);
        }
    }
}
