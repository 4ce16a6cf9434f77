//! A look at each kind of key: facts are gathered from the world, a pure function decides, the loop carries out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::condition::{ConditionSet, ConditionTypes};
use joiner_api::names::{self, NODEPOOL_LABEL, conditions};
use joiner_api::{NodeClaim, NodePool};
use joiner_provider::Registry;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::json;

use crate::command::{Command, Remark, Step};
use crate::decisions::DecisionKind;
use crate::emptiness::{self, Candidate, Stays};
use crate::engine::Engine;
use crate::lifecycle::{self, status_patch, subject};
use crate::nodepools;
use crate::provision::{self, Context, Proposal};
use crate::queue::Key;
use crate::record::{Level, Note};
use crate::summary::LastPlan;
use crate::termination::{self, disrupted_taints};
use crate::world::World;

/// How long a refusal is not told again.
const REFUSAL_QUIET: std::time::Duration = std::time::Duration::from_secs(300);
/// How long it is not told again that budgets hold nodes.
const BUDGET_QUIET: std::time::Duration = std::time::Duration::from_secs(60);

impl Engine {
    /// Looks at a key.
    pub(crate) fn look(&mut self, key: &Key, now: Timestamp) {
        match key {
            Key::Claim(name) => self.look_at_claim(name, now),
            Key::Node(name) => self.look_at_node(name, now),
            Key::Pool(name) => self.look_at_pool(name, now),
            Key::Provision => self.provision(now),
            Key::Disruption => self.disrupt(now),
            Key::Collect => {
                self.list_instances();
                self.again(Key::Collect, self.settings.collect_interval);
            }
            Key::Adoption => {
                let machines = std::mem::take(&mut self.to_adopt);
                if !machines.is_empty() {
                    self.adopt(machines);
                }
            }
            Key::Event(_) => {}
        }
    }

    fn again(&mut self, key: Key, wait: std::time::Duration) {
        let due = self.present().monotonic + wait;
        self.queue.add(key, due);
    }

    fn look_at_claim(&mut self, name: &str, now: Timestamp) {
        let Some(claim) = self.world.claims.get(name).cloned() else { return };
        if !self.is_ours(&claim) {
            return;
        }
        let present = self.present();
        self.times.observe_claim(&claim, present);
        let nodes: Vec<&Node> = self.world.nodes_of(&claim).into_iter().map(|node| &**node).collect();
        let step = if claim.metadata.deletion_timestamp.is_some() {
            let id = claim.status.as_ref().and_then(|status| status.provider_id.as_ref());
            let id = id.or_else(|| claim.annotations().get(names::LAUNCH_HANDLE_ANNOTATION));
            termination::claim_step(&termination::ClaimFacts {
                claim: &claim,
                nodes,
                machine_gone: id.is_some_and(|id| self.gone.contains(id)),
                now,
                settings: &self.settings,
            })
        } else {
            let pool = claim.labels().get(NODEPOOL_LABEL).and_then(|pool| self.world.pools.get(pool));
            lifecycle::step(&lifecycle::Facts {
                claim: &claim,
                nodes,
                pool: pool.map(|pool| &**pool),
                pod_event: self
                    .pod_events
                    .get(name)
                    .map(|time| present.before(present.monotonic.since(*time))),
                times: self.times.of(claim.metadata.uid.as_deref(), present),
                now,
                settings: &self.settings,
            })
        };
        let (launch, idle) = (step.launch, step.commands.is_empty() && step.each.is_empty());
        self.carry_out(Key::Claim(name.to_owned()), step, now);
        if !launch || !idle {
            return;
        }
        match self.pauses.get(&Key::Claim(name.to_owned())) {
            Some((due, _)) if *due > present.monotonic => self.queue.add(Key::Claim(name.to_owned()), *due),
            _ => self.launch_soon(claim),
        }
    }

