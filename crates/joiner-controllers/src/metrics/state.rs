//! Gauges that say what is, reckoned from a view: pods, nodes, pools, conditions.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use joiner_api::condition::ConditionTypes;
use joiner_api::names;
use joiner_api::quantity::Quantity;
use joiner_state::requests::Amounts;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::rows::{self, Row};
use super::sheet::{Labels, Sheet};
use crate::inspect::View;
use crate::pods::{self, CachedPod};
use crate::steps::emptiness;

/// What is shown.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Gauges of single pods, nodes and conditions, of which there are as many as objects.
    pub objects: bool,
    /// No more than so many pods are shown in each gauge of pods.
    pub most_pods: usize,
}

/// Fills a sheet; how many pods were left out.
pub fn state(view: &View, options: Options, sheet: &mut Sheet) -> usize {
    sheet.put(&rows::STATE_SYNCED, &[], f64::from(view.synced));
    sheet.put(&rows::STATE_UNSYNCED, &[], view.unsynced.as_secs_f64());
    sheet.put(&rows::UNSCHEDULABLE, &["provisioner"], view.refused as f64);
    sheet.put(&rows::DISRUPTION_ELIGIBLE, &["empty"], view.eligible as f64);
    let (number, waiting, since) = view.deciding;
    if number > 0 {
        let id = number.to_string();
        sheet.put(&rows::SCHEDULER_QUEUE, &["provisioner", &id], waiting as f64);
        sheet.put(&rows::SCHEDULER_UNFINISHED, &["provisioner", &id], since.as_secs_f64());
    }
    for (controller, count) in &view.queue {
        sheet.put(&rows::WORKQUEUE, &[controller, controller], *count as f64);
    }
    let joined: Vec<&str> = view.nodes.iter().filter_map(|(node, _)| provider_id(node)).collect();
    let id_of = |claim: &joiner_api::NodeClaim| claim.status.as_ref().and_then(|of| of.provider_id.clone());
    let starting =
        view.claims.iter().filter(|claim| id_of(claim).is_none_or(|id| !joined.contains(&id.as_str())));
    sheet.put(&rows::STATE_NODES, &[], (view.nodes.len() + starting.count()) as f64);
    pending_by_zone(view, sheet);
    pools(view, sheet);
    let on_nodes = nodes(view, options, sheet);
    utilization(&on_nodes, sheet);
    if !options.objects {
        return 0;
    }
    conditions(view, sheet);
    all_pods(view, options.most_pods, sheet)
}

fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref()
}

/// A resource as the original names it.
fn resource(name: &str) -> String {
    name.replace('-', "_")
}

fn amount(text: &Text) -> f64 {
    Quantity::parse(&text.0).map_or(0.0, |amount| amount.nano_saturating() as f64 / 1e9)
}

fn pools(view: &View, sheet: &mut Sheet) {
    for of in &view.pools {
        let name = of.pool.name_any();
        for (key, limit) in of.pool.spec.limits.iter().flatten() {
            sheet.put(&rows::POOLS_LIMIT, &[&name, &resource(key)], amount(limit));
        }
        let used = of.pool.status.as_ref().and_then(|status| status.resources.as_ref());
        for (key, used) in used.into_iter().flatten() {
            sheet.put(&rows::POOLS_USAGE, &[&name, &resource(key)], amount(used));
        }
        sheet.put(&rows::POOLS_COST, &[&name], of.usd_per_hour);
        sheet.put(&rows::POOLS_ALLOWED, &[&name, emptiness::REASON], of.allowed.min(1 << 53) as f64);
        sheet.put(&rows::POOLS_CONSUMING, &[&name, emptiness::REASON], of.used as f64);
    }
}

/// The pods of a node and what it has for them.
#[derive(Default)]
struct Load {
    allocatable: BTreeMap<String, f64>,
    requests: BTreeMap<String, f64>,
    limits: BTreeMap<String, f64>,
    daemon_requests: BTreeMap<String, f64>,
    daemon_limits: BTreeMap<String, f64>,
}

