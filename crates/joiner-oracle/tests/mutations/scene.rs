//! A small cluster, the pods that wait in it, and a plan made by hand that breaks no rule.

use joiner_oracle::checker::{Violation, check};
use joiner_oracle::world::World;
use serde_json::{Value, json};

/// Manifests, instance types and a plan, all open to meddling.
pub struct Scene {
    pub manifests: Vec<Value>,
    pub types: Vec<Value>,
    /// Null: none.
    pub scheduler_config: Value,
    pub plan: Value,
}

impl Scene {
    pub fn check(&self) -> Vec<Violation> {
        let world = World::from_manifests_with(
            &self.manifests,
            &self.types,
            Some(&self.scheduler_config).filter(|config| !config.is_null()),
        )
        .expect("the scene can be read");
        check(&world, &self.plan)
    }

    /// An object by kind and name.
    pub fn object(&mut self, kind: &str, name: &str) -> &mut Value {
        self.manifests
            .iter_mut()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
            .unwrap_or_else(|| panic!("no {kind} `{name}`"))
    }

    /// The pod spec of a Pod or of a workload's template.
    pub fn pod_spec(&mut self, kind: &str, name: &str) -> &mut Value {
        let object = self.object(kind, name);
        if kind == "Pod" { &mut object["spec"] } else { &mut object["spec"]["template"]["spec"] }
    }

    pub fn node(&mut self, name: &str) -> &mut Value {
        let nodes = self.plan["nodes"].as_array_mut().expect("nodes");
        nodes.iter_mut().find(|node| node["name"] == name).unwrap_or_else(|| panic!("no node `{name}`"))
    }

    pub fn remove_node(&mut self, name: &str) {
        self.plan["nodes"].as_array_mut().expect("nodes").retain(|node| node["name"] != name);
    }

    pub fn add_node(&mut self, node: Value) {
        self.plan["nodes"].as_array_mut().expect("nodes").push(node);
    }

    /// Takes a pod off its node.
    pub fn take(&mut self, pod: &str) {
        for node in self.plan["nodes"].as_array_mut().expect("nodes") {
            node["pods"].as_array_mut().expect("pods").retain(|listed| listed != pod);
        }
    }

    pub fn put(&mut self, pod: &str, node: &str) {
        self.node(node)["pods"].as_array_mut().expect("pods").push(json!(pod));
    }

    pub fn move_pod(&mut self, pod: &str, to: &str) {
        self.take(pod);
        self.put(pod, to);
    }

    /// Makes the totals right again after nodes or pods moved.
    pub fn add_up(&mut self) {
        let nodes = self.plan["nodes"].as_array().expect("nodes").clone();
        let new: Vec<&Value> = nodes.iter().filter(|node| node["existing"] == false).collect();
        let price: f64 = new.iter().filter_map(|node| node["pricePerHour"].as_f64()).sum();
        let pods: usize = nodes.iter().map(|node| node["pods"].as_array().expect("pods").len()).sum();
        let left = self.plan["unschedulable"].as_array().expect("unschedulable").len();
        let totals = &mut self.plan["totals"];
        totals["newNodes"] = json!(new.len());
        totals["pricePerHour"] = json!(price);
        totals["pods"] = json!(pods + left);
        totals["unschedulable"] = json!(left);
    }
}

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOST: &str = "kubernetes.io/hostname";
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

pub fn new_node(
    name: &str,
    pool: &str,
    what: (&str, &str, &str, f64),
    pods: &[&str],
    options: &[&str],
) -> Value {
    let (instance_type, zone, capacity_type, price) = what;
    json!({
        "name": name, "nodePool": pool, "instanceType": instance_type, "zone": zone, "capacityType": capacity_type,
        "pricePerHour": price, "pods": pods, "existing": false, "instanceTypeOptions": options,
    })
}

pub fn existing(name: &str, pods: &[&str]) -> Value {
    json!({"name": name, "pods": pods, "existing": true, "pricePerHour": null, "instanceTypeOptions": []})
}

pub fn instance_type(
    name: &str,
    arch: &str,
    cpu: &str,
    memory: &str,
    offerings: &[(&str, &str, f64, bool)],
) -> Value {
    let offerings: Vec<Value> = offerings
        .iter()
        .map(|(zone, capacity_type, price, available)| {
            json!({
                "Price": price, "Available": available,
                "Requirements": [
                    {"key": CAPACITY_TYPE, "operator": "In", "values": [capacity_type]},
                    {"key": ZONE, "operator": "In", "values": [zone]},
                ],
            })
        })
        .collect();
    json!({
        "name": name, "architecture": arch, "operatingSystems": ["linux"],
        "resources": {"cpu": cpu, "memory": memory, "pods": "20"}, "offerings": offerings,
    })
}

fn containers(cpu: &str) -> Value {
    json!([{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}])
}

