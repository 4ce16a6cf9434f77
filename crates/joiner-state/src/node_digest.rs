//! What is kept of Node and NodeClaim objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_api::names::{self, conditions};
use joiner_api::{NodeClaim, requirement::NodeRequirement};
use joiner_core::model::{Effect, Taint};
use k8s_openapi::api::core::v1::{Node, Taint as TaintObject};

use crate::digest::stable_key;
use crate::problem::Finding;
use crate::requests::{Amounts, read_amounts};

/// Labels under their stable keys.
pub(crate) type Labels = BTreeMap<Box<str>, Box<str>>;

/// What is kept of a Node.
#[derive(Debug, PartialEq)]
pub(crate) struct NodeDigest {
    pub labels: Arc<Labels>,
    pub taints: Vec<Taint>,
    pub cordoned: bool,
    pub deleting: bool,
    pub provider_id: Option<Box<str>>,
    pub allocatable: Amounts,
    pub capacity: Amounts,
}

/// What is kept of a NodeClaim.
#[derive(Debug, PartialEq)]
pub(crate) struct ClaimDigest {
    pub labels: Arc<Labels>,
    pub requirements: Vec<NodeRequirement>,
    pub class: (String, String, String),
    pub taints: Vec<Taint>,
    pub startup_taints: Vec<Taint>,
    pub deleting: bool,
    pub provider_id: Option<Box<str>>,
    pub node_name: Option<Box<str>>,
    pub allocatable: Amounts,
    pub capacity: Amounts,
}

impl NodeDigest {
    pub(crate) fn new(node: &Node) -> Result<Self, Finding> {
        let (spec, status) = (node.spec.as_ref(), node.status.as_ref());
        Ok(Self {
            labels: Arc::new(stable_labels(node.metadata.labels.as_ref())),
            taints: taints(spec.and_then(|s| s.taints.as_deref()), "spec.taints")?,
            cordoned: spec.is_some_and(|s| s.unschedulable == Some(true)),
            deleting: node.metadata.deletion_timestamp.is_some(),
            provider_id: spec.and_then(|s| filled(s.provider_id.as_deref())),
            allocatable: amounts(
                status.and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref())),
                "status.allocatable",
            )?,
            capacity: amounts(status.and_then(|s| s.capacity.as_ref()), "status.capacity")?,
        })
    }

    /// Whether the autoscaler made it.
    pub(crate) fn pool(&self) -> Option<&str> {
        self.labels.get(names::NODEPOOL_LABEL).map(|name| &**name)
    }

    pub(crate) fn has_true(&self, label: &str) -> bool {
        self.labels.get(label).is_some_and(|value| &**value == "true")
    }
}

impl ClaimDigest {
    pub(crate) fn new(claim: &NodeClaim) -> Result<Self, Finding> {
        let status = claim.status.as_ref();
        let class = &claim.spec.node_class_ref;
        let terminating = status.is_some_and(|status| {
            status
                .conditions
                .iter()
                .any(|c| c.type_ == conditions::INSTANCE_TERMINATING && c.status == "True")
        });
        Ok(Self {
            labels: Arc::new(stable_labels(claim.metadata.labels.as_ref())),
            requirements: claim.spec.requirements.clone(),
            class: (class.group.clone(), class.kind.clone(), class.name.clone()),
            taints: taints(claim.spec.taints.as_deref(), "spec.taints")?,
            startup_taints: taints(claim.spec.startup_taints.as_deref(), "spec.startupTaints")?,
            deleting: claim.metadata.deletion_timestamp.is_some() || terminating,
            provider_id: status.and_then(|s| filled(s.provider_id.as_deref())),
            node_name: status.and_then(|s| filled(s.node_name.as_deref())),
            allocatable: amounts(status.and_then(|s| s.allocatable.as_ref()), "status.allocatable")?,
            capacity: amounts(status.and_then(|s| s.capacity.as_ref()), "status.capacity")?,
        })
    }

    /// A machine that will come to its group: what its Node will look like is known, nothing else is. It counts as launched, under a name of its own.
    pub(crate) fn upcoming(name: &str, template: &Node) -> Result<Self, Finding> {
        let node = NodeDigest::new(template)?;
        let mut labels = node.labels;
        Arc::make_mut(&mut labels).remove(names::HOSTNAME_LABEL);
        Ok(Self {
            labels,
            requirements: Vec::new(),
            class: Default::default(),
            taints: node.taints,
            startup_taints: Vec::new(),
            deleting: false,
            provider_id: Some(name.into()),
            node_name: None,
            allocatable: node.allocatable,
            capacity: node.capacity,
        })
    }

    pub(crate) fn pool(&self) -> Option<&str> {
        self.labels.get(names::NODEPOOL_LABEL).map(|name| &**name)
    }
}

fn filled(text: Option<&str>) -> Option<Box<str>> {
    text.filter(|text| !text.is_empty()).map(Into::into)
}

pub(crate) fn amounts(
    list: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
    path: &str,
) -> Result<Amounts, Finding> {
    list.map_or(Ok(Amounts::new()), |list| read_amounts(list, path))
}

/// Labels with old keys read as their stable names; a stable label that is there itself wins.
pub(crate) fn stable_labels(labels: Option<&BTreeMap<String, String>>) -> Labels {
    let mut out = Labels::new();
    for (key, value) in labels.into_iter().flatten() {
        let stable = stable_key(key);
        if stable == key || !out.contains_key(stable) && !labels.is_some_and(|all| all.contains_key(stable)) {
            out.insert(stable.into(), value.as_str().into());
        }
    }
    out
}

/// Reads taints.
pub(crate) fn taints(list: Option<&[TaintObject]>, path: &str) -> Result<Vec<Taint>, Finding> {
    list.into_iter()
        .flatten()
        .enumerate()
        .map(|(at, taint)| {
            let effect = Effect::parse(&taint.effect).ok_or_else(|| {
                Finding::new(
                    format!("{path}[{at}].effect"),
                    taint.effect.as_str(),
                    "not a taint effect",
                    "use `NoSchedule`, `PreferNoSchedule` or `NoExecute`",
                )
            })?;
            Ok(Taint {
                key: taint.key.as_str().into(),
                value: taint.value.as_deref().unwrap_or_default().into(),
                effect,
            })
        })
        .collect()
}

/// Whether a taint only says that a node is starting, and does not count while it does.
pub fn is_ephemeral(taint: &Taint) -> bool {
    match (&*taint.key, taint.effect) {
        ("node.kubernetes.io/not-ready", Effect::NoSchedule | Effect::NoExecute) => true,
        ("node.kubernetes.io/unreachable", Effect::NoSchedule) => true,
        ("node.cloudprovider.kubernetes.io/uninitialized", Effect::NoSchedule) => true,
        (names::UNREGISTERED_TAINT, Effect::NoExecute) => true,
        (key, _) => key.starts_with("readiness.k8s.io/"),
    }
}
