//! The drift hash against recorded hashes.

use joiner_api::nodepool::NodeClaimTemplate;
use joiner_api::nodepool_hash::{self, Template, hash_json};
use serde_json::{Value, json};

#[test]
fn every_recorded_hash_agrees() {
    let text = include_str!("data/golden/nodepool-hash.jsonl");
    assert_eq!(text.lines().count(), 41);
    let mut typed = 0;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("golden lines are JSON");
        let hash = hash_json(&line["template"]).expect("valid template");
        assert_eq!(line["hash"], hash.to_string(), "{line}");
        assert_eq!(line["version"], nodepool_hash::VERSION, "{line}");
        // The typed template insists on a class and on requirements; where it can be read it hashes the same.
        if let Ok(template) = serde_json::from_value::<NodeClaimTemplate>(line["template"].clone()) {
            typed += 1;
            assert_eq!(nodepool_hash::hash(&Template::of(&template).expect("durations")), hash, "{line}");
        }
    }
    assert_eq!(typed, 39);
}

fn kwok(extra: Value) -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let mut spec = json!({"nodeClassRef": class, "requirements": []});
    for (key, value) in extra.as_object().expect("object") {
        spec[key] = value.clone();
    }
    json!({"spec": spec})
}

#[test]
fn hashes_seen_on_clusters() {
    let hash = |template: &Value| hash_json(template).expect("valid").to_string();
    assert_eq!(hash(&kwok(json!({"expireAfter": "Never"}))), "7428780003907761376");
    assert_eq!(hash(&kwok(json!({"expireAfter": "720h"}))), "12745407319442031341");
    let mut full = kwok(json!({
        "expireAfter": "720h",
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        "terminationGracePeriod": "300s",
    }));
    full["metadata"] = json!({"labels": {"a": "b", "c": "d"}});
    assert_eq!(hash(&full), "12797007346848562665");
}

#[test]
fn a_specification_with_nothing_but_never_is_empty() {
    let hash = |template: Value| hash_json(&template).expect("valid");
    assert_eq!(hash(json!({"spec": {"expireAfter": "Never"}})), hash(json!({})));
    assert_ne!(hash(json!({"spec": {"requirements": []}})), hash(json!({})));
}

#[test]
fn a_template_that_cannot_be_read_is_an_error() {
    assert!(hash_json(&json!({"spec": {"expireAfter": "soon"}})).is_err());
    assert!(hash_json(&json!({"metadata": {"labels": {"a": 1}}})).is_err());
}
