//! Overlays, buffers and pools of a fixed size, on top of a drawn cluster.
//!
//! They have a sequence of their own, so that a seed draws the same cluster below them whatever is added here.

use serde_json::{Value, json};

use super::random::Random;
use super::{APPS, NAMESPACES, RACKS, TEAMS, ZONES};

/// Draws extras for a cluster and adds them to its manifests.
pub(super) fn extras(seed: u64, manifests: &mut Vec<Value>, types: &[Value]) {
    let mut random = Random::new(seed ^ 0x6a6f_696e_6572);
    let mut made = Vec::new();
    let pools: Vec<String> = names(manifests, "NodePool").into_iter().map(|(_, name)| name).collect();
    if random.chance(25) {
        static_pool(&mut random, types, &mut made);
    }
    if random.chance(30) {
        for number in 0..random.between(1, 5) {
            made.push(overlay(&mut random, number, &pools, types));
        }
    }
    if random.chance(30) {
        for number in 0..random.between(1, 3) {
            buffer(&mut random, number, manifests, &mut made);
        }
    }
    manifests.extend(made);
}

fn names(manifests: &[Value], kind: &str) -> Vec<(String, String)> {
    let text =
        |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or("default").to_owned();
    let of_kind = manifests.iter().filter(|object| object["kind"] == kind);
    of_kind.map(|object| (text(object, "namespace"), text(object, "name"))).collect()
}

/// A pool that keeps 0 to 4 nodes, some of which are there.
fn static_pool(random: &mut Random, types: &[Value], made: &mut Vec<Value>) {
    let mut requirements = Vec::new();
    if random.chance(50) {
        requirements
            .push(json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}));
    }
    if random.chance(30) {
        let zones = random.some(&ZONES, 2);
        requirements.push(json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}));
    }
    if random.chance(40) {
        let operator = random.pick(&["Gt", "Gte"]);
        let bound = random.pick(&["1", "2", "4"]);
        requirements
            .push(json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": operator, "values": [bound]}));
    }
    if random.chance(30) {
        requirements
            .push(json!({"key": "example.com/rack", "operator": "In", "values": random.some(&RACKS, 2)}));
    }
    let mut template = json!({
        "requirements": requirements,
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
    });
    if random.chance(20) {
        template["taints"] = json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]);
    }
    if random.chance(10) {
        template["taints"] = json!([{"key": "slow", "effect": "PreferNoSchedule"}]);
    }
    let labels = if random.chance(30) { json!({"example.com/team": random.pick(&TEAMS)}) } else { json!({}) };
    let mut spec = json!({
        "replicas": random.between(0, 4), "template": {"metadata": {"labels": labels}, "spec": template},
    });
    if random.chance(25) {
        spec["limits"] = json!({"nodes": random.pick(&["0", "1", "2", "3"])});
    }
    made.push(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "fixed"}, "spec": spec,
    }));
    for number in 0..random.between(0, 2) {
        let ty = random.pick(types);
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("fixed-{}", number + 1), "labels": {
                "karpenter.sh/nodepool": "fixed", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
                "kubernetes.io/hostname": format!("fixed-{}", number + 1), "kubernetes.io/arch": ty["architecture"],
                "topology.kubernetes.io/zone": random.pick(&ZONES), "node.kubernetes.io/instance-type": ty["name"],
            }},
            "spec": {}, "status": {"capacity": ty["resources"], "allocatable": ty["resources"]},
        });
        match random.between(0, 5) {
            0 => node["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
            1 => node["spec"]["taints"] = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]),
            _ => {}
        }
        made.push(node);
    }
}

