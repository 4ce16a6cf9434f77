//! What lost its other half: machines without a claim, and claims whose machine is gone.
//!
//! A list of machines only raises a suspicion. Before anything is taken away, missing machines are asked for one by one, and claims are read
//! from the API server once more: a list may be incomplete or late, and so may our watch. A list that lacks many machines at once is not believed at
//! all for a while: then a machine counts as gone when two rounds have found so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::names::conditions;
use joiner_provider::{GroupKind, Instance, Listed, Provider};
use joiner_record::{Orphan, Subject, Verdict};
use kube::ResourceExt;

use crate::command::{Command, Failure, Step};
use crate::decision::{Decided, subject_of};
use crate::engine::Engine;
use crate::metrics::Tripped;
use crate::queue::Key;
use crate::reports::Report;
use crate::settings::BreakerSettings;
use crate::steps::emptiness;
use crate::steps::lifecycle::{is_true, signed};

/// So many lists must be consistent before lists are believed again.
const TO_TRUST: u8 = 2;

/// What is remembered between rounds, by provider.
#[derive(Debug, Default)]
pub(crate) struct Distrust(BTreeMap<String, Doubt>);

#[derive(Debug, Default)]
struct Doubt {
    /// Consistent lists that are still missing.
    lists: u8,
    /// Machines that the provider did not know in the last round.
    gone: BTreeSet<String>,
}

/// What a closer look has shown.
#[derive(Debug)]
pub(crate) struct Examined {
    provider: String,
    class: GroupKind,
    /// Machines without a claim, unless the claims could not be read.
    orphans: Result<Vec<String>, Failure>,
    /// Machines that were missing, and whether they are there.
    missing: Vec<(String, Result<bool, Failure>)>,
}

/// Whether a list is to be believed, given how many of the machines that are known it lacks.
fn is_plausible(missing: usize, known: usize, settings: &BreakerSettings) -> bool {
    missing <= settings.missing_machines.max(known * settings.missing_percent / 100)
}

impl Distrust {
    /// A list has come; true if it has just lost all trust.
    fn take(&mut self, provider: &str, missing: usize, known: usize, settings: &BreakerSettings) -> bool {
        let doubt = self.0.entry(provider.to_owned()).or_default();
        if is_plausible(missing, known, settings) {
            doubt.lists = doubt.lists.saturating_sub(1);
            return false;
        }
        std::mem::replace(&mut doubt.lists, TO_TRUST) == 0
    }

    /// How many providers' lists are not believed now.
    pub(crate) fn doubted(&self) -> usize {
        self.0.values().filter(|doubt| doubt.lists > 0).count()
    }

    /// Of machines that the provider does not know, those that may be taken for gone.
    fn believe(&mut self, provider: &str, gone: BTreeSet<String>) -> BTreeSet<String> {
        let doubt = self.0.entry(provider.to_owned()).or_default();
        let before = std::mem::replace(&mut doubt.gone, gone.clone());
        if doubt.lists == 0 { gone } else { gone.intersection(&before).cloned().collect() }
    }
}

impl Engine {
    /// Compares a provider's machines with the claims. What does not match is looked at more closely.
    pub(crate) fn compare(&mut self, provider: &str, listed: &[Listed], now: Timestamp) {
        let of_provider = |of: &&Arc<dyn Provider>| of.name() == provider;
        let Some(found) = self.registry.providers().iter().find(of_provider).cloned() else { return };
        let Some(class) = found.node_class_kinds().first().map(|kind| kind.group_kind()) else { return };
        let (mut instances, mut ids, mut is_whole) = (Vec::<&Instance>::new(), BTreeSet::<&str>::new(), true);
        for item in listed {
            match item {
                Listed::Instance(instance) => {
                    instances.push(instance);
                    ids.insert(&instance.provider_id);
                }
                Listed::Unreadable { provider_id: Some(id), .. } => drop(ids.insert(id)),
                Listed::Unreadable { provider_id: None, .. } => is_whole = false,
            }
        }
        let orphans = self.without_claim(&instances, now);
        let joined: Vec<(String, Arc<NodeClaim>)> = self
            .joined_claims(provider)
            .filter_map(|claim| Some((claim.status.as_ref()?.provider_id.clone()?, claim.clone())))
            .collect();
        let missing: Vec<String> = joined
            .iter()
            .filter(|(id, claim)| !ids.contains(id.as_str()) && !self.has_ready_node(claim))
            .map(|(id, _)| id.clone())
            .collect();
        let settings = self.settings.breakers;
        if is_whole && self.lives.distrust.take(provider, missing.len(), joined.len(), &settings) {
            let (missing, known) = (missing.len() as u64, joined.len() as u64);
            let verdict = Verdict::ListDoubted { missing, known };
            self.tell_of_all(verdict, vec![Subject::new("Provider", provider, None)], now);
            self.metrics.breaker_tripped(Tripped::Disappearance);
        }
        self.metrics.set_breaker(Tripped::Disappearance, self.lives.distrust.doubted());
        let missing = if is_whole { missing } else { Vec::new() };
        if orphans.is_empty() && missing.is_empty() {
            self.lives.distrust.believe(provider, BTreeSet::new());
            return;
        }
        let (executor, provider) = (self.executor.clone(), provider.to_owned());
        self.spawn_guarded(vec![Key::Collect], async move {
            let orphans = match orphans.is_empty() {
                true => Ok(Vec::new()),
                false => executor.unclaimed(orphans).await,
            };
            let missing = match missing.is_empty() {
                true => Vec::new(),
                false => executor.get(&*found, missing).await,
            };
            Report::Examined(Examined { provider, class, orphans, missing })
        });
    }

