//! From a claim to a machine: which type on which terms, and the Node that stands for it.
//!
//! A KWOK machine is nothing but a Node object, so launching is a function: claim, types and ranked offerings in, Node out. The Node is named as
//! its claim and says the claim's uid, so a repeated launch finds the first one, and the Node of an earlier claim of that name is not taken for it.

use std::collections::BTreeMap;
use std::time::Duration;

use joiner_api::NodeClaim;
use joiner_api::instance_type::{InstanceType, Offering, ResourceList, TypeRequirement};
use joiner_api::names::{
    CLAIM_UID_ANNOTATION, HOSTNAME_LABEL, INSTANCE_PRICE_LABEL, INSTANCE_TYPE_LABEL, KWOK_NODE_MARK,
    KWOK_PARTITION_LABEL, LAUNCH_HANDLE_ANNOTATION, MACHINE_ANNOTATION, PAPER_ALIASES,
    PLANNED_PODS_ANNOTATION, STARTUP_TAINTS_ANNOTATION, STARTUP_TAINTS_TIME_ANNOTATION, UNREGISTERED_TAINT,
};
use joiner_api::requirement::Operator;
use joiner_provider::{Error, Launched, OfferingKey, RankedOffering, Scope, TypeSet};
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What provider ids begin with; the name of the Node follows.
pub const PROVIDER_ID_PREFIX: &str = "kwok://";
/// Value of the mark that kwok controllers look for.
const FAKE: &str = "fake";
/// Value of the mark of Nodes whose machine is gone.
pub(crate) const VANISHED: &str = "vanished";

/// A type and the terms it is taken on.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'t> {
    /// The type.
    pub instance_type: &'t InstanceType,
    /// The offering.
    pub offering: &'t Offering,
}

/// The provider id of a claim's machine.
pub fn provider_id(claim_name: &str) -> String {
    format!("{PROVIDER_ID_PREFIX}{claim_name}")
}

/// The first offering of a ranked list that there is and that has capacity; the list is in the order of the plan, so nothing is chosen here.
///
/// # Errors
/// None of them is to be had.
pub fn first_offered<'t>(
    types: &'t TypeSet,
    ranked: &[RankedOffering],
    has_capacity: impl Fn(&OfferingKey) -> bool,
) -> Result<Choice<'t>, Error> {
    let mut offered = ranked.iter().filter(|of| has_capacity(&of.key)).filter_map(|of| types.find(&of.key));
    let first = offered.find(|(_, offering)| offering.available);
    let (instance_type, offering) = first.ok_or_else(|| Error::NoCapacity {
        scopes: ranked.iter().map(|of| Scope::Offering { class: None, offering: of.key.clone() }).collect(),
        retry_after: None,
        message: format!("none of the {} offerings asked for is to be had", ranked.len()),
    })?;
    Ok(Choice { instance_type, offering })
}

/// The same type and terms as overlays make them.
pub fn overlaid<'t>(choice: Choice<'t>, types: &'t TypeSet) -> Choice<'t> {
    let found = types.find(&OfferingKey::of(choice.instance_type, choice.offering));
    found.map_or(choice, |(instance_type, offering)| Choice { instance_type, offering })
}

