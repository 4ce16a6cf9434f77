//! Pods alike to the scheduler share a class: the expensive reading of a spec happens once per class.
//!
//! The key of a class is made of the parts of the object that a scheduler can see, written as bytes. Amounts, ports, tolerations are
//! read by `joiner-state`, as the planner's are. Two things are added: requests as scores assume them (100m of CPU and 200 MiB of
//! memory for containers that ask for nothing), and terms with their weights, which the planner gives up one by one and a
//! scheduler adds up.

use std::collections::{BTreeMap, BTreeSet};

use joiner_core::model::names::{CPU, MEMORY};
use joiner_core::model::resources::lane_of;
use joiner_core::model::{KeyId, Names, Port, Requirement, ResVec, Toleration};
use joiner_state::parts;
use joiner_state::requests::{Limits, pod_requests};
use k8s_openapi::api::core::v1::{PodAffinityTerm, PodSpec, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;
use serde_json::Value;

use super::pod_counts::{Bearing, CounterId, IdentityId, PodCounts};
use super::terms::{NodeTerm, PodTerm, Selector, labels};
use crate::object::Fields;

/// A class's place.
pub(crate) type ClassId = u32;

/// What a container is assumed to use that asks for nothing.
const ASSUMED: [(&str, &str); 2] = [("cpu", "100m"), ("memory", "200Mi")];

/// A spread constraint.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    pub key: KeyId,
    pub by_host: bool,
    pub max_skew: i64,
    pub min_domains: i64,
    pub hard: bool,
    /// `None` selects nothing.
    pub selector: Option<Selector>,
    pub honor_affinity: bool,
    pub honor_taints: bool,
}

/// A claim that a pod names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimRef {
    /// By name.
    Named(Box<str>),
    /// Made for the pod under its name, a dash and this.
    Ephemeral(Box<str>),
}

/// All pods that are alike.
#[derive(Debug, Default)]
pub(crate) struct Class {
    pub identity: IdentityId,
    pub namespace: u32,
    pub requests: ResVec,
    /// CPU and memory as scores count them.
    pub scored: [i64; 2],
    pub tolerations: Vec<Toleration>,
    pub node_selector: Selector,
    pub required: Option<Vec<NodeTerm>>,
    /// The nodes that required terms name, if all of them do.
    pub named: Option<BTreeSet<String>>,
    pub preferred: Option<Vec<(i64, NodeTerm)>>,
    pub ports: Vec<Port>,
    pub images: Vec<Box<str>>,
    pub own_spread: bool,
    pub spread: Vec<Spread>,
    pub affinity: Vec<PodTerm>,
    pub anti_affinity: Vec<PodTerm>,
    /// Terms with weights; those of anti-affinity are negative.
    pub weighted: Vec<(i64, PodTerm)>,
    /// Counters of the terms that its pods carry once they are on a node.
    pub carried: Vec<CounterId>,
    pub priority: i32,
    pub never_preempts: bool,
    pub scheduler: Box<str>,
    pub gated: bool,
    pub claims: Vec<ClaimRef>,
    /// Kind and name of the controller, for default spread.
    pub controller: Option<(Box<str>, Box<str>)>,
    /// Why its pods cannot be looked at.
    pub broken: Option<String>,
}

/// The key of a pod's class.
pub(crate) fn key(pod: &Value, out: &mut Vec<u8>) {
    out.clear();
    write(out, pod.at(&["metadata", "namespace"]));
    write(out, pod.at(&["metadata", "labels"]));
    let spec = &pod["spec"];
    for field in [
        "affinity",
        "hostNetwork",
        "nodeSelector",
        "overhead",
        "preemptionPolicy",
        "priority",
        "resourceClaims",
        "resources",
        "schedulerName",
        "schedulingGates",
        "tolerations",
        "topologySpreadConstraints",
    ] {
        write(out, &spec[field]);
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.items(&[list]);
        out.extend_from_slice(&(containers.len() as u32).to_le_bytes());
        for container in containers {
            for field in ["image", "ports", "resources", "restartPolicy"] {
                write(out, &container[field]);
            }
        }
    }
    for volume in spec.items(&["volumes"]) {
        if let Some(claim) = claim(volume) {
            out.push(b'v');
            match claim {
                ClaimRef::Named(name) => write_text(out, &name),
                ClaimRef::Ephemeral(name) => {
                    out.push(b'e');
                    write_text(out, &name);
                }
            }
        }
    }
    if spec.items(&["topologySpreadConstraints"]).is_empty()
        && let Some(manager) = pod.manager()
    {
        write_text(out, manager.kind);
        write_text(out, manager.name);
    }
}

fn claim(volume: &Value) -> Option<ClaimRef> {
    if let Some(name) = volume.at(&["persistentVolumeClaim", "claimName"]).as_str() {
        return Some(ClaimRef::Named(name.into()));
    }
    volume["ephemeral"].is_object().then(|| ClaimRef::Ephemeral(volume.text(&["name"]).into()))
}

fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0),
        Value::Bool(yes) => out.extend([1, u8::from(*yes)]),
        Value::Number(number) => {
            out.push(2);
            write_text(out, &number.to_string());
        }
        Value::String(text) => {
            out.push(3);
            write_text(out, text);
        }
        Value::Array(list) => {
            out.push(4);
            out.extend_from_slice(&(list.len() as u32).to_le_bytes());
            list.iter().for_each(|item| write(out, item));
        }
        Value::Object(map) => {
            out.push(5);
            out.extend_from_slice(&(map.len() as u32).to_le_bytes());
            for (key, value) in map {
                write_text(out, key);
                write(out, value);
            }
        }
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

impl Class {
    /// Reads a pod.
    pub(crate) fn read(names: &mut Names, counts: &mut PodCounts, pod: &Value) -> Self {
        let namespace = counts.namespace(pod.namespace());
        let labels = labels(names, pod.entries(&["metadata", "labels"]));
        let identity = counts.identity(names, namespace, labels);
        let mut class = Self { identity, namespace, ..Self::default() };
        match PodSpec::deserialize(&pod["spec"]) {
            Ok(spec) => {
                if let Err(problem) = class.fill(names, counts, &spec) {
                    class.broken = Some(problem.to_string());
                }
            }
            Err(error) => class.broken = Some(format!("the pod's spec cannot be read: {error}")),
        }
        class.claims = pod.items(&["spec", "volumes"]).iter().filter_map(claim).collect();
        class.controller = pod.manager().map(|manager| (manager.kind.into(), manager.name.into()));
        if !pod.items(&["spec", "resourceClaims"]).is_empty() {
            class.broken = Some("resource claims (`spec.resourceClaims`) are not simulated".to_owned());
        }
        class
    }

    fn fill(
        &mut self,
        names: &mut Names,
        counts: &mut PodCounts,
        spec: &PodSpec,
    ) -> Result<(), joiner_state::Problem> {
        self.requests = amounts(names, pod_requests(spec, None, Limits::Ignored)?);
        let scored = amounts(names, pod_requests(&with_assumed(spec), None, Limits::Ignored)?);
        self.scored = [lane_of(&scored, CPU), lane_of(&scored, MEMORY)];
        self.tolerations = parts::tolerations(spec)?;
        self.ports = parts::ports(spec)?;
        self.node_selector = Selector::pairs(names, spec.node_selector.iter().flatten());
        let affinity = spec.affinity.as_ref();
        let node = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
        self.required = node
            .and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref())
            .map(|required| {
                required.node_selector_terms.iter().map(|term| NodeTerm::read(names, term)).collect()
            });
        self.named = self.required.as_deref().and_then(named);
        self.preferred = node
            .and_then(|node| node.preferred_during_scheduling_ignored_during_execution.as_ref())
            .map(|terms| {
                // A preference without anything in it is no preference.
                let filled = terms.iter().filter(|term| {
                    let (labels, fields) =
                        (&term.preference.match_expressions, &term.preference.match_fields);
                    labels.as_ref().is_some_and(|l| !l.is_empty())
                        || fields.as_ref().is_some_and(|l| !l.is_empty())
                });
                filled.map(|term| (i64::from(term.weight), NodeTerm::read(names, &term.preference))).collect()
            });
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        self.images =
            containers.map(|container| image_name(container.image.as_deref().unwrap_or_default())).collect();
        self.priority = spec.priority.unwrap_or(0);
        self.never_preempts = spec.preemption_policy.as_deref() == Some("Never");
        self.scheduler = spec.scheduler_name.as_deref().unwrap_or("default-scheduler").into();
        self.gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
        self.read_spread(names, counts, spec);
        self.read_affinity(names, counts, spec);
        Ok(())
    }

    fn read_spread(&mut self, names: &mut Names, counts: &PodCounts, spec: &PodSpec) {
        let own = spec.topology_spread_constraints.as_deref().unwrap_or_default();
        self.own_spread = !own.is_empty();
        let labels = &counts.identities[self.identity as usize].labels;
        for constraint in own {
            let mut selector = Selector::read(names, constraint.label_selector.as_ref());
            if let Some(selector) = &mut selector {
                for key in constraint.match_label_keys.iter().flatten() {
                    let key = names.key(key);
                    if let Some(value) = super::terms::value_of(labels, key) {
                        let asked = (key, Requirement::is(value));
                        if !selector.0.contains(&asked) {
                            selector.0.push(asked);
                        }
                    }
                }
            }
            self.spread.push(Spread {
                key: names.key(&constraint.topology_key),
                by_host: constraint.topology_key == joiner_api::names::HOSTNAME_LABEL,
                max_skew: i64::from(constraint.max_skew),
                min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
                hard: constraint.when_unsatisfiable == "DoNotSchedule",
                selector,
                honor_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
                honor_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
            });
        }
    }

    fn read_affinity(&mut self, names: &mut Names, counts: &mut PodCounts, spec: &PodSpec) {
        let namespace = self.namespace;
        let mut read =
            |term: &PodAffinityTerm| PodTerm::read(names, term, namespace, |name| counts.namespace(name));
        let affinity = spec.affinity.as_ref();
        let together = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let required = together.and_then(|t| t.required_during_scheduling_ignored_during_execution.as_ref());
        self.affinity = required.into_iter().flatten().map(&mut read).collect();
        let required = apart.and_then(|t| t.required_during_scheduling_ignored_during_execution.as_ref());
        self.anti_affinity = required.into_iter().flatten().map(&mut read).collect();
        let preferred =
            together.and_then(|t| t.preferred_during_scheduling_ignored_during_execution.as_ref());
        self.weighted = weighted(preferred, 1, &mut read);
        let preferred = apart.and_then(|t| t.preferred_during_scheduling_ignored_during_execution.as_ref());
        self.weighted.extend(weighted(preferred, -1, &mut read));
        let mut carried: Vec<CounterId> = Vec::new();
        for term in &self.anti_affinity {
            carried.push(counts.carry(term, Bearing::RequiredAnti));
        }
        // A required term of a pod that is there draws those it selects with a weight of one.
        for term in &self.affinity {
            carried.push(counts.carry(term, Bearing::Weight(1)));
        }
        for (weight, term) in &self.weighted {
            carried.push(counts.carry(term, Bearing::Weight(*weight)));
        }
        self.carried = carried;
    }

    /// Whether it asks for neither CPU nor memory.
    pub(crate) fn asks_for_nothing(&self) -> bool {
        lane_of(&self.requests, CPU) == 0 && lane_of(&self.requests, MEMORY) == 0
    }
}

