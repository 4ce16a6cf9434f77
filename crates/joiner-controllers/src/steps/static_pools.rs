//! Pools of a fixed size: as many machines as `spec.replicas` says, whatever pods there are. Pure: the pool and its machines in, claims to create or
//! to delete out.
//!
//! A node that is being replaced stands in for its successor, so nothing is bought for it twice; `limits.nodes` counts whatever is still there. What is
//! too much goes at once, without asking budgets: somebody has said that it is to.

use jiff::Timestamp;
use joiner_api::duration::NillableDuration;
use joiner_api::names::{self, NODES_RESOURCE, conditions};
use joiner_api::quantity::Quantity;
use joiner_api::{NodeClaim, NodePool};
use joiner_record::Verdict;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::claims;
use crate::command::{Command, Step};
use crate::decision::{Decided, subject_of};
use crate::pods::{self, CachedPod};
use crate::steps::lifecycle::{created, is_true, signed};

/// How soon it is looked again, and how soon if the limit of nodes stands in the way.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(60);
const AGAIN_AT_LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

/// A machine of the pool.
#[derive(Debug)]
pub struct Machine<'a> {
    /// Its claim.
    pub claim: &'a NodeClaim,
    /// Its node, if it has one.
    pub node: Option<&'a Node>,
    /// Pods on the node.
    pub pods: Vec<&'a CachedPod>,
}

/// What there is to know.
pub struct Facts<'a> {
    /// The pool.
    pub pool: &'a NodePool,
    /// It may be used.
    pub ready: bool,
    /// Its machines do not join: one is tried at a time.
    pub on_probation: bool,
    /// All of them.
    pub machines: Vec<Machine<'a>>,
    /// Names of claims are drawn from it.
    pub seed: u64,
    /// Names that are in use.
    pub is_taken: &'a dyn Fn(&str) -> bool,
    /// The present.
    pub now: Timestamp,
}

/// How a machine counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Active,
    /// Marked for going; its claim is still there.
    Replaced,
    Deleting,
}

fn standing(machine: &Machine) -> Standing {
    let going = |of: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| of.is_some();
    let node = machine.node.map(|node| &node.metadata);
    if going(machine.claim.metadata.deletion_timestamp.as_ref())
        || node.is_some_and(|node| going(node.deletion_timestamp.as_ref()))
    {
        return Standing::Deleting;
    }
    let taints = machine.node.and_then(|node| node.spec.as_ref()?.taints.as_ref());
    match taints.into_iter().flatten().any(|taint| taint.key == names::DISRUPTED_TAINT) {
        true => Standing::Replaced,
        false => Standing::Active,
    }
}

/// What is to be done for a pool of a fixed size; nothing for others.
pub fn step(facts: &Facts) -> Step {
    let mut step = Step::default();
    let Some(replicas) = facts.pool.spec.replicas else { return step };
    if facts.pool.metadata.deletion_timestamp.is_some() {
        return step;
    }
    let wanted = usize::try_from(replicas).unwrap_or(0);
    let count = |which: Standing| facts.machines.iter().filter(|machine| standing(machine) == which).count();
    let (active, replaced) = (count(Standing::Active), count(Standing::Replaced));
    let again = if active > wanted {
        remove(facts, active - wanted, &mut step);
        AGAIN
    } else if active + replaced < wanted && facts.ready {
        add(facts, wanted - active, &mut step)
    } else {
        AGAIN
    };
    step.requeue_at(facts.now.checked_add(signed(again)).unwrap_or(Timestamp::MAX));
    step
}

/// Creates claims, as far as the limit of nodes allows. When to look again.
fn add(facts: &Facts, missing: usize, step: &mut Step) -> std::time::Duration {
    let limit = node_limit(facts.pool);
    let room = limit.map_or(usize::MAX, |limit| limit.saturating_sub(facts.machines.len()));
    let joining = facts.machines.iter().any(|machine| {
        standing(machine) == Standing::Active && !is_true(machine.claim, conditions::REGISTERED)
    });
    let most = match (facts.on_probation, joining) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => usize::MAX,
    };
    let now = missing.min(room).min(most);
    let mut made: Vec<NodeClaim> = Vec::with_capacity(now);
    for slot in 0..now {
        let is_used =
            |name: &str| (facts.is_taken)(name) || made.iter().any(|claim| claim.name_any() == name);
        made.push(claims::claim_of_template(facts.pool, slot, facts.seed, is_used));
    }
    if !made.is_empty() {
        let verdict = resized(facts, made.len(), 0);
        let subjects = std::iter::once(subject_of(facts.pool)).chain(made.iter().map(subject_of)).collect();
        step.decisions.push(Decided::new(verdict, subjects));
    }
    step.each = made.into_iter().map(|claim| Command::CreateClaim(Box::new(claim))).collect();
    if room < missing { AGAIN_AT_LIMIT } else { AGAIN }
}

