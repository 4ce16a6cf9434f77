//! What is written to a pool: whether it can be used, how much it has, and the hash of its template.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_api::condition::{ConditionSet, ConditionTypes, Subject};
use joiner_api::names::{self, conditions};
use joiner_api::quantity::Quantity;
use joiner_api::{NodeClaim, NodePool, nodepool_hash, validation};
use joiner_record::{Trouble, WatchTrouble, words};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::command::{Command, Step};
use crate::record::{Level, Note};
use crate::steps::emptiness;
use crate::steps::lifecycle::condition;
use crate::steps::registration_health::{self, Results};

/// Resources that are shown even if there is nothing of them.
const ALWAYS: [&str; 4] = ["cpu", "ephemeral-storage", "memory", "pods"];

/// The reason of events about what is legal in a pool and probably not meant.
const REMARK: &str = "ValidationWarning";
/// They are not repeated for so long.
const REMARK_AGAIN: Duration = Duration::from_secs(24 * 3600);

/// So soon it is looked whether all claims have the new version of the hash.
const MIGRATION: SignedDuration = SignedDuration::from_secs(1);

/// What decides whether a pool can be used.
#[derive(Debug, Clone, Copy)]
pub struct Readiness<'a> {
    /// The pool.
    pub pool: &'a NodePool,
    /// Its node class as stored.
    pub class: Option<&'a Value>,
    /// Why classes of that kind cannot be observed, if so.
    pub class_trouble: Option<&'a WatchTrouble>,
    /// Label keys that the provider makes well-known.
    pub well_known: &'a BTreeSet<String>,
    /// The present.
    pub now: Timestamp,
}

/// What there is to know about a pool.
#[derive(Debug)]
pub struct Facts<'a> {
    /// What decides whether it can be used.
    pub readiness: Readiness<'a>,
    /// How its last machines fared.
    pub registrations: &'a Results,
    /// Generation of its node class.
    pub class_generation: Option<i64>,
    /// Its claims.
    pub claims: Vec<&'a NodeClaim>,
    /// What its machines have.
    pub totals: &'a Totals,
    /// What breakers remember of it, by annotation; nothing where it is to have none.
    pub breakers: [(&'static str, Option<String>); 2],
}

/// The pool with the conditions that hold now.
pub fn with_conditions(facts: &Readiness) -> NodePool {
    let mut pool = facts.pool.clone();
    let subject = subject(facts);
    let status = pool.status.get_or_insert_default();
    let mut set = ConditionSet::open(ConditionTypes::NODE_POOL, subject, &mut status.conditions);
    match validation::validate_nodepool_with(facts.pool, facts.well_known).first() {
        None => set.set_true(conditions::VALIDATION_SUCCEEDED),
        Some(problem) => {
            let message = problem.to_string();
            set.set_false(conditions::VALIDATION_SUCCEEDED, conditions::NODE_POOL_VALIDATION_FAILED, &message)
        }
    };
    match class_trouble(facts).or_else(|| class_fault(facts.class)) {
        None => set.set_true(conditions::NODE_CLASS_READY),
        Some((reason, message)) => set.set_false(conditions::NODE_CLASS_READY, &reason, &message),
    };
    pool
}

fn subject(facts: &Readiness) -> Subject {
    let meta = &facts.pool.metadata;
    Subject {
        created: meta.creation_timestamp.as_ref().map_or(facts.now, |time| time.0),
        generation: meta.generation.unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        now: facts.now,
    }
}

/// What is wrong with the kind of the node class: what is known of it may have changed since.
fn class_trouble(facts: &Readiness) -> Option<(String, String)> {
    let trouble = facts.class_trouble?;
    let reason = match trouble.trouble {
        Trouble::Forbidden => "NodeClassForbidden",
        Trouble::NotServed => "NodeClassNotServed",
        Trouble::Failing { .. } => return None,
    };
    Some((reason.to_owned(), words::watch_trouble(trouble)))
}

/// What is wrong with a node class.
fn class_fault(class: Option<&Value>) -> Option<(String, String)> {
    let fault = |reason: &str, message: &str| Some((reason.to_owned(), message.to_owned()));
    let Some(class) = class else { return fault("NodeClassNotFound", "there is no such node class") };
    if class.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return fault("NodeClassTerminating", "the node class is being deleted");
    }
    let all = class.pointer("/status/conditions").and_then(Value::as_array);
    let ready = all.into_iter().flatten().find(|condition| condition["type"] == conditions::READY);
    match ready.map(|condition| (condition["status"].as_str().unwrap_or_default(), condition)) {
        Some(("True", _)) => None,
        Some(("False", condition)) => fault(
            condition["reason"].as_str().unwrap_or("NodeClassNotReady"),
            condition["message"].as_str().unwrap_or_default(),
        ),
        _ => fault("NodeClassReadinessUnknown", "the node class does not say whether it is ready"),
    }
}

