//! Catalogues, pools, daemons, nodes and machines in flight.

mod build;

use build::*;
use joiner_api::instance_type::Reservation;
use joiner_core::model::{Effect, names, taint};
use joiner_state::{Cluster, PodIntent};
use serde_json::json;

fn with_types(mut cluster: Cluster) -> Cluster {
    let types = [instance_type("large", 8, 0.4), instance_type("small", 2, 0.1)];
    cluster.add_catalogue(None, types, &["karpenter.kwok.sh/instance-size".to_owned()]);
    cluster
}

#[test]
fn offerings_rise_by_price_then_names() {
    let mut cluster = cluster();
    let mut odd = instance_type("odd", 1, f64::NAN);
    odd.offerings[0].price = -1.0;
    let mut empty = instance_type("empty", 1, 0.0);
    empty.capacity.clear();
    let types =
        [instance_type("b", 2, 0.1), odd, instance_type("c", 1, 0.0), instance_type("a", 2, 0.1), empty];
    cluster.add_catalogue(None, types, &[]);
    let lowered = cluster.finish();
    let names = &lowered.snapshot.vocabulary.names;
    let zone = names.known_key(ZONE).expect("the zone key");
    let catalogue = &lowered.snapshot.catalogues[0];
    let shown: Vec<String> = catalogue
        .offerings
        .iter()
        .map(|o| {
            format!(
                "{} {}",
                catalogue.types[o.instance_type.at()].name,
                names.value_text(zone, o.zone.expect("a zone"))
            )
        })
        .collect();
    assert_eq!(
        shown,
        ["c zone-a", "c zone-b", "a zone-a", "a zone-b", "b zone-a", "b zone-b", "odd zone-a", "odd zone-b"]
    );
    assert_eq!(catalogue.offerings[2].price_nano_usd, 100_000_000);
    assert_eq!(catalogue.offerings[7].price_nano_usd, i64::MAX / 1024);
    assert_eq!(catalogue.offerings[0].allocatable[names::CPU], 900);
    assert_eq!(catalogue.types[0].capacity[names::CPU], 2000);
    assert_eq!(lowered.notes, ["instance type `empty` has no capacity and is left out"]);
}

#[test]
fn the_smallest_reservation_seen_counts() {
    let mut cluster = cluster();
    for (class, capacity) in [("one", 5), ("two", 3)] {
        let mut t = instance_type("a", 2, 0.1);
        t.offerings[0].reservation = Some(Reservation { id: "r-1".to_owned(), capacity });
        cluster.add_catalogue(Some(("g".to_owned(), "k".to_owned(), class.to_owned())), [t], &[]);
    }
    let lowered = cluster.finish();
    assert_eq!(lowered.snapshot.reservations.len(), 1);
    assert_eq!(
        (&*lowered.snapshot.reservations[0].id, lowered.snapshot.reservations[0].capacity),
        ("r-1", 3)
    );
    assert_eq!(
        lowered
            .snapshot
            .catalogues
            .iter()
            .flat_map(|c| &c.offerings)
            .filter(|o| o.reservation.is_some())
            .count(),
        2
    );
}