    fn look_at_node(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.world.nodes.get(name).cloned() else { return };
        let finalizer = node.finalizers().iter().any(|of| of == names::TERMINATION_FINALIZER);
        let Some(class) = self.registry.kind_of_node(&node) else { return };
        if node.metadata.deletion_timestamp.is_none() || !finalizer {
            return;
        }
        let (present, world) = (self.present(), &self.world);
        if let Some(claim) = world.claim_of(&node) {
            self.times.observe_claim(claim, present);
        }
        world.pods_on(name).for_each(|pod| self.times.observe_pod(pod, present));
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref());
        let attached = |attachment: &&Arc<k8s_openapi::api::storage::v1::VolumeAttachment>| {
            attachment.spec.node_name == name
        };
        let step = termination::node_step(&termination::NodeFacts {
            node: &node,
            class,
            claim: world.claim_of(&node).map(|claim| &**claim),
            pods: world.pods_on(name).map(|pod| &**pod).collect(),
            attachments: world.attachments.values().filter(attached).map(|of| &**of).collect(),
            volumes: world.volumes.values().map(|of| &**of).collect(),
            machine_gone: id.is_some_and(|id| self.gone.contains(id)),
            evictions: &self.evictions,
            times: &self.times,
            present,
            settings: &self.settings,
        });
        self.carry_out(Key::Node(name.to_owned()), step, now);
    }

    fn look_at_pool(&mut self, name: &str, now: Timestamp) {
        let Some(pool) = self.world.pools.get(name).cloned() else { return };
        let class = &pool.spec.template.spec.node_class_ref;
        if !self.registry.serves(class) {
            return;
        }
        let well_known: BTreeSet<String> = self.registry.types(class).well_known.iter().cloned().collect();
        let stored = provision::class_of(&self.world, &pool);
        let mut machines = Vec::new();
        for claim in self.world.claims.values() {
            let of_pool = claim.labels().get(NODEPOOL_LABEL).is_some_and(|of| of == name);
            if !of_pool || claim.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let node = self.world.nodes_of(claim).into_iter().find(|node| emptiness::is_initialised(node));
            let claimed = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
            machines.extend(node.and_then(|node| nodepools::capacity(node)).or(claimed));
        }
        let facts = nodepools::Facts {
            pool: &pool,
            class: stored.as_deref(),
            well_known: &well_known,
            machines,
            now,
        };
        let step = nodepools::step(&facts);
        self.carry_out(Key::Pool(name.to_owned()), step, now);
    }

    fn provision(&mut self, now: Timestamp) {
        let present = self.present();
        if let Some(due) = self.batch.due(&self.settings).filter(|due| *due > present.monotonic) {
            self.queue.add(Key::Provision, due);
            return;
        }
        let in_need = self.in_need();
        self.nominations.forget(|uid| in_need.contains(uid));
        self.batch.decided.retain(|uid, _| in_need.contains(uid));
        let expected = self.nominations.expected(&self.world, &in_need, &self.times, present, &self.settings);
        let context = Context {
            registry: &self.registry,
            settings: &self.settings,
            health: &self.health,
            expected: &expected,
            provisionable: &self.provisionable,
            now,
        };
        let waiting = provision::waiting(&self.world, &context);
        let retry = self.settings.retry_interval;
        let is_new = |uid: &String| {
            self.batch.decided.get(uid).is_none_or(|time| present.monotonic.since(*time) >= retry)
        };
        let any_new = waiting.iter().any(|pod| pod.uid().is_some_and(|uid| is_new(&uid)));
        let in_flight = expected.keys().any(|uid| in_need.contains(uid));
        let proposal =
            any_new.then(|| provision::propose(&self.world, &mut self.planning, &waiting, &context));
        self.batch.opened = None;
        self.batch.last = None;
        self.batch.uids.clear();
        if !waiting.is_empty() || in_flight {
            // Pods without a place are tried again; those with one are, if they never arrive.
            self.again(Key::Provision, self.settings.retry_interval);
        }
        let Some(proposal) = proposal else { return };
        for pod in &waiting {
            self.batch.decided.insert(pod.uid().unwrap_or_default(), present.monotonic);
        }
        let step = self.act_on(&proposal, now);
        self.carry_out(Key::Provision, step, now);
    }

    /// Pods that need a place: those the scheduler refused, and those whose node goes.
    fn in_need(&self) -> BTreeSet<String> {
        let refused = self.provisionable.iter().filter_map(|key| self.world.pods.get(key)?.uid());
        let moving = provision::moving(&self.world).filter_map(|pod| pod.uid());
        refused.chain(moving).collect()
    }

    fn act_on(&mut self, proposal: &Proposal, now: Timestamp) -> Step {
        let mut step = Step::default();
        let until = self.present().monotonic + self.settings.nomination();
        let mut placed: BTreeMap<&str, (String, String)> = BTreeMap::new();
        for (place, pods) in &proposal.on_nodes {
            let kind = if self.world.nodes.get(place).is_some() { "node" } else { "nodeclaim" };
            placed.extend(pods.iter().map(|pod| (pod.as_str(), (kind.to_owned(), place.clone()))));
        }
        for planned in &proposal.claims {
            let place = ("nodeclaim".to_owned(), planned.claim.name_any());
            placed.extend(planned.pods.iter().map(|pod| (pod.as_str(), place.clone())));
        }
        for (key, (kind, place)) in placed {
            self.refused.remove(key);
            let Some(pod) = self.world.pods.get(key) else { continue };
            if kind == "node" || self.world.claims.get(&place).is_some() {
                self.nominations.add(pod.uid().unwrap_or_default(), place.clone(), until);
            }
            if self.provisionable.contains(key) {
                let message = format!("is to run on {kind}/{place}");
                step.notes.push(Note::new(&**pod, Level::Normal, "Nominated", message));
            }
        }
        for (key, why) in &proposal.refused {
            let Some(pod) = self.world.pods.get(key).filter(|_| self.provisionable.contains(key)) else {
                continue;
            };
            let is_new = self.refused.insert(key.clone(), why.clone()).is_none();
            let note = Note::new(
                &**pod,
                Level::Warning,
                "FailedScheduling",
                format!("no machine would help: {why}"),
            );
            step.notes.push(note.once_in(REFUSAL_QUIET));
            if is_new {
                step.remarks.push(Remark {
                    kind: DecisionKind::Refused,
                    summary: format!("no place for pod {key}: {why}"),
                    objects: vec![format!("pod/{key}")],
                    dollars_per_hour: 0.0,
                });
            }
        }
        if proposal.claims.is_empty() {
            return step;
        }
        for planned in &proposal.claims {
            if !planned.offerings.is_empty() {
                let offerings = planned.offerings.as_slice().into();
                self.planned_offerings.insert(planned.claim.name_any(), offerings);
            }
        }
        step.each =
            proposal.claims.iter().map(|of| Command::CreateClaim(Box::new(of.claim.clone()))).collect();
        step.remarks.push(bought(proposal));
        let gap = proposal.lower_bound.filter(|bound| *bound > 0.0).map(|bound| proposal.price / bound - 1.0);
        self.last_plan = Some(LastPlan {
            time: now,
            machines: proposal.claims.len(),
            pods: proposal.pods,
            price: proposal.price,
            gap,
        });
        step
    }

    /// Claims whose nodes may be empty, have been, are marked for going, or are spared: about the others there is nothing to do.
    fn worth_a_look(&self, spared: &BTreeSet<&String>) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.roster.worth_a_look().cloned().collect();
        names.extend(self.empty_since.keys().cloned());
        for place in spared {
            names.insert((*place).clone());
            let claims = self.world.nodes.get(place).map(|node| self.world.claims_of(node));
            names.extend(claims.into_iter().flatten().map(|claim| claim.name_any()));
        }
        names
    }

    fn disrupt(&mut self, now: Timestamp) {
        let mut steps: Vec<(Key, Step)> = Vec::new();
        let mut look_again = false;
        self.roster.refresh(&self.world, &self.registry);
        let in_need = self.in_need();
        let present = self.present();
        let expected = self.nominations.expected(&self.world, &in_need, &self.times, present, &self.settings);
        let spared: BTreeSet<&String> = expected.values().collect();
        let worth_a_look = self.worth_a_look(&spared);
        let pools: Vec<Arc<NodePool>> = provision::pools(&self.world, &self.registry).cloned().collect();
        let wait = self.settings.validation_wait;
        for pool in &pools {
            let pool_name = pool.name_any();
            let all = candidates(&self.world, &self.registry, &pool_name, &worth_a_look, &spared);
            let mut due = Vec::new();
            for candidate in &all {
                let name = candidate.claim.name_any();
                match emptiness::judge(candidate, now) {
                    Ok(()) => {
                        let since = *self.empty_since.entry(name).or_insert(present.monotonic);
                        let ripe = since + wait;
                        if ripe <= present.monotonic {
                            due.push(candidate);
                        } else {
                            self.queue.add(Key::Disruption, ripe);
                        }
                    }
                    Err(why) => {
                        look_again |=
                            matches!(why, Stays::Protected(_) | Stays::Needed if candidate.nominated);
                        look_again |= matches!(why, Stays::Protected(Some(_)));
                        self.empty_since.remove(&name);
                        steps.extend(untaint(&self.leaving, candidate).map(|step| (Key::Claim(name), step)));
                    }
                }
            }
            if all.is_empty() {
                continue;
            }
            let count = self.roster.count(&pool_name, &self.leaving);
            let (allowed, blocked) = emptiness::allowance(pool, count.standing, count.used, now);
            let wanted = due.len();
            let ready = due.into_iter().filter(|of| {
                let name = of.claim.name_any();
                !self.leaving.contains(&name) && !self.busy.contains_key(&Key::Claim(name))
            });
            let chosen = emptiness::choose(ready.collect(), allowed);
            look_again |= chosen.len() < wanted;
            if blocked && wanted > 0 {
                let message = "no node may be removed for being empty now: its budgets allow none";
                let note =
                    Note::new(&**pool, Level::Normal, "DisruptionBlocked", message).quiet_for(BUDGET_QUIET);
                steps.push((Key::Disruption, Step { notes: vec![note], ..Step::default() }));
            }
            for candidate in chosen {
                steps.push((Key::Claim(candidate.claim.name_any()), remove(candidate, now)));
            }
        }
        for (key, step) in steps {
            let removes = step.commands.iter().any(|command| matches!(command, Command::DeleteClaim { .. }));
            if let (Key::Claim(name), true) = (&key, removes) {
                self.leaving.insert(name.clone());
            }
            if self.busy.contains_key(&key) {
                look_again = true;
                continue;
            }
            self.carry_out(key, step, now);
        }
        if look_again {
            self.again(Key::Disruption, self.settings.retry_interval);
        }
    }
}

