//! What keeps a node from being given up while its pods are moved: a pod that nobody may or can move, or what its pool and its own annotation
//! say. Pure; no moment is asked for, so what holds for a while counts as holding.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use joiner_api::NodePool;
use joiner_api::budget::{Allowance, CompiledBudget};
use joiner_api::names::{DO_NOT_DISRUPT_ANNOTATION, HOSTNAME_LABEL};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::pods::{self, CachedPod, Protection};

/// The reason as budgets of pools know it.
const REASON: &str = "Underutilized";

/// What keeps a pod on its node, or a node in its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// An annotation of the node.
    NodeProtected,
    /// The pool's budgets let no node go, at any time.
    PoolBudget(String),
    /// An annotation of the pod, for ever or until a moment.
    Protected(Option<Timestamp>),
    /// Nobody would make the pod again.
    Bare,
    /// A volume claim of the pod, whose volume cannot be reached from elsewhere.
    LocalVolume(String),
    /// A budget that allows no disruption.
    Budget(String),
    /// Several budgets select the pod, and Kubernetes evicts no such pod.
    SeveralBudgets(Vec<String>),
}

impl Hold {
    /// What kind of hold it is.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NodeProtected => "NodeDoNotDisrupt",
            Self::PoolBudget(_) => "PoolBudget",
            Self::Protected(_) => "DoNotDisrupt",
            Self::Bare => "BarePod",
            Self::LocalVolume(_) => "LocalVolume",
            Self::Budget(_) => "DisruptionBudget",
            Self::SeveralBudgets(_) => "SeveralBudgets",
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeProtected => {
                write!(f, "annotation `{DO_NOT_DISRUPT_ANNOTATION}` of the node keeps it")
            }
            Self::PoolBudget(pool) => write!(f, "a budget of NodePool `{pool}` lets no node go"),
            Self::Protected(None) => write!(f, "annotation `{DO_NOT_DISRUPT_ANNOTATION}` keeps it there"),
            Self::Protected(Some(end)) => {
                write!(f, "annotation `{DO_NOT_DISRUPT_ANNOTATION}` keeps it there until {end}")
            }
            Self::Bare => f.write_str("it has no controller, so nobody would make it again"),
            Self::LocalVolume(claim) => write!(f, "the volume of claim `{claim}` is on this node"),
            Self::Budget(budget) => write!(f, "PodDisruptionBudget `{budget}` allows no disruption"),
            Self::SeveralBudgets(budgets) => {
                let names: Vec<String> = budgets.iter().map(|budget| format!("`{budget}`")).collect();
                write!(
                    f,
                    "PodDisruptionBudgets {} all select it: such a pod is not evicted",
                    names.join(", ")
                )
            }
        }
    }
}

/// The objects that decide, each by namespace and name where it has them.
#[derive(Debug, Default)]
pub struct Objects<'a> {
    /// Pools by name.
    pub pools: BTreeMap<&'a str, &'a NodePool>,
    /// Budgets of pods by namespace.
    pub budgets: BTreeMap<String, Vec<&'a PodDisruptionBudget>>,
    /// All pods by namespace.
    pub pods: BTreeMap<String, Vec<CachedPod>>,
    /// Volume claims.
    pub claims: BTreeMap<(String, String), &'a PersistentVolumeClaim>,
    /// Volumes by name.
    pub volumes: BTreeMap<&'a str, &'a PersistentVolume>,
}

/// The same with what budgets allow worked out.
#[derive(Debug)]
pub struct Movable<'a> {
    objects: Objects<'a>,
    /// By namespace and name: budgets that allow nothing.
    exhausted: BTreeMap<(String, String), bool>,
}

impl<'a> Movable<'a> {
    /// Reads all budgets once.
    pub fn new(objects: Objects<'a>) -> Self {
        let mut exhausted = BTreeMap::new();
        for (namespace, budgets) in &objects.budgets {
            let pods = objects.pods.get(namespace).map_or(&[][..], Vec::as_slice);
            for budget in budgets {
                exhausted.insert((namespace.clone(), budget.name_any()), allows_nothing(budget, pods));
            }
        }
        Self { objects, exhausted }
    }

