//! The checks an object meets on its way into a cluster, for when there is no cluster.
//!
//! Three layers are run as one: what the schema's types, limits and patterns refuse, what its rules refuse, and what
//! the controller finds at run time and reports in the condition `ValidationSucceeded`. Each finding is a [`Problem`]
//! that names the field, the value, what is wrong and what to do. An object without problems may still deserve a
//! remark ([`remarks_on_nodepool`]): it is legal, but probably does not say what its author meant.
//!
//! Rejected: running the served CEL rules here. It would need an interpreter in a crate of plain data, and its messages
//! could not name the value at fault.

mod fields;
mod syntax;

use std::collections::BTreeSet;
use std::fmt;

use crate::nodepool::{ConsolidationPolicy, NodePool};
use crate::requirement::Operator;
use crate::requirement::OverlayRequirement;
use crate::{CapacityBuffer, CostModel, KwokNodeClass, NodeClaim, NodeOverlay, names, schedule};
use fields::{Problems, RequirementsOf};

pub use syntax::{entry_path, label_value_fault, object_name_fault, qualified_name_fault};

/// One thing wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Field at fault, e.g. `spec.template.spec.requirements[0].operator`.
    pub path: String,
    /// Its value, as text.
    pub value: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is `{}`: {}; {}", self.path, self.value, self.message, self.remedy)
    }
}

/// Checks a pool with the label keys of the built-in providers.
pub fn validate_nodepool(pool: &NodePool) -> Vec<Problem> {
    validate_nodepool_with(pool, &BTreeSet::new())
}

/// Checks a pool; `extra` holds the label keys that the provider's catalogue makes well-known.
pub fn validate_nodepool_with(pool: &NodePool, extra: &BTreeSet<String>) -> Vec<Problem> {
    let mut problems = Problems::default();
    problems.object_name(
        pool.metadata.name.as_deref(),
        63,
        "it becomes the value of label `karpenter.sh/nodepool`",
    );
    let spec = &pool.spec;
    let template = &spec.template;
    let labels = template.metadata.labels.iter().flatten();
    problems.template_labels("spec.template.metadata.labels", labels, extra);
    let at = |field: &str| format!("spec.template.spec.{field}");
    problems.requirements(&at("requirements"), &template.spec.requirements, RequirementsOf::Pool, extra);
    problems.node_class_ref(&at("nodeClassRef"), &template.spec.node_class_ref);
    problems.taints(
        (&at("taints"), template.spec.taints.as_deref()),
        (&at("startupTaints"), template.spec.startup_taints.as_deref()),
    );
    problems.duration_or_never(&at("expireAfter"), template.spec.expire_after.as_deref());
    problems.duration(&at("terminationGracePeriod"), template.spec.termination_grace_period.as_deref());

    let disruption = &spec.disruption;
    problems.duration_or_never("spec.disruption.consolidateAfter", disruption.consolidate_after.as_deref());
    if disruption.policy().is_none() {
        problems.add(
            "spec.disruption.consolidationPolicy",
            disruption.consolidation_policy.as_deref().unwrap_or_default(),
            "not a consolidation policy",
            "use WhenEmpty, WhenEmptyOrUnderutilized or Balanced",
        );
    }
    problems.budgets("spec.disruption.budgets", disruption.budgets.as_deref().unwrap_or_default());
    problems.quantities("spec.limits", spec.limits.as_ref());
    problems.range("spec.weight", spec.weight.map(i64::from), 1, 100);
    problems.range("spec.replicas", spec.replicas, 0, i64::MAX);
    if spec.replicas.is_some() {
        if let Some(weight) = spec.weight {
            problems.add(
                "spec.weight",
                weight,
                "weight cannot be combined with replicas",
                "remove `weight`, or `replicas` if the pool should follow pending pods",
            );
        }
        for resource in spec.limits.iter().flatten().map(|(name, _)| name) {
            if resource != names::NODES_RESOURCE {
                problems.add(
                    "spec.limits",
                    resource,
                    "with replicas, limits may only hold `nodes`",
                    "remove this limit, or `replicas` if the pool should follow pending pods",
                );
            }
        }
    }
    problems.into_vec()
}

