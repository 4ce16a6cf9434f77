//! What manifests tell about the machines their pools want: classes, kubelet settings, the zones that somebody names.
//!
//! What makes no sense for AWS is kept with its place until it is known that AWS is meant at all.

use std::collections::BTreeMap;

use joiner_api::NodePool;
use joiner_api::names::{
    AWS_GROUP, AWS_WELL_KNOWN_LABELS, KUBELET_COMPATIBILITY_ANNOTATION, KWOK_WELL_KNOWN_LABELS, REGION_LABEL,
    ZONE_LABEL,
};
use joiner_api::requirement::NodeRequirement;
use joiner_manifest::Object;
use joiner_provider_aws::class::{Class, ReadClass};
use joiner_provider_aws::price_file::known_regions;
use joiner_provider_aws::world::{region_of_zone, world};
use joiner_state::Problem;
use k8s_openapi::api::core::v1::{NodeSelectorTerm, TopologySelectorTerm};
use serde_json::Value;

use crate::report::InputError;

/// Zone labels of volumes.
const ZONE_KEYS: [&str; 3] =
    [ZONE_LABEL, "topology.ebs.csi.aws.com/zone", "failure-domain.beta.kubernetes.io/zone"];
/// Resources that somebody may keep back.
const KEPT: [&str; 2] = ["cpu", "memory"];

/// What a complaint is about, should it matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// The zones of a pool, or its kubelet settings.
    Pool(String),
    /// A class.
    Class(String),
    /// A class keeps so much of a resource back that no machine of its pools has any left.
    Reserved(String, &'static str),
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    pub(super) pools: BTreeMap<String, PoolFacts>,
    pub(super) classes: BTreeMap<String, ClassFacts>,
    /// Regions that volumes and nodes name.
    pub(super) regions: BTreeMap<String, String>,
    /// Whether some node is a machine of AWS.
    pub(super) has_aws_nodes: bool,
}

/// What a pool tells.
#[derive(Debug, Clone)]
pub(super) struct PoolFacts {
    pub of_aws: bool,
    pub class: String,
    /// The region of the zones it names.
    pub region: Option<String>,
    /// Kubelet settings that older pools have.
    pub kubelet: Option<Value>,
    pub requirements: Vec<NodeRequirement>,
    pub trouble: Option<InputError>,
}

/// What a class tells.
#[derive(Debug, Clone, Default)]
pub(super) struct ClassFacts {
    pub read: ReadClass,
    pub trouble: Option<InputError>,
    pub reserved: Vec<(&'static str, InputError)>,
}

impl Survey {
    /// Looks at an object. Returns what may be wrong with it; where that stands is for the caller to say, to [`blame`](Self::blame).
    pub fn add(&mut self, name: &str, object: &Object) -> Vec<(Slot, Problem)> {
        match object {
            Object::NodePool(pool) => return self.add_pool(name, pool),
            Object::NodeClass(group, kind, class, value)
                if group == AWS_GROUP && ["EC2NodeClass", "AWSNodeTemplate"].contains(&kind.as_str()) =>
            {
                return self.add_class(name, class, value);
            }
            Object::Node(node) => {
                let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
                self.has_aws_nodes |= provider_id.is_some_and(|id| id.starts_with("aws:"));
                let labels = node.metadata.labels.iter().flatten();
                for (key, value) in labels.filter(|(key, _)| ZONE_KEYS.contains(&key.as_str())) {
                    self.name_zone(key, value, "nodes");
                }
            }
            Object::PersistentVolume(volume) => {
                let spec = volume.spec.as_ref();
                let required = spec.and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
                let terms = required.map_or(&[][..], |required| &required.node_selector_terms);
                self.name_terms(terms);
                let labels = volume.metadata.labels.clone().unwrap_or_default();
                labels.iter().for_each(|(key, value)| self.name_zone(key, value, "volumes"));
            }
            Object::StorageClass(class) => {
                for term in class.allowed_topologies.iter().flatten() {
                    let TopologySelectorTerm { match_label_expressions } = term;
                    for said in match_label_expressions.iter().flatten() {
                        said.values.iter().for_each(|value| self.name_zone(&said.key, value, "volumes"));
                    }
                }
            }
            _ => {}
        }
        Vec::new()
    }

    /// Keeps a complaint of [`add`](Self::add) with its place.
    pub fn blame(&mut self, slot: Slot, error: InputError) {
        match slot {
            Slot::Pool(name) => {
                if let Some(pool) = self.pools.get_mut(&name) {
                    pool.trouble.get_or_insert(error);
                }
            }
            Slot::Class(name) => {
                if let Some(class) = self.classes.get_mut(&name) {
                    class.trouble.get_or_insert(error);
                }
            }
            Slot::Reserved(name, resource) => {
                if let Some(class) = self.classes.get_mut(&name) {
                    class.reserved.push((resource, error));
                }
            }
        }
    }

    fn name_terms(&mut self, terms: &[NodeSelectorTerm]) {
        for said in terms.iter().flat_map(|term| term.match_expressions.iter().flatten()) {
            if said.operator == "In" {
                said.values.iter().flatten().for_each(|value| self.name_zone(&said.key, value, "volumes"));
            }
        }
    }

