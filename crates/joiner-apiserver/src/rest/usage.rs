//! `metrics.k8s.io`: what pods and nodes use, for `kubectl top` and autoscalers of pods.
//!
//! Nothing runs, so nothing is measured: every container of a running pod uses what the pod's annotations say, as KWOK has it, and a node uses the
//! sum of its pods.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use http::Method;
use serde_json::{Map, Value, json};

use super::metadata::{meta, meta_text, text_at};
use super::read::Choice;
use super::render::{self, ListMeta};
use super::{Answer, Call, Failure, allowed};
use crate::clock::format_time;
use crate::fields::{quantity_from_nanos, quantity_nanos};
use crate::resources::{Resource, Resources};
use crate::store::ResourceName;

/// The group.
const GROUP: &str = "metrics.k8s.io";

/// What a container uses, and what it uses without an annotation.
const USED: [(&str, &str, &str); 2] =
    [("cpu", "kwok.x-k8s.io/usage-cpu", "1m"), ("memory", "kwok.x-k8s.io/usage-memory", "1Mi")];

static RESOURCES: LazyLock<Resources> = LazyLock::new(|| {
    let mut all = Resources::default();
    for (plural, kind, namespaced) in [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)] {
        all.add(Arc::new(Resource {
            group: GROUP.to_owned(),
            version: "v1beta1".to_owned(),
            plural: plural.to_owned(),
            singular: String::new(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            namespaced,
            verbs: ["get", "list"].map(str::to_owned).to_vec(),
            short_names: Vec::new(),
            categories: Vec::new(),
            subresources: Vec::new(),
            stored_as: ResourceName::new(GROUP, plural),
            custom: None,
        }));
    }
    all
});

/// The two resources of the group.
pub(crate) fn resources() -> &'static Resources {
    &RESOURCES
}

/// Whether a resource is one of them.
pub(crate) fn is_usage(resource: &Resource) -> bool {
    resource.group == GROUP && resource.custom.is_none()
}

/// Answers a request for usage.
pub(crate) fn answer(call: &Call<'_>) -> Result<Answer, Failure> {
    if call.incoming.method != Method::GET || call.query().is_set("watch") {
        return Err(Failure::method_not_allowed());
    }
    if !call.name.is_empty() {
        allowed(call, "get")?;
        let (mut found, _) = measured(call, Some(&call.name));
        let object = found.pop().ok_or_else(|| Failure::not_found(&call.resource, &call.name))?;
        return Ok(render::document(call, 200, &object));
    }
    allowed(call, "list")?;
    let choice = Choice::read(call)?;
    let (mut found, revision) = measured(call, None);
    found.retain(|object| choice.matches(&call.resource, object));
    let meta = ListMeta { resource_version: revision.to_string(), continue_token: None, remaining: None };
    Ok(render::list_of_values(call, found.into_iter(), &meta))
}

fn measured(call: &Call<'_>, name: Option<&str>) -> (Vec<Value>, u64) {
    let session = call.core.store.open();
    let of =
        |plural: &str, namespace: Option<&str>| session.list(&ResourceName::new("", plural), namespace, None);
    let wanted = |object: &Value| name.is_none_or(|name| meta_text(object, "name") == name);
    let running = |object: &Value| text_at(object, "status.phase") == "Running";
    let now = format_time(call.core.clock.now());
    let kind = &call.resource.kind;
    let shown = |object: &Value, key: &str, content: Value| {
        let mut metadata = Map::new();
        for field in ["name", "namespace", "labels"] {
            if let Some(value) = meta(object).and_then(|metadata| metadata.get(field)) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        metadata.insert("creationTimestamp".to_owned(), now.clone().into());
        let mut shown = json!({
            "kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": metadata, "timestamp": now, "window": "15s",
        });
        shown[key] = content;
        shown
    };
    let found = if call.resource.plural == "pods" {
        let namespace = (!call.everywhere).then_some(call.namespace.as_str());
        let pods = of("pods", namespace).into_iter().map(|(_, pod)| pod);
        pods.filter(|pod| wanted(pod) && running(pod))
            .map(|pod| {
                let usage = written(per_container(&pod));
                let names =
                    containers(&pod).map(|container| json!({"name": container["name"], "usage": usage}));
                shown(&pod, "containers", names.collect())
            })
            .collect()
    } else {
        let mut used: BTreeMap<String, [i128; 2]> = BTreeMap::new();
        for (_, pod) in of("pods", None).iter().filter(|(_, pod)| running(pod)) {
            let sum = used.entry(text_at(pod, "spec.nodeName").to_owned()).or_default();
            let count = i128::try_from(containers(pod).count()).unwrap_or(0);
            for (sum, one) in sum.iter_mut().zip(per_container(pod)) {
                *sum = sum.saturating_add(one.saturating_mul(count));
            }
        }
        let nodes = of("nodes", None).into_iter().map(|(_, node)| node);
        nodes
            .filter(|node| wanted(node))
            .map(|node| {
                let sum = used.get(meta_text(&node, "name")).copied().unwrap_or_default();
                shown(&node, "usage", written(sum))
            })
            .collect()
    };
    (found, session.revision())
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten()
}

/// In nanos of each unit.
fn per_container(pod: &Value) -> [i128; 2] {
    let annotations = meta(pod).and_then(|metadata| metadata.get("annotations"));
    USED.map(|(_, annotation, without)| {
        let given = annotations.and_then(|annotations| annotations.get(annotation)).and_then(Value::as_str);
        given.and_then(quantity_nanos).or_else(|| quantity_nanos(without)).unwrap_or(0)
    })
}

fn written(usage: [i128; 2]) -> Value {
    let pairs = USED.iter().zip(usage);
    pairs
        .map(|((name, _, _), nanos)| {
            ((*name).to_owned(), quantity_from_nanos(nanos, *name == "memory").into())
        })
        .collect::<Map<_, _>>()
        .into()
}