/// What is to be done for a pool.
pub fn step(facts: &Facts) -> Step {
    let mut step = Step::default();
    let pool = facts.readiness.pool;
    if pool.metadata.deletion_timestamp.is_some() {
        return step;
    }
    let to_migrate = claims_to_migrate(facts);
    // The pool says the new version when all of its claims do: then versions that differ never stand for drift.
    if to_migrate.is_empty() {
        step.commands.extend(hash_patch(pool));
    } else if let Ok(soon) = facts.readiness.now.checked_add(MIGRATION) {
        step.requeue_at(soon);
    }
    step.commands.extend(breakers_patch(pool, &facts.breakers));
    step.each = to_migrate;
    step.notes = remarks(pool);
    let mut after = with_conditions(&facts.readiness);
    let status = after.status.get_or_insert_default();
    let subject = subject(&facts.readiness);
    let mut set = ConditionSet::open(ConditionTypes::NODE_POOL, subject, &mut status.conditions);
    registration_health::tell(pool, facts.registrations, facts.class_generation, &mut set);
    status.node_class_observed_generation = facts.class_generation.or(status.node_class_observed_generation);
    status.nodes = Some(facts.totals.machines as i64);
    status.resources = Some(facts.totals.texts());
    let before = pool.status.clone().unwrap_or_default();
    if *status != before {
        let version = pool.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        step.commands.push(Command::PatchPoolStatus { name: pool.name_any(), patch });
    }
    step
}