/// Checks what may not change when a pool is updated, beside [`validate_nodepool`] on the new pool.
pub fn validate_nodepool_update(old: &NodePool, new: &NodePool) -> Vec<Problem> {
    let mut problems = Problems::default();
    let (was, is) = (old.spec.replicas, new.spec.replicas);
    if was.is_some() != is.is_some() {
        problems.add(
            "spec.replicas",
            is.map_or("unset".to_owned(), |count| count.to_string()),
            "replicas can neither be added to nor taken from an existing pool",
            "create another pool",
        );
    }
    let (was, is) = (&old.spec.template.spec.node_class_ref, &new.spec.template.spec.node_class_ref);
    for (field, was, is) in [("group", &was.group, &is.group), ("kind", &was.kind, &is.kind)] {
        if was != is {
            problems.add(
                &format!("spec.template.spec.nodeClassRef.{field}"),
                is,
                &format!("cannot change, it was `{was}`"),
                "create another pool; only the name of the class may change",
            );
        }
    }
    problems.into_vec()
}

/// Things in a legal pool that probably do not say what was meant.
pub fn remarks_on_nodepool(pool: &NodePool) -> Vec<Problem> {
    let mut remarks = Problems::default();
    for (index, requirement) in pool.spec.template.spec.requirements.iter().enumerate() {
        let path = format!("spec.template.spec.requirements[{index}]");
        if let Some(real) = names::paper_alias(&requirement.key) {
            let remedy = format!("write `{real}`");
            remarks.add(&format!("{path}.key"), &requirement.key, "no node carries this label", &remedy);
        }
        if requirement.stable_key() == names::CAPACITY_TYPE_LABEL
            && requirement.parsed_operator() == Some(Operator::In)
        {
            for value in &requirement.values {
                if !names::CAPACITY_TYPES.contains(&value.as_str()) {
                    remarks.add(
                        &format!("{path}.values"),
                        value,
                        "not a capacity type, so it is left out",
                        "use on-demand, reserved or spot",
                    );
                }
            }
        }
    }
    let disruption = &pool.spec.disruption;
    if disruption.consolidation_policy.as_deref() == Some("WhenUnderutilized") {
        remarks.add(
            "spec.disruption.consolidationPolicy",
            "WhenUnderutilized",
            "an old name",
            &format!("write `{}`", ConsolidationPolicy::WhenEmptyOrUnderutilized),
        );
    }
    for (index, budget) in disruption.budgets.iter().flatten().enumerate() {
        let path = format!("spec.disruption.budgets[{index}]");
        if let Some(Err(error)) = budget.schedule.as_deref().map(schedule::Schedule::parse) {
            remarks.add(
                &format!("{path}.schedule"),
                budget.schedule.as_deref().unwrap_or_default(),
                &format!("cannot be read, so no node of the pool may be disrupted ({error})"),
                "write five cron fields or a macro such as `@daily`",
            );
        }
        if budget.reasons.as_ref().is_some_and(Vec::is_empty) {
            remarks.add(
                &format!("{path}.reasons"),
                "[]",
                "a budget for no reason never applies",
                "leave `reasons` out to mean every reason",
            );
        }
    }
    remarks.into_vec()
}

/// Checks a claim with the label keys of the built-in providers.
pub fn validate_nodeclaim(claim: &NodeClaim) -> Vec<Problem> {
    validate_nodeclaim_with(claim, &BTreeSet::new())
}

/// Checks a claim; `extra` holds the label keys that the provider's catalogue makes well-known.
pub fn validate_nodeclaim_with(claim: &NodeClaim, extra: &BTreeSet<String>) -> Vec<Problem> {
    let mut problems = Problems::default();
    if claim.metadata.generate_name.is_none() {
        problems.object_name(claim.metadata.name.as_deref(), 63, "it becomes a label value on the node");
    }
    let spec = &claim.spec;
    problems.requirements("spec.requirements", &spec.requirements, RequirementsOf::Claim, extra);
    problems.node_class_ref("spec.nodeClassRef", &spec.node_class_ref);
    problems.taints(
        ("spec.taints", spec.taints.as_deref()),
        ("spec.startupTaints", spec.startup_taints.as_deref()),
    );
    problems.duration_or_never("spec.expireAfter", spec.expire_after.as_deref());
    problems.duration("spec.terminationGracePeriod", spec.termination_grace_period.as_deref());
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    problems.quantities("spec.resources.requests", requests);
    problems.into_vec()
}

