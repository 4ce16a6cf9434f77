//! Questions about pods, the same for everybody who asks them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use joiner_api::duration::Duration;
use joiner_api::names::{DISRUPTED_TAINT, DO_NOT_DISRUPT_ANNOTATION};
use joiner_api::owners;
use joiner_core::model::{Effect, Taint};
use joiner_state::parts;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

/// Priority classes whose pods leave last.
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Drops what no question here or in planning is about: a cluster has a hundred thousand pods, and most of each is about its programs.
pub fn drop_unasked(pod: &mut Pod) {
    pod.metadata.managed_fields = None;
    if let Some(spec) = &mut pod.spec {
        let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
        for container in containers {
            container.image = None;
            container.command = None;
            container.args = None;
            container.env = None;
            container.env_from = None;
            container.volume_mounts = None;
            container.lifecycle = None;
            container.liveness_probe = None;
            container.readiness_probe = None;
            container.startup_probe = None;
            container.security_context = None;
        }
    }
    if let Some(status) = &mut pod.status {
        status.pod_ips = None;
        status.host_ips = None;
        let containers = status.container_statuses.iter_mut().chain(&mut status.init_container_statuses);
        for container in containers.flatten() {
            container.image = String::new();
            container.image_id = String::new();
            container.container_id = None;
            container.state = None;
            container.last_state = None;
            container.volume_mounts = None;
        }
    }
}

/// Phase Succeeded or Failed.
pub fn is_terminal(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// Being deleted.
pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Neither finished nor being deleted.
pub fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !is_terminating(pod)
}

/// The node it is on.
pub fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn is_of_stateful_set(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.api_version == "apps/v1" && owner.kind == "StatefulSet")
}

/// Belongs to a DaemonSet.
pub fn is_daemon(pod: &Pod) -> bool {
    owners::is_daemon(pod.metadata.owner_references.as_deref())
}

/// Is the mirror of a static pod.
pub fn is_mirror(pod: &Pod) -> bool {
    owners::is_mirror(pod.metadata.owner_references.as_deref())
}

/// Its priority class is one of the two of the system.
pub fn is_critical(pod: &Pod) -> bool {
    let class = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
    class.is_some_and(|class| CRITICAL.contains(&class))
}

/// The scheduler found no place for it, and it is one of those that a new machine can help.
pub fn is_provisionable(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let unschedulable =
        status.and_then(|status| status.conditions.as_ref()).into_iter().flatten().any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.status == "False"
                && condition.reason.as_deref() == Some("Unschedulable")
        });
    let nominated =
        status.and_then(|status| status.nominated_node_name.as_deref()).is_some_and(|name| !name.is_empty());
    unschedulable
        && !nominated
        && node_name(pod).is_none()
        && is_active(pod)
        && !is_daemon(pod)
        && !is_mirror(pod)
}

/// Will need another place when its node goes.
pub fn is_reschedulable(pod: &Pod) -> bool {
    let comes_back = is_active(pod) || is_terminating(pod) && !is_terminal(pod) && is_of_stateful_set(pod);
    comes_back && !is_daemon(pod) && !is_mirror(pod)
}

/// Does not mind the taint of a node that is going.
pub fn tolerates_disruption(pod: &Pod) -> bool {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_ref());
    let taint = Taint { key: DISRUPTED_TAINT.into(), value: "".into(), effect: Effect::NoSchedule };
    tolerations.into_iter().flatten().any(|toleration| parts::toleration(toleration).tolerates(&taint))
}

/// How long a pod is protected by its annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Not at all.
    None,
    /// Until then.
    Until(Timestamp),
    /// As long as it is there, or until it has started.
    Open,
}

/// What the do-not-disrupt annotation says.
pub fn protection(pod: &Pod) -> Protection {
    let annotations = pod.metadata.annotations.as_ref();
    let Some(value) = annotations.and_then(|all| all.get(DO_NOT_DISRUPT_ANNOTATION)) else {
        return Protection::None;
    };
    if value == "true" {
        return Protection::Open;
    }
    let Some(length) = Duration::parse(value).ok().filter(|length| length.nanos() > 0) else {
        return Protection::None;
    };
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    match started {
        None => Protection::Open,
        Some(started) => {
            started.0.checked_add(length.to_signed_duration()).map_or(Protection::Open, Protection::Until)
        }
    }
}

/// Whether the do-not-disrupt annotation holds now.
pub fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    match protection(pod) {
        Protection::None => false,
        Protection::Until(end) => now < end,
        Protection::Open => true,
    }
}

/// Past the end of its deletion for so long that nobody waits for it any more.
pub fn is_stuck(pod: &Pod, now: Timestamp, after: std::time::Duration) -> bool {
    let end = pod.metadata.deletion_timestamp.as_ref();
    end.is_some_and(|end| {
        now.duration_since(end.0) > jiff::SignedDuration::try_from(after).unwrap_or_default()
    })
}

/// A drain waits for it.
pub fn is_waiting_eviction(pod: &Pod, now: Timestamp, stuck_after: std::time::Duration) -> bool {
    !is_terminal(pod) && !is_stuck(pod, now, stuck_after) && !is_mirror(pod) && !tolerates_disruption(pod)
}