/// The machines of a pool, of those worth a look, that have exactly one node.
fn candidates<'w>(
    world: &'w World,
    registry: &Registry,
    pool: &str,
    worth_a_look: &BTreeSet<String>,
    spared: &BTreeSet<&String>,
) -> Vec<Candidate<'w>> {
    let mut found = Vec::new();
    for claim in worth_a_look.iter().filter_map(|name| world.claims.get(name)) {
        if claim.labels().get(NODEPOOL_LABEL).is_none_or(|of| of != pool) {
            continue;
        }
        let [node] = world.nodes_of(claim)[..] else { continue };
        let name = node.name_any();
        found.push(Candidate {
            claim,
            node,
            pods: world.pods_on(&name).map(|pod| &**pod).collect(),
            nominated: spared.contains(&name) || spared.contains(&claim.name_any()),
            price: registry.price(claim).unwrap_or(0.0),
        });
    }
    found
}

fn bought(proposal: &Proposal) -> Remark {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for planned in &proposal.claims {
        *counts.entry(&planned.machine).or_default() += 1;
    }
    let machines: Vec<String> = counts.iter().map(|(name, count)| format!("{count} × {name}")).collect();
    let pods: usize = proposal.claims.iter().map(|planned| planned.pods.len()).sum();
    let plural = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    Remark {
        kind: DecisionKind::Provisioned,
        summary: format!(
            "{} for {}: {}, ${:.4}/h",
            plural(proposal.claims.len(), "machine"),
            plural(pods, "pod"),
            machines.join(", "),
            proposal.price
        ),
        objects: proposal
            .claims
            .iter()
            .map(|planned| format!("nodeclaim/{}", planned.claim.name_any()))
            .collect(),
        dollars_per_hour: proposal.price,
    }
}