    /// What holds a node of a pool, its pods aside.
    pub fn holds_node(&self, node: &Node, pool: Option<&str>) -> Option<Hold> {
        if node.annotations().get(DO_NOT_DISRUPT_ANNOTATION).is_some_and(|value| value == "true") {
            return Some(Hold::NodeProtected);
        }
        let budgets = self.objects.pools.get(pool?)?.spec.disruption.budgets.iter().flatten();
        let lets_none_go = |budget: &joiner_api::nodepool::Budget| {
            /// A share of so many nodes is none only if it is none of any number.
            const MANY: u64 = 1_000_000;
            let compiled = CompiledBudget::compile(budget);
            budget.schedule.is_none()
                && compiled.covers(REASON)
                && compiled.allowance(MANY, Timestamp::UNIX_EPOCH) == Ok(Allowance::NOTHING)
        };
        let mut none = budgets.filter(|budget| lets_none_go(budget));
        none.next().map(|_| Hold::PoolBudget(pool.unwrap_or_default().to_owned()))
    }

    /// What holds a pod where it is.
    pub fn holds_pod(&self, pod: &Pod) -> Option<Hold> {
        let cached = CachedPod::new(pod);
        if !pods::is_active(&cached) {
            return None;
        }
        // Daemons and mirror pods protect their node too.
        match cached.protection() {
            Protection::None | Protection::Ignored => {}
            Protection::Open => return Some(Hold::Protected(None)),
            Protection::Until(end) => return Some(Hold::Protected(Some(end))),
        }
        if !pods::is_reschedulable(&cached) {
            return None;
        }
        if pod.metadata.owner_references.as_ref().is_none_or(Vec::is_empty) {
            return Some(Hold::Bare);
        }
        self.local_volume(&cached).map(Hold::LocalVolume).or_else(|| self.budget(&cached, is_ready(pod)))
    }

    fn budget(&self, pod: &CachedPod, is_ready: bool) -> Option<Hold> {
        if pods::tolerates_disruption(pod) {
            return None;
        }
        let namespace = namespace_of(Some(&pod.common.namespace));
        let all = self.objects.budgets.get(&namespace)?.iter();
        let selecting: Vec<&&PodDisruptionBudget> = all.filter(|budget| selects(budget, pod)).collect();
        match selecting.as_slice() {
            [] => None,
            [one] if always_allows(one) && !is_ready => None,
            [one] => {
                let key = (namespace, one.name_any());
                self.exhausted.get(&key).copied().unwrap_or(false).then_some(Hold::Budget(key.1))
            }
            several => Some(Hold::SeveralBudgets(several.iter().map(|budget| budget.name_any()).collect())),
        }
    }

    /// A claim whose volume is tied to one node.
    fn local_volume(&self, pod: &CachedPod) -> Option<String> {
        let namespace = namespace_of(Some(&pod.common.namespace));
        pod.volume_claims().find(|name| {
            let claim = self.objects.claims.get(&(namespace.clone(), name.clone()));
            let volume = claim.and_then(|claim| claim.spec.as_ref()?.volume_name.as_deref());
            volume.and_then(|name| self.objects.volumes.get(name)).is_some_and(|volume| is_local(volume))
        })
    }
}

/// The namespace of an object; files often leave it out.
pub fn namespace_of(namespace: Option<&str>) -> String {
    namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("default").to_owned()
}

fn selects(budget: &PodDisruptionBudget, pod: &CachedPod) -> bool {
    // Without a selector it is about no pod, with an empty one about all.
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| pods::selects(selector, pod))
}

fn always_allows(budget: &PodDisruptionBudget) -> bool {
    let policy = budget.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
    policy == Some("AlwaysAllow")
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether a budget lets no pod go: as its status says, and without one by its pods on nodes, all taken as healthy.
fn allows_nothing(budget: &PodDisruptionBudget, pods: &[CachedPod]) -> bool {
    if let Some(allowed) = budget.status.as_ref().and_then(|status| status.disruptions_allowed) {
        return allowed <= 0;
    }
    let Some(spec) = &budget.spec else { return false };
    let is_one =
        |pod: &&CachedPod| pods::is_active(pod) && pods::node_name(pod).is_some() && selects(budget, pod);
    let count = pods.iter().filter(is_one).count() as i64;
    let of = |amount: &IntOrString| match amount {
        IntOrString::Int(number) => i64::from(*number),
        // Shares are rounded up.
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            percent.saturating_mul(count).saturating_add(99) / 100
        }
    };
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => of(most) <= 0,
        (None, Some(least)) => of(least) >= count,
        (None, None) => false,
    }
}

