//! Volumes made on demand, where the chosen node can reach them.

use serde_json::{Value, json};

use super::{NAME, SELECTED_NODE};
use crate::cache::Cache;
use crate::controller::Outcome;
use crate::object::{Fields, Key, Kind, Object};
use crate::write::Write;

/// Who made a volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const OLD_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// Classes with this one have only volumes that were made by hand.
const NOBODY: &str = "kubernetes.io/no-provisioner";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Whether a volume was made here.
pub(super) fn is_ours(volume: &Value) -> bool {
    volume.annotation(PROVISIONED_BY).is_some()
}

/// Asks for a volume for a claim.
pub(super) fn volume_for(key: &Key, claim: &Object, class: &Value, cache: &Cache) -> Outcome {
    let provisioner = class.text(&["provisioner"]);
    if provisioner.is_empty() || provisioner == NOBODY {
        return Outcome::nothing();
    }
    let mut writes = Vec::new();
    if claim.annotation(PROVISIONER) != Some(provisioner) {
        let patch =
            json!({"metadata": {"annotations": {PROVISIONER: provisioner, OLD_PROVISIONER: provisioner}}});
        writes.push(Write::merge(key.clone(), patch));
    }
    let name = format!("pvc-{}", claim.uid());
    if cache.find(Kind::PersistentVolume, "", &name).is_some() {
        return Outcome::writes(writes);
    }
    let policy = match class.text(&["reclaimPolicy"]) {
        "" => "Delete",
        policy => policy,
    };
    let mut spec = json!({
        "capacity": {"storage": claim.at(&["spec", "resources", "requests", "storage"])},
        "accessModes": claim.at(&["spec", "accessModes"]),
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": class.name(),
        "volumeMode": claim.at(&["spec", "volumeMode"]),
        "csi": {"driver": provisioner, "volumeHandle": name},
        "claimRef": {
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": *key.namespace, "name": *key.name,
            "uid": claim.uid(),
        },
    });
    if let Some(terms) = reach(claim, class, cache) {
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    let object = json!({
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: provisioner}}, "spec": spec,
    });
    writes.push(Write::Create { kind: Kind::PersistentVolume, namespace: String::new(), object });
    let message = format!("Successfully provisioned volume {name}");
    writes.push(crate::workloads::note(NAME, key, claim, "ProvisioningSucceeded", message));
    Outcome::writes(writes)
}

/// From where the volume can be used: the zone of the chosen node, else what the class allows.
fn reach(claim: &Value, class: &Value, cache: &Cache) -> Option<Value> {
    let node = claim.annotation(SELECTED_NODE).and_then(|name| cache.find(Kind::Node, "", name));
    if let Some(zone) = node.and_then(|node| node.label(ZONE)) {
        return Some(json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]));
    }
    let allowed = class.items(&["allowedTopologies"]);
    if !allowed.is_empty() {
        // One zone is taken, the first that is allowed: a volume lives in one place.
        let expressions = allowed[0].items(&["matchLabelExpressions"]).iter();
        let first: Vec<Value> = expressions
            .map(|expression| {
                let values: Vec<&Value> = expression.items(&["values"]).iter().take(1).collect();
                json!({"key": expression["key"], "operator": "In", "values": values})
            })
            .collect();
        return Some(json!([{"matchExpressions": first}]));
    }
    let mut zones: Vec<&str> = cache.all(Kind::Node).filter_map(|(_, node)| node.label(ZONE)).collect();
    zones.sort_unstable();
    zones
        .first()
        .map(|zone| json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]))
}
