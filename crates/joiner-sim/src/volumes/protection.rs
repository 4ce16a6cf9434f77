//! Claims in use and volumes that are bound are not removed before they are free.

use serde_json::{Value, json};

use crate::cache::Cache;
use crate::controller::Outcome;
use crate::object::{Fields, Key, Kind, Object};
use crate::workloads::is_finished;
use crate::write::Write;

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

/// The claims that a pod uses, its generated ones included.
pub(super) fn claims_of(pod: &Value) -> Vec<Key> {
    let volumes = pod.items(&["spec", "volumes"]).iter();
    volumes
        .filter_map(|volume| {
            if let Some(name) = volume.at(&["persistentVolumeClaim", "claimName"]).as_str() {
                return Some(Key::new(Kind::PersistentVolumeClaim, pod.namespace(), name));
            }
            volume.get("ephemeral")?;
            let name = format!("{}-{}", pod.name(), volume.text(&["name"]));
            Some(Key::new(Kind::PersistentVolumeClaim, pod.namespace(), &name))
        })
        .collect()
}

fn without(key: &Key, object: &Value, finalizer: &str) -> Outcome {
    let list = object.items(&["metadata", "finalizers"]);
    let left: Vec<&Value> = list.iter().filter(|one| *one != finalizer).collect();
    if left.len() == list.len() {
        return Outcome::nothing();
    }
    let left = if left.is_empty() { Value::Null } else { json!(left) };
    Outcome::writes(vec![Write::merge(key.clone(), json!({"metadata": {"finalizers": left}}))])
}

/// A claim that is to go.
pub(super) fn claim(key: &Key, claim: &Object, cache: &Cache) -> Outcome {
    let mut pods = cache.within(Kind::Pod, &key.namespace);
    let used = pods.any(|(_, pod)| {
        !is_finished(pod) && !pod.text(&["spec", "nodeName"]).is_empty() && claims_of(pod).contains(key)
    });
    if used { Outcome::nothing() } else { without(key, claim, CLAIM) }
}

/// A volume that is to go.
pub(super) fn volume(key: &Key, volume: &Object) -> Outcome {
    match volume.text(&["status", "phase"]) {
        "Bound" => Outcome::nothing(),
        _ => without(key, volume, VOLUME),
    }
}
