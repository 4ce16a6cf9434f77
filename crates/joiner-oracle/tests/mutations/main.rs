//! The checker can fail: a plan made by hand passes, and each way of spoiling it is found, under the right rule and no other.

mod capacity;
mod scene;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use self::scene::*;

/// What was done, the rules that must be reported (all of them and no others), and how it is done.
type Mutation = (&'static str, &'static [&'static str], fn(&mut Scene));

fn first_container<'s>(scene: &'s mut Scene, kind: &str, name: &str) -> &'s mut Value {
    &mut scene.pod_spec(kind, name)["containers"][0]
}

fn fourth_web_pod(scene: &mut Scene) {
    scene.object("Deployment", "web")["spec"]["replicas"] = json!(4);
    scene.put("default/web-3", "w-b");
    scene.add_up();
}

/// The machine of `db`, which `web` can't use, stands in a zone of its own; `web` has two pods in another.
fn opened_zone(scene: &mut Scene, affinity_policy: &str) {
    fourth_web_pod(scene);
    let mut offering = scene.types[0]["offerings"][0].clone();
    offering["Requirements"][1]["values"] = json!(["d"]);
    scene.types[0]["offerings"].as_array_mut().expect("offerings").push(offering);
    *scene.object("PersistentVolume", "pv-db") = volume("pv-db", "d");
    let node = scene.node("d-b");
    node["zone"] = json!("d");
    node["instanceTypeOptions"] = json!(["m.large"]);
    let web = scene.pod_spec("Deployment", "web");
    web["affinity"] = required_terms(json!([
        {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["d"]}]},
    ]));
    web["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = json!(affinity_policy);
}

