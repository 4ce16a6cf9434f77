//! What is kept of pods, and the questions about them, the same for everybody who asks.

#![allow(missing_docs, reason = "fields that explain themselves have no comment")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::duration::Duration;
use joiner_api::names::{DISRUPTED_TAINT, DO_NOT_DISRUPT_ANNOTATION, ZONE_LABEL};
use joiner_api::owners;
use joiner_api::quantity::Quantity;
use joiner_core::model::{Effect, Taint};
use joiner_state::parts;
use joiner_state::requests::{Amounts, Limits, pod_requests};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use xxhash_rust::xxh3::xxh3_64;

/// Priority classes whose pods leave last.
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// A pod as it is kept: what is asked about pods here, and no more. A cluster has hundreds of thousands of them, and most of each is about its
/// programs; what planning needs has been taken from it by then.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedPod {
    pub name: Box<str>,
    pub uid: Box<str>,
    pub version: Option<u64>,
    /// The node it is on.
    pub node: Option<Arc<str>>,
    /// What it has in common with its siblings.
    pub common: Arc<Common>,
    /// What few pods have.
    rare: Option<Box<Rare>>,
    /// In seconds; the least number stands for a pod that does not say.
    created: i64,
    pub phase: Phase,
    pub is_ready: bool,
    pub is_scheduled: bool,
    /// The scheduler found no place for it, and has none in mind.
    is_refused: bool,
}

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
    /// It does not say.
    None,
}

impl Phase {
    /// As the pod says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
            Self::None => "",
        }
    }

    fn of(text: Option<&str>) -> Self {
        let all = [Self::Pending, Self::Running, Self::Succeeded, Self::Failed, Self::Unknown];
        all.into_iter().find(|phase| Some(phase.name()) == text).unwrap_or(Self::None)
    }
}

/// What the pods of one workload have in common.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Common {
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub volume_claims: Vec<VolumeClaim>,
    /// Seconds a pod gets to end.
    pub grace_seconds: i64,
    /// The path of its first owner in the API.
    pub owner: String,
    /// What it asks for, CPU in thousandths.
    pub requests: Amounts,
    /// What it may use, CPU in thousandths.
    pub limits: Amounts,
    /// The zones it can be in, if it says so itself.
    pub zones: Option<Vec<String>>,
    is_daemon: bool,
    is_mirror: bool,
    is_of_stateful_set: bool,
    is_critical: bool,
    tolerates_disruption: bool,
}

/// A claim for a volume in a pod.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeClaim {
    Named(String),
    /// Made for the pod, by the name of the volume.
    Ephemeral(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Rare {
    /// When it is to be gone.
    deletion: Option<Timestamp>,
    protection: Protection,
}

impl CachedPod {
    /// What is to be kept of a pod.
    pub fn new(pod: &Pod) -> Self {
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        let node = spec.and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty());
        let rare = Rare {
            deletion: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            protection: protection_of(pod),
        };
        let conditions = || status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let is_so = |kind: &str| conditions().any(|of| of.type_ == kind && of.status == "True");
        let is_unschedulable = conditions().any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.status == "False"
                && condition.reason.as_deref() == Some("Unschedulable")
        });
        let nominated = status.and_then(|status| status.nominated_node_name.as_deref());
        Self {
            name: pod.metadata.name.as_deref().unwrap_or_default().into(),
            uid: pod.metadata.uid.as_deref().unwrap_or_default().into(),
            version: pod.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()),
            node: node.map(Into::into),
            common: Arc::new(Common::new(pod)),
            rare: (rare != Rare::default()).then(|| Box::new(rare)),
            created: pod.metadata.creation_timestamp.as_ref().map_or(i64::MIN, |time| time.0.as_second()),
            phase: Phase::of(status.and_then(|status| status.phase.as_deref())),
            is_ready: is_so("Ready"),
            is_scheduled: is_so("PodScheduled"),
            is_refused: is_unschedulable && nominated.is_none_or(str::is_empty),
        }
    }

    /// Namespace and name, as the cache has it.
    pub fn key(&self) -> String {
        match self.common.namespace.as_str() {
            "" => self.name.to_string(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// When it was made, to the second.
    pub fn created(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.created).ok()
    }

    /// When it is to be gone, if it is being deleted.
    pub fn deletion(&self) -> Option<Timestamp> {
        self.rare.as_ref()?.deletion
    }

    /// How long its do-not-disrupt annotation protects it.
    pub fn protection(&self) -> Protection {
        self.rare.as_ref().map_or(Protection::None, |rare| rare.protection)
    }

    /// The volume claims it names or brings, by name.
    pub fn volume_claims(&self) -> impl Iterator<Item = String> {
        self.common.volume_claims.iter().map(|claim| match claim {
            VolumeClaim::Named(name) => name.clone(),
            VolumeClaim::Ephemeral(volume) => format!("{}-{volume}", self.name),
        })
    }
}

impl Common {
    fn new(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let owners = pod.metadata.owner_references.as_deref();
        let class = spec.and_then(|spec| spec.priority_class_name.as_deref());
        let tolerations = spec.and_then(|spec| spec.tolerations.as_ref()).into_iter().flatten();
        let taint = Taint { key: DISRUPTED_TAINT.into(), value: "".into(), effect: Effect::NoSchedule };
        let volumes = spec.and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
        let claims = volumes.filter_map(|volume| {
            let named = volume.persistent_volume_claim.as_ref();
            let named = named.map(|claim| VolumeClaim::Named(claim.claim_name.clone()));
            named.or_else(|| volume.ephemeral.as_ref().map(|_| VolumeClaim::Ephemeral(volume.name.clone())))
        });
        Self {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            volume_claims: claims.collect(),
            grace_seconds: spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30),
            owner: owner_of(pod),
            requests: spec
                .and_then(|spec| pod_requests(spec, pod.status.as_ref(), Limits::Ignored).ok())
                .unwrap_or_default(),
            limits: limits_of(pod),
            zones: zones_of(pod),
            is_daemon: owners::is_daemon(owners),
            is_mirror: owners::is_mirror(owners),
            is_of_stateful_set: owners
                .into_iter()
                .flatten()
                .any(|owner| owner.api_version == "apps/v1" && owner.kind == "StatefulSet"),
            is_critical: class.is_some_and(|class| CRITICAL.contains(&class)),
            tolerates_disruption: { tolerations }
                .any(|toleration| parts::toleration(toleration).tolerates(&taint)),
        }
    }
}

