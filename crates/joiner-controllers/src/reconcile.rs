//! Each kind of key: facts are gathered from the cache, a pure function decides, the loop carries out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::condition::{ConditionSet, ConditionTypes};
use joiner_api::names::{self, NODEPOOL_LABEL, conditions};
use joiner_api::{NodeClaim, NodePool};
use joiner_provider::{HookPoint, Registry};
use joiner_record::decision::MOST_NAMED;
use joiner_record::{Machine, Nomination, Reason, Subject, Verdict};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt;
use serde_json::json;

use crate::cache::ClusterCache;
use crate::command::{Command, Step};
use crate::decision::{Decided, subject_of};
use crate::engine::Engine;
use crate::provision::{self, Growing, InNeed, Proposal};
use crate::queue::Key;
use crate::record::Note;
use crate::steps::detaching::Attached;
use crate::steps::emptiness::{self, Candidate, Stays};
use crate::steps::hydration;
use crate::steps::lifecycle::{self, status_patch, subject};
use crate::steps::nodepools;
use crate::steps::static_pools;
use crate::steps::termination::{self, disrupted_taints};
use crate::summary::LastPlan;

/// How long a refusal is not told again.
const REFUSAL_QUIET: std::time::Duration = std::time::Duration::from_secs(300);
/// How long it is not told again that budgets hold nodes.
const BUDGET_QUIET: std::time::Duration = std::time::Duration::from_secs(60);

impl Engine {
    /// Does what is to be done for a key.
    pub(crate) fn reconcile(&mut self, key: &Key, now: Timestamp) {
        match key {
            Key::Claim(name) => self.reconcile_claim(name, now),
            Key::Node(name) => self.reconcile_node(name, now),
            Key::Pool(name) => self.reconcile_pool(name, now),
            Key::StaticPool(name) => self.reconcile_static_pool(name, now),
            Key::Provision => self.provision(),
            Key::Displaced => self.look_for_displaced(),
            Key::Disruption => self.disrupt(now),
            Key::Collect if !self.leads() => {}
            Key::Collect => {
                self.list_instances();
                self.requeue_after(&Key::Collect, self.settings.collect_interval);
            }
            Key::NodeGroups => self.list_groups(),
            Key::Adoption => {
                let machines = std::mem::take(&mut self.to_adopt);
                if !machines.is_empty() {
                    self.adopt(machines);
                }
            }
            Key::Event(_) | Key::Record | Key::Machine(_) => {}
        }
    }

