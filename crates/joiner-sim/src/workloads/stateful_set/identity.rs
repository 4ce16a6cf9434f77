//! What makes a numbered pod: its name, its labels, and its claims.

use serde_json::{Value, json};

use super::REVISION;
use crate::cache::Cache;
use crate::object::{Fields, Key, Kind, Object};
use crate::workloads::{owner_reference, pod_from_template};
use crate::write::Write;

/// The number at the end of a pod's name, if the rest is the name of the set.
pub(super) fn ordinal(set: &str, pod: &str) -> Option<i64> {
    pod.strip_prefix(set)?.strip_prefix('-')?.parse().ok()
}

/// The pod with a number, and its name.
pub(super) fn pod(set: &Value, template: &Value, revision: &str, ordinal: i64) -> (Value, String) {
    let name = format!("{}-{ordinal}", set.name());
    let mut pod = pod_from_template(Kind::StatefulSet, set, template);
    let metadata = &mut pod["metadata"];
    metadata["name"] = name.clone().into();
    metadata["generateName"] = format!("{}-", set.name()).into();
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    metadata["labels"]["statefulset.kubernetes.io/pod-name"] = name.clone().into();
    metadata["labels"]["apps.kubernetes.io/pod-index"] = ordinal.to_string().into();
    metadata["labels"][REVISION] = revision.into();
    let spec = &mut pod["spec"];
    spec["hostname"] = name.clone().into();
    let service = set.text(&["spec", "serviceName"]);
    if !service.is_empty() {
        spec["subdomain"] = service.into();
    }
    let templates = set.items(&["spec", "volumeClaimTemplates"]);
    if !templates.is_empty() {
        let own: Vec<&str> = templates.iter().map(Fields::name).collect();
        let others = spec.items(&["volumes"]).iter();
        let others = others.filter(|volume| !own.contains(&volume.text(&["name"]))).cloned();
        let mut volumes: Vec<Value> = own
            .iter()
            .map(|claim| {
                json!({"name": claim, "persistentVolumeClaim": {"claimName": format!("{claim}-{name}")}})
            })
            .collect();
        volumes.extend(others);
        spec["volumes"] = volumes.into();
    }
    (pod, name)
}

fn retention<'a>(set: &'a Value, when: &str) -> &'a str {
    set.text(&["spec", "persistentVolumeClaimRetentionPolicy", when])
}

/// The claims of the pod with a number.
pub(super) fn claims(set: &Value, ordinal: i64) -> Vec<(String, Value)> {
    let templates = set.items(&["spec", "volumeClaimTemplates"]).iter();
    templates
        .map(|template| {
            let name = format!("{}-{}-{ordinal}", template.name(), set.name());
            let mut metadata = json!({"name": name, "namespace": set.namespace()});
            let mut labels = template.at(&["metadata", "labels"]).clone();
            for (key, value) in set.entries(&["spec", "selector", "matchLabels"]).into_iter().flatten() {
                if !labels.is_object() {
                    labels = json!({});
                }
                labels[key] = value.clone();
            }
            if labels.is_object() {
                metadata["labels"] = labels;
            }
            if let Some(annotations) = template.entries(&["metadata", "annotations"]) {
                metadata["annotations"] = annotations.clone().into();
            }
            if retention(set, "whenDeleted") == "Delete" {
                metadata["ownerReferences"] = json!([owner_reference(Kind::StatefulSet, set)]);
            }
            (name, json!({"metadata": metadata, "spec": template["spec"]}))
        })
        .collect()
}

/// Claims that do not outlive their pod are given to it before it goes.
pub(super) fn before_removal(set: &Value, pod_key: &Key, pod: &Object, cache: &Cache) -> Vec<Write> {
    let count = set.number(&["spec", "replicas"]).unwrap_or(1);
    let start = set.number(&["spec", "ordinals", "start"]).unwrap_or(0);
    let Some(ordinal) = ordinal(set.name(), &pod_key.name) else { return Vec::new() };
    let condemned = ordinal < start || ordinal >= start + count;
    if !condemned || retention(set, "whenScaled") != "Delete" {
        return Vec::new();
    }
    let mut writes = Vec::new();
    for (name, _) in claims(set, ordinal) {
        let key = Key::new(Kind::PersistentVolumeClaim, &pod_key.namespace, &name);
        if cache.get(&key).is_some() {
            let owner = json!({
                "apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid(), "controller": true,
                "blockOwnerDeletion": true,
            });
            writes.push(Write::merge(key, json!({"metadata": {"ownerReferences": [owner]}})));
        }
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_pod_is_the_end_of_its_name() {
        assert_eq!(ordinal("web", "web-12"), Some(12));
        assert_eq!(ordinal("web", "web-a-1"), None);
        assert_eq!(ordinal("web", "other-1"), None);
    }
}
