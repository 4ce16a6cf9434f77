//! From a planned machine to the claim that asks for it.
//!
//! The name follows from the plan: seed, pool and the pods the machine is for. The same decision made again, after a crash or a lost answer,
//! gives the same name, and the server refuses the second one.

use std::collections::BTreeMap;

use joiner_api::names::{self, kinds};
use joiner_api::nodeclaim::ResourceRequests;
use joiner_api::{NodeClaim, NodeClaimSpec, NodePool, NodeRequirement, nodepool_hash};
use joiner_core::model::Snapshot;
use joiner_core::model::names::CPU;
use joiner_core::plan::PlannedMachine;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Letters and digits of names: no vowels, nothing that looks like another.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Characters after the pool's name.
const SUFFIX: usize = 5;
/// A name with its suffix must fit a label value.
const LONGEST_POOL: usize = 63 - SUFFIX - 1;

/// The claim of a planned machine. `pods` are the uids of its pods, `is_taken` tells names that cannot be used.
pub fn claim_of(
    snapshot: &Snapshot,
    machine: &PlannedMachine,
    pool: &NodePool,
    pods: &[String],
    seed: u64,
    is_taken: impl Fn(&str) -> bool,
) -> NodeClaim {
    let mut claim =
        claim_with(pool, name(&pool.name_any(), pods, seed, is_taken), requirements(snapshot, machine));
    claim.spec.resources = Some(ResourceRequests { requests: Some(requests(snapshot, machine)) });
    let annotations = claim.metadata.annotations.get_or_insert_default();
    annotations
        .insert(names::MIN_VALUES_RELAXED_ANNOTATION.to_owned(), machine.min_values_relaxed.to_string());
    annotations.insert(names::PLANNED_PODS_ANNOTATION.to_owned(), pods.join(","));
    claim
}

/// A claim for whatever the template of a pool allows, for no pod: one of a number, each with a name of its own.
pub fn claim_of_template(
    pool: &NodePool,
    number: usize,
    seed: u64,
    is_taken: impl Fn(&str) -> bool,
) -> NodeClaim {
    let own = [pool.uid().unwrap_or_default(), number.to_string()];
    let name = name(&pool.name_any(), &own, seed, is_taken);
    claim_with(pool, name, pool.spec.template.spec.requirements.clone())
}

/// What all claims of a pool have in common.
fn claim_with(pool: &NodePool, name: String, requirements: Vec<NodeRequirement>) -> NodeClaim {
    let template = &pool.spec.template;
    let class = &template.spec.node_class_ref;
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    for requirement in &requirements {
        if let ("In", [value]) = (requirement.operator.as_str(), requirement.values.as_slice()) {
            labels.insert(requirement.key.clone(), value.clone());
        }
    }
    labels.insert(names::NODEPOOL_LABEL.to_owned(), pool.name_any());
    labels.insert(names::node_class_label(&class.group, &class.kind), class.name.clone());
    let mut annotations = template.metadata.annotations.clone().unwrap_or_default();
    if let Ok(hashed) = nodepool_hash::Template::of(template) {
        annotations
            .insert(names::NODEPOOL_HASH_ANNOTATION.to_owned(), nodepool_hash::hash(&hashed).to_string());
        annotations
            .insert(names::NODEPOOL_HASH_VERSION_ANNOTATION.to_owned(), nodepool_hash::VERSION.to_owned());
    }
    let owner = OwnerReference {
        api_version: names::API_VERSION.to_owned(),
        kind: kinds::NODE_POOL.to_owned(),
        name: pool.name_any(),
        uid: pool.uid().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    };
    NodeClaim {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels),
            annotations: Some(annotations),
            finalizers: Some(vec![names::TERMINATION_FINALIZER.to_owned()]),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: NodeClaimSpec {
            requirements,
            node_class_ref: class.clone(),
            taints: template.spec.taints.clone(),
            startup_taints: template.spec.startup_taints.clone(),
            expire_after: template.spec.expire_after.clone(),
            termination_grace_period: template.spec.termination_grace_period.clone(),
            resources: None,
        },
        status: None,
    }
}