fn owner_of(pod: &Pod) -> String {
    let Some(owner) = pod.metadata.owner_references.iter().flatten().next() else { return String::new() };
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let root = if owner.api_version.contains('/') { "/apis" } else { "/api" };
    let kind = owner.kind.to_lowercase();
    format!("{root}/{}/namespaces/{namespace}/{kind}s/{}", owner.api_version, owner.name)
}

fn limits_of(pod: &Pod) -> Amounts {
    let mut sum = Amounts::from([("pods".into(), 1)]);
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let limits = containers.filter_map(|of| of.resources.as_ref()?.limits.as_ref()).flatten();
    for (name, limit) in limits {
        let Ok(limit) = Quantity::parse(&limit.0) else { continue };
        let amount = if name == "cpu" { limit.milli_saturating() } else { limit.value_saturating() };
        let total = sum.entry(name.as_str().into()).or_insert(0);
        *total = total.saturating_add(amount);
    }
    sum
}

/// The zones that a pod can be in, as its selector and the only term of its affinity say.
fn zones_of(pod: &Pod) -> Option<Vec<String>> {
    let spec = pod.spec.as_ref()?;
    let selected = spec.node_selector.as_ref().and_then(|of| of.get(ZONE_LABEL));
    let mut zones: Option<Vec<String>> = selected.map(|zone| vec![zone.clone()]);
    let affinity = spec.affinity.as_ref().and_then(|of| of.node_affinity.as_ref());
    let required = affinity.and_then(|of| of.required_during_scheduling_ignored_during_execution.as_ref());
    // Of several terms any may hold.
    if let Some([term]) = required.map(|of| of.node_selector_terms.as_slice()) {
        for rule in term.match_expressions.iter().flatten() {
            if rule.key == ZONE_LABEL && rule.operator == "In" {
                let allowed = rule.values.clone().unwrap_or_default();
                zones = Some(match zones {
                    None => allowed,
                    Some(zones) => zones.into_iter().filter(|zone| allowed.contains(zone)).collect(),
                });
            }
        }
    }
    zones
}

/// What many pods have in common, each kept once.
#[derive(Debug, Default)]
pub struct CommonParts {
    common: BTreeSet<Arc<Common>>,
    nodes: BTreeSet<Arc<str>>,
    /// How many were in use when the others were last dropped.
    in_use: usize,
}

