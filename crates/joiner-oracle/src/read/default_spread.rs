//! Default topology spread: constraints for pods that bring none, with the selector kube-scheduler would deduce.

use std::collections::BTreeMap;

use serde_json::Value;

use super::expressions::{joined, one_of, selector};
use super::field::{at, labels, list, required, stable_key, text, whole32};
use crate::world::{Labels, Pod, Spread};

/// The configured constraints and everything selectors are deduced from.
pub(super) struct Defaults<'v> {
    constraints: Vec<Spread>,
    /// Namespace and selector of each Service.
    services: Vec<(String, Labels)>,
    /// (namespace, kind, name) → the workload.
    controllers: BTreeMap<(String, String, String), &'v Value>,
}

const CONTROLLERS: [&str; 4] = ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"];

impl<'v> Defaults<'v> {
    /// Reads `podTopologySpread.defaultConstraints` of a scheduler configuration, Services and workloads.
    pub fn new(config: &Value, objects: &'v [(String, Value)]) -> Result<Self, String> {
        let constraints = list(config, &["podTopologySpread", "defaultConstraints"])?
            .iter()
            .map(|item| {
                Ok(Spread {
                    key: stable_key(required(item, &["topologyKey"])?).to_owned(),
                    max_skew: whole32(item, &["maxSkew"])?.ok_or("field `maxSkew` is missing")?,
                    min_domains: whole32(item, &["minDomains"])?,
                    hard: required(item, &["whenUnsatisfiable"])? == "DoNotSchedule",
                    selector: None,
                    honor_affinity: text(item, &["nodeAffinityPolicy"]) != Some("Ignore"),
                    honor_taints: text(item, &["nodeTaintsPolicy"]) == Some("Honor"),
                })
            })
            .collect::<Result<Vec<_>, String>>()
            .map_err(|why| format!("a default constraint: {why}"))?;
        let mut services = Vec::new();
        let mut controllers = BTreeMap::new();
        for (kind, object) in objects {
            let namespace = text(object, &["metadata", "namespace"]).unwrap_or("default").to_owned();
            if kind == "Service" {
                services.push((namespace, labels(object, &["spec", "selector"])?));
            } else if CONTROLLERS.contains(&kind.as_str()) {
                let name = required(object, &["metadata", "name"])?.to_owned();
                controllers.insert((namespace, kind.clone(), name), object);
            }
        }
        Ok(Self { constraints, services, controllers })
    }

    /// Gives a pod without constraints the default ones; `object` is the pod as written.
    pub fn apply(&self, pod: &mut Pod, object: &Value) -> Result<(), String> {
        if !pod.spread.is_empty() {
            return Ok(());
        }
        let mut merged = Labels::new();
        for (namespace, wanted) in &self.services {
            let selects = wanted.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
            if *namespace == pod.namespace && selects {
                merged.extend(wanted.clone());
            }
        }
        let mut more = Vec::new();
        for owner in list(object, &["metadata", "ownerReferences"])? {
            if at(owner, &["controller"]).and_then(Value::as_bool) != Some(true) {
                continue;
            }
            let (kind, name) = (required(owner, &["kind"])?, required(owner, &["name"])?);
            let key = (pod.namespace.clone(), kind.to_owned(), name.to_owned());
            let Some(controller) = self.controllers.get(&key) else { continue };
            if kind == "ReplicationController" {
                let own = labels(controller, &["spec", "selector"])?;
                let template = labels(controller, &["spec", "template", "metadata", "labels"])?;
                merged.extend(if own.is_empty() { template } else { own });
            } else if let Some(found) = selector(at(controller, &["spec", "selector"]))? {
                more = found.expressions;
            }
        }
        more.extend(merged.iter().map(|(key, value)| one_of(key, [value.as_str()])));
        if !more.is_empty() {
            let selector = joined(more);
            pod.spread = self.constraints.clone();
            for spread in &mut pod.spread {
                spread.selector = Some(selector.clone());
            }
        }
        Ok(())
    }
}
