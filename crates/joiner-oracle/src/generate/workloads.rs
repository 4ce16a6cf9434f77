//! Pods: a few templates, as workloads or on their own, and DaemonSets.

use serde_json::{Value, json};

use super::{APPS, Draw, NAMESPACES, RACKS, TEAMS, ZONES, amounts, storage};

const TOPOLOGY_KEYS: [&str; 6] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/zone",
    "kubernetes.io/hostname",
    "kubernetes.io/hostname",
    "karpenter.sh/capacity-type",
    "example.com/rack",
];

/// Draws up to two DaemonSets into the manifests.
pub(super) fn daemon_sets(draw: &mut Draw) -> Vec<Value> {
    let mut sets = Vec::new();
    if !draw.features.daemons {
        return sets;
    }
    for number in 0..draw.random.between(1, 2) {
        let name = format!("agent-{number}");
        let cpu = draw.random.pick(&[10, 50, 100, 250]);
        let mut spec = json!({"containers": [{"name": "main", "resources": {"requests": amounts(cpu, 64)}}]});
        if draw.random.chance(30) {
            spec["nodeSelector"] = draw.random.pick(&[
                json!({"kubernetes.io/os": "linux"}),
                json!({"kubernetes.io/arch": "arm64"}),
                json!({"karpenter.sh/initialized": "true"}),
                json!({"example.com/team": "red"}),
            ]);
        }
        if draw.random.chance(30) {
            let terms = node_terms(draw, 2);
            spec["affinity"] = json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            }});
        }
        if draw.random.chance(60) {
            spec["tolerations"] = json!([{"operator": "Exists"}]);
        }
        if draw.features.ports && draw.random.chance(50) {
            spec["containers"][0]["ports"] = json!([{"containerPort": 8080, "hostPort": 8080 + number}]);
        }
        let set = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": "default", "name": name},
            "spec": {
                "selector": {"matchLabels": {"agent": name}},
                "template": {"metadata": {"labels": {"agent": name}}, "spec": spec},
            },
        });
        draw.manifests.push(set.clone());
        sets.push(set);
    }
    sets
}

/// The pod of a DaemonSet on one node.
pub(super) fn bound_daemon(set: &Value, node: &str) -> Value {
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    let mut spec = set["spec"]["template"]["spec"].clone();
    spec["nodeName"] = node.into();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "default", "name": format!("{name}-{node}"), "labels": set["spec"]["template"]["metadata"]["labels"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": name, "controller": true}],
        },
        "spec": spec, "status": {"phase": "Running"},
    })
}

/// An ordinary pod that runs on a node: sometimes finished or on its way out, sometimes keeping others away.
pub(super) fn bound_pod(draw: &mut Draw, node: &str, number: u64, cpu: u64) -> Value {
    let namespace = namespace(draw);
    let app = draw.random.pick(&APPS);
    let mut spec = json!({
        "nodeName": node, "containers": [{"name": "main", "resources": {"requests": amounts(cpu, 128)}}],
    });
    if draw.features.anti_affinity && draw.random.chance(25) {
        let term = affinity_term(draw, app);
        spec["affinity"] =
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    if draw.features.ports && draw.random.chance(20) {
        spec["containers"][0]["ports"] = json!([host_port(draw)]);
    }
    if draw.features.priorities {
        spec["priority"] = draw.random.pick(&[-10, 0, 100]).into();
    }
    let name = format!("bound-{node}-{number}");
    let mut metadata = json!({"namespace": namespace, "name": name, "labels": pod_labels(draw, app)});
    let mut phase = "Running";
    match draw.random.between(0, 14) {
        0 => phase = "Succeeded",
        1 => metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
        _ => {}
    }
    if draw.features.volumes && draw.random.chance(25) {
        storage::claim(draw, namespace, &name);
        spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}})
}

/// Draws workloads until the number of pods is reached.
pub(super) fn pending(draw: &mut Draw) {
    if draw.features.priorities {
        for (name, value) in [("low", -10), ("high", 1000)] {
            draw.manifests.push(json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            }));
        }
    }
    let mut number = 0;
    while draw.pods_left > 0 {
        let replicas = draw.random.pick(&[1, 1, 2, 3, 5, 8]).min(draw.pods_left);
        draw.pods_left -= replicas;
        workload(draw, number, replicas);
        number += 1;
    }
}