    fn reconcile_claim(&mut self, name: &str, now: Timestamp) {
        let Some(claim) = self.cache.claims.get(name).cloned() else { return };
        if !self.is_ours(&claim) {
            return;
        }
        let present = self.present();
        self.times.observe_claim(&claim, present);
        let machines = self.machines_of(&claim);
        let compare =
            claim.metadata.deletion_timestamp.is_none() && self.is_to_compare(&claim, machines.len());
        let nodes: Vec<&Node> = machines.iter().map(|node| &**node).collect();
        let step = if claim.metadata.deletion_timestamp.is_some() {
            termination::claim_step(&termination::ClaimFacts {
                claim: &claim,
                nodes,
                machine_gone: self.gone.contains(termination::machine_key(&claim)),
                now,
                settings: &self.settings,
            })
        } else {
            let pool = claim.labels().get(NODEPOOL_LABEL).and_then(|pool| self.cache.pools.get(pool));
            lifecycle::step(&lifecycle::Facts {
                claim: &claim,
                nodes,
                pool: pool.map(|pool| &**pool),
                pod_event: self
                    .pod_events
                    .get(name)
                    .map(|time| present.before(present.monotonic.since(*time))),
                policy: self
                    .registry
                    .provider_of(&claim.spec.node_class_ref)
                    .map(|provider| provider.registration_policy())
                    .unwrap_or_default(),
                hooks: [HookPoint::Registered, HookPoint::Initialized]
                    .map(|point| self.hook_state(&claim, point)),
                compare,
                times: self.times.of(claim.metadata.uid.as_deref(), present),
                now,
                settings: &self.settings,
            })
        };
        self.count_failure(&claim, &step);
        if let (Some(point), Some(node)) = (step.hook, machines.first()) {
            self.ask_hook(&claim, node, point);
        }
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

    fn reconcile_node(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.cache.nodes.get(name).cloned() else { return };
        if let Some(patch) = self.hydration_of(&node) {
            let step = Step { commands: vec![patch], ..Step::default() };
            return self.carry_out(Key::Node(name.to_owned()), step, now);
        }
        let finalizer = node.finalizers().iter().any(|of| of == names::TERMINATION_FINALIZER);
        let Some(class) = self.registry.kind_of_node(&node) else { return };
        if node.metadata.deletion_timestamp.is_none() || !finalizer {
            return;
        }
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
        match emptiness::is_ready(&node) {
            true => self.lives.is_back(&id),
            false => self.doubt_machine(&node, &class),
        }
        let (present, cache) = (self.present(), &self.cache);
        let deleted = node.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        self.times.observe(node.metadata.uid.as_deref().unwrap_or_default(), deleted, present);
        if let Some(claim) = cache.claim_of(&node) {
            self.times.observe_claim(claim, present);
        }
        cache.pods_on(name).for_each(|pod| self.times.observe_pod(pod, present));
        let claim = cache.claim_of(&node).cloned();
        let namespaces: BTreeSet<&str> = cache.pods_on(name).map(|pod| &*pod.common.namespace).collect();
        let step = termination::node_step(&termination::NodeFacts {
            node: &node,
            class,
            claim: claim.as_deref(),
            pods: cache.pods_on(name).map(|pod| &**pod).collect(),
            attached: cache.attachments_to(name).filter_map(|of| self.attached(of)).collect(),
            budgets: namespaces
                .iter()
                .flat_map(|of| cache.budgets.in_namespace(of))
                .map(|of| &**of)
                .collect(),
            machine_gone: self.gone.contains(&id) || self.lives.is_absent(&id),
            hook: claim
                .as_ref()
                .map(|claim| self.hook_state(claim, HookPoint::BeforeTermination))
                .unwrap_or_default(),
            evictions: &self.evictions,
            times: &self.times,
            present,
            settings: &self.settings,
        });
        if let (Some(point), Some(claim)) = (step.hook, &claim) {
            self.ask_hook(claim, &node, point);
        }
        self.carry_out(Key::Node(name.to_owned()), step, now);
    }

    /// What gives the node of a registered claim the label by which it is known as ours, if it lacks it.
    fn hydration_of(&self, node: &Node) -> Option<Command> {
        let claim = self.cache.claim_of(node)?;
        let joined = self.is_ours(claim) && lifecycle::is_true(claim, conditions::REGISTERED);
        joined.then(|| hydration::node_patch(claim, node)).flatten()
    }

    /// A volume attached to a node, if the attachment names one.
    fn attached<'w>(&'w self, attachment: &'w VolumeAttachment) -> Option<Attached<'w>> {
        let name = attachment.spec.source.persistent_volume_name.as_deref()?;
        let volume = self.cache.volumes.get(name).map(|volume| &**volume);
        let claim = volume.and_then(|volume| volume.spec.as_ref()?.claim_ref.as_ref());
        let key = claim.map(|claim| {
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{}/{}", part(&claim.namespace), part(&claim.name))
        });
        let has_claim = key.is_some_and(|key| self.cache.volume_claims.get(&key).is_some());
        Some(Attached { name, volume, has_claim })
    }

    fn reconcile_pool(&mut self, name: &str, now: Timestamp) {
        let Some(pool) = self.cache.pools.get(name).cloned() else { return };
        let class = &pool.spec.template.spec.node_class_ref;
        if !self.registry.serves(class) {
            return;
        }
        let well_known: BTreeSet<String> = self.registry.types(class).well_known.iter().cloned().collect();
        let stored = provision::class_of(&self.cache, &pool);
        self.roster.refresh(&self.cache, &self.registry);
        let generation = |class: &serde_json::Value| class.pointer("/metadata/generation")?.as_i64();
        let class_generation = stored.as_deref().and_then(generation);
        let facts = nodepools::Facts {
            readiness: nodepools::Readiness {
                pool: &pool,
                class: stored.as_deref(),
                class_trouble: self.watches.of_class(class),
                well_known: &well_known,
                now,
            },
            registrations: self.lives.registrations(&pool, class_generation),
            class_generation,
            claims: self.cache.claims_in_pool(name).map(|claim| &**claim).collect(),
            totals: self.roster.capacity_of(name),
            breakers: self.breakers.annotations(&pool),
        };
        let step = nodepools::step(&facts);
        self.carry_out(Key::Pool(name.to_owned()), step, now);
        if pool.spec.replicas.is_some() && self.settings.static_capacity {
            self.enqueue(Key::StaticPool(name.to_owned()));
        }
    }

    /// Keeps a pool of a fixed size at it.
    fn reconcile_static_pool(&mut self, name: &str, now: Timestamp) {
        let Some(pool) = self.cache.pools.get(name).cloned() else { return };
        let class = &pool.spec.template.spec.node_class_ref;
        if !self.settings.static_capacity || pool.spec.replicas.is_none() || !self.registry.serves(class) {
            return;
        }
        let well_known: BTreeSet<String> = self.registry.types(class).well_known.iter().cloned().collect();
        let stored = provision::class_of(&self.cache, &pool);
        let ready = nodepools::with_conditions(&nodepools::Readiness {
            pool: &pool,
            class: stored.as_deref(),
            class_trouble: self.watches.of_class(class),
            well_known: &well_known,
            now,
        });
        let conditions = ready.status.iter().flat_map(|status| &status.conditions);
        let ready = conditions.into_iter().any(|of| of.type_ == conditions::READY && of.status == "True");
        let on_probation = self.is_on_probation(&pool);
        let machines = self.cache.claims_in_pool(name).map(|claim| {
            let node = self.cache.nodes_of(claim).first().map(|node| &***node);
            let pods = node.map(|node| self.cache.pods_on(&node.name_any()).map(|pod| &**pod).collect());
            static_pools::Machine { claim, node, pods: pods.unwrap_or_default() }
        });
        let step = static_pools::step(&static_pools::Facts {
            pool: &pool,
            ready,
            on_probation,
            machines: machines.collect(),
            seed: self.settings.seed,
            is_taken: &|name| self.cache.claims.get(name).is_some(),
            now,
        });
        self.carry_out(Key::StaticPool(name.to_owned()), step, now);
    }

    /// Pods that need a place: those the scheduler refused, and those whose node goes.
    pub(crate) fn in_need(&self) -> InNeed {
        let refused = self.provisionable.iter().filter_map(|key| self.cache.pods.get(key));
        let pods = refused.chain(provision::moving(&self.cache));
        pods.map(|pod| (pod.uid.to_string(), pod.clone())).collect()
    }

    pub(crate) fn act_on(&mut self, proposal: &Proposal, now: Timestamp) -> Step {
        let mut step = Step::default();
        let until = self.present().monotonic + self.settings.nomination();
        let mut placed: BTreeMap<&str, Subject> = BTreeMap::new();
        for (place, pods) in &proposal.on_nodes {
            let place = match self.cache.nodes.get(place) {
                Some(node) => subject_of(&**node),
                None if self.cache.node_groups.is_upcoming(place) => Subject::new("Machine", place, None),
                None => Subject::new(names::kinds::NODE_CLAIM, place, None),
            };
            placed.extend(pods.iter().map(|pod| (pod.as_str(), place.clone())));
        }
        for planned in &proposal.claims {
            let place = subject_of(&planned.claim);
            placed.extend(planned.pods.iter().map(|pod| (pod.as_str(), place.clone())));
        }
        for pod in proposal.growing.iter().flat_map(|of| &of.machines).flat_map(|(_, pods)| pods) {
            // Where it goes is known when the group has grown.
            self.refused.remove(pod);
        }
        let mut nominated = Nominated::default();
        for (key, place) in placed {
            self.refused.remove(key);
            let Some(pod) = self.cache.pods.get(key) else { continue };
            let stands = matches!(place.kind.as_str(), "Node" | "Machine")
                || self.cache.claims.get(&place.name).is_some();
            let is_new = stands && self.nominations.add(pod.uid.to_string(), place.name.clone(), until);
            if self.provisionable.contains(key) {
                if is_new {
                    nominated.add(key, subject_of(&**pod), &place);
                }
                let verdict = Verdict::Nominated { nominations: Vec::new(), pods: 1 };
                step.notes.extend(Note::of(&**pod, &verdict, Some(&place)));
            }
        }
        step.decisions.extend(nominated.decided());
        self.refuse(proposal, &mut step);
        if proposal.claims.is_empty() && proposal.growing.is_empty() {
            return step;
        }
        for planned in &proposal.claims {
            if !planned.offerings.is_empty() && self.leads() {
                let offerings = planned.offerings.as_slice().into();
                self.planned_offerings.insert(planned.claim.name_any(), offerings);
            }
        }
        let create = proposal.claims.iter().map(|of| Command::CreateClaim(Box::new(of.claim.clone())));
        step.each = create.chain(proposal.growing.iter().map(Growing::command)).collect();
        step.decisions.push(bought(proposal));
        self.last_plan = Some(LastPlan {
            time: now,
            machines: machines(proposal).count(),
            pods: proposal.pods,
            price: proposal.price,
            gap: None,
        });
        step
    }

    /// Tells of pods without a place, those with equal reasons together; each is told once until it has had a place.
    fn refuse(&mut self, proposal: &Proposal, step: &mut Step) {
        let mut groups: Vec<(Arc<[Reason]>, Vec<Subject>)> = Vec::new();
        for (key, reasons) in &proposal.refused {
            let Some(pod) = self.cache.pods.get(key).filter(|_| self.provisionable.contains(key)) else {
                continue;
            };
            let verdict = Verdict::Refused { reasons: reasons.to_vec(), pods: 1 };
            step.notes.extend(Note::of(&**pod, &verdict, None).map(|note| note.once_in(REFUSAL_QUIET)));
            if self.refused.insert(key.clone(), reasons.clone()).is_some() {
                continue;
            }
            let alike = groups.iter_mut().find(|(of, _)| Arc::ptr_eq(of, reasons) || of == reasons);
            match alike {
                Some((_, pods)) => pods.push(subject_of(&**pod)),
                None => groups.push((reasons.clone(), vec![subject_of(&**pod)])),
            }
        }
        step.decisions.extend(groups.into_iter().map(|(reasons, pods)| {
            Decided::new(Verdict::Refused { reasons: reasons.to_vec(), pods: pods.len() as u64 }, pods)
        }));
    }

    /// Claims whose nodes may be empty, have been, are marked for going, or are spared: for the others there is nothing to do.
    fn to_examine(&self, spared: &BTreeSet<&String>) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.roster.to_examine().cloned().collect();
        names.extend(self.empty_since.keys().cloned());
        for place in spared {
            names.insert((*place).clone());
            let claims = self.cache.nodes.get(place).map(|node| self.cache.claims_of(node));
            names.extend(claims.into_iter().flatten().map(|claim| claim.name_any()));
        }
        names
    }