/// The uids of the pods a claim was made for.
pub fn planned_pods(claim: &NodeClaim) -> impl Iterator<Item = &str> {
    let list = claim.annotations().get(names::PLANNED_PODS_ANNOTATION).map_or("", String::as_str);
    list.split(',').filter(|uid| !uid.is_empty())
}

fn name(pool: &str, pods: &[String], seed: u64, is_taken: impl Fn(&str) -> bool) -> String {
    let short: String = pool.chars().take(LONGEST_POOL).collect();
    let short = short.trim_end_matches(['-', '.']);
    let mut text = format!("{pool}\n{}", pods.join("\n"));
    loop {
        let mut hash = xxh3_64_with_seed(text.as_bytes(), seed);
        let mut name = format!("{short}-");
        for _ in 0..SUFFIX {
            name.push(char::from(ALPHABET[(hash % ALPHABET.len() as u64) as usize]));
            hash /= ALPHABET.len() as u64;
        }
        if !is_taken(&name) {
            return name;
        }
        // An earlier machine for the same pods, still on its way out.
        text.push('+');
    }
}

/// What the plan requires, with the list of types that would do.
fn requirements(snapshot: &Snapshot, machine: &PlannedMachine) -> Vec<NodeRequirement> {
    let catalogue = &snapshot.catalogues[snapshot.pools[machine.pool.at()].catalogue.at()];
    let types: Vec<String> =
        machine.types.iter().map(|at| catalogue.types[at.at()].name.to_string()).collect();
    let mut min_types = None;
    let mut all = Vec::new();
    for written in machine.requirements.iter() {
        if written.key == names::INSTANCE_TYPE_LABEL {
            min_types = min_types.max(written.min_values);
            continue;
        }
        if written.key == names::HOSTNAME_LABEL {
            continue;
        }
        all.push(NodeRequirement {
            key: written.key.clone(),
            operator: written.operator.text().to_owned(),
            values: written.values.clone(),
            min_values: written.min_values.map(i64::from),
        });
    }
    all.push(NodeRequirement {
        min_values: min_types.map(i64::from),
        ..NodeRequirement::is_in(names::INSTANCE_TYPE_LABEL, types)
    });
    all
}

/// Requests of the pods and of the daemons that come with them.
fn requests(snapshot: &Snapshot, machine: &PlannedMachine) -> BTreeMap<String, Quantity> {
    let names = &snapshot.vocabulary.names;
    let mut amounts = BTreeMap::new();
    for lane in 0..names.lane_count() {
        let of = |amounts: &[i64]| amounts.get(lane).copied().unwrap_or(0);
        let amount = of(&machine.requests).saturating_add(of(&machine.daemons));
        if amount > 0 {
            amounts.insert(names.lane_text(lane).to_owned(), Quantity(amount_text(lane == CPU, amount)));
        }
    }
    amounts
}

/// A lane's amount as a quantity: CPU counts thousandths.
fn amount_text(is_cpu: bool, amount: i64) -> String {
    const MEBI: i64 = 1 << 20;
    match amount {
        _ if is_cpu && amount % 1000 != 0 => format!("{amount}m"),
        _ if is_cpu => (amount / 1000).to_string(),
        _ if amount % (1024 * MEBI) == 0 => format!("{}Gi", amount / (1024 * MEBI)),
        _ if amount % MEBI == 0 => format!("{}Mi", amount / MEBI),
        _ => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_plan() {
        let pods = ["a".to_owned(), "b".to_owned()];
        let first = name("default", &pods, 0, |_| false);
        assert_eq!(first, name("default", &pods, 0, |_| false));
        assert_ne!(first, name("default", &pods[..1], 0, |_| false));
        assert_ne!(first, name("default", &pods, 1, |_| false));
        let second = name("default", &pods, 0, |name| name == first);
        assert_ne!(first, second);
        assert!(second.starts_with("default-") && second.len() == 13, "{second}");
        assert_eq!(name(&"p".repeat(99), &pods, 0, |_| false).len(), 63);
    }

    #[test]
    fn amounts_read_well() {
        assert_eq!(amount_text(true, 1500), "1500m");
        assert_eq!(amount_text(true, 2000), "2");
        assert_eq!(amount_text(false, 3 << 30), "3Gi");
        assert_eq!(amount_text(false, 5 << 20), "5Mi");
        assert_eq!(amount_text(false, 7), "7");
    }
}