fn add(into: &mut BTreeMap<String, f64>, what: &BTreeMap<String, f64>) {
    for (key, amount) in what {
        *into.entry(key.clone()).or_default() += amount;
    }
}

/// Amounts of a pod in the units of metrics.
fn whole(amounts: &Amounts) -> BTreeMap<String, f64> {
    let whole = |name: &str, amount: i64| if name == "cpu" { amount as f64 / 1000.0 } else { amount as f64 };
    amounts.iter().map(|(name, amount)| (resource(name), whole(name, *amount))).collect()
}

fn nodes(view: &View, options: Options, sheet: &mut Sheet) -> Vec<Load> {
    let mut on: BTreeMap<&str, Load> = BTreeMap::new();
    for (node, _) in &view.nodes {
        let list = node.status.as_ref().and_then(|status| status.allocatable.clone()).unwrap_or_default();
        let allocatable = list.iter().map(|(key, has)| (resource(key), amount(has))).collect();
        on.insert(node.metadata.name.as_deref().unwrap_or_default(), Load { allocatable, ..Load::default() });
    }
    for pod in view.pods.iter().filter(|pod| !pods::is_terminal(pod)) {
        let Some(load) = pods::node_name(pod).and_then(|node| on.get_mut(node)) else { continue };
        let (requests, limits) = (whole(&pod.common.requests), whole(&pod.common.limits));
        if pods::is_daemon(pod) {
            add(&mut load.daemon_requests, &requests);
            add(&mut load.daemon_limits, &limits);
        }
        add(&mut load.requests, &requests);
        add(&mut load.limits, &limits);
    }
    if options.objects {
        for (node, ours) in &view.nodes {
            let Some(load) = on.get(node.metadata.name.as_deref().unwrap_or_default()) else { continue };
            show_node(view, node, *ours, load, sheet);
        }
    }
    on.into_values().collect()
}

fn show_node(view: &View, node: &Node, ours: bool, load: &Load, sheet: &mut Sheet) {
    let known = [
        (names::ARCH_LABEL, "arch"),
        (names::CAPACITY_TYPE_LABEL, "capacity_type"),
        (names::INSTANCE_TYPE_LABEL, "instance_type"),
        (names::NODEPOOL_LABEL, "nodepool"),
        (names::OS_LABEL, "os"),
        (names::REGION_LABEL, "region"),
        (names::WINDOWS_BUILD_LABEL, "windows_build"),
        (names::ZONE_LABEL, "zone"),
    ];
    let value = |key: &str| node.labels().get(key).cloned().unwrap_or_default();
    let mut labels: Labels = known.iter().map(|(key, label)| (Cow::Borrowed(*label), value(key))).collect();
    for key in &view.well_known {
        let label = key.rsplit('/').next().unwrap_or(key).replace(['-', '.'], "_");
        if !labels.iter().any(|(have, _)| *have == label) {
            labels.push((Cow::Owned(label), value(key)));
        }
    }
    let phase = node.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    labels.push(("managed".into(), ours.to_string()));
    labels.push(("node_name".into(), node.name_any()));
    labels.push(("phase".into(), phase));
    labels.sort();
    sheet.set(&rows::NODES_AGE, labels.clone(), age(&node.metadata, view.now));
    let mut show = |row: &Row, amounts: &BTreeMap<String, f64>| {
        for (resource, amount) in amounts {
            let mut labels = labels.clone();
            labels.push(("resource_type".into(), resource.clone()));
            labels.sort();
            sheet.set(row, labels, *amount);
        }
    };
    show(&rows::NODES_ALLOCATABLE, &load.allocatable);
    show(&rows::NODES_POD_REQUESTS, &load.requests);
    show(&rows::NODES_POD_LIMITS, &load.limits);
    show(&rows::NODES_DAEMON_REQUESTS, &load.daemon_requests);
    show(&rows::NODES_DAEMON_LIMITS, &load.daemon_limits);
    let capacity = node.status.as_ref().and_then(|status| status.capacity.clone()).unwrap_or_default();
    let kept = capacity.iter().map(|(key, has)| {
        let key = resource(key);
        let kept = (amount(has) - load.allocatable.get(&key).copied().unwrap_or(0.0)).max(0.0);
        (key, kept)
    });
    show(&rows::NODES_OVERHEAD, &kept.collect());
}