    fn disrupt(&mut self, now: Timestamp) {
        let mut steps: Vec<(Key, Step)> = Vec::new();
        let mut requeue = false;
        self.roster.refresh(&self.cache, &self.registry);
        let in_need = self.in_need();
        let present = self.present();
        let expected = self.nominations.expected(&self.cache, &in_need, &self.times, present, &self.settings);
        let spared: BTreeSet<&String> = expected.values().collect();
        let to_examine = self.to_examine(&spared);
        let pools: Vec<Arc<NodePool>> = provision::pools(&self.cache, &self.registry).cloned().collect();
        let wait = self.settings.validation_wait;
        let paused = self.too_many_unready(now);
        requeue |= paused;
        for pool in &pools {
            let pool_name = pool.name_any();
            let all = candidates(&self.cache, &self.registry, &pool_name, &to_examine, &spared);
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
                        requeue |= matches!(why, Stays::Protected(_) | Stays::Needed if candidate.nominated);
                        requeue |= matches!(why, Stays::Protected(Some(_)));
                        self.empty_since.remove(&name);
                        steps.extend(
                            untaint(&self.leaving, candidate, now).map(|step| (Key::Claim(name), step)),
                        );
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
            let allowed = if paused { 0 } else { allowed };
            let chosen = emptiness::choose(ready.collect(), allowed);
            requeue |= chosen.len() < wanted;
            if blocked && wanted > 0 && !paused {
                let note = Note::of(&**pool, &Verdict::DisruptionBlocked, None);
                let notes = note.map(|note| note.quiet_for(BUDGET_QUIET)).into_iter().collect();
                steps.push((Key::Disruption, Step { notes, ..Step::default() }));
            }
            for candidate in chosen {
                steps.push((Key::Claim(candidate.claim.name_any()), remove(candidate, now)));
            }
        }
        steps.extend(self.unneeded_members(&spared, now));
        for (key, step) in steps {
            let removes = step.commands.iter().any(|command| matches!(command, Command::DeleteClaim { .. }));
            if let (Key::Claim(name), true) = (&key, removes && self.leads()) {
                self.leaving.insert(name.clone());
            }
            if self.busy.contains_key(&key) {
                requeue = true;
                continue;
            }
            self.carry_out(key, step, now);
        }
        if requeue {
            self.requeue_after(&Key::Disruption, self.settings.retry_interval);
        }
    }
}

