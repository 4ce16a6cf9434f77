//! What selects a pod: Services of its namespace and its controller. Pods without spread constraints of their own are spread, softly, over
//! hosts and zones among the pods that these select.

use std::collections::BTreeMap;

use joiner_core::model::{KeyId, Names, Requirement, ValueId};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::class::{Class, Spread};
use super::terms::{Labels, Selector, labels, value_of};
use crate::object::{Fields, Key, Kind};

/// Topology key and largest difference of the default constraints.
const DEFAULTS: [(&str, i64); 2] = [("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5)];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Selects {
    /// Beside what Services say.
    By(Selector),
    /// Instead of what Services say of the same keys.
    Overwriting(Labels),
}

/// Services and controllers.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    /// Namespace → name → selector.
    services: BTreeMap<Box<str>, BTreeMap<Box<str>, Labels>>,
    controllers: BTreeMap<(Kind, Box<str>, Box<str>), Selects>,
    /// Grows when any of these changes what it selects.
    pub epoch: u64,
}

impl Workloads {
    /// Takes in a Service, or forgets it.
    pub(crate) fn set_service(&mut self, names: &mut Names, key: &Key, object: Option<&Value>) {
        let services = self.services.entry((&*key.namespace).into()).or_default();
        let selector = object.and_then(|object| object.entries(&["spec", "selector"]));
        let changed = match selector {
            None => services.remove(&*key.name).is_some(),
            Some(map) => {
                let new = labels(names, Some(map));
                services.insert((&*key.name).into(), new.clone()).is_none_or(|old| old != new)
            }
        };
        self.epoch += u64::from(changed);
    }

    /// Takes in a controller, or forgets it.
    pub(crate) fn set_controller(&mut self, names: &mut Names, key: &Key, object: Option<&Value>) {
        let place = (key.kind, (&*key.namespace).into(), (&*key.name).into());
        let changed = match object {
            None => self.controllers.remove(&place).is_some(),
            Some(object) => {
                let new = if key.kind == Kind::ReplicationController {
                    Selects::Overwriting(labels(names, object.entries(&["spec", "selector"])))
                } else {
                    let given = LabelSelector::deserialize(object.at(&["spec", "selector"])).ok();
                    Selects::By(Selector::read(names, given.as_ref()).unwrap_or_default())
                };
                self.controllers.insert(place, new.clone()).is_none_or(|old| old != new)
            }
        };
        self.epoch += u64::from(changed);
    }

    /// The default constraints of a pod: none if nothing selects it.
    pub(crate) fn default_spread(
        &self,
        names: &mut Names,
        class: &Class,
        namespace: &str,
        pod_labels: &[(KeyId, ValueId)],
    ) -> Vec<Spread> {
        let mut merged: BTreeMap<KeyId, ValueId> = BTreeMap::new();
        for selector in self.services.get(namespace).into_iter().flat_map(BTreeMap::values) {
            if selector.iter().all(|(key, value)| value_of(pod_labels, *key) == Some(*value)) {
                merged.extend(selector.iter().copied());
            }
        }
        let mut more = Selector::default();
        if let Some((kind, name)) = &class.controller
            && let Some(kind) = Kind::named(kind)
        {
            match self.controllers.get(&(kind, namespace.into(), name.clone())) {
                Some(Selects::By(selector)) => more = selector.clone(),
                Some(Selects::Overwriting(labels)) => merged.extend(labels.iter().copied()),
                None => {}
            }
        }
        let mut selector =
            Selector(merged.into_iter().map(|(key, value)| (key, Requirement::is(value))).collect());
        selector.0.extend(more.0);
        if selector.0.is_empty() {
            return Vec::new();
        }
        DEFAULTS
            .iter()
            .map(|(key, max_skew)| Spread {
                key: names.key(key),
                by_host: *key == DEFAULTS[0].0,
                max_skew: *max_skew,
                min_domains: 1,
                hard: false,
                selector: Some(selector.clone()),
                honor_affinity: true,
                honor_taints: false,
            })
            .collect()
    }
}
