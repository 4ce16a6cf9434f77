//! Nodes of real machines become simulated ones.
//!
//! A node keeps its labels, its taints and its room. It says that it is ready, carries the mark of simulated nodes, and gets another provider
//! id: real ones mean machines that are not here. A node that a pool made has a claim; the two belong to the provider of the simulated cluster
//! from now on, as does the class of the pool. Nodes without a claim belong to nobody, and stay.

use std::collections::{BTreeMap, BTreeSet};

use joiner_api::names::{
    AWS_GROUP, HOSTNAME_LABEL, KWOK_API_VERSION, KWOK_GROUP, KWOK_NODE_CLASS_LABEL, KWOK_NODE_MARK, kinds,
};
use joiner_provider_kwok::launch::PROVIDER_ID_PREFIX;
use joiner_state::machines::{self, ClaimKey, Machine, NodeKey};
use serde_json::{Value, json};

use super::{kind, remove, text};
use crate::field::follows_nodes;

/// What provider ids of nodes begin with that no provider looks after.
const UNMANAGED: &str = "imported://";

/// Taints of nodes that are not well; here they are.
const ILLNESS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Whether some machine or pool is of AWS.
pub fn are_of_aws(objects: &[Value]) -> bool {
    objects.iter().any(|object| match kind(object) {
        "Node" => text(object, "/spec/providerID").starts_with("aws:"),
        "NodePool" => text(object, "/spec/template/spec/nodeClassRef/group") == AWS_GROUP,
        _ => false,
    })
}

/// Makes all nodes, claims and pools simulated ones.
pub fn simulate(objects: &mut Vec<Value>, notes: &mut Vec<String>) {
    let of_kind = |wanted: &'static str| objects.iter().filter(move |object| kind(object) == wanted);
    let nodes: BTreeSet<String> =
        of_kind("Node").map(|node| text(node, "/metadata/name").to_owned()).collect();
    let node_of: BTreeMap<String, String> = machines::pair(
        of_kind("NodeClaim").map(|claim| ClaimKey {
            name: text(claim, "/metadata/name"),
            provider_id: Some(text(claim, "/status/providerID")),
            node_name: Some(text(claim, "/status/nodeName")),
        }),
        of_kind("Node").map(|node| NodeKey {
            name: text(node, "/metadata/name"),
            provider_id: Some(text(node, "/spec/providerID")),
        }),
    )
    .into_iter()
    .filter_map(|(claim, machine)| match machine {
        Machine::Node(node) => Some((claim.to_owned(), node.to_owned())),
        Machine::NotJoined | Machine::Taken => None,
    })
    .collect();
    // Claims by their node; a claim without one waits for a machine that will not come.
    let mut claimed: BTreeMap<String, Value> = BTreeMap::new();
    let mut waiting = 0;
    objects.retain_mut(|object| {
        if kind(object) != "NodeClaim" {
            return true;
        }
        let Some(node) = node_of.get(text(object, "/metadata/name")).cloned() else {
            waiting += 1;
            return false;
        };
        object["status"]["providerID"] = format!("{PROVIDER_ID_PREFIX}{node}").into();
        object["status"]["nodeName"] = node.clone().into();
        claimed.insert(node, object.clone());
        true
    });
    if waiting > 0 {
        notes.push(format!("{waiting} NodeClaims without a node are left out"));
    }
    let foreign = adopt_classes(objects, notes);
    for node in objects.iter_mut().filter(|object| kind(object) == "Node") {
        let name = text(node, "/metadata/name").to_owned();
        let claim = claimed.get(&name);
        let prefix = if claim.is_some() { PROVIDER_ID_PREFIX } else { UNMANAGED };
        make_ready(node, &name, &format!("{prefix}{name}"));
        if let Some(claim) = claim {
            let class = text(claim, "/spec/nodeClassRef/name");
            node["metadata"]["labels"][KWOK_NODE_CLASS_LABEL] = class.into();
        }
    }
    settle_pods(objects, &nodes, notes);
    // Their fields mean nothing to the provider here.
    objects.retain(|object| !foreign.contains(kind(object)));
}

/// Pools and claims refer to classes of the provider that there is. Returns the kinds of the others.
fn adopt_classes(objects: &mut Vec<Value>, notes: &mut Vec<String>) -> BTreeSet<String> {
    let mut foreign = BTreeSet::new();
    let mut wanted = BTreeSet::new();
    for object in objects.iter_mut() {
        let pointer = match kind(object) {
            "NodePool" => "/spec/template/spec/nodeClassRef",
            "NodeClaim" => "/spec/nodeClassRef",
            _ => continue,
        };
        let Some(reference) = object.pointer_mut(pointer) else { continue };
        if reference["kind"] != kinds::KWOK_NODE_CLASS {
            if let Some(kind) = reference["kind"].as_str() {
                foreign.insert(kind.to_owned());
            }
            let name = reference["name"].clone();
            wanted.extend(name.as_str().map(str::to_owned));
            *reference = json!({"group": KWOK_GROUP, "kind": kinds::KWOK_NODE_CLASS, "name": name});
        }
    }
    for name in &wanted {
        let there =
            objects.iter().any(|of| kind(of) == kinds::KWOK_NODE_CLASS && text(of, "/metadata/name") == name);
        if !there {
            let class = kinds::KWOK_NODE_CLASS;
            objects.push(json!({"apiVersion": KWOK_API_VERSION, "kind": class, "metadata": {"name": name}}));
        }
    }
    if !foreign.is_empty() {
        let list: Vec<&str> = foreign.iter().map(String::as_str).collect();
        notes.push(format!(
            "pools of {} get their machines from the simulated provider: what the class says is not simulated",
            list.join(", ")
        ));
    }
    foreign
}

