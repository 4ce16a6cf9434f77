//! Generated clusters: a seed makes a few nodes, pods that are there, and pods to be scheduled, with every feature now and then.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const APPS: [&str; 3] = ["a", "b", "c"];

/// Priority classes that all cases share: name, value, preemption policy.
pub const PRIORITIES: [(&str, i64, &str); 4] = [
    ("check-low", 1, "PreemptLowerPriority"),
    ("check-mid", 5, "PreemptLowerPriority"),
    ("check-high", 10, "PreemptLowerPriority"),
    ("check-never", 10, "Never"),
];

/// A cluster to be, and pods for it.
#[derive(Debug)]
pub struct Case {
    /// A second namespace is `namespace` with `-other`, labelled `team: blue`.
    pub namespace: String,
    pub nodes: Vec<Value>,
    /// Path and body; a status in the body is written too.
    pub objects: Vec<(String, Value)>,
    pub bound: Vec<Value>,
    pub pods: Vec<Value>,
}

struct Source {
    random: ChaCha8Rng,
    namespace: String,
    nodes: usize,
    priorities: bool,
    volumes: bool,
    sets: bool,
    /// Nodes alike and few wishes: ties, and pods that fit nowhere for lack of room only.
    plain: bool,
}

impl Source {
    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    /// The chance of a wish.
    fn wishes(&mut self, percent: u32) -> bool {
        let percent = if self.plain { percent / 4 } else { percent };
        self.chance(percent)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.random.random_range(0..items.len())]
    }

    fn within(&mut self, low: usize, high: usize) -> usize {
        self.random.random_range(low..=high)
    }
}

/// The case of a seed.
pub fn case(seed: u64, namespace: &str) -> Case {
    let mut source = Source {
        random: ChaCha8Rng::seed_from_u64(seed),
        namespace: namespace.to_owned(),
        nodes: 0,
        priorities: false,
        volumes: false,
        sets: false,
        plain: false,
    };
    source.nodes = source.within(2, 7);
    source.priorities = source.chance(45);
    source.volumes = source.chance(25);
    source.sets = source.chance(40);
    source.plain = source.chance(40);
    let mut nodes: Vec<Value> = (0..source.nodes).map(|at| source.node(at)).collect();
    if source.plain {
        let (spec, status) = (nodes[0]["spec"].clone(), nodes[0]["status"].clone());
        for node in &mut nodes {
            (node["spec"], node["status"]) = (spec.clone(), status.clone());
        }
    }
    let mut objects = source.objects();
    // Where priorities matter there must be somebody to make room.
    let crowd =
        if source.priorities { source.within(source.nodes, 3 * source.nodes) } else { source.within(0, 8) };
    let bound = (0..crowd).map(|at| source.bound(at)).collect();
    let pods = (0..source.within(2, 5)).map(|at| source.pod(&format!("p{at}"), &mut objects)).collect();
    Case { namespace: source.namespace, nodes, objects, bound, pods }
}

impl Source {
    fn node_name(&self, at: usize) -> String {
        format!("{}-{}", self.namespace, (b'a' + at as u8) as char)
    }

