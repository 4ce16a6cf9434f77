//! Storage classes, claims and volumes.

use serde_json::{Value, json};

use super::{Draw, ZONES};

const WAITING: [&str; 3] = ["anywhere", "zonal", "two-zones"];

/// The storage classes, if the cluster has volumes at all.
pub(super) fn classes(draw: &mut Draw) {
    if !draw.features.volumes {
        return;
    }
    let term = |zones: &[&str]| json!({"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": zones}]});
    let zonal = draw.random.pick(&ZONES);
    let two = draw.random.some(&ZONES, 2);
    for (name, mode, topologies) in [
        ("anywhere", "WaitForFirstConsumer", vec![]),
        ("zonal", "WaitForFirstConsumer", vec![term(&[zonal])]),
        ("two-zones", "WaitForFirstConsumer", two.iter().map(|zone| term(&[zone])).collect()),
        ("at-once", "Immediate", vec![]),
    ] {
        let mut class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": "csi.example.com", "volumeBindingMode": mode,
        });
        if !topologies.is_empty() {
            class["allowedTopologies"] = topologies.into();
        }
        draw.manifests.push(class);
    }
}

/// A claim template for a StatefulSet: not bound yet.
pub(super) fn claim_template(draw: &mut Draw, name: &str) -> Value {
    let class = draw.random.pick(&WAITING);
    json!({"metadata": {"name": name}, "spec": claim_spec(class)})
}

/// Makes a claim of the given name, bound or not, into the manifests.
pub(super) fn claim(draw: &mut Draw, namespace: &str, name: &str) {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": namespace, "name": name},
    });
    if draw.random.chance(50) {
        let class = draw.random.pick(&WAITING);
        claim["spec"] = claim_spec(class);
        claim["status"] = json!({"phase": "Pending"});
    } else {
        let volume_name = format!("pv-{namespace}-{name}");
        claim["spec"] = claim_spec("anywhere");
        claim["spec"]["volumeName"] = volume_name.as_str().into();
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim["status"] = json!({"phase": "Bound"});
        let volume = volume(draw, &volume_name);
        draw.manifests.push(volume);
    }
    if draw.features.broken_pods && draw.random.chance(15) {
        match draw.random.between(0, 2) {
            0 => claim["status"] = json!({"phase": "Lost"}),
            1 => {
                claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                claim["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
            }
            _ => {
                claim["spec"] = claim_spec("at-once");
                claim["status"] = json!({"phase": "Pending"});
            }
        }
    }
    draw.manifests.push(claim);
}

fn claim_spec(class: &str) -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}},
    })
}

fn volume(draw: &mut Draw, name: &str) -> Value {
    let zone =
        |zones: Vec<&str>| json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones});
    let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
    let mut terms = Vec::new();
    if draw.random.chance(20) {
        spec["local"] = json!({"path": "/data"});
        let host = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-0"]});
        terms.push(json!({"matchExpressions": [host, zone(vec![draw.random.pick(&ZONES)])]}));
    } else {
        spec["csi"] = json!({"driver": "csi.example.com", "volumeHandle": name});
        let count = draw.random.between(0, 2);
        for one in draw.random.some(&ZONES, count) {
            terms.push(json!({"matchExpressions": [zone(vec![one])]}));
        }
    }
    if !terms.is_empty() {
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
}
