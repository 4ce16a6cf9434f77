//! What a claim may be launched as, and in which order.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::instance_type::{InstanceType, Offering, Overhead, Reservation, TypeRequirement};
use joiner_api::quantity::Quantity;
use joiner_provider::{
    Error, Health, OfferingKey, RankedOffering, Scope, TypeSet, Unavailable, offerings_of_claim,
};
use serde_json::{Value, json};

fn instance_type(name: &str, cpu: &str, offerings: &[(&str, &str, f64)]) -> InstanceType {
    InstanceType {
        name: name.to_owned(),
        requirements: vec![
            TypeRequirement::one_of("node.kubernetes.io/instance-type", [name]),
            TypeRequirement::one_of("kubernetes.io/arch", ["amd64"]),
            TypeRequirement::absent("example.com/gpu"),
        ],
        offerings: offerings
            .iter()
            .map(|(zone, kind, price)| Offering::in_zone(zone, kind, *price))
            .collect(),
        capacity: [("cpu".to_owned(), Quantity::parse(cpu).unwrap())].into(),
        overhead: Overhead::default().into(),
        volume_limits: Default::default(),
    }
}

fn types() -> TypeSet {
    let small = [("b", "spot", 1.0), ("a", "on-demand", 2.0), ("a", "spot", 1.0)];
    let large = [("a", "spot", 1.0), ("a", "on-demand", 0.5), ("b", "spot", f64::NAN)];
    let types = vec![instance_type("small", "2", &small), instance_type("large", "8", &large)];
    TypeSet { generation: 1, types, well_known: Vec::new() }
}

fn claim(requirements: Value, cpu: &str) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c"},
        "spec": {"requirements": requirements, "resources": {"requests": {"cpu": cpu}},
            "nodeClassRef": {"group": "example.com", "kind": "Class", "name": "default"}},
    }))
    .unwrap()
}

fn is_in(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

fn names(found: Result<Vec<RankedOffering>, Error>) -> Vec<String> {
    let text = |key: OfferingKey| {
        format!("{}/{}/{}", key.instance_type, key.zone.unwrap(), key.capacity_type.unwrap())
    };
    found.unwrap().into_iter().map(|of| text(of.key)).collect()
}

fn ranked(claim: &NodeClaim) -> Result<Vec<RankedOffering>, Error> {
    offerings_of_claim(claim, &types(), &Unavailable::default())
}

#[test]
fn cheapest_first_then_by_name_and_without_a_price_last() {
    let expected = [
        "large/a/on-demand",
        "large/a/spot",
        "small/a/spot",
        "small/b/spot",
        "small/a/on-demand",
        "large/b/spot",
    ];
    assert_eq!(names(ranked(&claim(json!([]), "1"))), expected);
}

#[test]
fn requirements_and_requests_narrow_the_list() {
    let zone = is_in("topology.kubernetes.io/zone", &["a"]);
    let spot = json!({"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["on-demand"]});
    assert_eq!(names(ranked(&claim(json!([zone, spot]), "1"))), ["large/a/spot", "small/a/spot"]);
    assert_eq!(names(ranked(&claim(json!([zone, spot]), "3"))), ["large/a/spot"], "two CPUs are too few");
    let named = is_in("node.kubernetes.io/instance-type", &["small", "no-longer-offered"]);
    assert_eq!(names(ranked(&claim(json!([named, zone]), "1"))), ["small/a/spot", "small/a/on-demand"]);
}

#[test]
fn a_claim_that_cannot_be_met_says_why() {
    let message = |requirements: Value, cpu: &str| ranked(&claim(requirements, cpu)).unwrap_err().to_string();
    for (requirement, expected) in [
        (is_in("node.kubernetes.io/instance-type", &["nano"]), "`nano`"),
        (is_in("topology.kubernetes.io/zone", &["moon"]), "no instance type"),
        (is_in("kubernetes.io/arch", &["arm64"]), "no instance type"),
        (is_in("example.com/gpu", &["yes"]), "no instance type"),
        (json!({"key": "example.com/gpu", "operator": "Exists"}), "no instance type"),
    ] {
        let found = message(json!([requirement]), "1");
        assert!(found.contains(expected), "{found}");
    }
    assert!(message(json!([]), "9").contains("no instance type"));
    let named = claim(json!([is_in("node.kubernetes.io/instance-type", &["nano"])]), "1");
    assert!(matches!(ranked(&named), Err(Error::Invalid { reason, .. }) if reason == "InstanceTypeUnknown"));
}

#[test]
fn what_could_not_be_had_is_left_out() {
    let mut health = Health::new(Duration::from_secs(60));
    let now = Timestamp::UNIX_EPOCH;
    let zone = |name: &str| Scope::Zone { zone: name.to_owned(), capacity_type: None };
    health.failed("cloud", zone("a"), None, now);
    let claim = claim(json!([]), "1");
    let found = |health: &Health| {
        let unavailable = health.unavailable("cloud", &claim.spec.node_class_ref, now);
        offerings_of_claim(&claim, &types(), &unavailable)
    };
    assert_eq!(names(found(&health)), ["small/b/spot", "large/b/spot"]);
    health.failed("cloud", zone("b"), None, now);
    assert_eq!(
        found(&health).unwrap_err().to_string(),
        "no capacity: all 6 offerings that the claim allows are out of stock"
    );
}

#[test]
fn a_reservation_that_is_used_up_is_not_tried() {
    let mut types = types();
    let reserved = |capacity| Some(Reservation { id: "r-1".to_owned(), capacity });
    types.types[0].offerings[0].reservation = reserved(0);
    let claim = claim(json!([is_in("node.kubernetes.io/instance-type", &["small"])]), "1");
    let first =
        |types: &TypeSet| offerings_of_claim(&claim, types, &Unavailable::default()).unwrap()[0].key.clone();
    assert_eq!(first(&types).reservation, None);
    types.types[0].offerings[0].reservation = reserved(1);
    types.types[0].offerings[0].price = 0.1;
    let key = first(&types);
    assert_eq!(key.reservation.as_deref(), Some("r-1"));
    assert_eq!(types.find(&key).map(|(_, offering)| offering.price), Some(0.1));
}