const MUTATIONS: &[Mutation] = &[
    // The plan as a document.
    ("another kind", &["format"], |s| s.plan["kind"] = json!("List")),
    ("another version", &["format"], |s| s.plan["apiVersion"] = json!("joiner.sh/v2")),
    ("no nodes list", &["format"], |s| s.plan["nodes"] = json!(null)),
    ("a node without a name", &["format"], |s| s.node("w-a")["name"] = json!("")),
    ("existing is not said", &["format"], |s| s.node("w-a")["existing"] = json!(null)),
    // Every pod once.
    ("pod on two nodes", &["pod-twice"], |s| {
        s.put("default/lonely", "w-c");
        s.add_up();
    }),
    ("pod placed and unschedulable", &["pod-twice"], |s| {
        s.plan["unschedulable"][0]["pod"] = json!("default/lonely");
        s.take("default/lonely");
        s.put("default/lonely", "w-b");
        s.manifests.retain(|object| object["metadata"]["name"] != "giant");
    }),
    ("pod left out", &["pod-forgotten"], |s| {
        s.take("default/lonely");
        s.add_up();
    }),
    ("unschedulable pod left out", &["pod-forgotten"], |s| {
        s.plan["unschedulable"] = json!([]);
        s.add_up();
    }),
    ("a pod nobody asked for", &["pod-unknown"], |s| {
        s.put("default/ghost", "w-c");
        s.add_up();
    }),
    ("a bound pod placed again", &["pod-unknown"], |s| {
        s.put("default/guard", "w-c");
        s.add_up();
    }),
    ("a gated pod placed", &["pod-unknown"], |s| {
        s.pod_spec("Pod", "lonely")["schedulingGates"] = json!([{"name": "wait"}]);
    }),
    ("pod with resource claims", &["pod-refused"], |s| {
        s.pod_spec("Pod", "lonely")["resourceClaims"] = json!([{"name": "gpu"}]);
    }),
    ("pod that asks for a host name", &["pod-refused", "option-unfit"], |s| {
        s.pod_spec("Pod", "lonely")["nodeSelector"] = json!({HOST: "w-b"});
    }),
    ("volume is gone", &["pod-refused"], |s| {
        s.manifests.retain(|object| object["metadata"]["name"] != "pv-db");
    }),
    ("claim of a class that binds at once", &["pod-refused"], |s| {
        s.manifests.retain(|object| object["metadata"]["name"] != "data-db-0");
        s.manifests.push(json!({"kind": "StorageClass", "metadata": {"name": "x"}, "provisioner": "y"}));
    }),
    ("no reason given", &["reason-missing"], |s| s.plan["unschedulable"][0]["reasons"] = json!([])),
    // Nodes.
    ("node that does not exist", &["node-unknown"], |s| s.node("n1")["name"] = json!("n9")),
    ("two new nodes of one name", &["node-twice"], |s| s.node("s-1")["name"] = json!("v-1")),
    ("new node named like an old one", &["node-twice"], |s| s.node("s-1")["name"] = json!("n2")),
    ("new node without pods", &["node-empty"], |s| {
        s.add_node(new_node("e", "dedicated", ("m.large", "a", "on-demand", 0.20), &[], &["m.large"]));
        s.add_up();
    }),
    ("existing node in another zone", &["node-mismatch"], |s| s.node("n1")["zone"] = json!("b")),
    ("cordoned node", &["node-closed"], |s| {
        s.take("default/lonely");
        s.add_node(existing("n2", &["default/lonely"]));
    }),
    ("leaving node", &["node-closed", "taints"], |s| {
        s.take("default/lonely");
        s.add_node(existing("n3", &["default/lonely"]));
    }),
    ("node being deleted", &["node-closed"], |s| {
        s.object("Node", "n1")["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }),
    // Purchases.
    ("unknown pool", &["pool-unknown"], |s| s.node("s-1")["nodePool"] = json!("nope")),
    ("pool of fixed size", &["static-count", "static-stray"], |s| {
        s.object("NodePool", "spot")["spec"]["replicas"] = json!(3)
    }),
    ("unknown type", &["type-unknown"], |s| s.node("s-1")["instanceType"] = json!("z.huge")),
    ("zone without offering", &["offering-unknown"], |s| s.node("s-1")["zone"] = json!("c")),
    ("no zone", &["offering-unknown"], |s| s.node("s-1")["zone"] = json!(null)),
    ("offering sold out", &["offering-unavailable"], |s| {
        let options = ["m.xlarge", "m.large", "g.large"];
        s.remove_node("s-1");
        let what = ("m.xlarge", "c", "spot", 0.16);
        s.add_node(new_node("s-1", "spot", what, &["default/burst-0", "default/burst-1"], &options));
        s.types[0]["offerings"][5]["Available"] = json!(false);
        s.add_up();
    }),
    ("wrong price", &["price"], |s| {
        s.node("s-1")["pricePerHour"] = json!(0.04);
        s.add_up();
    }),
    ("no price", &["price"], |s| {
        s.node("s-1")["pricePerHour"] = json!(null);
        s.add_up();
    }),
    ("capacity type the pool forbids", &["pool-requirements"], |s| {
        s.node("w-c")["capacityType"] = json!("spot");
        s.node("w-c")["pricePerHour"] = json!(0.08);
        s.add_up();
    }),
    ("type the pool forbids", &["pool-requirements", "option-unfit"], |s| {
        let node = s.node("w-b");
        node["instanceType"] = json!("g.large");
        node["pricePerHour"] = json!(0.15);
        node["instanceTypeOptions"] = json!(["g.large"]);
        s.add_up();
    }),
    // Room.
    ("too much cpu", &["resources", "option-unfit"], |s| {
        first_container(s, "Pod", "edge")["resources"]["requests"]["cpu"] = json!("3");
    }),
    ("too much cpu on an existing node", &["resources"], |s| {
        s.object("Node", "n1")["status"]["allocatable"]["cpu"] = json!("900m");
    }),
    ("an init container too large", &["resources", "option-unfit"], |s| {
        let init = json!([{"name": "i", "resources": {"requests": {"memory": "17Gi"}}}]);
        s.pod_spec("Pod", "edge")["initContainers"] = init;
    }),
    ("a limit without a request", &["resources", "option-unfit"], |s| {
        first_container(s, "Pod", "edge")["resources"] = json!({"limits": {"cpu": "3"}});
    }),
    ("a resource the type lacks", &["resources", "option-unfit"], |s| {
        first_container(s, "Pod", "edge")["resources"]["requests"]["example.com/gpu"] = json!("1");
    }),
    ("too many pods", &["resources", "daemon-room", "option-unfit"], |s| {
        s.types[0]["resources"]["pods"] = json!("3")
    }),
    ("no room for daemons", &["daemon-room", "option-unfit"], |s| {
        first_container(s, "Pod", "edge")["resources"]["requests"]["cpu"] = json!("2600m");
    }),
    ("no room for a daemon still to come", &["daemon-room"], |s| {
        s.manifests.retain(|object| object["metadata"]["name"] != "agent-n1");
        s.object("Node", "n1")["status"]["allocatable"]["cpu"] = json!("900m");
    }),
    // Taints, labels, ports, volumes.
    ("taint of the pool", &["taints"], |s| s.move_pod("default/lonely", "d-b")),
    ("taint of the node", &["taints"], |s| {
        s.object("Node", "n1")["spec"]["taints"] = json!([{"key": "k", "effect": "NoExecute"}]);
    }),
    ("toleration of another value", &["taints"], |s| {
        s.pod_spec("StatefulSet", "db")["tolerations"][0]["value"] = json!("cache");
    }),
    ("value outside the pool's list", &["node-affinity", "option-unfit"], |s| {
        s.pod_spec("Pod", "lonely")["nodeSelector"] = json!({"tier": "bronze"});
    }),
    ("label the pool does not define", &["node-affinity", "option-unfit"], |s| {
        s.pod_spec("Pod", "lonely")["nodeSelector"] = json!({"color": "red"});
    }),
    ("another zone", &["node-affinity", "option-unfit"], |s| {
        s.pod_spec("Pod", "lonely")["nodeSelector"] = json!({ZONE: "c"});
    }),
    ("every term fails", &["node-affinity", "option-unfit"], |s| {
        s.pod_spec("Pod", "lonely")["affinity"] = required_terms(json!([
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]},
            {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a", "b"]}]},
        ]));
    }),
    ("a term that says nothing", &["node-affinity", "option-unfit"], |s| {
        s.pod_spec("Pod", "lonely")["affinity"] = required_terms(json!([{}]));
    }),
    ("no terms", &["node-affinity", "option-unfit"], |s| {
        s.pod_spec("Pod", "lonely")["affinity"] = required_terms(json!([]));
    }),
    ("more cpu than the type has", &["node-affinity", "option-unfit"], |s| {
        s.pod_spec("Pod", "lonely")["affinity"] = required_terms(json!([
            {"matchExpressions": [{"key": "karpenter.kwok.sh/instance-cpu", "operator": "Gt", "values": ["4"]}]},
        ]));
    }),
    ("label of an existing node", &["node-affinity"], |s| {
        s.pod_spec("Deployment", "api")["nodeSelector"] = json!({"rack": "r2"});
    }),
    ("a label the existing node lacks", &["node-affinity"], |s| {
        s.pod_spec("Deployment", "api")["nodeSelector"] = json!({"tier": "gold"});
    }),
    ("two pods, two racks, one machine", &["joint-requirements", "option-unfit"], |s| {
        s.pod_spec("Pod", "rack-0")["nodeSelector"] = json!({"rack": "r9"});
    }),
    ("one wants the label, one its absence", &["joint-requirements", "option-unfit"], |s| {
        let region = "topology.kubernetes.io/region";
        s.pod_spec("Pod", "edge")["nodeSelector"] = json!({region: "r"});
        s.pod_spec("Pod", "rack-1")["affinity"] = required_terms(json!([
            {"matchExpressions": [{"key": region, "operator": "DoesNotExist"}]},
        ]));
    }),
    ("port taken by a bound pod", &["host-ports"], |s| s.move_pod("default/edge", "n1")),
    ("port taken by another pod of the plan", &["host-ports"], |s| {
        first_container(s, "Pod", "rack-0")["ports"] =
            json!([{"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1"}]);
    }),
    ("port taken by a daemon", &["host-ports", "option-unfit"], |s| {
        first_container(s, "Pod", "edge")["ports"][0]["hostPort"] = json!(9100);
    }),
    ("port of the host network", &["host-ports"], |s| {
        s.pod_spec("Pod", "rack-0")["hostNetwork"] = json!(true);
        first_container(s, "Pod", "rack-0")["ports"] = json!([{"containerPort": 80}]);
    }),
    ("volume in another zone", &["volume-topology"], |s| {
        *s.object("PersistentVolume", "pv-db") = volume("pv-db", "c");
    }),
    ("volume in no zone there is", &["volume-topology", "option-unfit"], |s| {
        *s.object("PersistentVolume", "pv-db") = volume("pv-db", "x");
    }),
    ("class allowed elsewhere only", &["volume-topology"], |s| {
        s.manifests.retain(|object| object["metadata"]["name"] != "data-db-0");
        s.manifests.push(json!({
            "kind": "StorageClass", "metadata": {"name": "x"}, "provisioner": "y",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "c"]}]}],
        }));
    }),
    ("one volume too many", &["volume-limits"], |s| {
        s.pod_spec("Deployment", "api")["volumes"] = uses_claim("spare");
    }),
    ("more volumes than any machine of the type attaches", &["volume-limits", "option-unfit"], |s| {
        s.types[0]["volumeLimits"] = json!({"csi.example.com": 0});
    }),
    ("an option that attaches too few volumes", &["option-unfit"], |s| {
        s.types[1]["volumeLimits"] = json!({"csi.example.com": 0});
    }),
    ("volume labelled with another zone", &["volume-topology"], |s| {
        s.object("PersistentVolume", "pv-db")["spec"] = json!({"csi": {"driver": "csi.example.com"}});
        s.object("PersistentVolume", "pv-db")["metadata"]["labels"] =
            json!({"failure-domain.beta.kubernetes.io/zone": "a__c"});
    }),
    ("volume not bound yet", &["pod-refused"], |s| {
        s.object("PersistentVolumeClaim", "data-db-0")["metadata"]["annotations"] = json!({});
    }),
    ("pool not ready", &["pool-unknown"], |s| {
        s.object("NodePool", "spot")["status"] =
            json!({"conditions": [{"type": "Ready", "status": "False"}]});
    }),
    ("default spread of what a Service selects", &["spread"], |s| default_spread(s, "DoNotSchedule")),
    // Topology.
    ("own anti-affinity", &["anti-affinity"], |s| s.move_pod("default/cache-1", "w-a")),
    ("anti-affinity of a bound pod", &["anti-affinity"], |s| s.move_pod("default/lonely", "n1")),
    ("anti-affinity towards a bound pod", &["anti-affinity"], |s| {
        let both = term("podAntiAffinity", HOST, "guard");
        s.pod_spec("Deployment", "api")["affinity"]["podAntiAffinity"] = both["podAntiAffinity"].clone();
    }),
    ("anti-affinity in the zone", &["anti-affinity"], |s| {
        s.pod_spec("Deployment", "cache")["affinity"] = term("podAntiAffinity", ZONE, "api");
    }),
    ("anti-affinity on an open label of one machine", &["anti-affinity"], |s| {
        s.pod_spec("Pod", "lonely")["affinity"] = term("podAntiAffinity", "rack", "web");
    }),
    ("anti-affinity across namespaces", &["anti-affinity"], |s| {
        s.object("Pod", "guard")["metadata"]["namespace"] = json!("elsewhere");
        let terms = &mut s.pod_spec("Pod", "guard")["affinity"]["podAntiAffinity"];
        terms["requiredDuringSchedulingIgnoredDuringExecution"][0]["namespaceSelector"] = json!({});
        s.move_pod("default/lonely", "n1");
    }),
    ("affinity in another zone", &["pod-affinity"], |s| s.move_pod("default/api-1", "w-b")),
    ("affinity to nobody", &["pod-affinity"], |s| {
        s.pod_spec("Pod", "lonely")["affinity"] = term("podAffinity", ZONE, "nobody");
    }),
    ("affinity to a pod elsewhere", &["pod-affinity"], |s| {
        s.pod_spec("Pod", "lonely")["affinity"] = term("podAffinity", HOST, "guard");
    }),
    ("affinity on a label nobody has", &["pod-affinity"], |s| {
        s.pod_spec("Deployment", "api")["affinity"] = term("podAffinity", "color", "api");
    }),
    ("two pods of a zone", &["spread"], |s| s.move_pod("default/web-1", "w-a")),
    ("fewer domains than demanded", &["spread"], |s| {
        fourth_web_pod(s);
        s.pod_spec("Deployment", "web")["topologySpreadConstraints"][0]["minDomains"] = json!(4);
    }),
    ("a bound pod counts", &["spread"], |s| {
        s.manifests.push(bound(pod("old", "web", "100m"), "n1"));
        s.object("Deployment", "web")["spec"]["replicas"] = json!(2);
        s.take("default/web-2");
        s.move_pod("default/web-1", "w-a");
        s.add_up();
    }),
    ("two pods of a host", &["spread"], |s| {
        s.pod_spec("Deployment", "web")["topologySpreadConstraints"] = spread(HOST, "web");
        s.move_pod("default/web-1", "w-a");
    }),
    ("a capacity type left empty", &["spread"], |s| {
        s.pod_spec("Deployment", "web")["topologySpreadConstraints"] = spread(CAPACITY_TYPE, "web");
    }),
    ("spread over a label nobody has", &["spread-missing-key"], |s| {
        s.pod_spec("Deployment", "web")["topologySpreadConstraints"] = spread("color", "web");
    }),
    ("a machine for others opens a zone", &["spread"], |s| {
        // Nobody of `web` can use it, but once it stands its zone is one without a pod of theirs, and another has two.
        opened_zone(s, "Ignore");
    }),
    ("three pods, two tiers, no skew left", &["spread"], |s| {
        let only_gold = json!([{"key": "tier", "operator": "In", "values": ["gold"]}]);
        s.pod_spec("Deployment", "web")["topologySpreadConstraints"] = spread("tier", "web");
        s.pod_spec("Deployment", "web")["topologySpreadConstraints"][0]["nodeAffinityPolicy"] =
            json!("Ignore");
        s.pod_spec("Pod", "rack-1")["affinity"] = required_terms(json!([{"matchExpressions": only_gold}]));
        s.pod_spec("Pod", "lonely")["affinity"] = required_terms(json!([{"matchExpressions": only_gold}]));
        s.pod_spec("Deployment", "cache")["nodeSelector"] = json!({"tier": "gold"});
    }),
    // Options, limits, reservations.
    ("no options", &["options-missing"], |s| s.node("w-a")["instanceTypeOptions"] = json!([])),
    ("unknown option", &["option-unknown"], |s| s.node("w-a")["instanceTypeOptions"][1] = json!("z.huge")),
    ("option listed twice", &["option-unknown"], |s| {
        s.node("w-a")["instanceTypeOptions"][1] = json!("m.large")
    }),
    ("option the pool forbids", &["option-unfit"], |s| {
        s.node("w-a")["instanceTypeOptions"] = json!(["m.large", "m.xlarge", "g.large"]);
    }),
    ("option not offered in the zone of the spread", &["option-unfit"], |s| {
        s.types[1]["offerings"].as_array_mut().expect("offerings").remove(2);
    }),
    ("chosen type is not first", &["option-order"], |s| {
        s.node("w-a")["instanceTypeOptions"] = json!(["m.xlarge", "m.large"]);
    }),
    ("a cheaper option in the same place", &["not-cheapest"], |s| {
        let node = s.node("s-1");
        node["instanceType"] = json!("m.large");
        node["pricePerHour"] = json!(0.08);
        node["instanceTypeOptions"] = json!(["m.large", "g.large", "m.xlarge"]);
        s.add_up();
    }),
    ("fewer types than minValues", &["min-values"], |s| {
        s.node("s-1")["instanceTypeOptions"] = json!(["g.large", "m.large"]);
    }),
    ("pods leave one zone of two", &["min-values"], |s| {
        s.pod_spec("Job", "burst")["nodeSelector"] = json!({CAPACITY_TYPE: "spot", ZONE: "a"});
    }),
    ("cpu above the limit", &["limits", "limits-options"], |s| {
        s.object("NodePool", "general")["spec"]["limits"]["cpu"] = json!("15");
    }),
    ("cpu above the limit for the largest option", &["limits-options"], |s| {
        s.object("NodePool", "general")["spec"]["limits"]["cpu"] = json!("16");
    }),
    ("too many nodes", &["limits", "limits-options"], |s| {
        s.object("NodePool", "general")["spec"]["limits"]["nodes"] = json!("3");
    }),
    ("a limit of nothing", &["limits", "limits-options"], |s| {
        s.object("NodePool", "dedicated")["spec"]["limits"] = json!({"memory": "0"});
    }),
    ("reservation used twice", &["reservations"], |s| {
        let mut second = s.object("Pod", "held").clone();
        second["metadata"]["name"] = json!("held-too");
        s.manifests.push(second);
        let what = ("r.large", "a", "reserved", 0.01);
        s.add_node(new_node("v-2", "reserve", what, &["default/held-too"], &["r.large"]));
        s.add_up();
    }),
    ("reservation used up", &["reservations"], |s| {
        s.types[3]["offerings"][0]["ReservationCapacity"] = json!(0)
    }),
    // Sums.
    ("wrong number of nodes", &["totals"], |s| s.plan["totals"]["newNodes"] = json!(7)),
    ("wrong number of pods", &["totals"], |s| s.plan["totals"]["pods"] = json!(17)),
    ("only placed pods counted", &["totals"], |s| s.plan["totals"]["pods"] = json!(15)),
    ("wrong number of leftovers", &["totals"], |s| s.plan["totals"]["unschedulable"] = json!(0)),
    ("wrong sum of prices", &["totals"], |s| s.plan["totals"]["pricePerHour"] = json!(0.85)),
    ("lower bound above the price", &["lower-bound"], |s| {
        s.move_pod("default/api-1", "w-a");
        s.remove_node("n1");
        s.plan["totals"]["lowerBoundPerHour"] = json!(0.9);
        s.add_up();
    }),
];