    /// Machines for which there is no claim, and which are old enough to have one.
    fn without_claim(&mut self, instances: &[&Instance], now: Timestamp) -> Vec<Instance> {
        let mut by_uid: BTreeMap<&str, &Arc<NodeClaim>> = BTreeMap::new();
        let mut ids: BTreeSet<&str> = BTreeSet::new();
        for claim in self.cache.claims.values() {
            by_uid.extend(claim.metadata.uid.as_deref().map(|uid| (uid, claim)));
            ids.extend(claim.status.as_ref().and_then(|status| status.provider_id.as_deref()));
        }
        let present = self.present();
        let mut found = Vec::new();
        for instance in instances {
            let id = &instance.provider_id;
            let claim = match &instance.claim_uid {
                Some(uid) => by_uid.get(uid.as_str()).copied(),
                None => instance.claim.as_deref().and_then(|name| self.cache.claims.get(name)),
            };
            // A claim that names another machine has one already.
            let waits = claim.is_some_and(|claim| is_unnamed(claim));
            if ids.contains(id.as_str()) || waits || instance.terminating {
                self.times.forget(id);
                continue;
            }
            self.times.observe(id, instance.created, present);
            let times = self.times.of(Some(id), present);
            let young = instance.created.is_some_and(|created| {
                now.duration_since(times.past(created)) < signed(self.settings.collect_age)
            });
            if !young {
                found.push((*instance).clone());
            }
        }
        found
    }

    /// Claims of a provider whose machines have joined, and which are to stay.
    fn joined_claims(&self, provider: &str) -> impl Iterator<Item = &Arc<NodeClaim>> {
        self.cache.claims.values().filter(move |claim| {
            claim.metadata.deletion_timestamp.is_none()
                && is_true(claim, conditions::REGISTERED)
                && self
                    .registry
                    .provider_of(&claim.spec.node_class_ref)
                    .is_some_and(|of| of.name() == provider)
        })
    }

    fn has_ready_node(&self, claim: &NodeClaim) -> bool {
        self.cache.nodes_of(claim).iter().any(|node| emptiness::is_ready(node))
    }

    /// Takes away what has no other half even on a closer look.
    pub(crate) fn clear_away(&mut self, examined: Examined, now: Timestamp) {
        let Examined { provider, class, orphans, missing } = examined;
        let mut steps: Vec<(Key, Step)> = Vec::new();
        match orphans {
            Ok(ids) => steps.extend(ids.into_iter().map(|id| self.end_orphan(&class, id))),
            Err(failure) => {
                tracing::warn!(%failure, "machines without a claim are left alone: the claims cannot be read")
            }
        }
        let mut gone = BTreeSet::new();
        for (id, found) in missing {
            match found {
                Ok(true) => {}
                Ok(false) => drop(gone.insert(id)),
                Err(failure) => {
                    tracing::warn!(%failure, machine = id, "nobody knows whether a machine is still there")
                }
            }
        }
        let gone = self.lives.distrust.believe(&provider, gone);
        let lost = self.joined_claims(&provider).filter(|claim| {
            let id = claim.status.as_ref().and_then(|status| status.provider_id.as_ref());
            id.is_some_and(|id| gone.contains(id)) && !self.has_ready_node(claim)
        });
        steps.extend(lost.map(|claim| {
            let (name, uid) = (claim.name_any(), claim.uid().unwrap_or_default());
            let commands = vec![Command::DeleteClaim { name: name.clone(), uid }];
            (Key::Claim(name), collected(commands, Orphan::Claim, subject_of(&**claim)))
        }));
        for (key, step) in steps {
            if !self.busy.contains_key(&key) {
                self.carry_out(key, step, now);
            }
        }
    }