#[test]
fn pools_in_order_with_their_labels() {
    let mut cluster = with_types(cluster());
    for (name, weight) in [("a", None), ("b", None), ("c", Some(5))] {
        let mut value = pool_json(name);
        if let Some(weight) = weight {
            value["spec"]["weight"] = json!(weight);
        }
        value["spec"]["template"]["metadata"] = json!({ "labels": { "team": "x" } });
        value["spec"]["template"]["spec"]["requirements"] =
            json!([{ "key": "beta.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2 }]);
        value["spec"]["template"]["spec"]["taints"] = json!([{ "key": "t", "effect": "PreferNoSchedule" }]);
        value["spec"]["template"]["spec"]["startupTaints"] = json!([{ "key": "s", "effect": "NoSchedule" }]);
        cluster.add_nodepool(&object(value)).expect("a good pool");
    }
    let lowered = cluster.finish();
    let snapshot = &lowered.snapshot;
    let names: Vec<&str> = snapshot.pools.iter().map(|pool| &*pool.name).collect();
    assert_eq!(names, ["c", "b", "a"]);
    assert_eq!(
        set(snapshot, snapshot.pools[2].requirements),
        "karpenter.kwok.sh/kwoknodeclass In [default], karpenter.sh/nodepool In [a], \
         node.kubernetes.io/instance-type Exists minValues 2, team In [x]"
    );
    assert!(
        set(snapshot, snapshot.pools[2].daemon_requirements).contains("karpenter.sh/initialized In [true]")
    );
    let taints = snapshot.vocabulary.taints(snapshot.pools[0].taints);
    assert_eq!(taints.len(), 1);
    assert!(snapshot.has_preferred_taints);
    let size = snapshot.vocabulary.names.known_key("karpenter.kwok.sh/instance-size").expect("known");
    assert!(snapshot.vocabulary.is_well_known(size));
}

#[test]
fn pools_that_may_not_launch_say_why() {
    let mut cluster = with_types(cluster());
    let mut fixed = pool_json("fixed");
    fixed["spec"]["replicas"] = json!(3);
    let mut leaving = pool_json("leaving");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut broken = pool_json("broken");
    broken["status"] = json!({ "conditions": [{ "type": "Ready", "status": "False", "reason": "NodeClassNotReady", "message": "class gone", "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
    for value in [fixed, leaving, broken, pool_json("good")] {
        cluster.add_nodepool(&object(value)).expect("a good pool");
    }
    let lowered = cluster.finish();
    let why = |name: &str| {
        let pool = lowered.snapshot.pools.iter().find(|pool| *pool.name == *name).expect("a pool");
        pool.not_ready.as_deref().unwrap_or_default().to_owned()
    };
    assert!(why("fixed").contains("static"));
    assert!(why("leaving").contains("deleted"));
    assert!(why("broken").contains("class gone"));
    assert_eq!(why("good"), "");
    let mut cluster = build::cluster();
    cluster.add_nodepool(&pool("p")).expect("a good pool");
    let lowered = cluster.finish();
    assert!(
        lowered.snapshot.pools[0]
            .not_ready
            .as_deref()
            .is_some_and(|why| why.contains("KWOKNodeClass `default`"))
    );
    assert_eq!(lowered.snapshot.pools[0].catalogue.at(), 0);
}

#[test]
fn a_pool_with_faults_is_a_problem() {
    let mut value = pool_json("p");
    value["spec"]["template"]["spec"]["requirements"] =
        json!([{ "key": "team", "operator": "Like", "values": ["x"] }]);
    let problem = cluster().add_nodepool(&object(value)).expect_err("a fault");
    assert_eq!(problem.object, "NodePool p");
    assert!(problem.path.starts_with("spec.template.spec.requirements[0]"), "{}", problem.path);
}

fn managed(name: &str, extra: serde_json::Value) -> serde_json::Value {
    let mut labels = json!({ "karpenter.sh/nodepool": "p", "karpenter.sh/registered": "true" });
    for (key, value) in extra.as_object().into_iter().flatten() {
        labels[key] = value.clone();
    }
    node_json(name, labels)
}

#[test]
fn limits_know_what_is_in_use() {
    let mut cluster = with_types(cluster());
    let mut value = pool_json("p");
    value["spec"]["limits"] = json!({ "cpu": "100", "nodes": "5", "example.com/gpu": "2" });
    cluster.add_nodepool(&object(value)).expect("a good pool");
    cluster.add_node(&object(managed("n1", json!({})))).expect("good");
    let mut leaving = managed("n2", json!({}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.add_node(&object(leaving)).expect("good");
    cluster.add_node(&node("foreign", json!({}))).expect("good");
    let mut unlaunched = claim_json("c1", "p");
    unlaunched["spec"]["requirements"] = json!([{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small", "large"] }]);
    cluster.add_nodeclaim(&claim(unlaunched)).expect("good");
    let lowered = cluster.finish();
    let names = &lowered.snapshot.vocabulary.names;
    let shown: Vec<(Option<&str>, i64, i64)> = lowered.snapshot.pools[0]
        .limits
        .iter()
        .map(|limit| (limit.lane.map(|lane| names.lane_text(lane)), limit.most, limit.used))
        .collect();
    assert_eq!(shown, [(Some("cpu"), 100_000, 12_000), (Some("example.com/gpu"), 2, 0), (None, 5, 2)]);
    let in_flight = placed(&lowered.snapshot, "c1");
    assert_eq!(in_flight.available[names::CPU], 1900);
    assert!(in_flight.accepts_pods && !in_flight.initialised);
}

#[test]
fn nodes_initialised_first_then_by_name() {
    let mut cluster = cluster();
    for value in [
        managed("a", json!({})),
        managed("c", json!({ "karpenter.sh/initialized": "true" })),
        node_json("b", json!({})),
        node_json("d", json!({})),
    ] {
        cluster.add_node(&object(value)).expect("good");
    }
    let lowered = cluster.finish();
    let names: Vec<(&str, bool)> = lowered.snapshot.nodes.iter().map(|n| (&*n.name, n.initialised)).collect();
    assert_eq!(names, [("b", true), ("c", true), ("d", true), ("a", false)]);
}

#[test]
fn who_accepts_pods() {
    let mut cluster = cluster();
    let mut cordoned = node_json("cordoned", json!({}));
    cordoned["spec"] = json!({ "unschedulable": true });
    let mut leaving = node_json("leaving", json!({}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut disrupted = node_json("disrupted", json!({}));
    disrupted["spec"] = json!({ "taints": [{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }] });
    let mut claimed = managed("claimed", json!({}));
    claimed["spec"] = json!({ "providerID": "kwok://claimed" });
    for value in [cordoned, leaving, disrupted, claimed, node_json("good", json!({}))] {
        cluster.add_node(&object(value)).expect("good");
    }
    let mut going = claim_json("c", "p");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    going["status"] = json!({ "providerID": "kwok://claimed" });
    cluster.add_nodeclaim(&claim(going)).expect("good");
    let lowered = cluster.finish();
    let accepting: Vec<&str> =
        lowered.snapshot.nodes.iter().filter(|n| n.accepts_pods).map(|n| &*n.name).collect();
    assert_eq!(accepting, ["good"]);
    assert_eq!(lowered.snapshot.nodes.len(), 5);
}

#[test]
fn taints_of_a_starting_node() {
    let taints = json!([
        { "key": "team", "value": "x", "effect": "NoSchedule" },
        { "key": "boot", "effect": "NoSchedule" },
        { "key": "node.kubernetes.io/not-ready", "effect": "NoExecute" },
        { "key": "readiness.k8s.io/net", "effect": "NoSchedule" },
    ]);
    let mut pool = pool_json("p");
    pool["spec"]["template"]["spec"]["startupTaints"] = json!([{ "key": "boot", "effect": "NoSchedule" }]);
    let mut cluster = cluster();
    cluster.add_nodepool(&object(pool)).expect("good");
    for (name, labels) in [("starting", json!({})), ("up", json!({ "karpenter.sh/initialized": "true" }))] {
        let mut value = managed(name, labels);
        value["spec"] = json!({ "taints": taints });
        cluster.add_node(&object(value)).expect("good");
    }
    let mut foreign = node_json("foreign", json!({}));
    foreign["spec"] = json!({ "taints": taints });
    cluster.add_node(&object(foreign)).expect("good");
    let lowered = cluster.finish();
    let shown = |name: &str| {
        let taints = lowered.snapshot.vocabulary.taints(placed(&lowered.snapshot, name).taints);
        taints.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(shown("starting"), ["team=x:NoSchedule"]);
    assert_eq!((shown("up").len(), shown("foreign").len()), (4, 4));
}

#[test]
fn claims_speak_for_nodes_that_have_not_registered() {
    let mut cluster = with_types(cluster());
    cluster.add_nodepool(&pool("p")).expect("good");
    let mut value = node_json("n", json!({ "team": "kubelet" }));
    value["spec"] = json!({ "providerID": "kwok://n" });
    value["status"] = json!({ "allocatable": { "cpu": "0", "pods": "50" } });
    cluster.add_node(&object(value)).expect("good");
    let mut launched = claim_json("c", "p");
    launched["metadata"]["labels"]["team"] = json!("claim");
    launched["status"] = json!({ "providerID": "kwok://n", "allocatable": { "cpu": "3", "memory": "1Gi", "pods": "110" }, "capacity": { "cpu": "4" } });
    cluster.add_nodeclaim(&claim(launched.clone())).expect("good");
    launched["metadata"]["name"] = json!("c2");
    launched["status"]["providerID"] = json!("kwok://other");
    launched["spec"]["taints"] =
        json!([{ "key": "a", "effect": "NoSchedule" }, { "key": "b", "effect": "NoSchedule" }]);
    launched["spec"]["startupTaints"] = json!([{ "key": "b", "effect": "NoSchedule" }]);
    cluster.add_nodeclaim(&claim(launched)).expect("good");
    let lowered = lower_with(cluster, &[pod("a").select("team", "claim")]);
    let snapshot = &lowered.snapshot;
    assert_eq!(snapshot.nodes.len(), 2);
    let node = placed(snapshot, "n");
    assert_eq!(set(snapshot, node.labels), "team In [claim]");
    assert_eq!(
        (node.available[names::CPU], node.available[names::MEMORY], node.available[names::PODS]),
        (3000, 1 << 30, 50)
    );
    let coming = placed(snapshot, "c2");
    assert_eq!(coming.available[names::CPU], 3000);
    let taints = snapshot.vocabulary.taints(coming.taints);
    assert_eq!(taints.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:NoSchedule"]);
    assert_eq!(coming.pool.map(|pool| pool.at()), Some(0));
}

#[test]
fn bound_pods_take_room_and_are_seen() {
    let mut cluster = cluster();
    let mut daemons = json!({ "metadata": { "name": "logs", "namespace": "kube-system" }, "spec": { "selector": {}, "template": { "spec": {
        "containers": [{ "name": "c", "resources": { "requests": { "cpu": "250m" } } }],
        "nodeSelector": { "kubernetes.io/os": "linux" },
    } } } });
    cluster.add_daemonset(&object(daemons.clone())).expect("good");
    daemons["metadata"]["name"] = json!("any");
    daemons["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({ "nodeSelectorTerms": [{}, term("a", "Exists", &[]), term("b", "Exists", &[])] });
    cluster.add_daemonset(&object(daemons)).expect("good");
    cluster
        .add_node(&node(
            "n",
            json!({ "team": "x", ZONE: "z", "unasked": "1", HOST: "h", "kubernetes.io/os": "linux" }),
        ))
        .expect("good");
    let ports = json!([{ "containerPort": 80, "hostPort": 80 }]);
    let lonely = |name: &str| {
        pod(name)
            .cpu("1")
            .label("app", "lonely")
            .label("other", name)
            .anti_affinity(json!([{ "topologyKey": ZONE, "labelSelector": app("lonely") }]))
    };
    let lowered = lower_with(
        cluster,
        &[
            lonely("one").node("n").with("spec.containers.0.ports", ports),
            lonely("two").node("n").with("metadata.deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            pod("three").cpu("1").node("n").with("status.phase", json!("Succeeded")),
            pod("logs-x").cpu("250m").namespace("kube-system").owner("DaemonSet", "logs").node("n"),
            pod("lost").node("gone"),
            lonely("new"),
        ],
    );
    let snapshot = &lowered.snapshot;
    let node = placed(snapshot, "n");
    assert_eq!(node.available[names::CPU], 4000 - 1000 - 1000 - 250);
    assert_eq!(node.available[names::PODS], 107);
    assert_eq!(node.daemons_present[names::CPU], 250);
    assert_eq!(node.ports.len(), 1);
    assert_eq!(set(snapshot, node.labels), "kubernetes.io/os In [linux], topology.kubernetes.io/zone In [z]");
    assert_eq!(node.hostname, None);
    // The leaving pod is not seen; labels nobody selects are gone.
    let mut seen: Vec<(String, u32)> =
        node.pods.iter().map(|(id, n)| (set(snapshot, snapshot.identities.get(id.0).labels), *n)).collect();
    seen.sort();
    assert_eq!(seen, [(String::new(), 1), ("app In [lonely]".to_owned(), 1)]);
    assert_eq!(snapshot.bound_anti_affinity().count(), 1);
    assert_eq!(
        snapshot.bound_anti_affinity().next().map(|(group, _)| group),
        class(snapshot, "default/new").anti_affinity.first().copied()
    );
    assert_eq!(lowered.notes, ["a pod is bound to node `gone`, which is not known; it is not counted"]);
    let daemons: Vec<(&str, usize)> = snapshot.daemons.iter().map(|d| (&*d.name, d.asks.len())).collect();
    assert_eq!(daemons, [("kube-system/any", 2), ("kube-system/logs", 1)]);
    assert_eq!(snapshot.daemons[0].requests[names::CPU], 250);
}

#[test]
fn daemons_tolerate_what_their_controller_adds() {
    let mut cluster = cluster();
    cluster
        .add_daemonset(&object(json!({ "metadata": { "name": "d" }, "spec": { "selector": {}, "template": { "spec": { "containers": [] } } } })))
        .expect("good");
    let lowered = cluster.finish();
    let tolerations = lowered.snapshot.vocabulary.tolerations(lowered.snapshot.daemons[0].tolerations);
    let pressure = |effect| {
        taint::untolerated(
            &[joiner_core::model::Taint {
                key: "node.kubernetes.io/memory-pressure".into(),
                value: "".into(),
                effect,
            }],
            tolerations,
            false,
        )
        .is_none()
    };
    assert!(pressure(Effect::NoSchedule) && !pressure(Effect::NoExecute));
}

#[test]
fn hostnames_when_somebody_asks() {
    let nodes = |cluster: &mut Cluster| {
        cluster.add_node(&node("n1", json!({ HOST: "h1" }))).expect("good");
        cluster.add_node(&node("n2", json!({}))).expect("good");
    };
    let mut by_topology = cluster();
    nodes(&mut by_topology);
    let lowered = lower_with(
        by_topology,
        &[pod("a").anti_affinity(json!([{ "topologyKey": HOST, "labelSelector": app("a") }]))],
    );
    let snapshot = &lowered.snapshot;
    assert_eq!(placed(snapshot, "n1").labels, placed(snapshot, "n2").labels);
    assert!(placed(snapshot, "n1").hostname.is_some());
    let mut by_wish = cluster();
    nodes(&mut by_wish);
    let lowered = lower_with(
        by_wish,
        &[pod("a").preferred(json!([{ "weight": 1, "preference": term(HOST, "In", &["n2"]) }]))],
    );
    let snapshot = &lowered.snapshot;
    assert_eq!(set(snapshot, placed(snapshot, "n1").labels), "kubernetes.io/hostname In [h1]");
    assert_eq!(set(snapshot, placed(snapshot, "n2").labels), "kubernetes.io/hostname In [n2]");
}

#[test]
fn nodes_show_what_they_cost() {
    let mut cluster = with_types(cluster());
    let labels = |zone: &str| json!({ "beta.kubernetes.io/instance-type": "small", ZONE: zone, "karpenter.sh/capacity-type": "on-demand" });
    cluster.add_node(&node("known", labels("zone-a"))).expect("good");
    cluster.add_node(&node("elsewhere", labels("zone-x"))).expect("good");
    let lowered = cluster.finish();
    let shown = &placed(&lowered.snapshot, "known").shown;
    assert_eq!(
        (shown.instance_type.as_deref(), shown.zone.as_deref(), shown.price),
        (Some("small"), Some("zone-a"), Some(0.1))
    );
    assert_eq!(placed(&lowered.snapshot, "elsewhere").shown.price, None);
}

#[test]
fn equal_input_gives_an_equal_snapshot() {
    let make = || {
        let mut cluster = with_types(cluster());
        cluster.add_nodepool(&pool("p")).expect("good");
        cluster.add_node(&node("n", json!({ ZONE: "zone-a" }))).expect("good");
        let pods: Vec<PodBuilder> = (0..20)
            .map(|n| {
                pod(&format!("p{n}")).cpu(&format!("{}m", n % 7)).select(ZONE, "zone-a").label("app", "x")
            })
            .collect();
        format!("{:?}", lower_with(cluster, &pods).snapshot)
    };
    assert_eq!(make(), make());
}

#[test]
fn a_place_in_a_group_is_a_machine_without_a_claim() {
    let mut cluster = with_types(cluster());
    let template = node("template", json!({"team": "shop", HOST: "template"}));
    for number in 1..=2 {
        cluster.add_upcoming(&format!("cloud/web#{number}"), &template).unwrap();
    }
    cluster.add_pod(&pod("waits").cpu("1").select("team", "shop").build()).unwrap();
    cluster.intend("default/waits", PodIntent::Expected("cloud/web#2"));
    let snapshot = cluster.snapshot();
    let free = ["cloud/web#1", "cloud/web#2"].map(|name| {
        let place = placed(&snapshot, name);
        assert!(place.accepts_pods && place.pool.is_none(), "{name}");
        place.available.clone()
    });
    assert!(
        free[0].iter().zip(&free[1]).any(|(empty, used)| empty > used),
        "the pod's room is taken: {free:?}"
    );
    // One has joined: its Node is another machine, and one place is left.
    cluster.remove_upcoming("cloud/web#2");
    cluster.add_node(&node("web-1", json!({"team": "shop"}))).unwrap();
    let names: Vec<String> = cluster.snapshot().nodes.iter().map(|node| node.name.to_string()).collect();
    assert_eq!(names, ["web-1", "cloud/web#1"], "what stands is tried first");
}