    fn node(&mut self, at: usize) -> Value {
        let name = self.node_name(at);
        let mut labels = json!({"size": self.within(1, 9).to_string()});
        if self.chance(95) {
            labels[HOST] = json!(name);
        }
        if self.chance(85) {
            labels[ZONE] = json!(*self.pick(&["z1", "z2", "z3"]));
        }
        if self.chance(60) {
            labels["disk"] = json!(*self.pick(&["ssd", "hdd"]));
        }
        let mut taints = Vec::new();
        if self.chance(20) {
            taints.push(json!({"key": "dedicated", "value": self.pick(&["x", "y"]), "effect": self.pick(&["NoSchedule", "NoExecute"])}));
        }
        if self.chance(20) {
            taints.push(json!({"key": "soft", "value": "yes", "effect": "PreferNoSchedule"}));
        }
        let mut room = json!({
            "cpu": if self.priorities { self.pick(&["2", "3500m", "4"]) } else { self.pick(&["1", "2", "3500m", "4", "8"]) },
            "memory": self.pick(&["2Gi", "4Gi", "8Gi", "16Gi"]),
            "pods": self.pick(&["3", "10", "20"]),
            "ephemeral-storage": "20Gi",
        });
        if self.chance(25) {
            room["example.com/gpu"] = json!("2");
        }
        let mut status = json!({
            "capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}],
        });
        if self.chance(20) {
            let size = *self.pick(&[100_i64 << 20, 600 << 20, 2000 << 20]);
            status["images"] = json!([{"names": ["img:latest"], "sizeBytes": size}]);
        }
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": self.chance(6)}, "status": status,
        })
    }

    fn objects(&mut self) -> Vec<(String, Value)> {
        let namespace = self.namespace.clone();
        let mut out = Vec::new();
        if self.chance(40) {
            let selector = json!({"app": self.pick(&APPS)});
            out.push((
                format!("/api/v1/namespaces/{namespace}/services"),
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": selector, "clusterIP": "None", "ports": [{"port": 80}]}}),
            ));
        }
        if self.sets {
            let container = json!({"name": "c", "image": "img"});
            out.push((
                format!("/apis/apps/v1/namespaces/{namespace}/replicasets"),
                json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "set"}, "spec": {
                    "replicas": 0, "selector": {"matchLabels": {"app": "a"}},
                    "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}}}),
            ));
        }
        if self.priorities && self.chance(60) {
            let selector = json!({"matchLabels": {"app": self.pick(&APPS)}});
            out.push((
                format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"),
                json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
                    "spec": {"minAvailable": 1, "selector": selector},
                    "status": {"disruptionsAllowed": self.within(0, 1), "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1}}),
            ));
        }
        if self.volumes {
            for at in 0..self.nodes {
                if self.chance(40) {
                    let name = self.node_name(at);
                    out.push((
                        "/apis/storage.k8s.io/v1/csinodes".to_owned(),
                        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {
                            "drivers": [{"name": "csi.example.com", "nodeID": name, "allocatable": {"count": self.within(1, 2)}}]}}),
                    ));
                }
            }
            for (suffix, provisioner, mode) in [
                ("im", "csi.example.com", "Immediate"),
                ("wait", "csi.example.com", "WaitForFirstConsumer"),
                ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
            ] {
                let mut class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": format!("{namespace}-{suffix}")},
                    "provisioner": provisioner, "volumeBindingMode": mode});
                if suffix == "wait" && self.chance(50) {
                    class["allowedTopologies"] =
                        json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["z1", "z2"]}]}]);
                }
                out.push(("/apis/storage.k8s.io/v1/storageclasses".to_owned(), class));
            }
            for at in 0..self.within(0, 3) {
                let zone = *self.pick(&["z1", "z2", "z3"]);
                out.push(self.volume(
                    &format!("{namespace}-free{at}"),
                    &format!("{namespace}-local"),
                    zone,
                    None,
                ));
            }
        }
        out
    }

    fn volume(&mut self, name: &str, class: &str, zone: &str, claim: Option<&str>) -> (String, Value) {
        let affinity = json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}});
        let mut body = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": self.pick(&["1Gi", "2Gi"])}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": "csi.example.com", "volumeHandle": name}},
            "status": {"phase": if claim.is_some() { "Bound" } else { "Available" }}});
        if claim.is_some() && self.chance(40) {
            body["metadata"]["labels"] = json!({ZONE: zone});
        } else {
            body["spec"]["nodeAffinity"] = affinity;
        }
        if let Some(claim) = claim {
            body["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.namespace, "name": claim});
        }
        ("/api/v1/persistentvolumes".to_owned(), body)
    }

    fn labels(&mut self) -> Value {
        let mut labels = json!({"app": self.pick(&APPS)});
        if self.chance(30) {
            labels["tier"] = json!(*self.pick(&["web", "db"]));
        }
        labels
    }

    fn containers(&mut self, busy: bool) -> Vec<Value> {
        (0..if self.chance(20) { 2 } else { 1 })
            .map(|at| {
                let mut requests = Map::new();
                if self.chance(if busy { 90 } else { 70 }) {
                    requests.insert("cpu".to_owned(), json!(*self.pick(&["100m", "500m", "1", "2", "3"])));
                }
                if self.chance(60) {
                    requests.insert("memory".to_owned(), json!(*self.pick(&["128Mi", "512Mi", "1Gi", "3Gi"])));
                }
                let mut container = json!({"name": format!("c{at}"), "image": self.pick(&["img", "other:1"])});
                if self.chance(7) {
                    requests.insert("example.com/gpu".to_owned(), json!("1"));
                    container["resources"]["limits"] = json!({"example.com/gpu": "1"});
                }
                if self.chance(4) {
                    requests.insert("ephemeral-storage".to_owned(), json!("15Gi"));
                }
                container["resources"]["requests"] = Value::Object(requests);
                if at == 0 && self.chance(12) {
                    let port = *self.pick(&[80, 81]);
                    let mut entry = json!({"containerPort": 80, "hostPort": port, "protocol": self.pick(&["TCP", "UDP"])});
                    if self.chance(30) {
                        entry["hostIP"] = json!("10.0.0.1");
                    }
                    container["ports"] = json!([entry]);
                }
                container
            })
            .collect()
    }

    fn bound(&mut self, at: usize) -> Value {
        let node = self.within(0, self.nodes - 1);
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("b{at}"), "labels": self.labels(),
                "namespace": if self.chance(15) { format!("{}-other", self.namespace) } else { self.namespace.clone() },
                "annotations": {"start": format!("2023-11-14T0{}:{at:02}:00Z", self.within(0, 5))}},
            "spec": {"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 60,
                "nodeName": self.node_name(node), "containers": self.containers(self.priorities)}});
        self.affinity_of_pods(&mut pod, 12);
        self.priority(&mut pod, &["check-low", "check-mid"]);
        pod
    }

    fn priority(&mut self, pod: &mut Value, classes: &[&str]) {
        if self.priorities && self.chance(70) {
            pod["spec"]["priorityClassName"] = json!(*self.pick(classes));
        }
    }

    fn pod(&mut self, name: &str, objects: &mut Vec<(String, Value)>) -> Value {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": self.labels(), "namespace": self.namespace},
            "spec": {"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 60, "containers": self.containers(true)}});
        if self.sets && self.chance(50) {
            pod["metadata"]["labels"]["app"] = json!("a");
            pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "11111111-1111-1111-1111-111111111111", "controller": true}]);
        }
        if self.chance(10) {
            let mut first = self.containers(true).remove(0);
            first["name"] = json!("i");
            if let Some(map) = first.as_object_mut() {
                map.remove("ports");
            }
            if self.chance(50) {
                first["restartPolicy"] = json!("Always");
            }
            pod["spec"]["initContainers"] = json!([first]);
        }
        if self.wishes(12) {
            pod["spec"]["nodeSelector"] = json!({"disk": self.pick(&["ssd", "hdd"])});
        }
        if self.chance(35) {
            let mut tolerations = vec![json!({"key": "dedicated", "operator": "Exists"})];
            if self.chance(40) {
                tolerations = vec![
                    json!({"key": "dedicated", "operator": "Equal", "value": "x", "effect": "NoSchedule"}),
                ];
            }
            if self.chance(40) {
                tolerations.push(json!({"key": "soft", "operator": "Exists", "effect": "PreferNoSchedule"}));
            }
            if self.chance(10) {
                tolerations = vec![json!({"operator": "Exists"})];
            }
            pod["spec"]["tolerations"] = json!(tolerations);
        }
        self.node_affinity(&mut pod);
        self.affinity_of_pods(&mut pod, 20);
        self.spread(&mut pod);
        self.priority(&mut pod, &["check-low", "check-mid", "check-high", "check-high", "check-never"]);
        if self.volumes && self.chance(60) {
            let claim = format!("{name}-v");
            self.claim(&claim, objects);
            pod["spec"]["volumes"] = json!([{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]);
        }
        pod
    }

    fn claim(&mut self, name: &str, objects: &mut Vec<(String, Value)>) {
        let namespace = self.namespace.clone();
        let kind = *self.pick(&["bound", "bound", "bound", "local", "wait", "im", "missing", "lost"]);
        if kind == "missing" {
            return;
        }
        let class = match kind {
            "bound" | "lost" => String::new(),
            other => format!("{namespace}-{other}"),
        };
        let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": class}});
        if kind == "bound" || kind == "lost" {
            let volume = format!("{namespace}-{name}");
            claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
            claim["spec"]["volumeName"] = json!(volume);
            claim["status"] =
                json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
            let zone = *self.pick(&["z1", "z2", "z3"]);
            if kind == "bound" {
                let volume = self.volume(&volume, "", zone, Some(name));
                objects.push(volume);
            }
        }
        objects.push((format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"), claim));
    }

    fn expression(&mut self) -> Value {
        match self.within(0, 6) {
            0 => json!({"key": "disk", "operator": "In", "values": ["ssd"]}),
            1 => json!({"key": "disk", "operator": "NotIn", "values": ["ssd"]}),
            2 => json!({"key": "disk", "operator": "Exists"}),
            3 => json!({"key": "disk", "operator": "DoesNotExist"}),
            4 => json!({"key": "size", "operator": "Gt", "values": ["3"]}),
            5 => json!({"key": "size", "operator": "Lt", "values": ["7"]}),
            _ => json!({"key": ZONE, "operator": "In", "values": ["z1", "z2"]}),
        }
    }

    fn node_affinity(&mut self, pod: &mut Value) {
        let mut affinity = Map::new();
        if self.wishes(15) {
            let mut terms: Vec<Value> = (0..self.within(1, 2))
                .map(|_| {
                    let expressions: Vec<Value> = (0..self.within(1, 2)).map(|_| self.expression()).collect();
                    json!({"matchExpressions": expressions})
                })
                .collect();
            if self.chance(25) {
                let node = self.within(0, self.nodes - 1);
                let field =
                    json!({"key": "metadata.name", "operator": "In", "values": [self.node_name(node)]});
                terms = vec![json!({"matchFields": [field]})];
            }
            affinity.insert(
                "requiredDuringSchedulingIgnoredDuringExecution".to_owned(),
                json!({"nodeSelectorTerms": terms}),
            );
        }
        if self.wishes(20) {
            let terms: Vec<Value> = (0..self.within(1, 2))
                .map(|_| json!({"weight": self.within(1, 100), "preference": {"matchExpressions": [self.expression()]}}))
                .collect();
            affinity.insert("preferredDuringSchedulingIgnoredDuringExecution".to_owned(), json!(terms));
        }
        if !affinity.is_empty() {
            pod["spec"]["affinity"]["nodeAffinity"] = Value::Object(affinity);
        }
    }

    fn selector(&mut self) -> Value {
        match self.within(0, 5) {
            0 => json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
            1 => json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}),
            2 => json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}),
            _ => json!({"matchLabels": {"app": self.pick(&APPS)}}),
        }
    }

    fn pod_term(&mut self) -> Value {
        let mut term = json!({"topologyKey": self.pick(&[ZONE, HOST]), "labelSelector": self.selector()});
        if self.chance(15) {
            term["namespaces"] = json!([format!("{}-other", self.namespace)]);
        }
        if self.chance(15) {
            term["namespaceSelector"] =
                if self.chance(50) { json!({}) } else { json!({"matchLabels": {"team": "blue"}}) };
        }
        term
    }

    fn affinity_of_pods(&mut self, pod: &mut Value, percent: u32) {
        for (field, percent) in [("podAffinity", percent * 2 / 3), ("podAntiAffinity", percent)] {
            if self.wishes(percent) {
                let terms: Vec<Value> = (0..self.within(1, 2)).map(|_| self.pod_term()).collect();
                pod["spec"]["affinity"][field]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!(terms);
            }
            if self.chance(percent) {
                let terms: Vec<Value> = (0..self.within(1, 2))
                    .map(|_| json!({"weight": self.within(1, 100), "podAffinityTerm": self.pod_term()}))
                    .collect();
                pod["spec"]["affinity"][field]["preferredDuringSchedulingIgnoredDuringExecution"] =
                    json!(terms);
            }
        }
    }

    fn spread(&mut self, pod: &mut Value) {
        if !self.wishes(35) {
            return;
        }
        let mut constraints: Vec<Value> = Vec::new();
        for key in [ZONE, HOST] {
            if !self.chance(65) {
                continue;
            }
            let hard = self.chance(60);
            let when = if hard { "DoNotSchedule" } else { "ScheduleAnyway" };
            let mut constraint = json!({"topologyKey": key, "maxSkew": self.within(1, 3), "whenUnsatisfiable": when, "labelSelector": self.selector()});
            if hard && self.chance(25) {
                constraint["minDomains"] = json!(self.within(1, 4));
            }
            if self.chance(25) {
                constraint["nodeAffinityPolicy"] = json!(*self.pick(&["Honor", "Ignore"]));
            }
            if self.chance(25) {
                constraint["nodeTaintsPolicy"] = json!(*self.pick(&["Honor", "Ignore"]));
            }
            if self.chance(15) && constraint["labelSelector"]["matchExpressions"].is_null() {
                constraint["matchLabelKeys"] = json!(["tier"]);
            }
            constraints.push(constraint);
        }
        if !constraints.is_empty() {
            pod["spec"]["topologySpreadConstraints"] = json!(constraints);
        }
    }
}
