//! What users asked for, without what became of it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{controller, kind, remove, text};

/// Kinds that are machines, or say something about them.
const MACHINES: &[&str] = &["CSINode", "Node", "NodeClaim", "ResourceSlice"];
/// Workloads: what their status says is about pods that are not here.
const WORKLOADS: &[&str] = &[
    "CronJob",
    "DaemonSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "Job",
    "PodDisruptionBudget",
    "ReplicaSet",
    "ReplicationController",
    "ResourceClaim",
    "StatefulSet",
];

/// Leaves workloads, pools, budgets and volumes; no nodes, and no pods or sets that somebody makes by himself.
pub fn leave(objects: &mut Vec<Value>) {
    let there: BTreeSet<(String, String, String)> = objects
        .iter()
        .map(|object| {
            let name = |pointer: &str| text(object, pointer).to_owned();
            (kind(object).to_owned(), name("/metadata/namespace"), name("/metadata/name"))
        })
        .collect();
    objects.retain_mut(|object| {
        let kind_name = kind(object).to_owned();
        if MACHINES.contains(&kind_name.as_str()) {
            return false;
        }
        let owner = controller(object).map(|owner| {
            let namespace = text(object, "/metadata/namespace").to_owned();
            (kind(owner).to_owned(), namespace, text(owner, "/name").to_owned())
        });
        match kind_name.as_str() {
            // Whoever made it makes another, here or not at all.
            "Pod" if owner.is_some() => return false,
            "Pod" => {
                remove(object, "/spec", "nodeName");
                remove(object, "", "status");
            }
            "ReplicaSet" | "Job" if owner.as_ref().is_some_and(|owner| there.contains(owner)) => {
                return false;
            }
            "PersistentVolumeClaim" => {
                remove(object, "/metadata/annotations", "volume.kubernetes.io/selected-node");
            }
            _ => {}
        }
        if WORKLOADS.contains(&kind_name.as_str()) {
            remove(object, "", "status");
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_wishes_stay() {
        let owned = |kind: &str, name: &str, owner_kind: &str, owner: &str| {
            json!({
                "kind": kind, "status": {"phase": "Running"},
                "metadata": {"name": name, "namespace": "a", "ownerReferences": [{"kind": owner_kind, "name": owner, "controller": true}]},
            })
        };
        let mut objects = vec![
            json!({"kind": "Node", "metadata": {"name": "n"}}),
            json!({"kind": "NodePool", "metadata": {"name": "p"}}),
            json!({"kind": "Deployment", "metadata": {"name": "web", "namespace": "a"}, "status": {"replicas": 2}}),
            owned("ReplicaSet", "web-1", "Deployment", "web"),
            owned("ReplicaSet", "rollout-1", "Rollout", "rollout"),
            owned("Pod", "web-1-x", "ReplicaSet", "web-1"),
            owned("Pod", "custom", "Gadget", "g"),
            json!({"kind": "Pod", "metadata": {"name": "bare", "namespace": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}),
        ];
        leave(&mut objects);
        let names: Vec<&str> = objects.iter().map(|of| text(of, "/metadata/name")).collect();
        assert_eq!(names, ["p", "web", "rollout-1", "bare"]);
        assert!(objects.iter().all(|of| of.get("status").is_none()));
        assert_eq!(objects[3]["spec"], json!({}));
    }
}
