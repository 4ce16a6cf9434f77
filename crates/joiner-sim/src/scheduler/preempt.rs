//! Taking the place of pods that matter less.
//!
//! On each node that refused for a reason that fewer pods could change, all pods of lower priority are taken away in thought; if the pod
//! fits then, as many as possible are given back, those protected by budgets first, the more important first. Among the nodes the one is
//! chosen that breaks the fewest budgets, then whose most important victim matters least, then with the smallest sum of
//! priorities, the fewest victims, the youngest most important victim, and at last the first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use joiner_core::model::Names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::nodes::{NodeId, PodId};
use super::queue::Rule;
use super::reasons::{Reason, Refusal, Refusals};
use super::terms::Selector;
use super::view::{Overlay, View};
use crate::object::{Fields, Key};

/// At least so many nodes are tried, or a tenth of those that come into question.
const FEWEST_CANDIDATES: usize = 100;

/// What is known of a budget.
#[derive(Debug)]
pub(crate) struct Budget {
    namespace: Box<str>,
    selector: Selector,
    allowed: i64,
    disrupted: Vec<Box<str>>,
}

/// All budgets.
#[derive(Debug, Default)]
pub(crate) struct Budgets(BTreeMap<Key, Budget>);

impl Budgets {
    /// Takes in a budget, or forgets it.
    pub(crate) fn set(&mut self, names: &mut Names, key: &Key, object: Option<&Value>) {
        let budget = object.and_then(|object| {
            let selector = LabelSelector::deserialize(object.at(&["spec", "selector"])).ok()?;
            // A budget that selects everything, or nothing, protects nothing here.
            let selector =
                Selector::read(names, Some(&selector)).filter(|selector| !selector.0.is_empty())?;
            let disrupted = object.entries(&["status", "disruptedPods"]);
            Some(Budget {
                namespace: (&*key.namespace).into(),
                selector,
                allowed: object.number(&["status", "disruptionsAllowed"]).unwrap_or(0),
                disrupted: disrupted.into_iter().flatten().map(|(name, _)| name.as_str().into()).collect(),
            })
        });
        match budget {
            Some(budget) => self.0.insert(key.clone(), budget),
            None => self.0.remove(key),
        };
    }
}