    fn name_zone(&mut self, key: &str, zone: &str, who: &str) {
        if ZONE_KEYS.contains(&key)
            && let Some(region) = region_of_zone(zone)
            && world().region(region).is_some()
        {
            self.regions.entry(region.to_owned()).or_insert_with(|| who.to_owned());
        }
    }

    fn add_class(&mut self, object: &str, name: &str, value: &Value) -> Vec<(Slot, Problem)> {
        let read = Class::read(value);
        let problem = |path: &str, value: &str, message: &str, remedy: &str| Problem {
            object: object.to_owned(),
            path: path.to_owned(),
            value: value.to_owned(),
            message: message.to_owned(),
            remedy: remedy.to_owned(),
        };
        let mut found: Vec<(Slot, Problem)> = read
            .problems
            .iter()
            .map(|of| (Slot::Class(name.to_owned()), problem(&of.path, &of.value, &of.message, &of.remedy)))
            .collect();
        for resource in KEPT {
            let kubelet = &read.class.kubelet;
            let kept =
                [("kubeReserved", &kubelet.kube_reserved), ("systemReserved", &kubelet.system_reserved)];
            let largest = kept
                .into_iter()
                .filter_map(|(field, kept)| Some((field, *kept.get(resource)?)))
                .max_by_key(|(_, amount)| amount.nano_saturating());
            if let Some((field, amount)) = largest {
                let message = format!(
                    "with so much kept back no machine of this class's pools has any {resource} left for pods"
                );
                let path = format!("spec.kubelet.{field}.{resource}");
                let remedy = "keep less back, or let the pools use larger machines";
                let slot = Slot::Reserved(name.to_owned(), resource);
                found.push((slot, problem(&path, &amount.to_string(), &message, remedy)));
            }
        }
        self.classes.insert(name.to_owned(), ClassFacts { read, ..ClassFacts::default() });
        found
    }

    fn add_pool(&mut self, object: &str, pool: &NodePool) -> Vec<(Slot, Problem)> {
        let spec = &pool.spec.template.spec;
        let name = pool.metadata.name.clone().unwrap_or_default();
        let mut facts = PoolFacts {
            of_aws: spec.node_class_ref.group == AWS_GROUP,
            class: spec.node_class_ref.name.clone(),
            region: None,
            kubelet: None,
            requirements: spec.requirements.clone(),
            trouble: None,
        };
        let mut found = Vec::new();
        if facts.of_aws {
            let mut problem = |path: String, value: &str, message: String, remedy: String| {
                let (object, value) = (object.to_owned(), value.to_owned());
                found.push((Slot::Pool(name.clone()), Problem { object, path, value, message, remedy }));
            };
            for (path, region, written) in regions_named(pool) {
                if world().region(region).is_none() {
                    problem(
                        path,
                        written,
                        format!("nobody knows the region `{region}`"),
                        known_regions(region),
                    );
                    continue;
                }
                match &facts.region {
                    None => facts.region = Some(region.to_owned()),
                    Some(other) if other != region => {
                        let message =
                            format!("this is in {region}, but other zones of the pool are in {other}");
                        problem(path, written, message, "make a pool for each region".to_owned());
                    }
                    Some(_) => {}
                }
            }
            let annotations = pool.metadata.annotations.as_ref();
            if let Some(text) = annotations.and_then(|of| of.get(KUBELET_COMPATIBILITY_ANNOTATION)) {
                facts.kubelet = serde_json::from_str(text).ok();
            }
            let kubelet = facts.kubelet.as_ref();
            for of in
                kubelet.map(|of| Class::default().with_kubelet(of, "kubelet").problems).into_iter().flatten()
            {
                problem(format!("spec.template.spec.{}", of.path), &of.value, of.message, of.remedy);
            }
        }
        self.pools.insert(name, facts);
        found
    }
}

/// Regions that a pool names, by its zones and directly, each with the field and what stands there.
pub(super) fn regions_named(pool: &NodePool) -> Vec<(String, &str, &str)> {
    let spec = &pool.spec.template.spec;
    let mut named = Vec::new();
    for (at, requirement) in spec.requirements.iter().enumerate().filter(|(_, of)| of.operator == "In") {
        for (number, value) in requirement.values.iter().enumerate() {
            let path = || format!("spec.template.spec.requirements[{at}].values[{number}]");
            match requirement.stable_key() {
                ZONE_LABEL => {
                    named.extend(region_of_zone(value).map(|region| (path(), region, value.as_str())))
                }
                REGION_LABEL => named.push((path(), value.as_str(), value.as_str())),
                _ => {}
            }
        }
    }
    for (key, value) in pool.spec.template.metadata.labels.iter().flatten() {
        let path = || format!("spec.template.metadata.labels[{key}]");
        match key.as_str() {
            ZONE_LABEL => named.extend(region_of_zone(value).map(|region| (path(), region, value.as_str()))),
            REGION_LABEL => named.push((path(), value.as_str(), value.as_str())),
            _ => {}
        }
    }
    named
}

impl PoolFacts {
    /// Labels of providers that it has requirements on, each once.
    pub(super) fn provider_keys(&self) -> Vec<&str> {
        let of_provider =
            |key: &&str| AWS_WELL_KNOWN_LABELS.contains(key) || KWOK_WELL_KNOWN_LABELS.contains(key);
        let mut keys: Vec<&str> =
            self.requirements.iter().map(NodeRequirement::stable_key).filter(of_provider).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}
