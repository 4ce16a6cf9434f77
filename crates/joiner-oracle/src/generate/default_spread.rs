//! Default topology spread: a scheduler configuration and Services that tie pods together.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::random::Random;
use super::{APPS, NAMESPACES};

/// In some clusters, a scheduler configuration; then Services, and owners for some of the pods, are added to the manifests.
pub(super) fn scheduler_config(random: &mut Random, manifests: &mut Vec<Value>) -> Option<Value> {
    if !random.chance(30) {
        return None;
    }
    let mut constraints = Vec::new();
    let mut seen = BTreeSet::new();
    for _ in 0..random.between(1, 2) {
        let key = random.pick(&[
            "topology.kubernetes.io/zone",
            "topology.kubernetes.io/zone",
            "kubernetes.io/hostname",
            "failure-domain.beta.kubernetes.io/zone",
            "example.com/rack",
        ]);
        let hard = random.chance(60);
        if !seen.insert((key.ends_with("/zone"), key.ends_with("/hostname"), hard)) {
            continue;
        }
        let answer = if hard { "DoNotSchedule" } else { "ScheduleAnyway" };
        let mut constraint =
            json!({"maxSkew": random.pick(&[1, 1, 2, 3]), "topologyKey": key, "whenUnsatisfiable": answer});
        if hard && random.chance(15) {
            constraint["minDomains"] = random.between(1, 3).into();
        }
        if random.chance(15) {
            constraint["nodeAffinityPolicy"] = "Ignore".into();
        }
        if random.chance(15) {
            constraint["nodeTaintsPolicy"] = "Honor".into();
        }
        constraints.push(constraint);
    }
    for number in 0..random.between(0, 4) {
        let (namespace, _) = random.pick(&NAMESPACES);
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": namespace, "name": format!("service-{number}")},
            "spec": {"selector": {"app": random.pick(&APPS)}, "ports": [{"port": 80}]},
        });
        match random.between(0, 5) {
            0 => service["spec"]["selector"]["version"] = random.pick(&["v1", "v2"]).into(),
            1 => service["spec"] = json!({"ports": [{"port": 80}]}),
            _ => {}
        }
        manifests.push(service);
    }
    owners(random, manifests);
    Some(json!({"podTopologySpread": {"defaultConstraints": constraints}}))
}

/// Gives pods of their own a controller, some of them one that is not there; and makes some ReplicaSets ReplicationControllers.
fn owners(random: &mut Random, manifests: &mut Vec<Value>) {
    let mut made: Vec<Value> = Vec::new();
    for object in manifests.iter_mut() {
        let waits = object["kind"] == "Pod" && object["spec"]["nodeName"].is_null();
        if waits && object["metadata"]["ownerReferences"].is_null() && random.chance(50) {
            let name = format!("owner-of-{}", object["metadata"]["name"].as_str().unwrap_or_default());
            let (api_version, kind) = random.pick(&[
                ("apps/v1", "ReplicaSet"),
                ("apps/v1", "StatefulSet"),
                ("v1", "ReplicationController"),
            ]);
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": random.chance(90),
            }]);
            if random.chance(80) {
                let labels = object["metadata"]["labels"].clone();
                let app = &labels["app"];
                let selector = match kind {
                    "ReplicationController" => json!({"app": app}),
                    _ if random.chance(30) => {
                        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "other"]}]})
                    }
                    _ => json!({"matchLabels": {"app": app}}),
                };
                made.push(json!({
                    "apiVersion": api_version, "kind": kind,
                    "metadata": {"namespace": object["metadata"]["namespace"], "name": name},
                    "spec": {"replicas": 0, "serviceName": "none", "selector": selector, "template": {
                        "metadata": {"labels": labels}, "spec": {"containers": [{"name": "main"}]},
                    }},
                }));
                if kind != "StatefulSet"
                    && let Some(spec) = made.last_mut().and_then(|last| last["spec"].as_object_mut())
                {
                    spec.remove("serviceName");
                }
            }
        }
    }
    manifests.extend(made);
}