/// May be asked to leave.
pub fn is_evictable(pod: &Pod, now: Timestamp) -> bool {
    is_active(pod) && !tolerates_disruption(pod) && !is_mirror(pod) && !is_protected(pod, now)
}

/// Whether a label selector means a pod. An empty one means all, one with an operator nobody knows means none.
pub fn selects(selector: &LabelSelector, pod: &Pod) -> bool {
    let none = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn unschedulable() -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"containers": []},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}})
    }

    #[test]
    fn provisionable_pods_are_those_a_machine_can_help() {
        assert!(is_provisionable(&pod(unschedulable())));
        let cases: [(&str, Value); 6] = [
            ("/spec/nodeName", json!("n")),
            ("/status/nominatedNodeName", json!("n")),
            ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            (
                "/metadata/ownerReferences",
                json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]),
            ),
            (
                "/metadata/ownerReferences",
                json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]),
            ),
            (
                "/status/conditions",
                json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
            ),
        ];
        for (path, change) in cases {
            let mut value = unschedulable();
            let (parent, field) = path.rsplit_once('/').unwrap();
            value.pointer_mut(parent).unwrap()[field] = change;
            assert!(!is_provisionable(&pod(value)), "{path}");
        }
    }

    #[test]
    fn protection_is_for_ever_or_for_a_time_since_the_start() {
        let of = |value: &str, started: Option<&str>| {
            protection(&pod(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}},
                "status": {"startTime": started}})))
        };
        assert_eq!(of("true", None), Protection::Open);
        assert_eq!(of("5m", None), Protection::Open);
        let end = "2026-01-01T00:05:00Z".parse().unwrap();
        assert_eq!(of("5m", Some("2026-01-01T00:00:00Z")), Protection::Until(end));
        for ignored in ["false", "-5m", "0", "soon"] {
            assert_eq!(of(ignored, None), Protection::None, "{ignored}");
        }
    }

    #[test]
    fn tolerating_the_taint_of_a_leaving_node() {
        let of = |toleration: Value| {
            tolerates_disruption(&pod(json!({"spec": {"containers": [], "tolerations": [toleration]}})))
        };
        assert!(of(json!({"operator": "Exists"})));
        assert!(of(json!({"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule"})));
        assert!(of(json!({"key": "karpenter.sh/disrupted"})));
        assert!(!of(json!({"key": "karpenter.sh/disrupted", "value": "x"})));
        assert!(!of(json!({"operator": "Exists", "effect": "NoExecute"})));
        assert!(!of(json!({"key": "other", "operator": "Exists"})));
    }

    /// What a pod weighs for the planner, all of it.
    fn lowered(pod: &Pod) -> String {
        let mut cluster = joiner_state::Cluster::new(joiner_state::Options::default());
        cluster.add_pod(pod).unwrap();
        format!("{:?}", cluster.finish().snapshot)
    }

    #[test]
    fn what_is_dropped_of_a_pod_changes_nothing() {
        let amounts = |cpu: &str| json!({"cpu": cpu, "memory": "1Gi"});
        let container = |name: &str, cpu: &str| {
            json!({"name": name, "image": "example.com/app:1", "command": ["run"], "args": ["--all"],
                "env": [{"name": "WORD", "value": "a secret"}], "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "ports": [{"containerPort": 80, "hostPort": 8080}], "resources": {"requests": amounts(cpu), "limits": amounts(cpu)},
                "readinessProbe": {"httpGet": {"port": 80}}})
        };
        let status = |name: &str, cpu: &str| {
            json!({"name": name, "image": "example.com/app:1", "imageID": "sha256:0", "containerID": "x://1", "ready": true,
                "restartCount": 3, "state": {"running": {}}, "allocatedResources": amounts(cpu), "resources": {"requests": amounts(cpu)}})
        };
        let mut sidecar = container("proxy", "250m");
        sidecar["restartPolicy"] = json!("Always");
        let whole = pod(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "1", "labels": {"app": "web"}, "managedFields": [{"manager": "x"}]},
            "spec": {"containers": [container("main", "2")], "initContainers": [container("first", "4"), sidecar],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
                "nodeSelector": {"zone": "a"}, "tolerations": [{"operator": "Exists"}]},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "containerStatuses": [status("main", "3")],
                "initContainerStatuses": [status("proxy", "300m")],
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        }));
        let mut slim = whole.clone();
        drop_unasked(&mut slim);
        assert_eq!(lowered(&slim), lowered(&whole));
        assert_eq!(is_provisionable(&slim), is_provisionable(&whole));
        let text = serde_json::to_string(&slim).unwrap();
        for dropped in ["secret", "example.com", "sha256", "--all", "httpGet", "managedFields"] {
            assert!(!text.contains(dropped), "{dropped} is in {text}");
        }
        let (slim, whole) = (text.len(), serde_json::to_string(&whole).unwrap().len());
        assert!(slim * 3 < whole * 2, "{slim} of {whole} bytes");
    }
}