fn is_local(volume: &PersistentVolume) -> bool {
    let Some(spec) = &volume.spec else { return false };
    let terms = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let mut terms = terms.into_iter().flat_map(|required| &required.node_selector_terms).peekable();
    let names_host = terms.peek().is_some()
        && terms.all(|term| {
            term.match_expressions.iter().flatten().any(|e| e.key == HOSTNAME_LABEL && e.operator == "In")
        });
    spec.local.is_some() || spec.host_path.is_some() || names_host
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    fn of<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn pod(change: impl Fn(&mut Value)) -> Pod {
        let mut value = json!({
            "metadata": {"name": "p", "namespace": "shop", "labels": {"app": "a"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "u", "controller": true}]},
            "spec": {"nodeName": "n", "containers": []},
        });
        change(&mut value);
        of(value)
    }

    fn held(pod: &Pod, objects: Objects) -> Option<&'static str> {
        Movable::new(objects).holds_pod(pod).map(|hold| hold.code())
    }

    #[test]
    fn pods_that_stay_say_why() {
        let plain = pod(|_| ());
        assert_eq!(held(&plain, Objects::default()), None);
        let annotated = |value: &str| {
            let value = value.to_owned();
            pod(move |pod| pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": value}))
        };
        assert_eq!(held(&annotated("true"), Objects::default()), Some("DoNotDisrupt"));
        assert_eq!(held(&annotated("1h"), Objects::default()), Some("DoNotDisrupt"));
        assert_eq!(held(&annotated("false"), Objects::default()), None);
        let bare = pod(|pod| pod["metadata"]["ownerReferences"] = json!([]));
        assert_eq!(held(&bare, Objects::default()), Some("BarePod"));
        let going = pod(|pod| {
            pod["metadata"]["ownerReferences"] = json!([]);
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        });
        assert_eq!(held(&going, Objects::default()), None);
        let owner = |version: &str, kind: &str| json!([{"apiVersion": version, "kind": kind, "name": "o", "uid": "u"}]);
        let daemon = pod(|pod| pod["metadata"]["ownerReferences"] = owner("apps/v1", "DaemonSet"));
        let mirror = pod(|pod| pod["metadata"]["ownerReferences"] = owner("v1", "Node"));
        assert_eq!((held(&daemon, Objects::default()), held(&mirror, Objects::default())), (None, None));
    }

    #[test]
    fn budgets_hold_what_they_select() {
        let one = pod(|_| ());
        let other = pod(|pod| pod["metadata"]["name"] = json!("q"));
        let case = |budgets: &[Value], pod: &Pod| {
            let budgets: Vec<PodDisruptionBudget> = budgets.iter().cloned().map(of).collect();
            let objects = Objects {
                budgets: BTreeMap::from([("shop".to_owned(), budgets.iter().collect())]),
                pods: BTreeMap::from([(
                    "shop".to_owned(),
                    vec![CachedPod::new(&one), CachedPod::new(&other)],
                )]),
                ..Objects::default()
            };
            held(pod, objects)
        };
        let budget = |name: &str, spec: Value| {
            let mut spec = spec;
            spec["selector"] = json!({"matchLabels": {"app": "a"}});
            json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec})
        };
        for (spec, holds) in [
            (json!({"maxUnavailable": 0}), true),
            (json!({"maxUnavailable": "0%"}), true),
            (json!({"maxUnavailable": 1}), false),
            (json!({"maxUnavailable": "1%"}), false),
            (json!({"minAvailable": 1}), false),
            (json!({"minAvailable": 2}), true),
            (json!({"minAvailable": "50%"}), false),
            (json!({"minAvailable": "51%"}), true),
            (json!({"minAvailable": "100%"}), true),
        ] {
            let found = case(&[budget("b", spec.clone())], &one);
            assert_eq!(found, holds.then_some("DisruptionBudget"), "{spec}");
        }
        let two = [budget("b", json!({"maxUnavailable": 1})), budget("c", json!({"maxUnavailable": 1}))];
        assert_eq!(case(&two, &one), Some("SeveralBudgets"));
        let mut told = budget("b", json!({"maxUnavailable": 1}));
        told["status"] =
            json!({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2});
        assert_eq!(case(&[told.clone()], &one), Some("DisruptionBudget"), "the status knows better");
        told["spec"]["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
        assert_eq!(case(&[told.clone()], &one), None, "the pod is not ready");
        let ready = pod(|pod| pod["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]}));
        assert_eq!(case(&[told], &ready), Some("DisruptionBudget"));
        let elsewhere = pod(|pod| pod["metadata"]["labels"] = json!({"app": "b"}));
        assert_eq!(case(&[budget("b", json!({"maxUnavailable": 0}))], &elsewhere), None);
    }

    #[test]
    fn volumes_of_one_node_hold_their_pod() {
        let claiming = pod(|pod| {
            pod["spec"]["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-p"}}]);
        });
        let ephemeral = pod(|pod| {
            pod["spec"]["volumes"] =
                json!([{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]);
        });
        let on_host = |key: &str| json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": ["n"]}]}]}}});
        for (spec, holds) in [
            (json!({"local": {"path": "/data"}}), true),
            (json!({"hostPath": {"path": "/data"}}), true),
            (on_host("kubernetes.io/hostname"), true),
            (on_host("topology.kubernetes.io/zone"), false),
            (json!({"csi": {"driver": "d", "volumeHandle": "h"}}), false),
        ] {
            let volume: PersistentVolume = of(json!({"metadata": {"name": "v"}, "spec": spec}));
            for (pod, name) in [(&claiming, "data-p"), (&ephemeral, "p-data")] {
                let claim: PersistentVolumeClaim =
                    of(json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"volumeName": "v"}}));
                let objects = Objects {
                    claims: BTreeMap::from([(("shop".to_owned(), name.to_owned()), &claim)]),
                    volumes: BTreeMap::from([("v", &volume)]),
                    ..Objects::default()
                };
                assert_eq!(held(pod, objects), holds.then_some("LocalVolume"), "{spec}");
            }
        }
    }

    #[test]
    fn nodes_are_held_by_their_mark_and_by_budgets_of_their_pool() {
        let node = |annotations: Value| -> Node {
            of(json!({"metadata": {"name": "n", "annotations": annotations}}))
        };
        let pool = |budgets: Value| -> NodePool {
            of(
                json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": {
                "disruption": {"consolidateAfter": "0s", "budgets": budgets},
                "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}}),
            )
        };
        let plain = node(json!({}));
        for (budgets, holds) in [
            (json!([{"nodes": "0"}]), true),
            (json!([{"nodes": "10%"}, {"nodes": "0%"}]), true),
            (json!([{"nodes": "10%"}]), false),
            (json!([{"nodes": "0", "reasons": ["Drifted"]}]), false),
            (json!([{"nodes": "0", "reasons": ["Underutilized"]}]), true),
            (json!([{"nodes": "0", "schedule": "@daily", "duration": "8h"}]), false),
        ] {
            let pool = pool(budgets.clone());
            let movable =
                Movable::new(Objects { pools: BTreeMap::from([("a", &pool)]), ..Objects::default() });
            let found = movable.holds_node(&plain, Some("a")).map(|hold| hold.code());
            assert_eq!(found, holds.then_some("PoolBudget"), "{budgets}");
        }
        let movable = Movable::new(Objects::default());
        assert_eq!(movable.holds_node(&plain, None), None);
        let marked = node(json!({"karpenter.sh/do-not-disrupt": "true"}));
        assert_eq!(movable.holds_node(&marked, None), Some(Hold::NodeProtected));
        assert_eq!(movable.holds_node(&node(json!({"karpenter.sh/do-not-disrupt": "1h"})), None), None);
    }
}
