//! Which nodes a DaemonSet's pod belongs to, and how the pod is aimed at its node.

use serde_json::{Value, json};

use crate::object::Fields;
use crate::taint_eviction::tolerates;

/// What a node means to a DaemonSet.
pub(super) struct Verdict {
    /// A pod belongs there.
    pub runs: bool,
    /// A pod that is there may stay.
    pub stays: bool,
}

/// Taints that every daemon pod tolerates: key and effect.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Tolerated too by pods in the network of their host.
const TOLERATED_ON_HOST: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

fn own_tolerations(spec: &Value) -> impl Iterator<Item = Value> + use<> {
    let on_host = (spec["hostNetwork"] == true).then_some(TOLERATED_ON_HOST);
    TOLERATED
        .into_iter()
        .chain(on_host)
        .map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}))
}

pub(super) fn verdict(set: &Value, node: &Value) -> Verdict {
    let spec = set.at(&["spec", "template", "spec"]);
    let name = spec.text(&["nodeName"]);
    if (!name.is_empty() && name != node.name()) || !chooses(spec, node) {
        return Verdict { runs: false, stays: false };
    }
    let tolerations: Vec<Value> =
        spec.items(&["tolerations"]).iter().cloned().chain(own_tolerations(spec)).collect();
    let fits = |effects: &[&str]| {
        node.items(&["spec", "taints"])
            .iter()
            .filter(|taint| effects.contains(&taint.text(&["effect"])))
            .all(|taint| tolerations.iter().any(|toleration| tolerates(toleration, taint)))
    };
    Verdict { runs: fits(&["NoSchedule", "NoExecute"]), stays: fits(&["NoExecute"]) }
}

/// The node selector and the required node affinity.
fn chooses(spec: &Value, node: &Value) -> bool {
    let mut labels = spec.entries(&["nodeSelector"]).into_iter().flatten();
    if !labels.all(|(key, value)| node.label(key) == value.as_str()) {
        return false;
    }
    let required = spec.at(&["affinity", "nodeAffinity", REQUIRED]);
    required.is_null() || required.items(&["nodeSelectorTerms"]).iter().any(|term| holds(term, node))
}

/// A term without anything in it chooses nothing.
fn holds(term: &Value, node: &Value) -> bool {
    let (labels, fields) = (term.items(&["matchExpressions"]), term.items(&["matchFields"]));
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    labels.iter().all(|one| matches(one, node.label(one.text(&["key"]))))
        && fields.iter().all(|one| matches(one, (one["key"] == "metadata.name").then(|| node.name())))
}

fn matches(requirement: &Value, value: Option<&str>) -> bool {
    let values = requirement.items(&["values"]);
    let listed = value.is_some_and(|value| values.iter().any(|one| one == value));
    let numbers =
        || -> Option<(i64, i64)> { Some((value?.parse().ok()?, values.first()?.as_str()?.parse().ok()?)) };
    match requirement.text(&["operator"]) {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Makes a pod one that fits this node only, and that puts up with what the node may suffer.
pub(super) fn aim(pod: &mut Value, node: &str) {
    let spec = &mut pod["spec"];
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    if !spec["affinity"].is_object() {
        spec["affinity"] = json!({});
    }
    if !spec["affinity"]["nodeAffinity"].is_object() {
        spec["affinity"]["nodeAffinity"] = json!({});
    }
    spec["affinity"]["nodeAffinity"][REQUIRED] = json!({"nodeSelectorTerms": [term]});
    let mut tolerations = spec.items(&["tolerations"]).to_vec();
    for own in own_tolerations(spec) {
        if !tolerations.contains(&own) {
            tolerations.push(own);
        }
    }
    spec["tolerations"] = tolerations.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: Value, taints: Value) -> Value {
        json!({"metadata": {"name": "n", "labels": labels}, "spec": {"taints": taints}})
    }

    fn set(spec: Value) -> Value {
        json!({"spec": {"template": {"spec": spec}}})
    }

    #[test]
    fn taints_keep_pods_away_or_drive_them_out() {
        let verdict = |taints: Value| {
            let verdict = verdict(&set(json!({})), &node(json!({}), taints));
            (verdict.runs, verdict.stays)
        };
        assert_eq!(verdict(json!([])), (true, true));
        assert_eq!(verdict(json!([{"key": "a", "effect": "NoSchedule"}])), (false, true));
        assert_eq!(verdict(json!([{"key": "a", "effect": "NoExecute"}])), (false, false));
        assert_eq!(verdict(json!([{"key": "a", "effect": "PreferNoSchedule"}])), (true, true));
        let lost = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
        assert_eq!(verdict(lost), (true, true));
    }

    #[test]
    fn node_selectors_and_affinity_both_count() {
        let zone = node(json!({"zone": "a", "size": "4"}), json!([]));
        let runs = |spec: Value| verdict(&set(spec), &zone).runs;
        assert!(runs(json!({"nodeSelector": {"zone": "a"}})));
        assert!(!runs(json!({"nodeSelector": {"zone": "b"}})));
        let affinity = |expression: Value| json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}});
        assert!(runs(affinity(json!({"key": "size", "operator": "Gt", "values": ["3"]}))));
        assert!(!runs(affinity(json!({"key": "size", "operator": "Lt", "values": ["3"]}))));
        assert!(runs(affinity(json!({"key": "gpu", "operator": "DoesNotExist"}))));
        assert!(!runs(json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}})));
    }
}
