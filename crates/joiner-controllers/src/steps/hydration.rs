//! Labels that objects made by older versions lack: which node class a claim or its node is of. By this label a node is known as ours.

use std::collections::BTreeMap;

use joiner_api::NodeClaim;
use joiner_api::names::node_class_label;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::command::Command;

/// Gives a claim the label of its node class, if it lacks it.
pub fn claim_patch(claim: &NodeClaim) -> Option<Command> {
    let patch = labels_patch(claim, claim.labels())?;
    Some(Command::PatchClaim { name: claim.name_any(), patch })
}

/// Gives the node of a claim the label of the claim's node class, if it lacks it.
pub fn node_patch(claim: &NodeClaim, node: &Node) -> Option<Command> {
    let patch = labels_patch(claim, node.labels())?;
    Some(Command::PatchNode { name: node.name_any(), patch })
}

fn labels_patch(claim: &NodeClaim, have: &BTreeMap<String, String>) -> Option<Value> {
    let class = &claim.spec.node_class_ref;
    let label = node_class_label(&class.group, &class.kind);
    (have.get(&label) != Some(&class.name))
        .then(|| json!({"metadata": {"labels": {(label): class.name.clone()}}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_the_node_class_is_added_where_it_is_missing() {
        let claim = |labels: Value| -> NodeClaim {
            serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "a", "labels": labels},
                "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "b"}}}))
            .unwrap()
        };
        let label = "karpenter.kwok.sh/kwoknodeclass";
        assert!(claim_patch(&claim(json!({label: "b"}))).is_none());
        for labels in [json!({}), json!({label: "other"})] {
            let Some(Command::PatchClaim { name, patch }) = claim_patch(&claim(labels)) else { panic!() };
            assert_eq!((name.as_str(), patch), ("a", json!({"metadata": {"labels": {label: "b"}}})));
        }
        let node = Node::default();
        assert!(matches!(node_patch(&claim(json!({})), &node), Some(Command::PatchNode { .. })));
    }
}
