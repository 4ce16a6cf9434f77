//! Spread and affinity that can't work: labels no node gets, selectors that miss their own pods.

use std::collections::BTreeMap;

use joiner_api::names::HOSTNAME_LABEL;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use super::label_keys::meant;
use crate::commands::lint::finding::Hit;
use crate::commands::lint::pods::{PodView, Standing};
use crate::commands::lint::shelf::stable_key;
use crate::commands::lint::subject::Subject;

/// Topology keys of hard constraints, each with its field.
pub fn keys<'p>(pod: &'p PodView) -> Vec<(String, &'p str)> {
    let spread = pod.spec.topology_spread_constraints.iter().flatten().enumerate();
    let spread = spread.filter(|(_, constraint)| constraint.when_unsatisfiable == "DoNotSchedule").map(
        |(at, constraint)| ("topologySpreadConstraints".to_owned(), at, constraint.topology_key.as_str()),
    );
    let affinity = pod.spec.affinity.as_ref().and_then(|affinity| affinity.pod_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.into_iter().flatten().enumerate().map(|(at, term)| {
        let within = "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution";
        (within.to_owned(), at, term.topology_key.as_str())
    });
    let all = spread.chain(terms);
    all.map(|(within, at, key)| (format!("{}.{within}[{at}].topologyKey", pod.path), key)).collect()
}

/// Keys that no node for the pod will have.
pub fn unknown_key(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    if !subject.knows_all_pools {
        return hits;
    }
    let shelf = &subject.shelf;
    for pod in subject.pods.iter().filter(|pod| pod.standing == Standing::Pending) {
        for (path, key) in keys(pod) {
            let stable = stable_key(key);
            let known = shelf.names.known_key(stable);
            let given = known.is_some_and(|id| {
                shelf.is_well_known(id)
                    || subject.pools.iter().any(|pool| pool.template.contains_key(&id))
                    || subject.nodes.iter().any(|node| node.labels.contains_key(&id))
            });
            // A well-known key of which nobody spoke yet has no number.
            let is_core = joiner_api::names::is_well_known(stable, &Default::default());
            if given || is_core || stable == HOSTNAME_LABEL || meant(key).is_some() {
                continue;
            }
            let own = subject
                .pools
                .iter()
                .flat_map(|pool| pool.all_clauses())
                .map(|clause| clause.written_key.as_str());
            let remedy = match joiner_core::explain::nearest_key(key, own) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "add the label to a pool's template, or use a well-known one such as `topology.kubernetes.io/zone`".to_owned(),
            };
            let message = format!("no pool puts the label `{key}` on its nodes{}", pod.and_more());
            hits.push(Hit::new(pod.object, path, message, remedy));
        }
    }
    hits
}

/// Constraints whose selector misses the pod they are on.
pub fn own_pods(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pod in subject.pods.iter().filter(|pod| pod.standing == Standing::Pending) {
        for (at, constraint) in pod.spec.topology_spread_constraints.iter().flatten().enumerate() {
            let path = format!("{}.topologySpreadConstraints[{at}].labelSelector", pod.path);
            let message = match &constraint.label_selector {
                Some(selector) if matches(selector, &pod.labels) => continue,
                Some(_) => "does not select the pod it is on, so its pods are not spread",
                None => "without a selector no pod is counted, so nothing is spread",
            };
            hits.push(Hit::new(
                pod.object,
                path,
                format!("{message}{}", pod.and_more()),
                "select the labels of the pod itself",
            ));
        }
    }
    hits
}

/// Whether a selector selects these labels.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}
