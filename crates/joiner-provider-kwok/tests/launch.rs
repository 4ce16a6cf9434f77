//! From a claim to the Node that stands for its machine.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;

use joiner_api::NodeClaim;
use joiner_provider::{Error, OfferingKey};
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::launch::{choose, launched, node, of_node};
use serde_json::{Value, json};

fn claim(requirements: Value) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "default-x2b4z", "labels": {"team": "web"},
            "annotations": {"note": "kept", "joiner.sh/planned-pods": "a,b"}},
        "spec": {"requirements": requirements,
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
    }))
    .unwrap()
}

fn of_types(names: &[&str], more: &[Value]) -> NodeClaim {
    let mut all = vec![json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": names})];
    all.extend(more.iter().cloned());
    claim(Value::from(all))
}

fn chosen(claim: &NodeClaim, seed: u64, unavailable: &BTreeSet<OfferingKey>) -> Result<[String; 3], Error> {
    let types = Catalogue::hypothetical().types;
    let choice = choose(claim, &types, seed, unavailable)?;
    let (zone, kind) = (choice.offering.zone().unwrap(), choice.offering.capacity_type().unwrap());
    Ok([choice.instance_type.name.clone(), zone.to_owned(), kind.to_owned()])
}

#[test]
fn the_cheapest_offering_that_the_claim_allows_is_taken() {
    let none = BTreeSet::new();
    let names = ["m-4x-amd64-linux", "c-4x-amd64-linux", "c-8x-amd64-linux"];
    let zone_b = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b"]});
    let paid = json!({"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]});
    let found = chosen(&of_types(&names, std::slice::from_ref(&zone_b)), 0, &none).unwrap();
    assert_eq!(found, ["c-4x-amd64-linux", "test-zone-b", "spot"]);
    let found = chosen(&of_types(&names, &[zone_b, paid]), 0, &none).unwrap();
    assert_eq!(found, ["c-4x-amd64-linux", "test-zone-b", "on-demand"]);
}

#[test]
fn the_seed_picks_among_equal_prices() {
    let none = BTreeSet::new();
    let claim = of_types(&["c-4x-amd64-linux"], &[]);
    let first = chosen(&claim, 0, &none).unwrap();
    assert_eq!(first, chosen(&claim, 0, &none).unwrap());
    let zones: BTreeSet<String> =
        (0..40).map(|seed| chosen(&claim, seed, &none).unwrap()[1].clone()).collect();
    assert_eq!(zones.len(), 4, "{zones:?}");
}

#[test]
fn what_is_out_of_stock_is_left_alone_and_told() {
    let zones = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
    let key = |zone: &str, kind: &str| OfferingKey {
        instance_type: "c-4x-amd64-linux".to_owned(),
        zone: Some(zone.to_owned()),
        capacity_type: Some(kind.to_owned()),
    };
    let spot: BTreeSet<OfferingKey> = zones.map(|zone| key(zone, "spot")).into();
    let claim = of_types(&["c-4x-amd64-linux"], &[]);
    assert_eq!(chosen(&claim, 0, &spot).unwrap()[2], "on-demand");
    let all = zones.iter().flat_map(|zone| ["spot", "on-demand"].map(|kind| key(zone, kind))).collect();
    match chosen(&claim, 0, &all) {
        Err(Error::InsufficientCapacity { offerings, .. }) => {
            assert_eq!(offerings.into_iter().collect::<BTreeSet<_>>(), all);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn claims_that_make_no_sense_are_refused_by_name() {
    let none = BTreeSet::new();
    let reason = |claim: &NodeClaim| match chosen(claim, 0, &none) {
        Err(Error::Rejected { reason, message }) => (reason, message),
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(&claim(json!([]))).0, "InstanceTypeMissing");
    let (word, message) = reason(&of_types(&["nano"], &[]));
    assert_eq!(word, "InstanceTypeUnknown");
    assert!(message.contains("`nano`"), "{message}");
    let nowhere = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["moon"]});
    let found = chosen(&of_types(&["c-4x-amd64-linux"], &[nowhere]), 0, &none);
    assert!(matches!(found, Err(Error::InsufficientCapacity { .. })), "{found:?}");
}

#[test]
fn the_node_says_all_that_is_known_of_its_machine() {
    let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-c"]});
    let claim = of_types(&["c-4x-amd64-linux"], &[zone]);
    let types = Catalogue::hypothetical().types;
    let machine = launched(&claim, choose(&claim, &types, 0, &BTreeSet::new()).unwrap());
    let node = node(&claim, &machine);
    assert_eq!(of_node(&node).unwrap(), machine, "a repeated launch reads back what the first one wrote");
    let mut object = serde_json::to_value(&node).unwrap();
    object.as_object_mut().unwrap().remove("kind");
    let expected = json!({
        "apiVersion": "v1",
        "metadata": {
            "name": "default-x2b4z",
            "annotations": {"kwok.x-k8s.io/node": "fake", "note": "kept"},
            "labels": {
                "eks-node-viewer/instance-price": "0.076013",
                "karpenter.kwok.sh/instance-cpu": "4",
                "karpenter.kwok.sh/instance-family": "c",
                "karpenter.kwok.sh/instance-memory": "8Gi",
                "karpenter.kwok.sh/instance-size": "4",
                "karpenter.sh/capacity-type": "spot",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": "default-x2b4z",
                "kubernetes.io/os": "linux",
                "kwok-partition": "a",
                "kwok.x-k8s.io/node": "fake",
                "node.kubernetes.io/instance-type": "c-4x-amd64-linux",
                "team": "web",
                "topology.kubernetes.io/zone": "test-zone-c",
            },
        },
        "spec": {
            "providerID": "kwok://default-x2b4z",
            "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
        },
        "status": {
            "allocatable": {"cpu": "3900m", "ephemeral-storage": "20Gi", "memory": "8182Mi", "pods": "64"},
            "capacity": {"cpu": "4", "ephemeral-storage": "20Gi", "memory": "8Gi", "pods": "64"},
            "phase": "Pending",
        },
    });
    assert_eq!(object, expected);
}
