//! Machines that help nobody. A machine comes up, and none of the pods of a kind that it was bought for runs there: a webhook taints it, a label is
//! missing, the kubelet offers less than planned. Bought again and again, such machines cost without end.
//!
//! Counted per kind of pods on the pool that the machines are of. At a number of machines no more are bought; after a pause one more is tried, and
//! each that fails doubles the pause. A pod that runs where it was planned to, another template of the pods, or a change of the pool begin anew.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use joiner_api::names::FRUITLESS_MACHINES_ANNOTATION;
use joiner_api::quantity::Quantity;
use joiner_api::{NodeClaim, NodePool};
use joiner_core::model::{Effect, Taint as CoreTaint};
use joiner_record::Difference;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use crate::settings::BreakerSettings;
use crate::steps::lifecycle::signed;

/// Kinds of pods that a pool remembers; when there are more, the oldest are forgotten.
const MOST_KINDS: usize = 32;
/// Machines of which a row remembers that they were counted.
const MOST_CLAIMS: usize = 32;

/// What a pool has on record, by kind of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Record(BTreeMap<String, Row>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// Machines since a pod of the kind last ran where it was planned to.
    machines: u32,
    /// When the last one was found not to help.
    last: Timestamp,
    /// Of the pool then.
    generation: i64,
    /// Uids of claims that have been counted and may still be there.
    claims: BTreeSet<String>,
}

impl Record {
    /// What is on record of a pool as it is now: what was found of an earlier version of it is no longer true.
    pub fn of(pool: &NodePool) -> Self {
        let text = pool.annotations().get(FRUITLESS_MACHINES_ANNOTATION);
        let mut record: Self = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        record.follow(pool);
        record
    }

    /// Forgets what was found of an earlier version of the pool.
    pub fn follow(&mut self, pool: &NodePool) {
        let generation = pool.metadata.generation.unwrap_or_default();
        self.0.retain(|_, row| row.generation == generation);
    }

    /// The text of the annotation; nothing if there is nothing to remember.
    pub fn text(&self) -> Option<String> {
        // Names and numbers can be written.
        serde_json::to_string(self).ok().filter(|_| !self.0.is_empty())
    }

    /// Whether nothing is on record.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a kind is on record.
    pub fn has(&self, kind: &str) -> bool {
        self.0.contains_key(kind)
    }

    /// The machine of a claim came up and no pod of a kind runs on it. Whether that is news.
    pub fn add(&mut self, pool: &NodePool, kind: &str, claim: &str, now: Timestamp) -> bool {
        let generation = pool.metadata.generation.unwrap_or_default();
        let row = self.0.entry(kind.to_owned()).or_insert_with(|| Row {
            machines: 0,
            last: now,
            generation,
            claims: BTreeSet::new(),
        });
        if !row.claims.insert(claim.to_owned()) {
            return false;
        }
        (row.machines, row.last) = (row.machines.saturating_add(1), now);
        true
    }

    /// Forgets what need not be known any more: claims that are gone, and what is too much.
    pub fn tidy(&mut self, is_there: impl Fn(&str) -> bool) {
        for row in self.0.values_mut() {
            row.claims.retain(|claim| is_there(claim));
            while row.claims.len() > MOST_CLAIMS {
                row.claims.pop_first();
            }
        }
        while self.0.len() > MOST_KINDS {
            let oldest = self.0.iter().min_by_key(|(_, row)| row.last).map(|(kind, _)| kind.clone());
            oldest.iter().for_each(|kind| drop(self.0.remove(kind)));
        }
    }

    /// A pod of a kind runs where it was planned to. How many machines had not helped before.
    pub fn forget(&mut self, kind: &str) -> u32 {
        self.0.remove(kind).map_or(0, |row| row.machines)
    }
}

/// What all pools have on record of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Machines.
    pub machines: u32,
    /// When the last one was found not to help.
    pub last: Option<Timestamp>,
}

