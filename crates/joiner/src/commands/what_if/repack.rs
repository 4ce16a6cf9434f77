//! `--repack`: every node that can be is given up, and its pods are placed again, as one change of the input.
//!
//! Nodes stay where a pod of theirs may not be moved ([`Movable`]), where they stay by nature (of unknown price, of the control plane, of a pool of
//! fixed size), and where a pod would find no other place: that is tried out. A node that stays keeps all its pods and takes others.

use std::collections::{BTreeMap, BTreeSet};

use joiner_api::NodePool;
use joiner_api::names::NODEPOOL_LABEL;
use joiner_controllers::pods::CachedPod;
use joiner_controllers::steps::movable::{Hold, Movable, Objects, namespace_of};
use joiner_core::decide::{self, Options};
use joiner_record::plan::{StaysDocument, reasons};
use joiner_state::{Lowered, Standing};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::changes::{self, Changed};
use super::objects::Item;
use crate::commands::plan::quick;
use crate::report::InputError;
use crate::show::plural;

/// How often pods that found no place may keep their nodes before what is left without a place is shown as refused.
const MOST_ROUNDS: usize = 6;

/// What came of it, beside the changed input.
#[derive(Debug, Default)]
pub struct Repacked {
    /// Names of the nodes given up.
    pub given_up: Vec<String>,
    /// Why the others stay, by node, then pod.
    pub stays: Vec<StaysDocument>,
}

/// Lowers some input.
pub type Lower<'l> = dyn FnMut(&[Item]) -> anyhow::Result<(Lowered, Standing)> + 'l;

/// Gives up what can be given up.
pub fn apply(changed: &mut Changed, options: &Options, lower: &mut Lower) -> anyhow::Result<Repacked> {
    let (lowered, standing) = lower(&changed.items)?;
    let nodes = standing.nodes(&lowered.snapshot);
    if nodes.is_empty() {
        return Err(InputError {
            path: Some("--repack".to_owned()),
            message: "the input has no Node, so nothing stands that could be packed again".to_owned(),
            remedy: Some(
                "give a snapshot with --from, or what `kubectl get nodes,pods -A -o json` prints".to_owned(),
            ),
            ..InputError::default()
        }
        .into());
    }
    let mut stays: BTreeMap<String, Vec<StaysDocument>> = BTreeMap::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for row in &nodes {
        let name = &*lowered.snapshot.nodes[row.node.at()].name;
        names.insert(name.to_owned());
        if let Some(why) = row.stays {
            stays.insert(name.to_owned(), vec![StaysDocument::of_node(name, why)]);
        }
    }
    for (node, pod, hold) in holds(&changed.items) {
        let stay = StaysDocument { code: hold.code(), message: hold.to_string(), pod, node: node.clone() };
        stays.entry(node).or_default().push(stay);
    }
    let quick = quick(options);
    for _ in 0..MOST_ROUNDS {
        let go: BTreeSet<&str> =
            names.iter().map(String::as_str).filter(|name| !stays.contains_key(*name)).collect();
        let mut tried = Changed { items: changed.items.clone(), ..Changed::default() };
        changes::remove_nodes(&mut tried.items, &go, &mut tried.freed);
        let homes: BTreeMap<&str, &str> =
            tried.freed.iter().map(|(pod, node)| (pod.as_str(), node.as_str())).collect();
        let (lowered, _) = lower(&tried.items)?;
        let plan = decide::decide(&lowered.snapshot, &quick);
        let mut more: Vec<StaysDocument> = Vec::new();
        for refused in &plan.refused {
            // What waits without a place anyway is no sign that something must stay.
            let pod = &*lowered.snapshot.pods[refused.pod.at()].name;
            if let Some(node) = homes.get(pod) {
                let reasons = reasons(&lowered.snapshot, &refused.reasons);
                more.push(StaysDocument::of_refused(node, pod, &reasons));
            }
        }
        if more.is_empty() {
            break;
        }
        for stay in more {
            stays.entry(stay.node.clone()).or_default().push(stay);
        }
    }
    names.retain(|name| !stays.contains_key(name));
    let go: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let before = changed.freed.len();
    changes::remove_nodes(&mut changed.items, &go, &mut changed.freed);
    changed.done.push(format!(
        "repacked: {} given up, {} to be placed again",
        plural(names.len(), "node"),
        plural(changed.freed.len() - before, "pod")
    ));
    let mut stays: Vec<StaysDocument> = stays.into_values().flatten().collect();
    stays.sort_by(|a, b| (&a.node, &a.pod).cmp(&(&b.node, &b.pod)));
    Ok(Repacked { given_up: names.into_iter().collect(), stays })
}

/// What keeps nodes: the node, the pod if it is one, and what holds it.
pub(super) fn holds(items: &[Item]) -> Vec<(String, Option<String>, Hold)> {
    let (nodes, pods): (Vec<Node>, Vec<Pod>) = (typed(items, "Node"), typed(items, "Pod"));
    let pools: Vec<NodePool> = typed(items, "NodePool");
    let budgets: Vec<PodDisruptionBudget> = typed(items, "PodDisruptionBudget");
    let claims: Vec<PersistentVolumeClaim> = typed(items, "PersistentVolumeClaim");
    let volumes: Vec<PersistentVolume> = typed(items, "PersistentVolume");
    let space = |namespace: &Option<String>| namespace_of(namespace.as_deref());
    let mut objects = Objects::default();
    for pool in &pools {
        objects.pools.insert(pool.metadata.name.as_deref().unwrap_or_default(), pool);
    }
    for budget in &budgets {
        objects.budgets.entry(space(&budget.metadata.namespace)).or_default().push(budget);
    }
    for pod in &pods {
        objects.pods.entry(space(&pod.metadata.namespace)).or_default().push(CachedPod::new(pod));
    }
    for claim in &claims {
        objects.claims.insert((space(&claim.metadata.namespace), claim.name_any()), claim);
    }
    for volume in &volumes {
        objects.volumes.insert(volume.metadata.name.as_deref().unwrap_or_default(), volume);
    }
    let movable = Movable::new(objects);
    let mut found = Vec::new();
    for node in &nodes {
        let pool = node.labels().get(NODEPOOL_LABEL).map(String::as_str);
        found.extend(movable.holds_node(node, pool).map(|hold| (node.name_any(), None, hold)));
    }
    for pod in &pods {
        let node =
            pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|node| !node.is_empty());
        let Some(node) = node else { continue };
        let name = format!("{}/{}", space(&pod.metadata.namespace), pod.name_any());
        found.extend(movable.holds_pod(pod).map(|hold| (node.to_owned(), Some(name), hold)));
    }
    let there: BTreeSet<String> = nodes.iter().map(ResourceExt::name_any).collect();
    found.retain(|(node, _, _)| there.contains(node));
    found
}

/// The objects of a kind, the last of each name; what cannot be read was refused or passed over before.
fn typed<T: DeserializeOwned>(items: &[Item], kind: &str) -> Vec<T> {
    let mut last: BTreeMap<(&str, &str), &Value> = BTreeMap::new();
    for item in items {
        if let Some(identity) = item.identity.as_ref().filter(|identity| identity.kind == kind) {
            last.insert((&identity.namespace, &identity.name), &item.value);
        }
    }
    let read = |value: &Value| {
        let mut now = joiner_api::convert::to_v1(value.clone(), &Default::default()).ok()?.objects;
        now.truncate(1);
        serde_json::from_value(now.pop()?).ok()
    };
    last.into_values().filter_map(read).collect()
}
