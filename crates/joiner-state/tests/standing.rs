//! What stands, and the same cluster with nodes given up.

mod build;

use std::collections::BTreeSet;

use build::*;
use joiner_api::instance_type::{Reservation, TypeRequirement};
use joiner_core::model::Snapshot;
use joiner_core::model::names::CPU;
use joiner_state::{Cluster, Standing, Stays};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

fn stands(name: &str, of: &str, more: impl Fn(&mut Value)) -> Node {
    let mut value = json!({
        "metadata": {"name": name, "labels": {
            "node.kubernetes.io/instance-type": of, "topology.kubernetes.io/zone": "zone-a",
            "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/nodepool": "default",
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        }},
        "status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}, "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    });
    more(&mut value);
    object(value)
}

/// A pool, types `large` (8 CPUs) and `small` (2), and these nodes and pods.
fn with(nodes: &[Node], pods: &[PodBuilder]) -> Cluster {
    let mut cluster = cluster();
    cluster.add_catalogue(None, [instance_type("large", 8, 0.4), instance_type("small", 2, 0.1)], &[]);
    cluster.add_nodepool(&pool("default")).expect("a good pool");
    for node in nodes {
        cluster.add_node(node).expect("a good node");
    }
    for pod in pods {
        cluster.add_pod(&pod.build()).expect("a good pod");
    }
    cluster
}

fn afresh(standing: &mut Standing, before: &Snapshot, stay: &[&str]) -> Snapshot {
    standing.afresh(&stay.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), before)
}

fn waiting(snapshot: &Snapshot) -> Vec<&str> {
    let mut names: Vec<&str> = snapshot.pods.iter().map(|pod| &*pod.name).collect();
    names.sort_unstable();
    names
}