/// Checks that the spec of a claim did not change.
pub fn validate_nodeclaim_update(old: &NodeClaim, new: &NodeClaim) -> Vec<Problem> {
    let mut problems = Problems::default();
    if old.spec != new.spec {
        problems.add(
            "spec",
            "changed",
            "the spec of a claim cannot change",
            "delete the claim and create another",
        );
    }
    problems.into_vec()
}

/// Checks an overlay with the label keys of the built-in providers.
pub fn validate_nodeoverlay(overlay: &NodeOverlay) -> Vec<Problem> {
    validate_nodeoverlay_with(overlay, &BTreeSet::new())
}

/// Checks an overlay; `extra` holds the label keys that the provider's catalogue makes well-known.
pub fn validate_nodeoverlay_with(overlay: &NodeOverlay, extra: &BTreeSet<String>) -> Vec<Problem> {
    let mut problems = Problems::default();
    problems.object_name(overlay.metadata.name.as_deref(), 253, "names are DNS names");
    let spec = &overlay.spec;
    let requirements: Vec<_> = spec.requirements.iter().cloned().map(Into::into).collect();
    problems.requirements("spec.requirements", &requirements, RequirementsOf::Overlay, extra);
    if let Some(price) = &spec.price
        && !syntax::is_price(price)
    {
        problems.add(
            "spec.price",
            price,
            "not a price",
            "write a decimal number without a sign, e.g. `0.25`",
        );
    }
    if let Some(adjustment) = &spec.price_adjustment
        && !syntax::is_price_adjustment(adjustment)
    {
        problems.add(
            "spec.priceAdjustment",
            adjustment,
            "not a change of price",
            "write a decimal number or a percentage with its sign, e.g. `+0.5` or `-15%`, not below -100%",
        );
    }
    if let (Some(_), Some(adjustment)) = (&spec.price, &spec.price_adjustment) {
        problems.add(
            "spec.priceAdjustment",
            adjustment,
            "cannot be combined with `price`",
            "keep one of the two",
        );
    }
    problems.quantities("spec.capacity", spec.capacity.as_ref());
    for resource in spec.capacity.iter().flatten().map(|(name, _)| name) {
        if ["cpu", "memory", "ephemeral-storage", "pods"].contains(&resource.as_str()) {
            problems.add(
                "spec.capacity",
                resource,
                "comes from the instance type and cannot be overlaid",
                "remove it; only extended resources can be overlaid",
            );
        }
    }
    problems.range("spec.weight", spec.weight.map(i64::from), 1, 10_000);
    problems.into_vec()
}

/// Checks a capacity buffer.
pub fn validate_capacitybuffer(buffer: &CapacityBuffer) -> Vec<Problem> {
    let mut problems = Problems::default();
    problems.object_name(buffer.metadata.name.as_deref(), 253, "names are DNS names");
    let spec = &buffer.spec;
    if let Some(template) = &spec.pod_template_ref {
        problems.not_empty("spec.podTemplateRef.name", &template.name);
        if let Some(workload) = &spec.scalable_ref {
            problems.add(
                "spec.scalableRef.name",
                &workload.name,
                "cannot be combined with `podTemplateRef`",
                "keep one of the two",
            );
        }
        if spec.replicas.is_none() && spec.limits.is_none() {
            problems.add(
                "spec.podTemplateRef.name",
                &template.name,
                "the size of the buffer is not given",
                "set `replicas` or `limits`",
            );
        }
    }
    if let Some(workload) = &spec.scalable_ref {
        problems.not_empty("spec.scalableRef.kind", &workload.kind);
        problems.not_empty("spec.scalableRef.name", &workload.name);
    }
    problems.range("spec.replicas", spec.replicas.map(i64::from), 0, i64::from(i32::MAX));
    problems.range("spec.percentage", spec.percentage.map(i64::from), 0, i64::from(i32::MAX));
    problems.quantities("spec.limits", spec.limits.as_ref());
    problems.into_vec()
}