fn workload(draw: &mut Draw, number: u64, replicas: u64) {
    let namespace = namespace(draw);
    let app = draw.random.pick(&APPS);
    let name = format!("{app}-{number}");
    let labels = pod_labels(draw, app);
    let mut spec = pod_spec(draw, app);
    if draw.features.volumes && draw.random.chance(20) {
        let claim = format!("shared-{number}");
        // A claim that nobody made refuses its pods.
        if !(draw.features.broken_pods && draw.random.chance(20)) {
            storage::claim(draw, namespace, &claim);
        }
        spec["volumes"] = json!([{"name": "shared", "persistentVolumeClaim": {"claimName": claim}}]);
    }
    let metadata = json!({"namespace": namespace, "name": name});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let selector = json!({"matchLabels": {"app": app}});
    match draw.random.between(0, 9) {
        0..=4 => draw.manifests.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": replicas, "selector": selector, "template": template},
        })),
        5 => draw.manifests.push(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
            "spec": {"parallelism": replicas, "completions": replicas, "template": template},
        })),
        6 => {
            let mut set = json!({"replicas": replicas, "serviceName": name, "selector": selector, "template": template});
            if draw.features.volumes {
                set["volumeClaimTemplates"] = json!([storage::claim_template(draw, "data")]);
            }
            draw.manifests.push(json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": set,
            }));
        }
        _ => {
            for index in 0..replicas {
                let mut metadata =
                    json!({"namespace": namespace, "name": format!("{name}-{index}"), "labels": labels});
                if draw.random.chance(50) {
                    metadata["uid"] = format!("{:04}", draw.random.between(0, 9999)).into();
                }
                if draw.random.chance(50) {
                    let second = draw.random.between(0, 9);
                    metadata["creationTimestamp"] = format!("2026-01-01T00:00:0{second}Z").into();
                }
                draw.manifests.push(json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"},
                }));
            }
        }
    }
}

fn namespace(draw: &mut Draw) -> &'static str {
    if draw.features.namespaces { draw.random.pick(&NAMESPACES).0 } else { "default" }
}

fn pod_labels(draw: &mut Draw, app: &str) -> Value {
    json!({"app": app, "tier": draw.random.pick(&["gold", "iron"]), "version": draw.random.pick(&["v1", "v2"])})
}

fn pod_spec(draw: &mut Draw, app: &str) -> Value {
    let mut requests = amounts(
        draw.random.pick(&[100, 250, 500, 500, 1000, 1500, 3000, 7000]),
        draw.random.pick(&[64, 128, 512, 1024, 4096]),
    );
    if draw.random.chance(5) {
        requests = json!({});
    }
    if draw.features.devices && draw.random.chance(25) {
        requests["nvidia.com/gpu"] = "1".into();
    }
    let mut container = json!({"name": "main", "resources": {"requests": requests}});
    if draw.features.ports && draw.random.chance(35) {
        container["ports"] = json!([host_port(draw)]);
    }
    let mut spec = json!({"containers": [container]});
    if draw.features.init_containers && draw.random.chance(50) {
        let mut first = json!({"name": "first", "resources": {"requests": amounts(800, 256)}});
        if draw.random.chance(40) {
            first["restartPolicy"] = "Always".into();
        }
        spec["initContainers"] = json!([first]);
        if draw.random.chance(30) {
            spec["overhead"] = amounts(50, 16);
        }
    }
    if draw.features.priorities {
        if draw.random.chance(30) {
            spec["priorityClassName"] = draw.random.pick(&["low", "high"]).into();
        } else if draw.random.chance(30) {
            spec["priority"] = draw.random.pick(&[-5, 0, 7, 500]).into();
        }
    }
    if (draw.features.taints || draw.features.soft_taints) && draw.random.chance(50) {
        spec["tolerations"] = tolerations(draw);
    }
    if draw.features.selectors && draw.random.chance(35) {
        spec["nodeSelector"] = node_selector(draw);
    }
    if draw.features.spread && draw.random.chance(50) {
        spec["topologySpreadConstraints"] = spread(draw, app);
    }
    let affinity = affinity(draw, app);
    if affinity.as_object().is_some_and(|kinds| !kinds.is_empty()) {
        spec["affinity"] = affinity;
    }
    if draw.features.broken_pods && draw.random.chance(20) {
        match draw.random.between(0, 2) {
            0 => spec["resourceClaims"] = json!([{"name": "device", "resourceClaimName": "device"}]),
            1 => spec["nodeSelector"] = json!({"kubernetes.io/hostname": "node-0"}),
            _ => spec["nodeSelector"] = json!({"karpenter.sh/capacity-type": "cheap"}),
        }
    }
    spec
}