#[test]
fn pods_of_nodes_that_are_given_up_wait() {
    let nodes = [stands("a", "large", |_| ()), stands("b", "large", |_| ())];
    let pods = [
        pod("web-0").cpu("1").node("a"),
        pod("web-1").cpu("2").node("b"),
        pod("agent-a").cpu("100m").node("a").owner("DaemonSet", "agent"),
        pod("static-a").cpu("100m").node("a").owner("Node", "a"),
        pod("going").cpu("1").node("a").with("metadata.deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        pod("elsewhere").cpu("1").node("unknown"),
        pod("pending").cpu("1"),
    ];
    let (lowered, mut standing) = with(&nodes, &pods).finish_and_keep();
    assert_eq!(waiting(&lowered.snapshot), ["default/pending"]);
    let rows = standing.nodes(&lowered.snapshot);
    let told: Vec<_> =
        rows.iter().map(|row| (&*lowered.snapshot.nodes[row.node.at()].name, row.pods, row.stays)).collect();
    assert_eq!(told, [("a", 1, None), ("b", 1, None)]);

    let fresh = afresh(&mut standing, &lowered.snapshot, &[]);
    assert_eq!(
        waiting(&fresh),
        ["default/web-0", "default/web-1"],
        "daemons, mirrors and what goes stay out of it"
    );
    assert!(fresh.nodes.is_empty());

    let fresh = afresh(&mut standing, &lowered.snapshot, &["a"]);
    assert_eq!(waiting(&fresh), ["default/web-1"]);
    let stays = placed(&fresh, "a");
    assert!(!stays.accepts_pods, "it takes no more");
    assert_eq!(stays.available[CPU], placed(&lowered.snapshot, "a").available[CPU]);
    assert_eq!(standing.node_of("default/web-1"), Some("b"));
    assert_eq!(standing.node_of("default/pending"), None);
}

#[test]
fn a_question_leaves_no_trace_in_the_next() {
    let nodes = [stands("a", "large", |_| ()), stands("b", "large", |_| ())];
    let pods: Vec<PodBuilder> =
        (0..6).map(|at| pod(&format!("p-{at}")).cpu("1").node(if at % 2 == 0 { "a" } else { "b" })).collect();
    let (lowered, mut standing) = with(&nodes, &pods).finish_and_keep();
    let first = format!("{:?}", afresh(&mut standing, &lowered.snapshot, &["a"]));
    for stay in [&[][..], &["b"], &["a", "b"]] {
        afresh(&mut standing, &lowered.snapshot, stay);
    }
    let again = afresh(&mut standing, &lowered.snapshot, &["a"]);
    assert_eq!(waiting(&again), ["default/p-1", "default/p-3", "default/p-5"]);
    assert_eq!(format!("{again:?}"), first);
}

#[test]
fn some_nodes_stay_by_nature() {
    let label = |key: &'static str, value: &'static str| {
        move |node: &mut Value| node["metadata"]["labels"][key] = json!(value)
    };
    let nodes = [
        stands("control", "large", label("node-role.kubernetes.io/control-plane", "")),
        stands("dear", "huge", |_| ()),
        stands("master", "large", |node| {
            node["spec"]["taints"] =
                json!([{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]);
        }),
        stands("plain", "large", |_| ()),
        stands("stage-1", "large", label("karpenter.sh/nodepool", "stage")),
    ];
    let mut cluster = with(&nodes, &[]);
    let mut fixed = pool_json("stage");
    fixed["spec"]["replicas"] = json!(1);
    cluster.add_nodepool(&object(fixed)).expect("a good pool");
    let (lowered, standing) = cluster.finish_and_keep();
    let stays: Vec<_> = standing
        .nodes(&lowered.snapshot)
        .iter()
        .map(|row| (lowered.snapshot.nodes[row.node.at()].name.to_string(), row.stays))
        .collect();
    let wanted = [
        ("control", Some(Stays::ControlPlane)),
        ("dear", Some(Stays::UnknownPrice)),
        ("master", Some(Stays::ControlPlane)),
        ("plain", None),
        ("stage-1", Some(Stays::Static)),
    ];
    assert_eq!(stays, wanted.map(|(name, why)| (name.to_owned(), why)));
}

#[test]
fn machines_that_a_static_pool_lacks_or_that_are_on_their_way_do_not_stand() {
    let mut cluster = with(&[stands("a", "large", |_| ())], &[pod("p").cpu("1").node("a")]);
    let mut fixed = pool_json("stage");
    fixed["spec"]["replicas"] = json!(3);
    cluster.add_nodepool(&object(fixed)).expect("a good pool");
    cluster.add_nodeclaim(&claim(claim_json("coming", "default"))).expect("a good claim");
    let (lowered, mut standing) = cluster.finish_and_keep();
    assert_eq!(lowered.snapshot.nodes.len(), 5);
    assert_eq!(standing.nodes(&lowered.snapshot).len(), 1);
    assert!(afresh(&mut standing, &lowered.snapshot, &[]).nodes.is_empty());
}

#[test]
fn reserved_units_come_back_with_their_nodes() {
    let mut large = instance_type("large", 8, 0.4);
    let mut reserved = large.offerings[1].clone();
    reserved.requirements = [
        TypeRequirement::one_of(ZONE, ["zone-a"]),
        TypeRequirement::one_of("karpenter.sh/capacity-type", ["reserved"]),
    ]
    .into();
    reserved.price = 0.01;
    reserved.reservation = Some(Reservation { id: "r-1".to_owned(), capacity: 1 });
    large.offerings.push(reserved);
    let mut cluster = cluster();
    cluster.add_catalogue(None, [large], &[]);
    cluster.add_nodepool(&pool("default")).expect("a good pool");
    for name in ["a", "b"] {
        let node = stands(name, "large", |node| {
            node["metadata"]["labels"]["karpenter.sh/capacity-type"] = json!("reserved")
        });
        cluster.add_node(&node).expect("a good node");
    }
    let (lowered, mut standing) = cluster.finish_and_keep();
    assert_eq!(lowered.snapshot.reservations[0].capacity, 1);
    for (stay, units) in [(&[][..], 3), (&["a"], 2), (&["a", "b"], 1)] {
        assert_eq!(afresh(&mut standing, &lowered.snapshot, stay).reservations[0].capacity, units);
    }
}

#[test]
fn nodes_of_managed_groups_have_a_price() {
    for (value, price) in [("ON_DEMAND", Some(0.4)), ("SPOT", None), ("CAPACITY_BLOCK", None)] {
        let node = stands("a", "large", |node| {
            let labels = node["metadata"]["labels"].as_object_mut().expect("labels");
            labels.remove("karpenter.sh/capacity-type");
            labels.insert("eks.amazonaws.com/capacityType".to_owned(), json!(value));
        });
        let lowered = with(&[node], &[]).finish();
        assert_eq!(lowered.snapshot.nodes[0].shown.price, price, "{value}");
    }
}