impl CommonParts {
    /// Lets a pod share what others have, too.
    pub fn share(&mut self, pod: &mut CachedPod) {
        if self.common.len() + self.nodes.len() > 2 * self.in_use + 1024 {
            self.common.retain(|part| Arc::strong_count(part) > 1);
            self.nodes.retain(|part| Arc::strong_count(part) > 1);
            self.in_use = self.common.len() + self.nodes.len();
        }
        shared(&mut self.common, &mut pod.common);
        if let Some(node) = &mut pod.node {
            shared(&mut self.nodes, node);
        }
    }
}

fn shared<T: Ord + ?Sized>(known: &mut BTreeSet<Arc<T>>, part: &mut Arc<T>) {
    match known.get(part) {
        Some(have) => *part = have.clone(),
        None => drop(known.insert(part.clone())),
    }
}

/// Phase Succeeded or Failed.
pub fn is_terminal(pod: &CachedPod) -> bool {
    matches!(pod.phase, Phase::Succeeded | Phase::Failed)
}

/// Phase Running.
pub fn is_running(pod: &CachedPod) -> bool {
    pod.phase == Phase::Running
}

/// Being deleted.
pub fn is_terminating(pod: &CachedPod) -> bool {
    pod.deletion().is_some()
}

/// Neither finished nor being deleted.
pub fn is_active(pod: &CachedPod) -> bool {
    !is_terminal(pod) && !is_terminating(pod)
}

/// The node it is on.
pub fn node_name(pod: &CachedPod) -> Option<&str> {
    pod.node.as_deref()
}

/// Labels by which workloads tell the versions of their template apart. Others come and go: the API server itself adds some when a pod is bound.
const REVISION_LABELS: [&str; 2] = ["controller-revision-hash", "pod-template-hash"];

/// What pods of one template have in common, the same for every process: a pod without an owner is a kind of its own.
pub fn kind(pod: &CachedPod) -> String {
    let common = &pod.common;
    let mut text = common.owner.clone();
    if text.is_empty() {
        text.push_str(&pod.uid);
    }
    for revision in REVISION_LABELS.iter().filter_map(|key| common.labels.get(*key)) {
        text.extend(["\n", revision]);
    }
    format!("{:016x}", xxh3_64(text.as_bytes()))
}

/// Belongs to a DaemonSet.
pub fn is_daemon(pod: &CachedPod) -> bool {
    pod.common.is_daemon
}

/// Is the mirror of a static pod.
pub fn is_mirror(pod: &CachedPod) -> bool {
    pod.common.is_mirror
}

/// Its priority class is one of the two of the system.
pub fn is_critical(pod: &CachedPod) -> bool {
    pod.common.is_critical
}

/// The scheduler found no place for it, and it is one of those that a new machine can help.
pub fn is_provisionable(pod: &CachedPod) -> bool {
    pod.is_refused && pod.node.is_none() && is_active(pod) && !is_daemon(pod) && !is_mirror(pod)
}

/// Will need another place when its node goes.
pub fn is_reschedulable(pod: &CachedPod) -> bool {
    let comes_back =
        is_active(pod) || is_terminating(pod) && !is_terminal(pod) && pod.common.is_of_stateful_set;
    comes_back && !is_daemon(pod) && !is_mirror(pod)
}

/// Does not mind the taint of a node that is going.
pub fn tolerates_disruption(pod: &CachedPod) -> bool {
    pod.common.tolerates_disruption
}

/// How long a pod is protected by its annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protection {
    /// Not at all.
    #[default]
    None,
    /// Not at all: the annotation says nothing that can be understood.
    Ignored,
    /// Until then.
    Until(Timestamp),
    /// As long as it is there, or until it has started.
    Open,
}

