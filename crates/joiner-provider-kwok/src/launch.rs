//! From a claim to a machine: which type on which terms, and the Node that stands for it.
//!
//! A KWOK machine is nothing but a Node object, so launching is a function: claim, types and a seed in, Node out. The Node is named as
//! its claim, so a repeated launch finds the first one.

use std::collections::{BTreeMap, BTreeSet};

use joiner_api::NodeClaim;
use joiner_api::instance_type::{InstanceType, Offering, ResourceList, TypeRequirement};
use joiner_api::names::{
    HOSTNAME_LABEL, INSTANCE_PRICE_LABEL, INSTANCE_TYPE_LABEL, KWOK_NODE_MARK, KWOK_PARTITION_LABEL,
    UNREGISTERED_TAINT,
};
use joiner_api::requirement::{NodeRequirement, Operator};
use joiner_provider::{Error, Launched, OfferingKey};
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What provider ids begin with; the name of the Node follows.
pub const PROVIDER_ID_PREFIX: &str = "kwok://";
/// Value of the mark that kwok controllers look for.
const FAKE: &str = "fake";
/// The one partition there is.
const PARTITION: &str = "a";

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

/// Picks the cheapest offering that a claim allows and that is not known to be out of stock. Of types equally cheap the first that the claim
/// names wins; of equally cheap offerings of a type the seed decides.
///
/// # Errors
/// The claim names no type, a type nobody knows, or nothing that can be had.
pub fn choose<'t>(
    claim: &NodeClaim,
    types: &'t [InstanceType],
    seed: u64,
    unavailable: &BTreeSet<OfferingKey>,
) -> Result<Choice<'t>, Error> {
    let requirements = &claim.spec.requirements;
    let named = requirements.iter().find(|requirement| {
        requirement.stable_key() == INSTANCE_TYPE_LABEL && requirement.parsed_operator() == Some(Operator::In)
    });
    let Some(named) = named else {
        return Err(Error::Rejected {
            reason: "InstanceTypeMissing".to_owned(),
            message: format!(
                "the claim names no instance type; add a requirement `{INSTANCE_TYPE_LABEL} In [...]`"
            ),
        });
    };
    let mut best: Vec<Choice> = Vec::new();
    let mut out_of_stock = Vec::new();
    for name in &named.values {
        let Some(instance_type) = types.iter().find(|of| of.name == *name) else {
            return Err(Error::Rejected {
                reason: "InstanceTypeUnknown".to_owned(),
                message: format!(
                    "there is no instance type `{name}`; `joiner instance-types list` shows all"
                ),
            });
        };
        let mut of_type: Vec<Choice> = Vec::new();
        for offering in instance_type.offerings.iter().filter(|offering| allows(requirements, offering)) {
            let key = OfferingKey::of(instance_type, offering);
            if !offering.available || unavailable.contains(&key) {
                out_of_stock.push(key);
                continue;
            }
            match of_type.first() {
                Some(first) if first.offering.price < offering.price => continue,
                Some(first) if first.offering.price > offering.price => of_type.clear(),
                _ => {}
            }
            of_type.push(Choice { instance_type, offering });
        }
        let cheaper =
            |first: &Choice| of_type.first().is_some_and(|of| of.offering.price < first.offering.price);
        if best.first().is_none_or(cheaper) {
            best = of_type;
        }
    }
    let claim_name = claim.metadata.name.as_deref().unwrap_or_default();
    let pick = xxh3_64_with_seed(claim_name.as_bytes(), seed) % (best.len().max(1) as u64);
    best.get(pick as usize).copied().ok_or_else(|| Error::InsufficientCapacity {
        message: format!(
            "none of the {} instance types that the claim names can be had where it allows them",
            named.values.len()
        ),
        offerings: out_of_stock,
    })
}

/// Whether a claim's requirements allow an offering: each label the offering fixes must satisfy them.
fn allows(requirements: &[NodeRequirement], offering: &Offering) -> bool {
    requirements.iter().all(|requirement| match offering.single_value(requirement.stable_key()) {
        Some(value) => satisfies(requirement, value),
        None => true,
    })
}

fn satisfies(requirement: &NodeRequirement, value: &str) -> bool {
    let named = requirement.values.iter().any(|of| of == value);
    let number = || Some((value.parse::<i64>().ok()?, requirement.values.first()?.parse::<i64>().ok()?));
    match requirement.parsed_operator() {
        Some(Operator::In) => named,
        Some(Operator::NotIn) => !named,
        Some(Operator::Exists) => true,
        Some(Operator::DoesNotExist) | None => false,
        Some(Operator::Gt) => number().is_some_and(|(label, bound)| label > bound),
        Some(Operator::Lt) => number().is_some_and(|(label, bound)| label < bound),
        Some(Operator::Gte) => number().is_some_and(|(label, bound)| label >= bound),
        Some(Operator::Lte) => number().is_some_and(|(label, bound)| label <= bound),
    }
}

/// What is known of a claim's machine as soon as it is chosen.
pub fn launched(claim: &NodeClaim, choice: Choice) -> Launched {
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
        (KWOK_PARTITION_LABEL, PARTITION),
        (HOSTNAME_LABEL, &name),
        (KWOK_NODE_MARK, FAKE),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    Launched {
        provider_id: provider_id(&name),
        image_id: None,
        labels,
        annotations: BTreeMap::from([(KWOK_NODE_MARK.to_owned(), FAKE.to_owned())]),
        capacity: texts(&choice.instance_type.capacity_for(choice.offering)),
        allocatable: texts(&choice.instance_type.allocatable_for(choice.offering)),
    }
}

fn single(requirement: &TypeRequirement) -> Option<(&str, &str)> {
    Some((&requirement.key, requirement.single_value()?))
}

fn texts(amounts: &ResourceList) -> BTreeMap<String, Quantity> {
    amounts.iter().map(|(name, amount)| (name.clone(), Quantity(amount.to_string()))).collect()
}

/// The Node that stands for a launched machine. It is tainted until it has been made to agree with its claim.
pub fn node(claim: &NodeClaim, launched: &Launched) -> Node {
    let mut annotations = claim.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| key != joiner_api::names::PLANNED_PODS_ANNOTATION);
    annotations.extend(launched.annotations.clone());
    Node {
        metadata: ObjectMeta {
            name: claim.metadata.name.clone(),
            labels: Some(launched.labels.clone()),
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

/// What a Node says about the machine it stands for.
pub fn of_node(node: &Node) -> Option<Launched> {
    let provider_id = node.spec.as_ref()?.provider_id.clone()?;
    let status = node.status.as_ref();
    Some(Launched {
        provider_id,
        image_id: None,
        labels: node.metadata.labels.clone().unwrap_or_default(),
        annotations: BTreeMap::from([(KWOK_NODE_MARK.to_owned(), FAKE.to_owned())]),
        capacity: status.and_then(|of| of.capacity.clone()).unwrap_or_default(),
        allocatable: status.and_then(|of| of.allocatable.clone()).unwrap_or_default(),
    })
}
