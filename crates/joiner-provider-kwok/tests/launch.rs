//! From a claim to the Node that stands for its machine.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use joiner_api::NodeClaim;
use joiner_provider::{Error, OfferingKey, RankedOffering, TypeSet, Unavailable, offerings_of_claim};
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::launch::{first_offered, launched, node, of_node};
use serde_json::{Value, json};

fn claim(requirements: Value) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "default-x2b4z", "labels": {"team": "web"},
            "uid": "c0ffee",
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

fn types() -> TypeSet {
    let Catalogue { types, well_known, .. } = Catalogue::hypothetical();
    TypeSet { generation: 1, types, well_known }
}

fn ranked(claim: &NodeClaim) -> Vec<RankedOffering> {
    offerings_of_claim(claim, &types(), &Unavailable::default()).unwrap()
}

#[test]
fn the_first_offering_that_there_is_is_taken() {
    let ranked = ranked(&of_types(&["c-8x-amd64-linux", "c-4x-amd64-linux"], &[]));
    let mut types = types();
    let chosen = |types: &TypeSet, ranked: &[RankedOffering]| {
        let choice = first_offered(types, ranked, |_| true).unwrap();
        OfferingKey::of(choice.instance_type, choice.offering)
    };
    assert_eq!(chosen(&types, &ranked), ranked[0].key);
    // The order is the plan's, also if it is dearer.
    assert_eq!(chosen(&types, &ranked[5..]), ranked[5].key);
    types.types.retain(|of| of.name != ranked[0].key.instance_type);
    assert_eq!(chosen(&types, &ranked).instance_type, "c-8x-amd64-linux");
    match first_offered(&types, &ranked[..2], |_| true) {
        Err(Error::NoCapacity { scopes, .. }) => assert_eq!(scopes.len(), 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_node_says_all_that_is_known_of_its_machine() {
    let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-c"]});
    let claim = of_types(&["c-4x-amd64-linux"], &[zone]);
    let machine = launched(&claim, first_offered(&types(), &ranked(&claim), |_| true).unwrap(), "a");
    let node = node(&claim, &machine);
    assert_eq!(of_node(&node).unwrap(), machine, "a repeated launch reads back what the first one wrote");
    let mut object = serde_json::to_value(&node).unwrap();
    object.as_object_mut().unwrap().remove("kind");
    let expected = json!({
        "apiVersion": "v1",
        "metadata": {
            "name": "default-x2b4z",
            "annotations": {"joiner.sh/nodeclaim-uid": "c0ffee", "kwok.x-k8s.io/node": "fake", "note": "kept"},
            "labels": {
                "eks-node-viewer/instance-price": "0.076013",
                "karpenter.kwok.sh/instance-cpu": "4",
                "karpenter.kwok.sh/instance-family": "c",
                "karpenter.kwok.sh/instance-memory": "8Gi",
                "karpenter.kwok.sh/instance-size": "4",
                "karpenter.kwok.sh/instance-type": "c-4x-amd64-linux",
                "karpenter.sh/instance-memory": "8Gi",
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