fn utilization(loads: &[Load], sheet: &mut Sheet) {
    let (mut has, mut asked) = (BTreeMap::new(), BTreeMap::new());
    for load in loads {
        add(&mut has, &load.allocatable);
        add(&mut asked, &load.requests);
    }
    for (resource, has) in has.iter().filter(|(_, has)| **has > 0.0) {
        let share = asked.get(resource).copied().unwrap_or(0.0) / has;
        sheet.put(&rows::UTILIZATION, &[resource], share * 100.0);
    }
}

/// How old an object is, in seconds.
fn age(metadata: &ObjectMeta, now: Timestamp) -> f64 {
    metadata.creation_timestamp.as_ref().map_or(0.0, |time| passed(time.0, now))
}

fn passed(since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(since).as_secs_f64().max(0.0)
}

fn pending_by_zone(view: &View, sheet: &mut Sheet) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for of in &view.pending {
        *counts.entry(zone_of(&of.pod)).or_default() += 1;
    }
    for (zone, count) in counts {
        sheet.put(&rows::PENDING_BY_ZONE, &["provisioner", &zone], count as f64);
    }
}

/// The only zone that a pod can be in, as it says itself; `flexible` if there are several, `none` if what it says cannot be.
fn zone_of(pod: &CachedPod) -> String {
    match pod.common.zones.as_deref() {
        Some([]) => "none".to_owned(),
        Some([zone]) => zone.clone(),
        _ => "flexible".to_owned(),
    }
}

/// A condition as metrics see it.
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) since: Option<Timestamp>,
}

/// The rows of conditions of a kind of objects.
pub(crate) struct ConditionRows {
    pub(crate) kind: &'static str,
    /// Whether the older names have them too.
    pub(crate) older: bool,
    pub(crate) count: &'static Row,
    pub(crate) seconds: &'static Row,
    pub(crate) transitions: &'static Row,
    pub(crate) transition_seconds: &'static Row,
    pub(crate) termination_current: &'static Row,
    pub(crate) termination_duration: &'static Row,
}

pub(crate) static CLAIMS: ConditionRows = ConditionRows {
    kind: names::kinds::NODE_CLAIM,
    older: true,
    count: &rows::NODECLAIM_CONDITION_COUNT,
    seconds: &rows::NODECLAIM_CONDITION_SECONDS,
    transitions: &rows::NODECLAIM_TRANSITIONS,
    transition_seconds: &rows::NODECLAIM_TRANSITION_SECONDS,
    termination_current: &rows::NODECLAIM_TERMINATION_CURRENT,
    termination_duration: &rows::NODECLAIM_TERMINATION_DURATION,
};
pub(crate) static POOLS: ConditionRows = ConditionRows {
    kind: names::kinds::NODE_POOL,
    older: true,
    count: &rows::NODEPOOL_CONDITION_COUNT,
    seconds: &rows::NODEPOOL_CONDITION_SECONDS,
    transitions: &rows::NODEPOOL_TRANSITIONS,
    transition_seconds: &rows::NODEPOOL_TRANSITION_SECONDS,
    termination_current: &rows::NODEPOOL_TERMINATION_CURRENT,
    termination_duration: &rows::NODEPOOL_TERMINATION_DURATION,
};
pub(crate) static NODES: ConditionRows = ConditionRows {
    kind: "Node",
    older: false,
    count: &rows::NODE_CONDITION_COUNT,
    seconds: &rows::NODE_CONDITION_SECONDS,
    transitions: &rows::NODE_TRANSITIONS,
    transition_seconds: &rows::NODE_TRANSITION_SECONDS,
    termination_current: &rows::NODE_TERMINATION_CURRENT,
    termination_duration: &rows::NODE_TERMINATION_DURATION,
};