fn weighted(
    terms: Option<&Vec<WeightedPodAffinityTerm>>,
    sign: i64,
    read: &mut impl FnMut(&PodAffinityTerm) -> PodTerm,
) -> Vec<(i64, PodTerm)> {
    let terms = terms.into_iter().flatten();
    terms.map(|term| (sign * i64::from(term.weight), read(&term.pod_affinity_term))).collect()
}

fn named(terms: &[NodeTerm]) -> Option<BTreeSet<String>> {
    let mut out = BTreeSet::new();
    for term in terms {
        out.extend(term.named()?.into_iter().map(str::to_owned));
    }
    (!terms.is_empty()).then_some(out)
}

fn amounts(names: &mut Names, by_resource: BTreeMap<Box<str>, i64>) -> ResVec {
    let mut out = ResVec::new();
    for (resource, amount) in by_resource {
        let lane = names.lane(&resource);
        if out.len() <= lane {
            out.resize(lane + 1, 0);
        }
        out[lane] = amount;
    }
    out
}

/// The spec as scores see it.
fn with_assumed(spec: &PodSpec) -> PodSpec {
    let mut spec = spec.clone();
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        let requests = container.resources.get_or_insert_default().requests.get_or_insert_default();
        for (resource, amount) in ASSUMED {
            requests.entry(resource.to_owned()).or_insert_with(|| Quantity(amount.to_owned()));
        }
    }
    spec
}

/// An image with its tag.
fn image_name(image: &str) -> Box<str> {
    let (tag, path) = (image.rfind(':'), image.rfind('/'));
    if tag <= path { format!("{image}:latest").into() } else { image.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn containers_that_ask_for_nothing_are_scored_as_if_they_did() {
        let (mut names, mut counts) = (Names::default(), PodCounts::default());
        let pod = json!({"metadata": {"namespace": "a", "name": "p"}, "spec": {"containers": [
            {"name": "a", "image": "x"},
            {"name": "b", "image": "x", "resources": {"requests": {"cpu": "1"}}},
        ]}});
        let class = Class::read(&mut names, &mut counts, &pod);
        assert_eq!(class.broken, None);
        assert_eq!(class.scored, [1100, 400 << 20]);
        assert_eq!((lane_of(&class.requests, CPU), lane_of(&class.requests, MEMORY)), (1000, 0));
        assert_eq!(class.images[0].as_ref(), "x:latest");
    }

    #[test]
    fn only_what_a_scheduler_sees_makes_a_class() {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        key(
            &json!({"metadata": {"name": "a", "uid": "1"}, "spec": {"nodeName": "n", "volumes": [{"name": "x", "emptyDir": {}}]}}),
            &mut a,
        );
        key(&json!({"metadata": {"name": "b"}, "spec": {}}), &mut b);
        assert_eq!(a, b);
        key(&json!({"metadata": {"name": "b", "labels": {"app": "x"}}, "spec": {}}), &mut b);
        assert_ne!(a, b);
    }
}