/// Pods that would have to go from a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub node: NodeId,
    /// The more important first.
    pub victims: Vec<PodId>,
    violations: usize,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Preemption {
    /// The best, and all that are as good, the first of them first.
    Found(Vec<Candidate>),
    /// Nothing helps; the sentence says why.
    Hopeless(String),
    /// It may not, or not now.
    NotEligible(&'static str),
}

impl View<'_> {
    /// Looks for a node where room can be made.
    pub(crate) fn preempt(&self, refusals: &Refusals, budgets: &Budgets, nodes: usize) -> Preemption {
        if let Some(reason) = self.not_eligible(refusals) {
            return Preemption::NotEligible(reason);
        }
        let mut found: Vec<Candidate> = Vec::new();
        let mut verdicts = Refusals { list: Vec::new(), others: Some(Reason::NotHelpful) };
        let potential: Vec<NodeId> =
            refusals.list.iter().filter(|(_, refusal)| refusal.resolvable).map(|(node, _)| *node).collect();
        let wanted = (potential.len() / 10).max(FEWEST_CANDIDATES).min(potential.len());
        for node in potential {
            match self.victims(node, budgets) {
                Ok(candidate) => found.push(candidate),
                Err(refusal) => verdicts.list.push((node, refusal)),
            }
            if found.len() >= wanted && found.iter().any(|candidate| candidate.violations == 0) {
                break;
            }
        }
        if found.is_empty() {
            return Preemption::Hopeless(verdicts.sentence(self.names, nodes));
        }
        let rank = |candidate: &Candidate| self.rank(candidate);
        let best = found.iter().map(rank).min();
        found.retain(|candidate| Some(rank(candidate)) == best);
        Preemption::Found(found)
    }

    fn not_eligible(&self, refusals: &Refusals) -> Option<&'static str> {
        if self.class.never_preempts {
            return Some("not eligible due to preemptionPolicy=Never.");
        }
        let node = self.pods.row(self.pod).nominated?;
        let lasting = refusals.list.iter().any(|(other, refusal)| *other == node && !refusal.resolvable);
        let leaving = |pod: &PodId| {
            let row = self.pods.row(*pod);
            row.deleting && row.preempted && self.pods.class_of(*pod).priority < self.class.priority
        };
        let waits = !lasting && self.nodes.rows[node as usize].pods.iter().any(leaving);
        waits.then_some("not eligible due to a terminating pod on the nominated node.")
    }

    fn victims(&self, node: NodeId, budgets: &Budgets) -> Result<Candidate, Refusal> {
        let row = &self.nodes.rows[node as usize];
        let mut potential: Vec<PodId> = row
            .pods
            .iter()
            .copied()
            .filter(|pod| self.pods.class_of(*pod).priority < self.class.priority)
            .collect();
        if potential.is_empty() {
            return Err(Refusal::lasting(Rule::Fit, Reason::NoVictims));
        }
        let mut overlay = Overlay::new(self);
        for pod in &potential {
            overlay.remove(self, node, *pod);
        }
        if let Some(refusal) = self.with_nominated(node, &overlay) {
            return Err(refusal);
        }
        potential.sort_by_key(|pod| self.importance(*pod));
        let (protected, free) = self.split_by_budget(potential, budgets);
        let mut victims: Vec<PodId> = Vec::new();
        let mut violations = 0;
        let protected_count = protected.len();
        for (at, pod) in protected.into_iter().chain(free).enumerate() {
            overlay.give_back(self, node, pod);
            if self.with_nominated(node, &overlay).is_some() {
                overlay.remove(self, node, pod);
                victims.push(pod);
                violations += usize::from(at < protected_count);
            }
        }
        victims.sort_by_key(|pod| self.importance(*pod));
        if victims.is_empty() {
            return Err(Refusal::lasting(Rule::Fit, Reason::NoVictims));
        }
        Ok(Candidate { node, victims, violations })
    }

    /// The more important sorts first: higher priority, then the longer it runs.
    fn importance(&self, pod: PodId) -> (Reverse<i32>, Timestamp) {
        (Reverse(self.pods.class_of(pod).priority), self.started(pod))
    }

    fn started(&self, pod: PodId) -> Timestamp {
        self.pods.row(pod).started.unwrap_or(Timestamp::MAX)
    }

    fn split_by_budget(&self, pods: Vec<PodId>, budgets: &Budgets) -> (Vec<PodId>, Vec<PodId>) {
        let mut left: Vec<i64> = budgets.0.values().map(|budget| budget.allowed).collect();
        pods.into_iter().partition(|pod| {
            let row = self.pods.row(*pod);
            let labels = &self.counts.identities[self.pods.class_of(*pod).identity as usize].labels;
            let mut violated = false;
            for (budget, left) in budgets.0.values().zip(&mut left) {
                let counts = !labels.is_empty()
                    && *budget.namespace == *row.key.namespace
                    && budget.selector.matches(self.names, labels)
                    && !budget.disrupted.iter().any(|name| **name == *row.key.name);
                if counts {
                    *left -= 1;
                    violated |= *left < 0;
                }
            }
            violated
        })
    }

    /// What is compared between nodes; smaller is better.
    fn rank(&self, candidate: &Candidate) -> (usize, i32, i64, usize, Reverse<Timestamp>) {
        let priority = |pod: &PodId| self.pods.class_of(*pod).priority;
        let highest = candidate.victims.iter().map(priority).max().unwrap_or(i32::MIN);
        let sum = candidate.victims.iter().map(|pod| i64::from(priority(pod)) + (1 << 31)).sum();
        let earliest = candidate
            .victims
            .iter()
            .filter(|pod| priority(pod) == highest)
            .map(|pod| self.started(*pod))
            .min();
        let earliest = earliest.unwrap_or(Timestamp::MAX);
        (candidate.violations, highest, sum, candidate.victims.len(), Reverse(earliest))
    }
}