/// The labels that tell objects of a kind apart: pool, node class, how far a node is.
pub(crate) fn extras(of: &ConditionRows, metadata: &ObjectMeta, class_labels: &[String]) -> Labels {
    let mut labels = Labels::new();
    if of.kind == names::kinds::NODE_POOL {
        return labels;
    }
    let value = |key: &str| metadata.labels.as_ref().and_then(|of| of.get(key)).cloned().unwrap_or_default();
    let snake = |key: &str| Cow::Owned(key.replace(['/', '.', '-'], "_"));
    labels.extend(class_labels.iter().map(|key| (snake(key), value(key))));
    if of.kind == "Node" {
        labels.push(("karpenter_sh_initialized".into(), value(names::INITIALIZED_LABEL)));
    }
    labels.push(("karpenter_sh_nodepool".into(), value(names::NODEPOOL_LABEL)));
    labels
}

fn conditions(view: &View, sheet: &mut Sheet) {
    for claim in &view.claims {
        show_conditions(&CLAIMS, &claim.metadata, &of_claim(claim), view, sheet);
    }
    for of in &view.pools {
        show_conditions(&POOLS, &of.pool.metadata, &of_pool(&of.pool), view, sheet);
    }
    for (node, _) in &view.nodes {
        show_conditions(&NODES, &node.metadata, &of_node(node), view, sheet);
    }
}

/// Those of a claim. One that is new says none until its launch; they are known all the same.
pub(crate) fn of_claim(claim: &joiner_api::NodeClaim) -> Vec<Condition<'_>> {
    let said = of_list(claim.status.iter().flat_map(|status| &status.conditions));
    if !said.is_empty() {
        return said;
    }
    let since = claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let types = ConditionTypes::NODE_CLAIM;
    let kinds = std::iter::once(types.root).chain(types.dependents.iter().copied());
    kinds
        .map(|kind| Condition {
            kind,
            status: "Unknown",
            reason: names::conditions::AWAITING_RECONCILIATION,
            since,
        })
        .collect()
}

pub(crate) fn of_pool(pool: &joiner_api::NodePool) -> Vec<Condition<'_>> {
    of_list(pool.status.iter().flat_map(|status| &status.conditions))
}

fn of_list<'a>(
    all: impl Iterator<Item = &'a k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
) -> Vec<Condition<'a>> {
    let of = |of: &'a k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| Condition {
        kind: &of.type_,
        status: &of.status,
        reason: &of.reason,
        since: Some(of.last_transition_time.0),
    };
    all.map(of).collect()
}

pub(crate) fn of_node<'a>(node: &'a Node) -> Vec<Condition<'a>> {
    let all = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let of = |of: &'a NodeCondition| Condition {
        kind: &of.type_,
        status: &of.status,
        reason: of.reason.as_deref().unwrap_or_default(),
        since: of.last_transition_time.as_ref().map(|time| time.0),
    };
    all.map(of).collect()
}

fn show_conditions(
    of: &ConditionRows,
    metadata: &ObjectMeta,
    conditions: &[Condition],
    view: &View,
    sheet: &mut Sheet,
) {
    let name = metadata.name.clone().unwrap_or_default();
    let group = names::GROUP;
    let mut base = extras(of, metadata, &view.class_labels);
    base.push(("name".into(), name.clone()));
    base.push(("namespace".into(), String::new()));
    for condition in conditions {
        let Condition { kind, status, reason, .. } = condition;
        let seconds = condition.since.map_or(0.0, |since| passed(since, view.now));
        let mut labels = base.clone();
        labels.push(("reason".into(), (*reason).to_owned()));
        labels.push(("status".into(), (*status).to_owned()));
        labels.push(("type".into(), (*kind).to_owned()));
        sheet.set(of.count, labels.clone(), 1.0);
        sheet.set(of.seconds, labels, seconds);
        if of.older {
            let labels = [group, of.kind, &name, "", reason, status, kind];
            sheet.put(&rows::CONDITION_COUNT, &labels, 1.0);
            sheet.put(&rows::CONDITION_SECONDS, &labels, seconds);
        }
    }
    if let Some(since) = &metadata.deletion_timestamp {
        let seconds = passed(since.0, view.now);
        sheet.set(of.termination_current, base, seconds);
        if of.older {
            sheet.put(&rows::TERMINATION_CURRENT_OLD, &[group, of.kind, &name, ""], seconds);
        }
    }
}