/// What is known of a claim's machine as soon as it is chosen.
pub fn launched(claim: &NodeClaim, choice: Choice, partition: &str) -> Launched {
    let name = claim.metadata.name.clone().unwrap_or_default();
    let mut labels = claim.metadata.labels.clone().unwrap_or_default();
    for requirement in &claim.spec.requirements {
        if let (Some(Operator::In), [value]) = (requirement.parsed_operator(), requirement.values.as_slice())
        {
            labels.insert(requirement.stable_key().to_owned(), value.clone());
        }
    }
    let fixed = choice.instance_type.requirements.iter().chain(choice.offering.requirements.iter());
    for (key, value) in fixed.filter_map(single) {
        labels.insert(key.to_owned(), value.to_owned());
    }
    for (key, value) in [
        (INSTANCE_TYPE_LABEL, choice.instance_type.name.as_str()),
        (INSTANCE_PRICE_LABEL, &format!("{:.6}", choice.offering.price)),
        (KWOK_PARTITION_LABEL, partition),
        (HOSTNAME_LABEL, &name),
        (KWOK_NODE_MARK, FAKE),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    Launched {
        provider_id: provider_id(&name),
        offering: OfferingKey::of(choice.instance_type, choice.offering),
        image_id: None,
        labels,
        annotations: marks(),
        capacity: texts(&choice.instance_type.capacity_for(choice.offering)),
        allocatable: texts(&choice.instance_type.allocatable_for(choice.offering)),
    }
}

/// What tells KWOK controllers, and joiner's own kubelets, that a Node is theirs.
pub fn marks() -> BTreeMap<String, String> {
    BTreeMap::from([(KWOK_NODE_MARK.to_owned(), FAKE.to_owned())])
}

fn single(requirement: &TypeRequirement) -> Option<(&str, &str)> {
    Some((&requirement.key, requirement.single_value()?))
}

fn texts(amounts: &ResourceList) -> BTreeMap<String, Quantity> {
    amounts.iter().map(|(name, amount)| (name.clone(), Quantity(amount.to_string()))).collect()
}

/// The name of the Node behind a provider id; nothing if the id is not one of KWOK's.
pub fn node_name(provider_id: &str) -> Option<&str> {
    provider_id.strip_prefix(PROVIDER_ID_PREFIX).filter(|name| !name.is_empty())
}

/// The Node that stands for a launched machine, named by its provider id. It is tainted until it has been made to agree with its claim.
pub fn node(claim: &NodeClaim, launched: &Launched) -> Node {
    let mut annotations = claim.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| ![PLANNED_PODS_ANNOTATION, LAUNCH_HANDLE_ANNOTATION].contains(&&**key));
    annotations.extend(launched.annotations.clone());
    if let Some(uid) = &claim.metadata.uid {
        annotations.insert(CLAIM_UID_ANNOTATION.to_owned(), uid.clone());
    }
    let mut labels = launched.labels.clone();
    // Pods may choose nodes by these names, and the scheduler knows no aliases.
    for (paper, real) in PAPER_ALIASES {
        if let Some(value) = labels.get(real).cloned() {
            labels.entry(paper.to_owned()).or_insert(value);
        }
    }
    Node {
        metadata: ObjectMeta {
            name: node_name(&launched.provider_id).map(str::to_owned),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(launched.provider_id.clone()),
            taints: Some(vec![Taint {
                key: UNREGISTERED_TAINT.to_owned(),
                effect: "NoExecute".to_owned(),
                ..Taint::default()
            }]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: Some(launched.capacity.clone()),
            allocatable: Some(launched.allocatable.clone()),
            phase: Some("Pending".to_owned()),
            ..NodeStatus::default()
        }),
    }
}

/// Tells the simulated kubelet of a Node which taints go some time after it is ready.
pub fn lift_startup_taints(node: &mut Node, claim: &NodeClaim, after: Duration) {
    let taints = claim.spec.startup_taints.iter().flatten();
    // With its effect: a taint of the same key may be there to stay.
    let names: Vec<String> = taints.map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
    if names.is_empty() {
        return;
    }
    let annotations = node.metadata.annotations.get_or_insert_default();
    annotations.entry(STARTUP_TAINTS_ANNOTATION.to_owned()).or_insert(names.join(","));
    let after = format!("{}ms", after.as_millis());
    annotations.entry(STARTUP_TAINTS_TIME_ANNOTATION.to_owned()).or_insert(after);
}

/// What a Node says about the machine it stands for.
pub fn of_node(node: &Node) -> Option<Launched> {
    let provider_id = node.spec.as_ref()?.provider_id.clone()?;
    let status = node.status.as_ref();
    let mut labels = node.metadata.labels.clone().unwrap_or_default();
    labels.retain(|key, _| PAPER_ALIASES.iter().all(|(paper, _)| paper != key));
    Some(Launched {
        provider_id,
        offering: OfferingKey::of_labels(&labels)?,
        image_id: None,
        labels,
        annotations: marks(),
        capacity: status.and_then(|of| of.capacity.clone()).unwrap_or_default(),
        allocatable: status.and_then(|of| of.allocatable.clone()).unwrap_or_default(),
    })
}

/// Whether the machine behind a Node is gone, whatever the Node says.
pub fn has_vanished(node: &Node) -> bool {
    node.metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(MACHINE_ANNOTATION))
        .is_some_and(|of| of == VANISHED)
}

/// The uid of the claim that a Node was made for; Nodes of other hands do not say.
pub fn claim_uid(node: &Node) -> Option<&str> {
    node.metadata.annotations.as_ref()?.get(CLAIM_UID_ANNOTATION).map(String::as_str)
}