fn resized(facts: &Facts, created: usize, removed: usize) -> Verdict {
    let have = facts.machines.iter().filter(|machine| standing(machine) == Standing::Active).count() as u64;
    let wanted = u64::try_from(facts.pool.spec.replicas.unwrap_or(0)).unwrap_or(0);
    Verdict::Resized { wanted, have, created: created as u64, removed: removed as u64 }
}

fn node_limit(pool: &NodePool) -> Option<usize> {
    let text = pool.spec.limits.as_ref()?.get(NODES_RESOURCE)?;
    let amount = Quantity::parse(&text.0).ok()?.value_saturating();
    Some(usize::try_from(amount).unwrap_or(0))
}

/// Deletes claims: first machines that are not launched, then empty ones, then those whose pods lose least.
fn remove(facts: &Facts, excess: usize, step: &mut Step) {
    let active = facts.machines.iter().filter(|machine| standing(machine) == Standing::Active);
    let mut ranked: Vec<(Rank, &Machine)> =
        active.map(|machine| (rank(machine, facts.now), machine)).collect();
    ranked.sort_by(|(a, one), (b, other)| {
        let by_rank = (a.launched, a.occupied, a.protected).cmp(&(b.launched, b.occupied, b.protected));
        by_rank
            .then(a.cost.total_cmp(&b.cost))
            .then_with(|| one.claim.name_any().cmp(&other.claim.name_any()))
    });
    let going: Vec<&NodeClaim> = ranked.iter().take(excess).map(|(_, machine)| machine.claim).collect();
    let verdict = resized(facts, 0, going.len());
    let subjects =
        std::iter::once(subject_of(facts.pool)).chain(going.iter().map(|claim| subject_of(*claim)));
    step.decisions.push(Decided::new(verdict, subjects.collect()));
    let delete = |claim: &&NodeClaim| Command::DeleteClaim {
        name: claim.name_any(),
        uid: claim.uid().unwrap_or_default(),
    };
    step.each = going.iter().map(delete).collect();
}

/// What decides who goes first.
struct Rank {
    launched: bool,
    occupied: bool,
    protected: bool,
    cost: f64,
}

fn rank(machine: &Machine, now: Timestamp) -> Rank {
    let protects = |pod: &&&CachedPod| pods::is_protected(pod, now);
    let moving = machine.pods.iter().filter(|pod| pods::is_reschedulable(pod)).count();
    let protected = machine.pods.iter().any(|pod| protects(&pod));
    Rank {
        launched: is_true(machine.claim, conditions::LAUNCHED),
        occupied: moving > 0 || protected,
        protected,
        cost: moving as f64 * lifetime_left(machine.claim, now),
    }
}

