//! Leases of nodes, which nobody writes: heartbeats would be most of the traffic of a quiet cluster. Whoever asks for the lease of a node gets one
//! as its kubelet would have written it.
//!
//! They are given one by one; lists and watches have only leases that somebody wrote.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Call;
use super::metadata::{meta_text, text_at};
use crate::store::{ResourceName, Session};

/// Where they are.
const NAMESPACE: &str = "kube-node-lease";
/// How long one is good for, and how often it is renewed.
const DURATION_SECONDS: i64 = 40;
const RENEWED_EVERY: i64 = DURATION_SECONDS / 4;

/// The lease that a request asks for, if it is one of a node.
pub(crate) fn of_node(call: &Call<'_>, session: &Session<'_>) -> Option<Value> {
    let asked = call.resource.is("coordination.k8s.io", "leases") && call.namespace == NAMESPACE;
    if !call.core.leases || !asked {
        return None;
    }
    let node = session.get(&ResourceName::new("", "nodes"), "", &call.name)?;
    let name = &call.name;
    let created = meta_text(&node, "creationTimestamp");
    let renewed = renewed(&node, created.parse().ok()?, call.core.clock.now());
    Some(json!({
        "apiVersion": call.resource.api_version(),
        "kind": call.resource.kind,
        "metadata": {
            "name": name, "namespace": NAMESPACE, "creationTimestamp": created,
            "resourceVersion": meta_text(&node, "resourceVersion"),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": meta_text(&node, "uid")}],
        },
        "spec": {
            "holderIdentity": name, "leaseDurationSeconds": DURATION_SECONDS, "renewTime": format!("{renewed:.6}"),
        },
    }))
}

/// When a kubelet last said that it is there: a node that is given up has been silent since its last heartbeat.
fn renewed(node: &Value, created: Timestamp, now: Timestamp) -> Timestamp {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    if let Some(ready) = ready.filter(|ready| ready["status"] == "Unknown")
        && let Ok(last) = text_at(ready, "lastHeartbeatTime").parse()
    {
        return last;
    }
    let rounds = now.duration_since(created).as_secs().max(0) / RENEWED_EVERY;
    created.saturating_add(SignedDuration::from_secs(rounds * RENEWED_EVERY)).unwrap_or(now)
}