/// What the do-not-disrupt annotation says.
fn protection_of(pod: &Pod) -> Protection {
    let annotations = pod.metadata.annotations.as_ref();
    let Some(value) = annotations.and_then(|all| all.get(DO_NOT_DISRUPT_ANNOTATION)) else {
        return Protection::None;
    };
    if value == "true" {
        return Protection::Open;
    }
    let Some(length) = Duration::parse(value).ok().filter(|length| length.nanos() > 0) else {
        return Protection::Ignored;
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
pub fn is_protected(pod: &CachedPod, now: Timestamp) -> bool {
    match pod.protection() {
        Protection::None | Protection::Ignored => false,
        Protection::Until(end) => now < end,
        Protection::Open => true,
    }
}

/// Past the end of its deletion for so long that nobody waits for it any more.
pub fn is_stuck(pod: &CachedPod, now: Timestamp, after: std::time::Duration) -> bool {
    let after = jiff::SignedDuration::try_from(after).unwrap_or_default();
    pod.deletion().is_some_and(|end| now.duration_since(end) > after)
}

/// A drain waits for it.
pub fn is_waiting_eviction(pod: &CachedPod, now: Timestamp, stuck_after: std::time::Duration) -> bool {
    !is_terminal(pod) && !is_stuck(pod, now, stuck_after) && !is_mirror(pod) && !tolerates_disruption(pod)
}

/// May be asked to leave.
pub fn is_evictable(pod: &CachedPod, now: Timestamp) -> bool {
    is_active(pod) && !tolerates_disruption(pod) && !is_mirror(pod) && !is_protected(pod, now)
}

/// Whether a label selector means a pod. An empty one means all, one with an operator nobody knows means none.
pub fn selects(selector: &LabelSelector, pod: &CachedPod) -> bool {
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(&pod.common.labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(value: Value) -> CachedPod {
        CachedPod::new(&serde_json::from_value(value).unwrap())
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
            pod(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}},
                "status": {"startTime": started}}))
            .protection()
        };
        assert_eq!(of("true", None), Protection::Open);
        assert_eq!(of("5m", None), Protection::Open);
        let end = "2026-01-01T00:05:00Z".parse().unwrap();
        assert_eq!(of("5m", Some("2026-01-01T00:00:00Z")), Protection::Until(end));
        for ignored in ["false", "-5m", "0", "soon"] {
            assert_eq!(of(ignored, None), Protection::Ignored, "{ignored}");
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

    fn web(number: usize) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": format!("web-{number}"), "namespace": "shop", "uid": number.to_string(), "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "priorityClassName": "system-node-critical", "containers": [
                {"name": "main", "image": "example.com/app:1", "env": [{"name": "WORD", "value": "a secret"}]}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}, {"name": "tmp", "ephemeral": {}}]},
            "status": {"phase": "Running"},
        }))
        .unwrap()
    }

    #[test]
    fn siblings_share_what_they_have_in_common() {
        let mut parts = CommonParts::default();
        let mut pods: Vec<CachedPod> = (0..3).map(|number| CachedPod::new(&web(number))).collect();
        pods.iter_mut().for_each(|pod| parts.share(pod));
        assert!(pods.iter().all(|pod| Arc::ptr_eq(&pod.common, &pods[0].common)));
        assert!(Arc::ptr_eq(pods[0].node.as_ref().unwrap(), pods[2].node.as_ref().unwrap()));
        assert_eq!(pods[1].key(), "shop/web-1");
        assert!(is_critical(&pods[1]) && is_reschedulable(&pods[1]) && pods[1].rare.is_none());
        assert_eq!(pods[1].volume_claims().collect::<Vec<_>>(), ["disk", "web-1-tmp"]);
        // Beside the parts in common: the row itself, its name and its uid.
        assert!(size_of::<CachedPod>() <= 96, "{} bytes", size_of::<CachedPod>());
    }

    #[test]
    fn siblings_are_of_one_kind_until_their_template_changes() {
        let of = |name: &str, labels: Value, owner: Option<&str>| {
            let owners = owner.map(
                |name| json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "u"}]),
            );
            kind(&pod(json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels,
                "ownerReferences": owners.unwrap_or_else(|| json!([]))}})))
        };
        let labels = |pod: &str, revision: &str| json!({"app": "db", "statefulset.kubernetes.io/pod-name": pod, "controller-revision-hash": revision});
        let first = of("db-0", labels("db-0", "1"), Some("db"));
        assert_eq!(first, of("db-1", labels("db-1", "1"), Some("db")));
        assert_ne!(first, of("db-0", labels("db-0", "2"), Some("db")), "another template");
        assert_ne!(first, of("db-0", labels("db-0", "1"), Some("other")));
        let bound = json!({"app": "db", "controller-revision-hash": "1", "topology.kubernetes.io/zone": "a"});
        assert_eq!(first, of("db-0", bound, Some("db")), "on a node");
        assert_ne!(of("a", json!({}), None), of("b", json!({}), None), "nobody's pods");
    }

    #[test]
    fn parts_that_nobody_has_any_more_are_dropped() {
        let mut parts = CommonParts::default();
        for number in 0..5000 {
            let mut pod = web(number);
            pod.metadata.labels.get_or_insert_default().insert("number".to_owned(), number.to_string());
            parts.share(&mut CachedPod::new(&pod));
        }
        assert!(parts.common.len() <= 1025, "{}", parts.common.len());
    }
}