fn breakers_patch(pool: &NodePool, wanted: &[(&'static str, Option<String>)]) -> Option<Command> {
    let differs = wanted.iter().filter(|(key, value)| pool.annotations().get(*key) != value.as_ref());
    let annotations: BTreeMap<&str, &Option<String>> = differs.map(|(key, value)| (*key, value)).collect();
    let patch = json!({"metadata": {"annotations": annotations}});
    (!annotations.is_empty()).then(|| Command::PatchPool { name: pool.name_any(), patch })
}

/// What a pool says that is legal and probably not what was meant: old names, values that count for nothing.
fn remarks(pool: &NodePool) -> Vec<Note> {
    let remarks = validation::remarks_on_nodepool(pool);
    let note = |remark: &validation::Problem| {
        Note::new(pool, Level::Warning, REMARK, remark.to_string()).quiet_for(REMARK_AGAIN)
    };
    remarks.iter().map(note).collect()
}

fn hash_patch(pool: &NodePool) -> Option<Command> {
    let template = nodepool_hash::Template::of(&pool.spec.template).ok()?;
    let wanted = BTreeMap::from([
        (names::NODEPOOL_HASH_ANNOTATION, nodepool_hash::hash(&template).to_string()),
        (names::NODEPOOL_HASH_VERSION_ANNOTATION, nodepool_hash::VERSION.to_owned()),
    ]);
    let have = pool.annotations();
    let same = wanted.iter().all(|(key, value)| have.get(*key) == Some(value));
    let patch = json!({"metadata": {"resourceVersion": pool.resource_version(), "annotations": wanted}});
    (!same).then(|| Command::PatchPool { name: pool.name_any(), patch })
}

/// When hashes are computed in another way than the pool says, its claims get the new version, and the new hash with it unless drift was found by
/// the old one: an unchanged template must not make a machine drift.
fn claims_to_migrate(facts: &Facts) -> Vec<Command> {
    let version = |annotations: &BTreeMap<String, String>| {
        annotations
            .get(names::NODEPOOL_HASH_VERSION_ANNOTATION)
            .is_some_and(|have| have == nodepool_hash::VERSION)
    };
    let Ok(template) = nodepool_hash::Template::of(&facts.readiness.pool.spec.template) else {
        return Vec::new();
    };
    if version(facts.readiness.pool.annotations()) {
        return Vec::new();
    }
    let hash = nodepool_hash::hash(&template).to_string();
    let old = facts.claims.iter().filter(|claim| !version(claim.annotations()));
    old.map(|claim| {
        let mut annotations =
            BTreeMap::from([(names::NODEPOOL_HASH_VERSION_ANNOTATION, nodepool_hash::VERSION.to_owned())]);
        if condition(claim, conditions::DRIFTED).is_none() {
            annotations.insert(names::NODEPOOL_HASH_ANNOTATION, hash.clone());
        }
        let version = claim.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
        Command::PatchClaim { name: claim.name_any(), patch }
    })
    .collect()
}

/// What one machine has.
pub type Capacity = Vec<(String, Quantity)>;

/// What the machines of a pool have that are not going, kept up to date machine by machine.
#[derive(Debug, Default, PartialEq)]
pub struct Totals {
    /// How many there are.
    pub machines: usize,
    /// With the number of machines that have some of it.
    amounts: BTreeMap<String, (Quantity, usize)>,
}

impl Totals {
    /// Those of a pool without machines.
    pub const NOTHING: &Self = &Self { machines: 0, amounts: BTreeMap::new() };

    /// A machine more.
    pub fn add(&mut self, capacity: &Capacity) {
        self.machines += 1;
        for (name, amount) in capacity {
            match self.amounts.get_mut(name) {
                Some((total, count)) => {
                    *total = if total.signum() == 0 { *amount } else { *total + *amount };
                    *count += 1;
                }
                None => drop(self.amounts.insert(name.clone(), (*amount, 1))),
            }
        }
    }

    /// A machine less.
    pub fn remove(&mut self, capacity: &Capacity) {
        self.machines -= 1;
        for (name, amount) in capacity {
            let Some((total, count)) = self.amounts.get_mut(name) else { continue };
            *total -= *amount;
            *count -= 1;
            if *count == 0 {
                self.amounts.remove(name);
            }
        }
    }

    fn texts(&self) -> BTreeMap<String, Text> {
        let none = ALWAYS.into_iter().map(|name| (name.to_owned(), Text("0".to_owned())));
        let some = self.amounts.iter().map(|(name, (amount, _))| (name.clone(), Text(amount.to_string())));
        let nodes = (names::NODES_RESOURCE.to_owned(), Text(self.machines.to_string()));
        none.chain(some).chain([nodes]).collect()
    }
}

/// What a machine has: its node says it once that has been ready for pods, its claim before.
pub fn capacity_of(claim: &NodeClaim, nodes: &[&Arc<Node>]) -> Option<Capacity> {
    let node = nodes.iter().find(|node| emptiness::is_initialised(node));
    let claimed = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    let texts = node.and_then(|node| capacity(node)).or(claimed)?;
    let read = |(name, text): (&String, &Text)| Some((name.clone(), Quantity::parse(&text.0).ok()?));
    Some(texts.iter().filter_map(read).collect())
}

/// The capacity of a node, if it says one.
pub fn capacity(node: &Node) -> Option<&BTreeMap<String, Text>> {
    node.status.as_ref()?.capacity.as_ref().filter(|capacity| !capacity.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(cpu: &str, gpus: Option<&str>) -> Capacity {
        let read = |name: &str, text: &str| (name.to_owned(), Quantity::parse(text).unwrap());
        let gpus = gpus.map(|text| read("example.com/gpu", text));
        [read("cpu", cpu), read("memory", "4Gi")].into_iter().chain(gpus).collect()
    }

    #[test]
    fn sums_follow_machines_that_come_and_go() {
        let (small, large) = (capacity("1500m", None), capacity("16", Some("2")));
        let mut totals = Totals::default();
        totals.add(&small);
        totals.add(&large);
        totals.add(&small);
        let text = |totals: &Totals, name: &str| totals.texts().remove(name).map(|text| text.0);
        assert_eq!(text(&totals, "cpu").as_deref(), Some("19"));
        assert_eq!(text(&totals, "memory").as_deref(), Some("12Gi"));
        assert_eq!(text(&totals, "example.com/gpu").as_deref(), Some("2"));
        assert_eq!(text(&totals, "nodes").as_deref(), Some("3"));
        totals.remove(&large);
        assert_eq!(text(&totals, "cpu").as_deref(), Some("3"));
        assert_eq!(text(&totals, "example.com/gpu"), None, "nobody has any");
        totals.remove(&small);
        totals.remove(&small);
        assert_eq!(&totals, Totals::NOTHING);
        assert_eq!(text(&totals, "pods").as_deref(), Some("0"), "told even if there is none");
    }
}