    /// Ends a machine without a claim, and lets go of nodes that stand for it.
    fn end_orphan(&self, class: &GroupKind, id: String) -> (Key, Step) {
        let nodes = self.cache.nodes_with_id(&id).filter(|node| {
            self.registry.kind_of_node(node).is_some() && node.metadata.deletion_timestamp.is_none()
        });
        let mut commands = vec![Command::Terminate { class: class.clone(), provider_id: id.clone() }];
        commands.extend(
            nodes.map(|node| Command::DeleteNode {
                name: node.name_any(),
                uid: node.uid().unwrap_or_default(),
            }),
        );
        (Key::Event(id.clone()), collected(commands, Orphan::Machine, Subject::new("Machine", id, None)))
    }
}

/// Whether a claim does not say yet which machine is its own.
fn is_unnamed(claim: &NodeClaim) -> bool {
    let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
    id.is_none_or(str::is_empty)
}

fn collected(commands: Vec<Command>, orphan: Orphan, object: Subject) -> Step {
    let decisions = vec![Decided::new(Verdict::Collected { orphan }, vec![object])];
    Step { commands, decisions, ..Step::default() }
}

/// Of machines, those for which there is none among claims that were just read.
pub(crate) fn still_unclaimed(machines: Vec<Instance>, claims: &[NodeClaim]) -> Vec<String> {
    let claimed = |machine: &Instance| {
        claims.iter().any(|claim| {
            let id = claim.status.as_ref().and_then(|status| status.provider_id.as_ref());
            let is_its = id == Some(&machine.provider_id);
            let waits = is_unnamed(claim)
                && (machine.claim_uid.is_some() && machine.claim_uid == claim.metadata.uid
                    || machine.claim_uid.is_none() && machine.claim == claim.metadata.name);
            is_its || waits
        })
    };
    machines.into_iter().filter(|machine| !claimed(machine)).map(|machine| machine.provider_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn a_list_that_lacks_many_is_not_believed_until_two_are_consistent() {
        let mut distrust = Distrust::default();
        let settings = BreakerSettings::default();
        assert!(!distrust.take("a", 3, 3, &settings), "three may go at once");
        assert_eq!(distrust.believe("a", set(&["x"])), set(&["x"]));
        assert!(!distrust.take("a", 20, 100, &settings));
        assert!(distrust.take("a", 21, 100, &settings), "told once");
        assert!(!distrust.take("a", 21, 100, &settings));
        assert_eq!(distrust.believe("a", set(&["x", "y"])), set(&["x"]), "found twice");
        assert_eq!(distrust.believe("a", set(&["y", "z"])), set(&["y"]));
        assert!(!distrust.take("a", 0, 100, &settings));
        assert_eq!(distrust.believe("a", set(&["w"])), set(&[]));
        assert!(!distrust.take("a", 0, 100, &settings));
        assert_eq!(distrust.believe("a", set(&["v"])), set(&["v"]), "trusted again");
        assert!(distrust.take("b", 4, 4, &settings), "each provider by itself");
    }

    #[test]
    fn a_machine_is_claimed_by_id_or_by_the_uid_of_a_claim_that_has_none() {
        let claim = |name: &str, uid: &str, id: Value| -> NodeClaim {
            serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": name, "uid": uid}, "status": {"providerID": id},
                "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}))
            .unwrap()
        };
        let machine = |id: &str, uid: Option<&str>, name: Option<&str>| Instance {
            provider_id: id.to_owned(),
            claim: name.map(str::to_owned),
            claim_uid: uid.map(str::to_owned),
            created: None,
            terminating: false,
        };
        let claims = [claim("a", "1", json!("m-1")), claim("b", "2", json!(null))];
        let machines = vec![
            machine("m-1", None, None),
            machine("m-2", Some("2"), Some("b")),
            machine("m-3", None, Some("b")),
            machine("m-4", Some("1"), Some("a")),
            machine("m-5", Some("9"), Some("b")),
            machine("m-6", None, None),
        ];
        assert_eq!(still_unclaimed(machines, &claims), ["m-4", "m-5", "m-6"]);
    }
}