pub fn pod(name: &str, app: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": containers(cpu)},
    })
}

pub fn with(mut object: Value, field: &str, value: Value) -> Value {
    object["spec"][field] = value;
    object
}

pub fn bound(pod: Value, node: &str) -> Value {
    with(pod, "nodeName", json!(node))
}

fn workload(kind: &str, name: &str, count: usize, cpu: &str, extra: Value) -> Value {
    let mut spec = json!({"containers": containers(cpu)});
    for (key, value) in extra.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    let field = if kind == "Job" { "parallelism" } else { "replicas" };
    json!({
        "kind": kind, "metadata": {"name": name},
        "spec": {field: count, "template": {"metadata": {"labels": {"app": name}}, "spec": spec}},
    })
}

pub fn term(kind: &str, key: &str, app: &str) -> Value {
    json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    ]}})
}

pub fn spread(key: &str, app: &str) -> Value {
    json!([{
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }])
}

pub fn required_terms(terms: Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

fn pool(name: &str, requirements: Value, more: Value) -> Value {
    let mut template = json!({
        "requirements": requirements,
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
    });
    if let Some(taints) = more.get("taints") {
        template["taints"] = taints.clone();
    }
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": {"team": "core"}}, "spec": template},
            "limits": more.get("limits").cloned().unwrap_or(json!({})),
        },
    })
}

fn node(name: &str, zone: &str, pool: Option<&str>, spec: Value) -> Value {
    let mut labels =
        json!({HOST: name, ZONE: zone, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"});
    if let Some(pool) = pool {
        labels["karpenter.sh/nodepool"] = json!(pool);
        labels["karpenter.sh/initialized"] = json!("true");
        labels["rack"] = json!("r1");
    }
    let size = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
    json!({
        "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
        "status": {"capacity": size, "allocatable": {"cpu": "3900m", "memory": "15Gi", "pods": "20"}},
    })
}

pub fn volume(name: &str, zone: &str) -> Value {
    json!({
        "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "csi": {"driver": "csi.example.com"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
            ]}},
        },
    })
}

pub fn claim(name: &str, volume: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"name": name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume}})
}

pub fn uses_claim(claim: &str) -> Value {
    json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}])
}