fn host_port(draw: &mut Draw) -> Value {
    let mut port = json!({"containerPort": 80, "hostPort": draw.random.between(8080, 8083)});
    if draw.random.chance(30) {
        port["hostIP"] = draw.random.pick(&["0.0.0.0", "10.0.0.1", "10.0.0.2"]).into();
    }
    if draw.random.chance(30) {
        port["protocol"] = "UDP".into();
    }
    port
}

fn tolerations(draw: &mut Draw) -> Value {
    let all = [
        json!({"key": "dedicated", "operator": "Exists"}),
        json!({"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}),
        json!({"key": "dedicated", "value": "5"}),
        json!({"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"}),
        json!({"operator": "Exists"}),
    ];
    let count = draw.random.between(1, 2);
    draw.random.some(&all, count).into()
}

fn node_selector(draw: &mut Draw) -> Value {
    let mut selector = json!({});
    match draw.random.between(0, 6) {
        0 => selector["topology.kubernetes.io/zone"] = draw.random.pick(&ZONES).into(),
        1 => selector["failure-domain.beta.kubernetes.io/zone"] = draw.random.pick(&ZONES).into(),
        2 => {
            selector["karpenter.sh/capacity-type"] =
                draw.random.pick(&["spot", "on-demand", "reserved"]).into()
        }
        3 => selector["kubernetes.io/arch"] = draw.random.pick(&["amd64", "amd64", "arm64"]).into(),
        4 => {
            selector["karpenter.sh/nodepool"] = draw.random.pick(&["batch", "default", "edge", "web"]).into()
        }
        5 => selector["karpenter.kwok.sh/instance-family"] = draw.random.pick(&["c", "s", "m"]).into(),
        _ => selector["kubernetes.io/os"] = "linux".into(),
    }
    if draw.features.custom_labels && draw.random.chance(40) {
        selector["example.com/team"] = draw.random.pick(&TEAMS).into();
    }
    selector
}

/// One to `most` node selector terms; nothing in them is restricted.
fn node_terms(draw: &mut Draw, most: u64) -> Vec<Value> {
    (0..draw.random.between(1, most)).map(|_| json!({"matchExpressions": node_expressions(draw)})).collect()
}

fn node_expressions(draw: &mut Draw) -> Vec<Value> {
    let count = draw.random.between(1, 2);
    let topics =
        draw.random.some(&["zone", "zone", "capacity", "cpu", "type", "rack", "team", "pool", "tier"], count);
    topics.into_iter().map(|topic| node_expression(draw, topic)).collect()
}

fn node_expression(draw: &mut Draw, topic: &str) -> Value {
    let either = draw.random.pick(&["In", "In", "NotIn"]);
    match topic {
        "zone" => {
            let count = draw.random.between(1, 2);
            json!({"key": "topology.kubernetes.io/zone", "operator": either, "values": draw.random.some(&ZONES, count)})
        }
        "capacity" => {
            let one = draw.random.pick(&["spot", "on-demand"]);
            json!({"key": "karpenter.sh/capacity-type", "operator": either, "values": [one]})
        }
        "cpu" => {
            let operator = draw.random.pick(&["Gt", "Lt", "Gte", "Lte"]);
            let bound = draw.random.pick(&["1", "2", "4", "8"]);
            json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": operator, "values": [bound]})
        }
        "type" => {
            let name = draw.random.pick(&["c-4x-amd64-linux", "s-2x-amd64-linux", "m-8x-amd64-linux"]);
            json!({"key": "node.kubernetes.io/instance-type", "operator": either, "values": [name]})
        }
        "rack" => {
            json!({"key": "example.com/rack", "operator": either, "values": draw.random.some(&RACKS, 2)})
        }
        "team" => {
            let operator = draw.random.pick(&["Exists", "DoesNotExist"]);
            json!({"key": "example.com/team", "operator": operator})
        }
        "pool" => {
            let operator = draw.random.pick(&["Exists", "DoesNotExist", "Exists"]);
            json!({"key": "karpenter.sh/nodepool", "operator": operator})
        }
        _ => json!({"key": "example.com/tier", "operator": "DoesNotExist"}),
    }
}

fn topology_key(draw: &mut Draw) -> &'static str {
    let key = draw.random.pick(&TOPOLOGY_KEYS);
    if key == "example.com/rack" && !draw.features.custom_labels {
        "topology.kubernetes.io/zone"
    } else {
        key
    }
}

/// One or two constraints on different keys.
fn spread(draw: &mut Draw, app: &str) -> Value {
    let mut constraints: Vec<Value> = Vec::new();
    for _ in 0..draw.random.between(1, 2) {
        let key = topology_key(draw);
        if constraints.iter().any(|present| present["topologyKey"] == key) {
            continue;
        }
        let hard = !(draw.features.soft_spread && draw.random.chance(50));
        let mut constraint = json!({
            "topologyKey": key,
            "maxSkew": draw.random.pick(&[1, 1, 1, 2, 3]),
            "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
        });
        if draw.random.chance(95) {
            constraint["labelSelector"] = pod_selector(draw, app);
            if draw.random.chance(15) {
                constraint["matchLabelKeys"] = json!(["version"]);
            }
        }
        if hard && draw.random.chance(20) {
            constraint["minDomains"] = draw.random.between(1, 4).into();
        }
        if draw.random.chance(20) {
            constraint["nodeAffinityPolicy"] = draw.random.pick(&["Honor", "Ignore"]).into();
        }
        if draw.random.chance(20) {
            constraint["nodeTaintsPolicy"] = draw.random.pick(&["Honor", "Ignore"]).into();
        }
        constraints.push(constraint);
    }
    constraints.into()
}

/// Mostly the pod's own app, sometimes another, sometimes everything. Never the key `version`, which matchLabelKeys uses.
fn pod_selector(draw: &mut Draw, app: &str) -> Value {
    match draw.random.between(0, 9) {
        0..=5 => json!({"matchLabels": {"app": app}}),
        6 => json!({"matchLabels": {"app": draw.random.pick(&APPS)}}),
        7 => {
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": draw.random.some(&APPS, 2)}]})
        }
        8 => json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["iron"]}]}),
        _ => json!({}),
    }
}