/// Makes a simulated node that belongs to nobody of any node.
pub fn make_unmanaged(node: &mut Value) {
    let name = text(node, "/metadata/name").to_owned();
    make_ready(node, &name, &format!("{UNMANAGED}{name}"));
}

fn make_ready(node: &mut Value, name: &str, provider_id: &str) {
    let created = node["metadata"]["creationTimestamp"].clone();
    for (parent, field) in [("metadata", "labels"), ("metadata", "annotations")] {
        if !node[parent][field].is_object() {
            node[parent][field] = json!({});
        }
    }
    node["metadata"]["annotations"][KWOK_NODE_MARK] = "fake".into();
    if !node["metadata"]["labels"][HOSTNAME_LABEL].is_string() {
        node["metadata"]["labels"][HOSTNAME_LABEL] = name.into();
    }
    if !node["spec"].is_object() {
        node["spec"] = json!({});
    }
    node["spec"]["providerID"] = provider_id.into();
    if let Some(taints) = node.pointer_mut("/spec/taints").and_then(Value::as_array_mut) {
        taints.retain(|taint| !taint["key"].as_str().is_some_and(|key| ILLNESS.contains(&key)));
    }
    if !node["status"].is_object() {
        node["status"] = json!({});
    }
    if !node["status"]["conditions"].is_array() {
        node["status"]["conditions"] = json!([]);
    }
    let has_room = node.pointer("/status/allocatable").is_some();
    let Some(conditions) = node.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else {
        return;
    };
    match conditions.iter_mut().find(|condition| condition["type"] == "Ready") {
        Some(ready) if ready["status"] == "True" => {}
        Some(ready) => {
            ready["status"] = "True".into();
            ready["reason"] = "KubeletReady".into();
        }
        None if has_room => {
            let mut ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
            if created.is_string() {
                ready["lastTransitionTime"] = created;
            }
            conditions.push(ready);
        }
        // Without room it is not ready yet: the kubelet gives it some.
        None => {}
    }
}

/// Pods on nodes that are not in the files have no node; daemons among them have no reason.
fn settle_pods(objects: &mut Vec<Value>, nodes: &BTreeSet<String>, notes: &mut Vec<String>) {
    let mut homeless = 0;
    objects.retain_mut(|pod| {
        if kind(pod) != "Pod" {
            return true;
        }
        remove(pod, "/spec", "ephemeralContainers");
        remove(pod, "/status", "nominatedNodeName");
        let node = text(pod, "/spec/nodeName");
        if node.is_empty() || nodes.contains(node) {
            return true;
        }
        if follows_nodes(pod) {
            return false;
        }
        homeless += 1;
        remove(pod, "/spec", "nodeName");
        pod["status"] = json!({"phase": "Pending"});
        true
    });
    if homeless > 0 {
        notes.push(format!(
            "{homeless} pods stand on nodes that are not in the files: they start without one"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, ready: &str) -> Value {
        json!({
            "kind": "Node", "metadata": {"name": name, "labels": {"a": "b"}},
            "spec": {"providerID": format!("aws:///z/{name}"), "taints": [{"key": "node.kubernetes.io/unreachable"}, {"key": "gpu"}]},
            "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    #[test]
    fn machines_become_simulated_ones() {
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"});
        let mut objects = vec![
            json!({"kind": "EC2NodeClass", "metadata": {"name": "main"}}),
            json!({"kind": "NodePool", "metadata": {"name": "p"}, "spec": {"template": {"spec": {"nodeClassRef": class}}}}),
            json!({"kind": "NodeClaim", "metadata": {"name": "p-1"}, "spec": {"nodeClassRef": class}, "status": {"providerID": "aws:///z/one"}}),
            json!({"kind": "NodeClaim", "metadata": {"name": "p-2"}, "spec": {"nodeClassRef": class}, "status": {}}),
            node("one", "True"),
            node("two", "Unknown"),
            json!({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "one"}, "status": {"phase": "Running"}}),
            json!({"kind": "Pod", "metadata": {"name": "b"}, "spec": {"nodeName": "gone"}, "status": {"phase": "Running"}}),
        ];
        let mut notes = Vec::new();
        assert!(are_of_aws(&objects));
        simulate(&mut objects, &mut notes);
        let find = |kind_name: &str, name: &str| {
            objects.iter().find(|of| kind(of) == kind_name && text(of, "/metadata/name") == name)
        };
        let one = find("Node", "one").unwrap();
        assert_eq!(one["spec"]["providerID"], "kwok://one");
        assert_eq!(one["metadata"]["labels"][KWOK_NODE_CLASS_LABEL], "main");
        assert_eq!(one["metadata"]["annotations"][KWOK_NODE_MARK], "fake");
        assert_eq!(one["spec"]["taints"], json!([{"key": "gpu"}]));
        let two = find("Node", "two").unwrap();
        assert_eq!(two["spec"]["providerID"], "imported://two");
        assert_eq!(two["status"]["conditions"][0]["status"], "True");
        assert_eq!(find("NodeClaim", "p-1").unwrap()["status"]["providerID"], "kwok://one");
        assert!(find("NodeClaim", "p-2").is_none());
        assert!(find("EC2NodeClass", "main").is_none() && find("KWOKNodeClass", "main").is_some());
        assert_eq!(
            find("NodePool", "p").unwrap()["spec"]["template"]["spec"]["nodeClassRef"]["kind"],
            "KWOKNodeClass"
        );
        assert_eq!(find("Pod", "a").unwrap()["status"]["phase"], "Running");
        assert_eq!(find("Pod", "b").unwrap()["spec"], json!({}));
        assert_eq!(notes.len(), 3, "{notes:?}");
    }
}