const PLAIN_MUTATIONS: &[Mutation] = &[
    ("a cheaper offering in another zone", &["not-cheapest"], |s| {
        s.types[0]["offerings"][1]["Price"] = json!(0.19);
    }),
    ("options not by price", &["option-order"], |s| {
        s.types.push(instance_type("m.medium", "amd64", "4", "8Gi", &[("a", "on-demand", 0.30, true)]));
        s.node("p-1")["instanceTypeOptions"] = json!(["m.large", "m.xlarge", "m.medium"]);
    }),
    ("lower bound above the price", &["lower-bound"], |s| {
        s.plan["totals"]["lowerBoundPerHour"] = json!(0.21);
    }),
];

/// What was done and how.
type Harmless = (&'static str, fn(&mut Scene));

/// Changes that break nothing: the checker must not cry wolf.
const HARMLESS: &[Harmless] = &[
    ("a preference against the node", |s| {
        s.object("Node", "n1")["spec"]["taints"] = json!([{"key": "k", "effect": "PreferNoSchedule"}]);
    }),
    ("a second term that fits", |s| {
        s.pod_spec("Pod", "lonely")["affinity"] = required_terms(json!([
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["x"]}]},
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]},
        ]));
    }),
    ("an old key", |s| {
        s.pod_spec("Pod", "lonely")["nodeSelector"] = json!({"failure-domain.beta.kubernetes.io/zone": "b"});
    }),
    ("a fourth pod", fourth_web_pod),
    ("a machine for others in a zone that the constraint does not look at", |s| opened_zone(s, "Honor")),
    ("no constraint for one of them", |s| {
        s.manifests.push(pod("stray", "web", "100m"));
        s.put("default/stray", "w-c");
        s.put("default/stray-2", "w-c");
        s.manifests.push(pod("stray-2", "web", "100m"));
        s.add_up();
    }),
    ("skew that was there before", |s| {
        for name in ["x", "y", "z"] {
            s.manifests.push(bound(pod(name, "web", "10m"), "n1"));
        }
        s.move_pod("default/web-0", "w-b");
    }),
    ("finished pods", |s| {
        let mut done = bound(pod("done", "web", "100"), "n1");
        done["status"] = json!({"phase": "Succeeded"});
        s.manifests.push(done);
    }),
    ("a soft constraint that fails", |s| {
        s.pod_spec("Deployment", "web")["topologySpreadConstraints"][0]["whenUnsatisfiable"] =
            json!("ScheduleAnyway");
        s.move_pod("default/web-1", "w-a");
    }),
    ("the claim is shared with a pod that is there", |s| {
        s.pod_spec("Deployment", "api")["volumes"] = uses_claim("held-data");
    }),
    ("another address, same port", |s| {
        first_container(s, "Pod", "edge")["ports"][0]["hostIP"] = json!("10.0.0.1");
        first_container(s, "Pod", "rack-0")["ports"] =
            json!([{"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.2"}]);
    }),
    ("limits already passed in a pool that gets nothing", |s| {
        s.move_pod("default/held", "v-1");
        s.object("NodePool", "spot")["spec"]["limits"] = json!({"cpu": "8"});
    }),
    ("spread over a label the machines can choose", |s| {
        s.pod_spec("Deployment", "web")["topologySpreadConstraints"] = spread("tier", "web");
        s.pod_spec("Deployment", "cache")["nodeSelector"] = json!({"tier": "gold"});
    }),
    ("affinity leaning on a pod that comes later in the plan", |s| {
        s.pod_spec("Pod", "lonely")["affinity"] = term("podAffinity", ZONE, "db");
    }),
    ("anti-affinity on a label any value will do for", |s| {
        s.pod_spec("Pod", "lonely")["affinity"] = term("podAntiAffinity", "rack", "web");
        s.move_pod("default/web-1", "w-c");
        s.pod_spec("Deployment", "web")["topologySpreadConstraints"] = json!([]);
    }),
    ("a domain only a pool with a soft taint offers", |s| {
        s.object("NodePool", "spot")["spec"]["template"]["spec"]["taints"] =
            json!([{"key": "k", "effect": "PreferNoSchedule"}]);
        s.object("NodePool", "reserve")["spec"]["template"]["spec"]["taints"] =
            json!([{"key": "k", "effect": "PreferNoSchedule"}]);
        s.pod_spec("Deployment", "web")["topologySpreadConstraints"] = spread(CAPACITY_TYPE, "web");
    }),
    ("default spread that may be given up", |s| default_spread(s, "ScheduleAnyway")),
    ("default spread of pods that bring their own", |s| {
        default_spread(s, "DoNotSchedule");
        s.pod_spec("Deployment", "api")["topologySpreadConstraints"] = spread(HOST, "nobody");
    }),
    ("volume labelled with its zone and another", |s| {
        s.object("PersistentVolume", "pv-db")["metadata"]["labels"] = json!({ZONE: "a__b"});
    }),
    ("anti-affinity of another namespace", |s| {
        s.object("Pod", "guard")["metadata"]["namespace"] = json!("elsewhere");
        s.move_pod("default/lonely", "n1");
    }),
];