/// The machines of a pool, of those named, that have exactly one node.
fn candidates<'w>(
    cache: &'w ClusterCache,
    registry: &Registry,
    pool: &str,
    to_examine: &BTreeSet<String>,
    spared: &BTreeSet<&String>,
) -> Vec<Candidate<'w>> {
    let mut found = Vec::new();
    for claim in to_examine.iter().filter_map(|name| cache.claims.get(name)) {
        if claim.labels().get(NODEPOOL_LABEL).is_none_or(|of| of != pool) {
            continue;
        }
        let [node] = cache.nodes_of(claim)[..] else { continue };
        let name = node.name_any();
        found.push(Candidate {
            claim,
            node,
            pods: cache.pods_on(&name).map(|pod| &**pod).collect(),
            nominated: spared.contains(&name) || spared.contains(&claim.name_any()),
            price: registry.price(claim).unwrap_or(0.0),
        });
    }
    found
}

/// Pods that are newly expected on places that are there.
#[derive(Default)]
struct Nominated {
    nominations: Vec<Nomination>,
    pods: Vec<Subject>,
}

impl Nominated {
    fn add(&mut self, key: &str, pod: Subject, place: &Subject) {
        if self.nominations.len() < MOST_NAMED {
            self.nominations.push(Nomination { pod: key.to_owned(), place: place.clone() });
        }
        self.pods.push(pod);
    }

