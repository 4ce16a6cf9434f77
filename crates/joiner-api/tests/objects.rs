//! Objects a cluster stored load into our types and come back with the same meaning.

#![allow(clippy::unwrap_used)]

use joiner_api::nodepool_hash::{self, Template};
use joiner_api::{KwokNodeClass, NodeClaim, NodePool, names};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn items(text: &str) -> Vec<Value> {
    let list: Value = serde_saphyr::from_str(text).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn comes_back<T: DeserializeOwned + Serialize>(value: &Value) -> T {
    let object: T = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&object).unwrap(), value);
    object
}

const POOLS: [&str; 4] = [
    include_str!("data/objects/1-registered-not-initialized-nodepools.yaml"),
    include_str!("data/objects/2-initialized-consolidatable-nodepools.yaml"),
    include_str!("data/objects/3-drift-replacement-waiting-nodepools.yaml"),
    include_str!("data/objects/4-terminating-blocked-nodepools.yaml"),
];
const CLAIMS: [&str; 4] = [
    include_str!("data/objects/1-registered-not-initialized-nodeclaims.yaml"),
    include_str!("data/objects/2-initialized-consolidatable-nodeclaims.yaml"),
    include_str!("data/objects/3-drift-replacement-waiting-nodeclaims.yaml"),
    include_str!("data/objects/4-terminating-blocked-nodeclaims.yaml"),
];

#[test]
fn pools_come_back() {
    for text in POOLS {
        for value in items(text) {
            let mut pool: NodePool = comes_back(&value);
            assert_eq!(joiner_api::validation::validate_nodepool(&pool), []);
            let stored =
                pool.metadata.annotations.as_ref().unwrap()[names::NODEPOOL_HASH_ANNOTATION].as_str();
            let template = Template::of(&pool.spec.template).unwrap();
            assert_eq!(nodepool_hash::hash(&template).to_string(), stored);
            pool.set_defaults();
            assert_eq!(serde_json::to_value(&pool).unwrap(), value, "a stored pool has its defaults already");
        }
    }
}

#[test]
fn claims_come_back() {
    let mut count = 0;
    for text in CLAIMS {
        for value in items(text) {
            let mut claim: NodeClaim = comes_back(&value);
            assert_eq!(joiner_api::validation::validate_nodeclaim(&claim), []);
            claim.set_defaults();
            assert_eq!(
                serde_json::to_value(&claim).unwrap(),
                value,
                "a stored claim has its defaults already"
            );
            count += 1;
        }
    }
    assert!(count >= 16, "{count} claims");
}

#[test]
fn a_class_without_spec_loads_and_is_ready() {
    let mut value = items(include_str!("data/objects/kwoknodeclasses.yaml")).remove(0);
    let class: KwokNodeClass = serde_json::from_value(value.clone()).unwrap();
    // The one difference: an absent spec is written as an empty one.
    value["spec"] = json!({});
    assert_eq!(serde_json::to_value(&class).unwrap(), value);

    let mut fresh: KwokNodeClass = serde_json::from_value(json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": { "name": "default" },
    }))
    .unwrap();
    fresh.set_defaults();
    assert_eq!(fresh.status, class.status);
    let spec = |value: Value| serde_json::from_value::<joiner_api::KwokNodeClassSpec>(value);
    assert_eq!(
        spec(json!({ "nodeRegistrationDelay": "30s" })).unwrap().node_registration_delay.unwrap(),
        "30s"
    );
    assert_eq!(spec(Value::Null).unwrap(), Default::default());
}

#[test]
fn defaults_fill_only_what_is_absent() {
    let mut pool: NodePool = serde_json::from_value(json!({
        "metadata": { "name": "default" },
        "spec": {
            "template": { "spec": {
                "requirements": [],
                "nodeClassRef": { "group": "g", "kind": "k", "name": "n" },
            } },
            "disruption": { "budgets": [{}, { "nodes": "3", "reasons": [] }] },
            "limits": { "cpu": 1000 },
        },
    }))
    .unwrap();
    pool.set_defaults();
    assert_eq!(
        serde_json::to_value(&pool).unwrap()["spec"],
        json!({
            "template": { "spec": {
                "requirements": [],
                "nodeClassRef": { "group": "g", "kind": "k", "name": "n" },
                "expireAfter": "720h",
            } },
            "disruption": {
                "budgets": [{ "nodes": "10%" }, { "nodes": "3", "reasons": [] }],
                "consolidateAfter": "0s",
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
            },
            "limits": { "cpu": "1000" },
        })
    );
    let once = pool.clone();
    pool.set_defaults();
    assert_eq!(pool, once);
}

#[test]
fn required_fields_are_required() {
    for (spec, missing) in [
        (json!({}), "template"),
        (json!({ "template": {} }), "spec"),
        (
            json!({ "template": { "spec": { "nodeClassRef": { "group": "g", "kind": "k", "name": "n" } } } }),
            "requirements",
        ),
        (json!({ "template": { "spec": { "requirements": [] } } }), "nodeClassRef"),
        (
            json!({ "template": { "spec": { "requirements": [], "nodeClassRef": { "group": "g", "kind": "k" } } } }),
            "name",
        ),
    ] {
        let error = serde_json::from_value::<joiner_api::NodePoolSpec>(spec).unwrap_err().to_string();
        assert_eq!(error, format!("missing field `{missing}`"));
    }
}