/// The share of its life that a machine still has before it.
fn lifetime_left(claim: &NodeClaim, now: Timestamp) -> f64 {
    let age = claim.spec.expire_after.as_deref().and_then(|text| NillableDuration::parse(text).ok());
    let Some(most) = age.and_then(|age| age.duration()).map(|age| age.to_signed_duration().as_secs_f64())
    else {
        return 1.0;
    };
    let passed = now.duration_since(created(claim, now)).as_secs_f64();
    if most > 0.0 { (1.0 - passed / most).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        "2026-01-01T10:00:00Z".parse().unwrap()
    }

    fn pool(replicas: u32, nodes: Option<u32>) -> NodePool {
        let limits = nodes.map(|nodes| json!({"nodes": nodes.to_string()}));
        serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "base", "uid": "p"},
            "spec": {"disruption": {}, "replicas": replicas, "limits": limits, "template": {"metadata": {"labels": {"team": "web"}}, "spec": {
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
                "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}}}))
        .unwrap()
    }

    fn claim(name: &str, launched: bool, deleted: bool, age_hours: i64) -> NodeClaim {
        let status = if launched { "True" } else { "Unknown" };
        let created = now() - jiff::SignedDuration::from_hours(age_hours);
        serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "uid": name, "creationTimestamp": created.to_string(),
                "deletionTimestamp": deleted.then(|| now().to_string())},
            "status": {"conditions": [{"type": "Launched", "status": status, "reason": "R", "message": "", "lastTransitionTime": created.to_string()}]},
            "spec": {"expireAfter": "10h", "requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}))
        .unwrap()
    }

    fn node(disrupted: bool) -> Node {
        let taints = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
        let taints = if disrupted { taints } else { Value::Null };
        serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"taints": taints}})).unwrap()
    }

    fn pod(protected: bool) -> CachedPod {
        let annotations = protected.then(|| json!({"karpenter.sh/do-not-disrupt": "true"}));
        CachedPod::new(
            &serde_json::from_value(json!({"metadata": {"name": "p", "annotations": annotations}})).unwrap(),
        )
    }

    fn done(
        pool: &NodePool,
        machines: Vec<Machine>,
        on_probation: bool,
        ready: bool,
    ) -> (usize, Vec<String>) {
        let facts = Facts { pool, ready, on_probation, machines, seed: 0, is_taken: &|_| false, now: now() };
        let step = step(&facts);
        let created = step.each.iter().filter(|of| matches!(of, Command::CreateClaim(_))).count();
        let deleted =
            step.each.iter().filter(|of| matches!(of, Command::DeleteClaim { .. })).map(Command::object);
        let deleted: Vec<String> = deleted.collect();
        assert_eq!(created + deleted.len(), step.each.len());
        assert_eq!(step.decisions.len(), usize::from(!step.each.is_empty()), "what is done is told");
        (created, deleted)
    }

    #[test]
    fn what_is_missing_is_created_within_the_limit_of_nodes() {
        let (active, going) = (claim("a", true, false, 1), claim("b", true, true, 1));
        let (up, marked) = (node(false), node(true));
        let machine = |claim, node| Machine { claim, node: Some(node), pods: Vec::new() };
        let none = Vec::new;
        for (what, pool, machines, expected) in [
            ("nothing there", pool(3, None), none(), 3),
            ("one there", pool(3, None), vec![machine(&active, &up)], 2),
            (
                "one is going: its successor is bought",
                pool(2, None),
                vec![machine(&active, &up), machine(&going, &up)],
                1,
            ),
            (
                "one is being replaced",
                pool(2, None),
                vec![machine(&active, &up), machine(&active, &marked)],
                0,
            ),
            (
                "two lack, one is being replaced",
                pool(3, None),
                vec![machine(&active, &up), machine(&active, &marked)],
                2,
            ),
            (
                "at the limit, what goes counts",
                pool(3, Some(3)),
                vec![machine(&active, &up), machine(&going, &up)],
                1,
            ),
            ("no node at all", pool(3, Some(0)), none(), 0),
            ("nothing wanted", pool(0, None), none(), 0),
        ] {
            assert_eq!(done(&pool, machines, false, true), (expected, Vec::new()), "{what}");
        }
        assert_eq!(done(&pool(3, None), none(), false, false).0, 0, "the pool is not ready");
        assert_eq!(done(&pool(3, None), none(), true, true).0, 1, "one at a time");
        assert_eq!(
            done(&pool(3, None), vec![machine(&active, &up)], true, true).0,
            0,
            "which has not joined yet"
        );
    }

    #[test]
    fn what_is_too_much_goes_in_order() {
        let (unlaunched, empty, one, two, old, held) = (
            claim("unlaunched", false, false, 1),
            claim("empty", true, false, 1),
            claim("one", true, false, 1),
            claim("two", true, false, 1),
            claim("old", true, false, 9),
            claim("held", true, false, 9),
        );
        let (up, free, protected) = (node(false), pod(false), pod(true));
        let machines = || {
            let machine = |claim, pods| Machine { claim, node: Some(&up), pods };
            vec![
                machine(&held, vec![&protected]),
                machine(&two, vec![&free, &free]),
                machine(&one, vec![&free]),
                machine(&old, vec![&free, &free]),
                machine(&empty, Vec::new()),
                machine(&unlaunched, Vec::new()),
            ]
        };
        let order = ["unlaunched", "empty", "old", "one", "two", "held"];
        for (gone, replicas) in (0..6).rev().enumerate() {
            let expected: Vec<String> = order[..=gone].iter().map(|name| (*name).to_owned()).collect();
            let wanted = u32::try_from(replicas).unwrap();
            assert_eq!(done(&pool(wanted, None), machines(), false, false), (0, expected), "{wanted} wanted");
        }
    }

    #[test]
    fn a_claim_carries_the_template_and_no_list_of_types() {
        let claim = claims::claim_of_template(&pool(3, None), 0, 7, |_| false);
        assert_eq!(claim.labels()["karpenter.sh/nodepool"], "base");
        assert_eq!(
            (claim.labels()["team"].as_str(), claim.labels()["kubernetes.io/arch"].as_str()),
            ("web", "amd64")
        );
        assert!(claim.spec.requirements.iter().all(|of| of.key != "node.kubernetes.io/instance-type"));
        assert_eq!(claim.spec.resources, None);
        assert_eq!(claim.finalizers(), ["karpenter.sh/termination"]);
        assert_eq!(
            claim.name_any(),
            claims::claim_of_template(&pool(3, None), 0, 7, |_| false).name_any(),
            "again"
        );
        assert_ne!(claim.name_any(), claims::claim_of_template(&pool(3, None), 1, 7, |_| false).name_any());
    }
}