    fn decided(self) -> Option<Decided> {
        let pods = self.pods.len() as u64;
        let verdict = Verdict::Nominated { nominations: self.nominations, pods };
        (pods > 0).then(|| Decided::new(verdict, self.pods))
    }
}

/// All machines of a proposal, with the keys of their pods.
fn machines(proposal: &Proposal) -> impl Iterator<Item = (&Machine, &Vec<String>)> {
    let of_claims = proposal.claims.iter().map(|planned| (&planned.machine, &planned.pods));
    let of_groups = proposal.growing.iter().flat_map(|of| &of.machines);
    of_claims.chain(of_groups.map(|(machine, pods)| (machine, pods)))
}

fn bought(proposal: &Proposal) -> Decided {
    let mut types: BTreeMap<String, u64> = BTreeMap::new();
    for (machine, _) in machines(proposal) {
        *types.entry(machine.instance_type.clone()).or_default() += 1;
    }
    let claims = proposal.claims.iter().map(|planned| subject_of(&planned.claim));
    let groups = proposal.growing.iter().map(|of| Subject::new("NodeGroup", of.key.to_string(), None));
    let verdict = Verdict::Provisioned {
        machines: machines(proposal).take(MOST_NAMED).map(|(machine, _)| machine.clone()).collect(),
        types,
        pods: machines(proposal).map(|(_, pods)| pods.len() as u64).sum(),
        usd_per_hour: proposal.price,
    };
    Decided {
        alternatives: proposal.alternatives.clone(),
        change_usd_per_hour: Some(proposal.price),
        ..Decided::new(verdict, claims.chain(groups).collect())
    }
}

/// Takes an empty node out: no new pods, one more question to the server itself, then the claim's deletion.
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
    let verdict = Verdict::Emptied { usd_per_hour: candidate.price };
    step.notes.extend(Note::of(node, &verdict, None));
    step.notes.extend(Note::of(claim, &verdict, None));
    step.decisions.push(Decided {
        change_usd_per_hour: Some(-candidate.price),
        ..Decided::new(verdict, vec![subject_of(node), subject_of(claim)])
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
fn untaint(leaving: &BTreeSet<String>, candidate: &Candidate, now: Timestamp) -> Option<Step> {
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
    let mut commands = vec![Command::PatchNode { name: node.name_any(), patch }];
    let before = claim.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let mut set = ConditionSet::open(ConditionTypes::NODE_CLAIM, subject(claim, now), &mut status.conditions);
    if set.clear(conditions::DISRUPTION_REASON) == Ok(true) {
        commands.push(status_patch(claim, &before, &status));
    }
    Some(Step { commands, ..Step::default() })
}