/// Takes an empty node out: no new pods, one more look at the server itself, then the claim's deletion.
fn remove(candidate: &Candidate, now: Timestamp) -> Step {
    let (claim, node) = (candidate.claim, candidate.node);
    let mut step = Step::default();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let (taints, _) = disrupted_taints(taints);
    let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}});
    step.commands.push(Command::PatchNode { name: node.name_any(), patch });
    step.commands.push(Command::ConfirmEmpty { node: node.name_any() });
    step.commands.push(reason_patch(claim, now));
    step.commands.push(Command::DeleteClaim { name: claim.name_any(), uid: claim.uid().unwrap_or_default() });
    step.notes.push(Note::new(
        node,
        Level::Normal,
        "DisruptionTerminating",
        "goes because no pod needs it: Empty",
    ));
    step.notes.push(Note::new(
        claim,
        Level::Normal,
        "DisruptionTerminating",
        "goes because no pod needs it: Empty",
    ));
    step.remarks.push(Remark {
        kind: DecisionKind::Emptied,
        summary: format!("{} is empty and goes, ${:.4}/h saved", node.name_any(), candidate.price),
        objects: vec![format!("nodeclaim/{}", claim.name_any()), format!("node/{}", node.name_any())],
        dollars_per_hour: -candidate.price,
    });
    step
}

fn reason_patch(claim: &NodeClaim, now: Timestamp) -> Command {
    let before = claim.status.clone().unwrap_or_default();
    let mut status = before.clone();
    ConditionSet::open(ConditionTypes::NODE_CLAIM, subject(claim, now), &mut status.conditions).set(
        conditions::DISRUPTION_REASON,
        joiner_api::condition::Status::True,
        emptiness::REASON,
        "no pod needs the node",
    );
    status_patch(claim, &before, &status)
}

/// Lets pods come back to a node that was to go and does not: a removal that was given up or cut off.
fn untaint(leaving: &BTreeSet<String>, candidate: &Candidate) -> Option<Step> {
    let (claim, node) = (candidate.claim, candidate.node);
    let going = claim.metadata.deletion_timestamp.is_some() || node.metadata.deletion_timestamp.is_some();
    if going || leaving.contains(&claim.name_any()) {
        return None;
    }
    let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let before = taints.len();
    taints.retain(|taint| taint.key != names::DISRUPTED_TAINT);
    if taints.len() == before {
        return None;
    }
    let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}});
    let command = Command::PatchNode { name: node.name_any(), patch };
    Some(Step { commands: vec![command], ..Step::default() })
}