/// Checks a cost model; `extra` holds the label keys that the provider's catalogue makes well-known.
pub fn validate_costmodel(model: &CostModel, extra: &BTreeSet<String>) -> Vec<Problem> {
    let mut problems = Problems::default();
    problems.object_name(model.metadata.name.as_deref(), 253, "names are DNS names");
    let spec = &model.spec;
    let mut names = BTreeSet::new();
    let mut entry = |problems: &mut Problems, path: &str, name: &str, requirements: &[OverlayRequirement]| {
        problems.not_empty(&format!("{path}.name"), name);
        if !name.is_empty() && !names.insert(name.to_owned()) {
            problems.add(&format!("{path}.name"), name, "another entry has this name", "give each its own");
        }
        let list: Vec<_> = requirements.iter().cloned().map(Into::into).collect();
        problems.requirements(&format!("{path}.requirements"), &list, RequirementsOf::Overlay, extra);
    };
    let remedy = "write dollars per hour, zero or more";
    let price = |problems: &mut Problems, path: &str, price: f64| {
        if !(price.is_finite() && price >= 0.0) {
            problems.add(&format!("{path}.pricePerHour"), price, "not a price", remedy);
        }
    };
    for (at, discount) in spec.discounts.iter().enumerate() {
        let path = format!("spec.discounts[{at}]");
        entry(&mut problems, &path, &discount.name, &discount.requirements);
        if !(0.0..=100.0).contains(&discount.percent) {
            problems.add(
                &format!("{path}.percent"),
                discount.percent,
                "not a share of the price",
                "write a number from 0 to 100; for a surcharge use perNodeFees or a NodeOverlay",
            );
        }
    }
    for (at, fee) in spec.per_node_fees.iter().enumerate() {
        let path = format!("spec.perNodeFees[{at}]");
        entry(&mut problems, &path, &fee.name, &fee.requirements);
        price(&mut problems, &path, fee.price_per_hour);
    }
    for (at, commitment) in spec.commitments.iter().enumerate() {
        let path = format!("spec.commitments[{at}]");
        entry(&mut problems, &path, &commitment.name, &commitment.requirements);
        problems.range(&format!("{path}.nodes"), Some(commitment.nodes), 1, i64::from(u32::MAX));
        price(&mut problems, &path, commitment.price_per_hour);
    }
    problems.into_vec()
}

/// Checks a KWOK node class.
pub fn validate_kwoknodeclass(class: &KwokNodeClass) -> Vec<Problem> {
    let mut problems = Problems::default();
    problems.object_name(
        class.metadata.name.as_deref(),
        63,
        "it becomes the value of label `karpenter.kwok.sh/kwoknodeclass`",
    );
    let spec = &class.spec;
    problems.duration("spec.nodeRegistrationDelay", spec.node_registration_delay.as_deref());
    problems.duration("spec.nodeRegistrationDelayJitter", spec.node_registration_delay_jitter.as_deref());
    for (at, partition) in spec.partitions.iter().enumerate() {
        problems.label_value(&format!("spec.partitions[{at}]"), partition);
    }
    let Some(chaos) = &spec.chaos else { return problems.into_vec() };
    for (field, percent) in [
        ("launchFailurePercent", chaos.launch_failure_percent),
        ("noCapacityPercent", chaos.no_capacity_percent),
        ("neverRegisterPercent", chaos.never_register_percent),
    ] {
        problems.range(&format!("spec.chaos.{field}"), percent, 0, 100);
    }
    for (at, stock) in chaos.capacity.iter().enumerate() {
        problems.range(&format!("spec.chaos.capacity[{at}].machines"), Some(stock.machines), 0, i64::MAX);
    }
    problems.into_vec()
}