/// Gauges of single pods; how many pods were left out.
fn all_pods(view: &View, most: usize, sheet: &mut Sheet) -> usize {
    let nodes: BTreeMap<&str, (&Node, bool)> = view
        .nodes
        .iter()
        .map(|(node, ours)| (node.metadata.name.as_deref().unwrap_or_default(), (&**node, *ours)))
        .collect();
    for pod in view.pods.iter().take(most) {
        show_pod(pod, pods::node_name(pod).and_then(|node| nodes.get(node)), sheet);
        let (name, namespace) = (&*pod.name, pod.common.namespace.as_str());
        let old = pod.created().map_or(0.0, |created| passed(created, view.now));
        if !pods::is_running(pod) && !pods::is_terminal(pod) {
            sheet.put(&rows::PODS_UNSTARTED, &[name, namespace], old);
            if pods::node_name(pod).is_none() {
                sheet.put(&rows::PODS_UNBOUND, &[name, namespace], old);
            }
        }
    }
    for of in view.pending.iter().take(most) {
        let (name, namespace) = (&*of.pod.name, of.pod.common.namespace.as_str());
        let waited = of.waited.as_secs_f64();
        sheet.put(&rows::PODS_PROVISIONING_UNBOUND, &[name, namespace], waited);
        sheet.put(&rows::PODS_PROVISIONING_UNSTARTED, &[name, namespace], waited);
        if !of.decided {
            sheet.put(&rows::PODS_UNDECIDED, &[name, namespace], waited);
        }
    }
    view.pods.len().saturating_sub(most)
}

fn show_pod(pod: &CachedPod, node: Option<&(&Node, bool)>, sheet: &mut Sheet) {
    let label = |key: &str| node.and_then(|(node, _)| node.labels().get(key)).map_or("", String::as_str);
    let flag = |is_so: bool| if is_so { "true" } else { "false" };
    let values = [
        label(names::ARCH_LABEL),
        label(names::CAPACITY_TYPE_LABEL),
        label(names::INSTANCE_TYPE_LABEL),
        flag(node.is_some_and(|(_, ours)| *ours)),
        &pod.name,
        &pod.common.namespace,
        pods::node_name(pod).unwrap_or_default(),
        label(names::NODEPOOL_LABEL),
        &pod.common.owner,
        pod.phase.name(),
        flag(pod.is_ready),
        flag(pod.is_scheduled),
        label(names::ZONE_LABEL),
    ];
    sheet.put(&rows::PODS_STATE, &values, 1.0);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_only_zone_of_a_pod_is_told() {
        let zone = |spec: serde_json::Value| {
            let pod = json!({"metadata": {"name": "a"}, "spec": spec});
            zone_of(&CachedPod::new(&serde_json::from_value(pod).unwrap()))
        };
        let rule = |values: &[&str]| {
            let rule = json!({"key": names::ZONE_LABEL, "operator": "In", "values": values});
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}})
        };
        let selector = json!({names::ZONE_LABEL: "a"});
        assert_eq!(zone(json!({"containers": []})), "flexible");
        assert_eq!(zone(json!({"containers": [], "nodeSelector": selector})), "a");
        assert_eq!(zone(json!({"containers": [], "affinity": rule(&["b"])})), "b");
        assert_eq!(zone(json!({"containers": [], "affinity": rule(&["b", "c"])})), "flexible");
        assert_eq!(
            zone(json!({"containers": [], "nodeSelector": selector, "affinity": rule(&["b"])})),
            "none"
        );
    }
}
