//! Default topology spread: constraints for pods that have none, as kube-scheduler adds them.
//!
//! A default constraint has no selector; it is deduced for each pod from what selects the pod: all Services of its namespace that
//! match it, and its controller, if that is a ReplicaSet, a StatefulSet or a ReplicationController. A pod for which nothing can be deduced
//! gets no constraint. What is deduced depends on namespace, labels and controller only, so it is worked out once per combination of
//! these, and pods with the same selector stay in one class however their other labels differ.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use joiner_core::model::{FixedState, ReqId, Requirement, fixed_state};
use k8s_openapi::api::core::v1::{Service, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::bytes::Pairs;
use crate::cluster::{Cluster, NONE, Standing, namespace_of, namespaced_name};
use crate::digest::{Expression, Spread, selector, spread};
use crate::lower::Lowering;
use crate::problem::{Finding, Problem};

/// What is kept for default constraints.
#[derive(Debug, Default)]
pub(crate) struct DefaultSpread {
    pub constraints: Vec<Spread>,
    /// Namespace → its Services.
    services: BTreeMap<Box<str>, Services>,
    /// `namespace/Kind/name` → what it selects by.
    controllers: BTreeMap<String, Selects>,
}

/// Name → selector.
type Services = BTreeMap<Box<str>, BTreeMap<String, String>>;

/// How a controller selects its pods.
#[derive(Debug)]
enum Selects {
    /// Expressions that hold beside those of Services.
    By(Vec<Expression>),
    /// A map whose values replace those of Services.
    Overwriting(BTreeMap<String, String>),
}

/// The default selector of each pod.
#[derive(Debug, Default)]
pub(crate) struct Deduced {
    /// By pod row; empty without default constraints.
    of_row: BTreeMap<u32, Option<ReqId>>,
}

impl Deduced {
    /// The selector for a pod's default constraints; `None` if it gets none.
    pub(crate) fn of(&self, row: u32) -> Option<ReqId> {
        self.of_row.get(&row).copied().flatten()
    }
}

impl Cluster {
    /// Sets the constraints of pods that have none; `field` is where the list stands, for messages.
    pub fn set_default_spread(
        &mut self,
        constraints: &[TopologySpreadConstraint],
        field: &str,
    ) -> Result<(), Problem> {
        self.default_spread.constraints =
            checked(constraints, field).map_err(|finding| finding.on("", "", ""))?;
        Ok(())
    }

    /// Takes a Service in: default topology spread goes by what it selects.
    pub fn add_service(&mut self, service: &Service) -> Result<(), Problem> {
        let full_name = namespaced_name("Service", &service.metadata)?;
        let (namespace, name) =
            (namespace_of(&service.metadata), service.metadata.name.as_deref().unwrap_or_default());
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
        let there = self.default_spread.services.entry(namespace.into()).or_default();
        if there.insert(name.into(), selector).is_some() {
            self.note_duplicate("Service", &full_name);
        }
        Ok(())
    }

    /// Remembers what a workload selects by.
    pub(crate) fn remember_selector(
        &mut self,
        kind: &str,
        full_name: &str,
        given: &LabelSelector,
    ) -> Result<(), Problem> {
        if !self.default_spread.constraints.is_empty() {
            let expressions = selector(given, "spec.selector").map_err(|f| f.on(kind, full_name, ""))?;
            self.default_spread.controllers.insert(key(kind, full_name), Selects::By(expressions));
        }
        Ok(())
    }

    /// Remembers what a ReplicationController selects by.
    pub(crate) fn remember_map(&mut self, kind: &str, full_name: &str, map: &BTreeMap<String, String>) {
        if !self.default_spread.constraints.is_empty() {
            self.default_spread.controllers.insert(key(kind, full_name), Selects::Overwriting(map.clone()));
        }
    }
}

/// The name under which pods know their controller.
fn key(kind: &str, full_name: &str) -> String {
    let (namespace, name) = full_name.split_once('/').unwrap_or(("default", full_name));
    format!("{namespace}/{kind}/{name}")
}

fn checked(constraints: &[TopologySpreadConstraint], field: &str) -> Result<Vec<Spread>, Finding> {
    let mut seen: BTreeSet<(Box<str>, bool)> = BTreeSet::new();
    let mut out = Vec::with_capacity(constraints.len());
    for (at, constraint) in constraints.iter().enumerate() {
        let path = format!("{field}[{at}]");
        if constraint.label_selector.is_some() {
            return Err(Finding::new(
                format!("{path}.labelSelector"),
                "a selector",
                "a default constraint has no selector: it is deduced from Services and controllers",
                "leave it out",
            ));
        }
        if let Some(keys) = constraint.match_label_keys.as_ref().filter(|keys| !keys.is_empty()) {
            return Err(Finding::new(
                format!("{path}.matchLabelKeys"),
                keys.join(", "),
                "a default constraint has no selector that label keys could be added to",
                "leave it out",
            ));
        }
        for (name, policy) in [
            ("nodeAffinityPolicy", &constraint.node_affinity_policy),
            ("nodeTaintsPolicy", &constraint.node_taints_policy),
        ] {
            if let Some(policy) = policy.as_deref().filter(|policy| !["Honor", "Ignore"].contains(policy)) {
                let remedy = "use `Honor` or `Ignore`";
                return Err(Finding::new(format!("{path}.{name}"), policy, "not a known policy", remedy));
            }
        }
        let made = spread(constraint, &path)?;
        if let Some(least) = made.min_domains {
            let (message, remedy) = match (least < 1, made.hard) {
                (true, _) => ("the number of domains must be positive", "write 1 or more"),
                (false, false) => (
                    "`minDomains` needs `whenUnsatisfiable: DoNotSchedule`",
                    "leave it out or write `DoNotSchedule`",
                ),
                (false, true) => ("", ""),
            };
            if !message.is_empty() {
                return Err(Finding::new(format!("{path}.minDomains"), least.to_string(), message, remedy));
            }
        }
        if !seen.insert((made.key.clone(), made.hard)) {
            return Err(Finding::new(
                format!("{path}.topologyKey"),
                &*made.key,
                format!("an earlier constraint has this key and `{}` too", constraint.when_unsatisfiable),
                "keep one of them",
            ));
        }
        out.push(made);
    }
    Ok(out)
}

impl<'c> Lowering<'c> {
    /// Deduces the selectors of pending pods without constraints of their own; their keys become keys that selectors name.
    pub(crate) fn deduce_default_spread(&mut self) {
        let cluster = self.cluster;
        let defaults = &cluster.default_spread;
        // Constraints that nobody will look at must not tell pods apart.
        let respect = cluster.options.respect_preferences;
        if !defaults.constraints.iter().any(|constraint| constraint.hard || respect) {
            return;
        }
        let mut known: HashMap<(u32, u32, u32), Option<ReqId>, FixedState> =
            HashMap::with_hasher(fixed_state());
        let mut keys = BTreeSet::new();
        self.frame.default_selectors.of_row = cluster
            .pods
            .iter()
            .map(|(row, pod)| {
                let spec = &cluster.specs[pod.spec as usize];
                if pod.standing != Standing::Pending || !spec.spread.is_empty() {
                    return (row, None);
                }
                let controller = if pod.controlled { pod.owner } else { NONE };
                let key = (self.namespace(&spec.namespace), pod.labels, controller);
                let deduced = match known.get(&key) {
                    Some(deduced) => *deduced,
                    None => {
                        let deduced = self.deduce(&spec.namespace, pod.labels, controller, &mut keys);
                        known.insert(key, deduced);
                        deduced
                    }
                };
                (row, deduced)
            })
            .collect();
        self.select_also(keys);
    }

    fn deduce(
        &mut self,
        namespace: &str,
        labels: u32,
        controller: u32,
        keys: &mut BTreeSet<Box<str>>,
    ) -> Option<ReqId> {
        let cluster = self.cluster;
        let defaults = &cluster.default_spread;
        let labels: BTreeMap<&str, &str> = Pairs(cluster.label_sets.get(labels)).collect();
        let mut equal: BTreeMap<&'c str, &'c str> = BTreeMap::new();
        for service in defaults.services.get(namespace).into_iter().flat_map(BTreeMap::values) {
            if service.iter().all(|(key, value)| labels.get(key.as_str()) == Some(&value.as_str())) {
                equal.extend(service.iter().map(|(key, value)| (key.as_str(), value.as_str())));
            }
        }
        let mut expressions: &'c [Expression] = &[];
        if controller != NONE {
            match defaults.controllers.get(cluster.owners.text(controller)) {
                Some(Selects::By(list)) => expressions = list,
                Some(Selects::Overwriting(map)) => {
                    equal.extend(map.iter().map(|(key, value)| (key.as_str(), value.as_str())));
                }
                None => {}
            }
        }
        if equal.is_empty() && expressions.is_empty() {
            return None;
        }
        keys.extend(equal.keys().map(|key| Box::from(*key)));
        keys.extend(expressions.iter().map(|expression| expression.key.clone()));
        let mut list = Vec::with_capacity(equal.len() + expressions.len());
        for (key, value) in equal {
            let names = &mut self.frame.snapshot.vocabulary.names;
            let key = names.key(key);
            list.push((key, Requirement::is(names.value(key, value))));
        }
        for expression in expressions {
            list.push(self.expression(expression));
        }
        Some(self.frame.snapshot.vocabulary.set(list))
    }
}
