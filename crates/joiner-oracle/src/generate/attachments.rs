//! What is said of volumes elsewhere than in claims: attach limits of instance types, zone labels of volumes, bindings not done yet; and pools
//! that open no machines. Drawn from numbers of their own, so that older parts of a cluster stay what they were.

use serde_json::{Value, json};

use super::random::Random;
use super::{APPS, ZONES};

/// Adds attach limits to some types.
pub(super) fn type_limits(random: &mut Random, types: &mut [Value]) {
    if !random.chance(40) {
        return;
    }
    for ty in types {
        if random.chance(70) {
            ty["volumeLimits"] = json!({"csi.example.com": random.between(0, 3)});
            if random.chance(20) {
                ty["volumeLimits"]["other.example.com"] = 1.into();
            }
        }
    }
}

/// Adds zone and region labels to some volumes, and takes the proof of binding away from a few claims.
pub(super) fn volumes(random: &mut Random, manifests: &mut [Value]) {
    let (with_labels, unfinished) = (random.chance(60), random.chance(15));
    for object in manifests {
        if object["kind"] == "PersistentVolume" && with_labels && random.chance(50) {
            let key = random.pick(&[
                "topology.kubernetes.io/zone",
                "topology.kubernetes.io/zone",
                "failure-domain.beta.kubernetes.io/zone",
                "topology.kubernetes.io/region",
            ]);
            let count = random.between(1, 2);
            let value = match random.between(0, 9) {
                0 => format!("{}__", random.pick(&ZONES)),
                _ if key.ends_with("region") => random.pick(&["here", "there"]).to_owned(),
                _ => random.some(&ZONES, count).join("__"),
            };
            object["metadata"]["labels"] = json!({key: value, "app": random.pick(&APPS)});
        }
        let bound = object["kind"] == "PersistentVolumeClaim" && !object["spec"]["volumeName"].is_null();
        if bound
            && unfinished
            && random.chance(30)
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("annotations");
        }
    }
}

/// Closes some pools: not ready, or being deleted.
pub(super) fn closed_pools(random: &mut Random, manifests: &mut [Value]) {
    if !random.chance(15) {
        return;
    }
    for object in manifests {
        if object["kind"] == "NodePool" && random.chance(40) {
            match random.between(0, 2) {
                0 => object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
                status => {
                    let status = if status == 1 { "False" } else { "True" };
                    object["status"] = json!({"conditions": [{
                        "type": "Ready", "status": status, "reason": "Drawn", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }]});
                }
            }
        }
    }
}