/// Adds up what pools have on record of a kind.
pub fn count<'r>(records: impl Iterator<Item = &'r Record>, kind: &str) -> Count {
    records.filter_map(|record| record.0.get(kind)).fold(Count::default(), |sum, row| Count {
        machines: sum.machines.saturating_add(row.machines),
        last: sum.last.max(Some(row.last)),
    })
}

impl Count {
    /// Until when no machine is bought for pods of the kind; nothing if one may be now.
    pub fn held_until(self, settings: &BreakerSettings, now: Timestamp) -> Option<Timestamp> {
        let most = settings.runaway_machines;
        // What was found in the future was found before the clock was set back: no pause outlasts a step of the clock.
        let last = self.last.filter(|last| most > 0 && self.machines >= most && *last <= now)?;
        let doubled = 1_u32.checked_shl(self.machines - most).unwrap_or(u32::MAX);
        let pause = settings.runaway_pause.saturating_mul(doubled).min(settings.runaway_longest);
        last.checked_add(signed(pause)).ok().filter(|until| *until > now)
    }
}

/// In what a node is not what its claim promises, the first thing only: taints keep most pods away, then labels, then room.
pub fn difference(claim: &NodeClaim, node: &Node) -> Option<Difference> {
    taint(claim, node).or_else(|| label(claim, node)).or_else(|| resource(claim, node))
}

fn taint(claim: &NodeClaim, node: &Node) -> Option<Difference> {
    let promised = |taint: &Taint| {
        let all = claim.spec.taints.iter().flatten();
        all.into_iter().any(|of| of.key == taint.key && of.effect == taint.effect)
    };
    let keeps_away = |taint: &Taint| match Effect::parse(&taint.effect) {
        Some(Effect::PreferNoSchedule) | None => false,
        Some(effect) => {
            let core = CoreTaint { key: taint.key.as_str().into(), value: "".into(), effect };
            !joiner_state::is_ephemeral(&core)
        }
    };
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let odd = taints.into_iter().flatten().find(|taint| keeps_away(taint) && !promised(taint))?;
    let value = odd
        .value
        .as_ref()
        .filter(|value| !value.is_empty())
        .map_or(String::new(), |value| format!("={value}"));
    Some(Difference::Taint { taint: format!("{}{value}:{}", odd.key, odd.effect) })
}

fn label(claim: &NodeClaim, node: &Node) -> Option<Difference> {
    let (key, planned) = claim.labels().iter().find(|(key, value)| node.labels().get(*key) != Some(value))?;
    Some(Difference::Label {
        key: key.clone(),
        planned: planned.clone(),
        found: node.labels().get(key).cloned(),
    })
}

