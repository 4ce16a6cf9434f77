//! Whether a node is what its claim was told it would be.

use std::collections::BTreeMap;

use joiner_api::NodeClaim;
use joiner_api::condition::{ConditionSet, Status};
use joiner_api::names::conditions;
use joiner_api::quantity::Quantity;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use crate::command::Step;
use crate::record::{Level, Note};
use crate::steps::lifecycle::Facts;

/// A node may have so much less than its claim says, in percent: part of a machine is hidden from the kubelet.
const TOLERATED_PERCENT: i64 = 10;

/// Compares a claim with its node, if it is time to.
pub(super) fn compare(facts: &Facts, set: &mut ConditionSet, step: &mut Step) {
    let [node] = facts.nodes.as_slice() else { return };
    if !facts.compare {
        return;
    }
    // Until it is ready for pods, a node may not have said all that it has.
    let is_up = set.status(conditions::INITIALIZED) == Status::True;
    let faults = if is_up { shortfalls(facts.claim, node) } else { Vec::new() };
    if faults.is_empty() {
        set.set_true(conditions::CONSISTENT_STATE_FOUND);
        return;
    }
    let message = faults.join("; ");
    set.set_false(conditions::CONSISTENT_STATE_FOUND, "ConsistencyCheckFailed", &message);
    step.notes.push(Note::new(facts.claim, Level::Warning, "FailedConsistencyCheck", message));
}

/// Resources that were asked for and of which the node has far less than the claim says.
fn shortfalls(claim: &NodeClaim, node: &Node) -> Vec<String> {
    let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let expected = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    let there = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    let mut faults = Vec::new();
    for (resource, request) in requests.into_iter().flatten() {
        let (expected, found) = (text_of(expected, resource), text_of(there, resource));
        let (wanted, has) = (milli(expected), milli(found));
        if milli(&request.0) == 0 || wanted == 0 {
            continue;
        }
        if has * 100 < wanted * i128::from(100 - TOLERATED_PERCENT) {
            faults.push(format!(
                "the node has {found} of resource `{resource}`, its claim says {expected} ({} %)",
                has * 100 / wanted
            ));
        }
    }
    faults
}

fn text_of<'a>(all: Option<&'a BTreeMap<String, Text>>, resource: &str) -> &'a str {
    all.and_then(|all| all.get(resource)).map_or("0", |text| text.0.as_str())
}

fn milli(text: &str) -> i128 {
    Quantity::parse(text).map_or(0, |amount| i128::from(amount.milli_saturating()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tenth_less_is_tolerated() {
        let claim: NodeClaim = serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "a"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
                "resources": {"requests": {"cpu": "1", "memory": "1Gi", "pods": "0", "example.com/gpu": "1"}}},
            "status": {"capacity": {"cpu": "10", "memory": "10Gi", "pods": "100"}}}))
        .unwrap();
        let found = |capacity: serde_json::Value| {
            let node: Node = serde_json::from_value(json!({"status": {"capacity": capacity}})).unwrap();
            shortfalls(&claim, &node)
        };
        assert!(
            found(json!({"cpu": "9", "memory": "9Gi"})).is_empty(),
            "pods were not asked for, gpus not told"
        );
        assert_eq!(
            found(json!({"cpu": "8999m", "memory": "10Gi"})),
            ["the node has 8999m of resource `cpu`, its claim says 10 (89 %)"]
        );
        assert_eq!(found(json!({})).len(), 2);
    }
}