/// The scene every mutation starts from.
pub fn good() -> Scene {
    let key = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    let in_turn = |price: f64, capacity_type: &'static str| {
        ["a", "b", "c"].map(|zone| (zone, capacity_type, price, true)).to_vec()
    };
    let everywhere =
        |on_demand: f64, spot: f64| [in_turn(on_demand, "on-demand"), in_turn(spot, "spot")].concat();
    let mut xlarge = everywhere(0.40, 0.16);
    xlarge[5].3 = false;
    let arm: Vec<_> = everywhere(0.15, 0.05).into_iter().filter(|(zone, ..)| *zone != "c").collect();
    let mut reserved = instance_type("r.large", "amd64", "4", "8Gi", &[("a", "reserved", 0.01, true)]);
    reserved["offerings"][0]["ReservationCapacity"] = json!(1);
    let types = vec![
        instance_type("m.large", "amd64", "4", "16Gi", &everywhere(0.20, 0.08)),
        instance_type("m.xlarge", "amd64", "8", "32Gi", &xlarge),
        instance_type("g.large", "arm64", "4", "8Gi", &arm),
        reserved,
    ];

    let daemon = |name: &str, cpu: &str, extra: Value| {
        let mut set = workload("DaemonSet", name, 1, cpu, extra);
        set["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        set
    };
    let mut agent = daemon("agent", "200m", json!({}));
    agent["spec"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{"containerPort": 1, "hostPort": 9100}]);
    let mut agent_on_n1 = bound(pod("agent-n1", "agent", "200m"), "n1");
    agent_on_n1["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent"}]);
    let mut edge = pod("edge", "edge", "1");
    edge["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    let mut port80 = bound(pod("port80", "port80", "100m"), "n1");
    port80["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    let dedicated = json!([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]);
    let mut db = workload(
        "StatefulSet",
        "db",
        1,
        "2",
        json!({"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}],
               "nodeSelector": {"karpenter.sh/nodepool": "dedicated"}}),
    );
    db["spec"]["volumeClaimTemplates"] =
        json!([{"metadata": {"name": "data"}, "spec": {"storageClassName": "x"}}]);

    let on_demand = [key(CAPACITY_TYPE, "In", &["on-demand"]), key("kubernetes.io/arch", "In", &["amd64"])];
    let mut general = on_demand.to_vec();
    general.push(key("rack", "Exists", &[]));
    general.push(key("tier", "In", &["gold", "silver"]));
    let spot = json!([
        key(CAPACITY_TYPE, "In", &["spot"]),
        {"key": ZONE, "operator": "In", "values": ["a", "b", "c"], "minValues": 2},
        {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 3},
    ]);
    let manifests = vec![
        pool("general", json!(general), json!({"limits": {"cpu": "40", "nodes": "6"}})),
        pool("spot", spot, json!({})),
        pool("dedicated", json!(on_demand), json!({"taints": dedicated})),
        pool("reserve", json!([key(CAPACITY_TYPE, "In", &["reserved"])]), json!({})),
        node("n1", "a", Some("general"), json!({})),
        node("n2", "b", None, json!({"unschedulable": true})),
        node(
            "n3",
            "c",
            Some("general"),
            json!({"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}),
        ),
        json!({"kind": "CSINode", "metadata": {"name": "n1"},
               "spec": {"drivers": [{"name": "csi.example.com", "allocatable": {"count": 1}}]}}),
        agent,
        daemon("arm-agent", "500m", json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}})),
        agent_on_n1,
        port80,
        bound(with(pod("guard", "guard", "100m"), "affinity", term("podAntiAffinity", HOST, "lonely")), "n1"),
        bound(with(pod("holder", "holder", "100m"), "volumes", uses_claim("held-data")), "n1"),
        claim("held-data", "pv-held"),
        volume("pv-held", "a"),
        claim("data-db-0", "pv-db"),
        volume("pv-db", "b"),
        claim("spare", "pv-spare"),
        volume("pv-spare", "a"),
        db,
        workload("Deployment", "web", 3, "1", json!({"topologySpreadConstraints": spread(ZONE, "web")})),
        workload(
            "Deployment",
            "cache",
            2,
            "500m",
            json!({"affinity": term("podAntiAffinity", HOST, "cache")}),
        ),
        workload("Deployment", "api", 2, "500m", json!({"affinity": term("podAffinity", ZONE, "api")})),
        workload("Job", "burst", 2, "1", json!({"nodeSelector": {CAPACITY_TYPE: "spot"}})),
        with(pod("rack-0", "rack", "100m"), "nodeSelector", json!({"rack": "r7"})),
        with(
            pod("rack-1", "rack", "100m"),
            "affinity",
            required_terms(json!([{"matchExpressions": [key("rack", "In", &["r7", "r8"])]}])),
        ),
        edge,
        with(pod("held", "held", "1"), "nodeSelector", json!({CAPACITY_TYPE: "reserved"})),
        pod("lonely", "lonely", "100m"),
        pod("giant", "giant", "100"),
    ];

    let large = |zone: &'static str| ("m.large", zone, "on-demand", 0.20);
    let both = ["m.large", "m.xlarge"];
    let nodes = json!([
        existing("n1", &["default/api-1"]),
        new_node("w-a", "general", large("a"), &["default/web-0", "default/cache-0", "default/api-0"], &both),
        new_node(
            "w-b",
            "general",
            large("b"),
            &["default/web-1", "default/cache-1", "default/lonely"],
            &both
        ),
        new_node(
            "w-c",
            "general",
            large("c"),
            &["default/web-2", "default/rack-0", "default/rack-1", "default/edge"],
            &both
        ),
        new_node("d-b", "dedicated", large("b"), &["default/db-0"], &both),
        new_node(
            "s-1",
            "spot",
            ("g.large", "a", "spot", 0.05),
            &["default/burst-0", "default/burst-1"],
            &["g.large", "m.large", "m.xlarge"]
        ),
        new_node("v-1", "reserve", ("r.large", "a", "reserved", 0.01), &["default/held"], &["r.large"]),
    ]);
    let unschedulable = json!([{"pod": "default/giant", "reasons": [
        {"nodePool": "general", "code": "Resources", "message": "too large"}
    ]}]);
    let mut scene = Scene {
        manifests,
        types,
        scheduler_config: Value::Null,
        plan: json!({
            "apiVersion": "joiner.sh/v1alpha1", "kind": "Plan", "nodes": nodes, "unschedulable": unschedulable,
            "totals": {"lowerBoundPerHour": 0.5}, "timing": {"solveSeconds": 0.001},
        }),
    };
    scene.add_up();
    scene
}

/// A scene without any preference or topology, where the cheapest offering can be known exactly.
pub fn plain() -> Scene {
    let mut scene = good();
    scene.manifests.retain(|object| matches!(object["kind"].as_str(), Some("NodePool" | "DaemonSet")));
    scene.manifests.push(pod("solo", "solo", "1"));
    let what = ("m.large", "a", "on-demand", 0.20);
    scene.plan["nodes"] =
        json!([new_node("p-1", "general", what, &["default/solo"], &["m.large", "m.xlarge"])]);
    scene.plan["unschedulable"] = json!([]);
    scene.plan["totals"]["lowerBoundPerHour"] = json!(0.1);
    scene.add_up();
    scene
}