fn affinity(draw: &mut Draw, app: &str) -> Value {
    let mut affinity = json!({});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    if draw.features.required_terms && draw.random.chance(35) {
        affinity["nodeAffinity"][required] = json!({"nodeSelectorTerms": node_terms(draw, 3)});
    }
    if draw.features.preferred_terms && draw.random.chance(40) {
        let terms: Vec<Value> = node_terms(draw, 2)
            .into_iter()
            .map(|term| json!({"weight": draw.random.pick(&[1, 10, 10, 100]), "preference": term}))
            .collect();
        affinity["nodeAffinity"][preferred] = terms.into();
    }
    for (kind, on) in
        [("podAffinity", draw.features.affinity), ("podAntiAffinity", draw.features.anti_affinity)]
    {
        if on && draw.random.chance(30) {
            let count = draw.random.pick(&[1, 1, 1, 2]);
            let terms: Vec<Value> = (0..count).map(|_| affinity_term(draw, app)).collect();
            affinity[kind][required] = terms.into();
        }
        if draw.features.preferred_affinity && draw.random.chance(25) {
            let count = draw.random.pick(&[1, 1, 2]);
            let terms: Vec<Value> = (0..count)
                .map(|_| json!({"weight": draw.random.pick(&[1, 50, 100]), "podAffinityTerm": affinity_term(draw, app)}))
                .collect();
            affinity[kind][preferred] = terms.into();
        }
    }
    affinity
}

fn affinity_term(draw: &mut Draw, app: &str) -> Value {
    let mut term = json!({"topologyKey": topology_key(draw)});
    if draw.random.chance(97) {
        term["labelSelector"] = pod_selector(draw, app);
        if draw.random.chance(10) {
            let field = draw.random.pick(&["matchLabelKeys", "mismatchLabelKeys"]);
            term[field] = json!(["version"]);
        }
    }
    if draw.features.namespaces {
        match draw.random.between(0, 5) {
            0 => term["namespaces"] = json!([draw.random.pick(&NAMESPACES).0]),
            1 => term["namespaceSelector"] = json!({}),
            2 => term["namespaceSelector"] = json!({"matchLabels": {"team": draw.random.pick(&TEAMS)}}),
            3 => {
                term["namespaces"] = json!(["shop"]);
                term["namespaceSelector"] = json!({"matchLabels": {"team": "red"}});
            }
            _ => {}
        }
    }
    term
}