fn resource(claim: &NodeClaim, node: &Node) -> Option<Difference> {
    let planned = claim.status.as_ref()?.allocatable.as_ref()?;
    let found = node.status.as_ref()?.allocatable.as_ref()?;
    planned.iter().find_map(|(resource, planned)| {
        let there = found.get(resource).map_or("0", |amount| amount.0.as_str());
        let less = Quantity::parse(there).ok()? < Quantity::parse(&planned.0).ok()?;
        less.then(|| Difference::Resource {
            resource: resource.clone(),
            planned: planned.0.clone(),
            found: there.to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pool(generation: i64, annotation: Option<&str>) -> NodePool {
        let annotations = annotation.map(|text| json!({(FRUITLESS_MACHINES_ANNOTATION): text}));
        serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "generation": generation, "annotations": annotations},
            "spec": {"disruption": {}, "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}}}))
        .unwrap()
    }

    #[test]
    fn machines_are_counted_once_and_what_is_written_is_read_again() {
        let mut record = Record::default();
        assert!(record.add(&pool(1, None), "web", "a-1", at(10)));
        assert!(!record.add(&pool(1, None), "web", "a-1", at(20)), "counted before");
        assert!(record.add(&pool(1, None), "web", "a-2", at(30)));
        let read = Record::of(&pool(1, record.text().as_deref()));
        assert_eq!(read, record);
        assert_eq!(
            count([&read, &Record::default()].into_iter(), "web"),
            Count { machines: 2, last: Some(at(30)) }
        );
        assert_eq!(count([&read].into_iter(), "db"), Count::default());
        assert!(Record::of(&pool(2, record.text().as_deref())).is_empty(), "the pool is another now");
        assert!(Record::of(&pool(1, Some("{]"))).is_empty(), "nonsense is nothing");
        record.tidy(|claim| claim == "a-2");
        assert!(record.add(&pool(1, None), "web", "a-1", at(40)), "a claim of that name is a new one");
        assert_eq!((record.forget("web"), record.text()), (3, None));
    }

    #[test]
    fn the_pause_doubles_with_each_machine_up_to_an_hour() {
        let settings = BreakerSettings::default();
        let held = |machines: u32, now: i64| {
            let until = Count { machines, last: Some(at(0)) }.held_until(&settings, at(now));
            until.map(Timestamp::as_second)
        };
        for (machines, now, until) in [
            (2, 0, None),
            (3, 0, Some(300)),
            (3, 299, Some(300)),
            (3, 300, None),
            (4, 300, Some(600)),
            (6, 0, Some(2400)),
            (7, 0, Some(3600)),
            (99, 0, Some(3600)),
            (3, -1, None),
        ] {
            assert_eq!(held(machines, now), until, "{machines} machines, second {now}");
        }
        let never = BreakerSettings { runaway_machines: 0, ..settings };
        assert_eq!(Count { machines: 99, last: Some(at(0)) }.held_until(&never, at(0)), None);
    }

    #[test]
    fn a_record_does_not_grow_without_end() {
        let mut record = Record::default();
        for number in 0..100 {
            record.add(&pool(1, None), &format!("kind-{number:03}"), "a-1", at(number));
            record.add(&pool(1, None), "kind-099", &format!("b-{number}"), at(200));
        }
        record.tidy(|_| true);
        assert_eq!((record.0.len(), record.has("kind-099"), record.has("kind-000")), (32, true, false));
        assert!(record.0["kind-099"].claims.len() <= MOST_CLAIMS && record.0["kind-099"].machines > 90);
    }

    #[test]
    fn what_differs_is_named() {
        let claim = |status: Value| -> NodeClaim {
            serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "a", "labels": {"team": "web"}}, "status": status,
                "spec": {"taints": [{"key": "own", "effect": "NoSchedule"}], "requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}))
            .unwrap()
        };
        let node = |taints: Value, labels: Value, cpu: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"labels": labels}, "spec": {"taints": taints},
                "status": {"allocatable": {"cpu": cpu}}}))
            .unwrap()
        };
        let of = |node: Node| difference(&claim(json!({"allocatable": {"cpu": "4"}})), &node);
        let own = json!([{"key": "own", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        let team = json!({"team": "web", "more": "x"});
        assert_eq!(of(node(own.clone(), team.clone(), "4")), None);
        assert_eq!(
            of(node(json!([{"key": "gpu", "value": "no", "effect": "NoExecute"}]), json!({}), "2")),
            Some(Difference::Taint { taint: "gpu=no:NoExecute".to_owned() })
        );
        let label = |found: Option<&str>| {
            let (key, planned) = ("team".to_owned(), "web".to_owned());
            Some(Difference::Label { key, planned, found: found.map(str::to_owned) })
        };
        assert_eq!(of(node(own.clone(), json!({}), "2")), label(None));
        assert_eq!(of(node(own.clone(), json!({"team": "db"}), "4")), label(Some("db")));
        let less = Difference::Resource {
            resource: "cpu".to_owned(),
            planned: "4".to_owned(),
            found: "3900m".to_owned(),
        };
        assert_eq!(of(node(own, team, "3900m")), Some(less));
    }
}