fn overlay(random: &mut Random, number: u64, pools: &[String], types: &[Value]) -> Value {
    let topics = random.between(0, 2);
    let mut requirements = Vec::new();
    for topic in random.some(&["capacity", "zone", "family", "cpu", "pool", "type", "team", "arch"], topics) {
        requirements.push(match topic {
            "capacity" => {
                let operator = random.pick(&["In", "NotIn"]);
                let kind = random.pick(&["spot", "on-demand", "reserved"]);
                json!({"key": "karpenter.sh/capacity-type", "operator": operator, "values": [kind]})
            }
            "zone" => {
                let key = random.pick(&["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"]);
                json!({"key": key, "operator": "In", "values": random.some(&ZONES, 2)})
            }
            "family" => json!({
                "key": "karpenter.kwok.sh/instance-family", "operator": random.pick(&["In", "NotIn"]), "values": ["c"],
            }),
            "cpu" => json!({
                "key": "karpenter.kwok.sh/instance-cpu", "operator": random.pick(&["Gt", "Lte"]), "values": ["2"],
            }),
            "pool" => json!({"key": "karpenter.sh/nodepool", "operator": "In", "values": [random.pick(pools)]}),
            "type" => json!({
                "key": "node.kubernetes.io/instance-type", "operator": "In", "values": [random.pick(types)["name"]],
            }),
            "team" => json!({
                "key": "example.com/team", "operator": random.pick(&["Exists", "DoesNotExist"]),
            }),
            _ => json!({"key": "kubernetes.io/arch", "operator": "Exists"}),
        });
    }
    let mut spec = json!({"requirements": requirements});
    match random.between(0, 4) {
        0 => spec["price"] = random.pick(&["0", "0.05", "0.25"]).into(),
        1 => spec["priceAdjustment"] = random.pick(&["+0.02", "-0.03", "-1000"]).into(),
        2 | 3 => spec["priceAdjustment"] = random.pick(&["+10%", "-50%", "+250%", "-100%", "-12.5%"]).into(),
        _ => {}
    }
    if spec["price"].is_null() && spec["priceAdjustment"].is_null() || random.chance(25) {
        let resource = random.pick(&["nvidia.com/gpu", "example.com/fpga", "hugepages-2Mi"]);
        let amount = if resource == "hugepages-2Mi" { "512Mi" } else { random.pick(&["1", "3"]) };
        spec["capacity"] = json!({resource: amount});
    }
    if random.chance(60) {
        spec["weight"] = random.pick(&[1, 5, 5, 10]).into();
    }
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": format!("overlay-{number}")},
        "spec": spec,
    })
}

fn buffer(random: &mut Random, number: u64, manifests: &[Value], made: &mut Vec<Value>) {
    let mut scalable: Vec<(&str, (String, String))> = Vec::new();
    for kind in ["Deployment", "StatefulSet"] {
        scalable.extend(names(manifests, kind).into_iter().map(|name| (kind, name)));
    }
    let mut namespace = random.pick(&NAMESPACES).0.to_owned();
    let mut spec = json!({});
    if !scalable.is_empty() && random.chance(60) {
        let (kind, (of, name)) = random.pick(&scalable);
        namespace = of;
        spec["scalableRef"] = json!({"apiGroup": "apps", "kind": kind, "name": name});
        if random.chance(70) {
            spec["percentage"] = random.pick(&[0, 10, 50, 150]).into();
        }
    } else if random.chance(10) {
        spec["scalableRef"] = json!({"apiGroup": "batch", "kind": "Job", "name": "any"});
    } else {
        let name = format!("spare-{number}");
        made.push(pod_template(random, &namespace, &name));
        let missing = random.chance(5);
        spec["podTemplateRef"] = json!({"name": if missing { "missing" } else { &name }});
        spec["replicas"] = random.between(0, 6).into();
    }
    if random.chance(40) {
        spec["replicas"] = random.between(0, 4).into();
    }
    if random.chance(30) {
        spec["limits"] = random.pick(&[
            json!({"cpu": "3"}),
            json!({"memory": "2Gi", "cpu": "2"}),
            json!({"example.com/none": "1"}),
        ]);
    }
    if random.chance(20) {
        spec["provisioningStrategy"] =
            random.pick(&["buffer.x-k8s.io/active-capacity", "example.com/standby"]).into();
    }
    made.push(json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"namespace": namespace, "name": format!("buffer-{number}")}, "spec": spec,
    }));
}

fn pod_template(random: &mut Random, namespace: &str, name: &str) -> Value {
    let cpu = random.pick(&["100m", "500m", "1", "2"]);
    let app = random.pick(&APPS);
    let mut spec =
        json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}]});
    let selector = json!({"matchLabels": {"app": random.pick(&APPS)}});
    let key = random.pick(&["topology.kubernetes.io/zone", "kubernetes.io/hostname"]);
    match random.between(0, 5) {
        0 => {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
            }])
        }
        1 => {
            spec["affinity"] = json!({"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": selector}],
            }})
        }
        2 => {
            spec["affinity"] = json!({"podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": selector}],
            }})
        }
        3 => spec["tolerations"] = json!([{"operator": "Exists"}]),
        _ => {}
    }
    if random.chance(20) {
        spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "not-there"}}]);
    }
    json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"namespace": namespace, "name": name},
        "template": {"metadata": {"labels": {"app": app}}, "spec": spec},
    })
}