/// Spreads the pods of `api`, both in zone a, by default.
fn default_spread(scene: &mut Scene, answer: &str) {
    let service =
        json!({"kind": "Service", "metadata": {"name": "api"}, "spec": {"selector": {"app": "api"}}});
    scene.manifests.push(service);
    scene.scheduler_config = json!({"podTopologySpread": {"defaultConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": answer},
    ]}});
}

fn rules(scene: &Scene) -> (BTreeSet<&'static str>, String) {
    let violations = scene.check();
    let text = violations.iter().map(|violation| format!("  {violation}\n")).collect();
    (violations.iter().map(|violation| violation.rule).collect(), text)
}

#[test]
fn a_plan_with_buffers_and_static_machines_passes() {
    let (found, text) = rules(&capacity::kept());
    assert!(found.is_empty(), "{text}");
}

#[test]
fn good_plans_pass() {
    for (name, scene) in [("good", good()), ("plain", plain())] {
        let (found, text) = rules(&scene);
        assert!(found.is_empty(), "{name}:\n{text}");
    }
}

#[test]
fn harmless_changes_pass() {
    let mut failures = String::new();
    for (name, change) in HARMLESS {
        let mut scene = good();
        change(&mut scene);
        let (found, text) = rules(&scene);
        if !found.is_empty() {
            failures += &format!("{name}:\n{text}");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn every_mutation_is_found() {
    let mut failures = String::new();
    let mut covered: BTreeSet<&str> = BTreeSet::new();
    let makers: [fn() -> Scene; 3] = [good, plain, capacity::kept];
    for (make, mutations) in makers.into_iter().zip([MUTATIONS, PLAIN_MUTATIONS, capacity::MUTATIONS]) {
        for (name, expected, mutate) in mutations {
            let mut scene = make();
            mutate(&mut scene);
            let (found, text) = rules(&scene);
            let expected: BTreeSet<&str> = expected.iter().copied().collect();
            if found != expected {
                failures += &format!("{name}: expected {expected:?}, got {found:?}\n{text}");
            }
            covered.extend(found);
        }
    }
    assert!(failures.is_empty(), "{failures}");

    // Every rule of the table but `undecided`, which is a confession and not a verdict.
    let documented = include_str!("../../src/checker.rs").lines().filter(|line| line.starts_with("//! | `"));
    let documented: BTreeSet<&str> = documented
        .filter_map(|line| line.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|rule| *rule != "undecided")
        .collect();
    assert_eq!(covered, documented, "rules found by mutations and rules documented");
}
