//! One attempt to find a node for a pod, and what is written because of it.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::class::ClassId;
use super::nodes::{NodeId, PodId};
use super::preempt::{Candidate, Preemption};
use super::queue::{Rule, Rules};
use super::reasons::{Reason, Refusals};
use super::view::{ClassState, View};
use super::volumes::{Objection, PodVolumes, Site};
use super::{Attempt, COMPONENT, MOST_STATES, Scheduler, Verdict};
use crate::object::{Key, Kind};
use crate::write::{Note, PatchKind, Write};

/// With fewer nodes all are looked at; of more, at least so many must accept a pod.
const FEWEST_FEASIBLE: usize = 100;
const LEAST_PERCENTAGE: usize = 5;
/// Binding of volumes may take so long.
const VOLUME_PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// Entries for people hold so many bytes.
const LONGEST_NOTE: usize = 1024;

/// What the nodes said.
enum Answer {
    /// The node, those as good (itself first), and what binding there means for volumes.
    Found {
        equals: Vec<NodeId>,
    },
    NoNodes,
    /// Not even held against nodes.
    Objected(String),
    /// Something is wrong.
    Failed(String),
    Refused {
        sentence: String,
        rules: Rules,
        preemption: Preemption,
    },
}

impl Scheduler {
    /// One attempt.
    pub(super) fn attempt(&mut self, pod: PodId, now: Timestamp) -> Vec<Write> {
        self.attempts += 1;
        self.nodes.sort();
        let class_id = self.pods.row(pod).class;
        let class = &self.pods.classes[class_id as usize];
        if let Some(broken) = class.broken.clone() {
            return self.failed(pod, broken, now);
        }
        let volumes = match self.prepare_volumes(pod) {
            Ok(volumes) => volumes,
            Err(Objection::Unschedulable(message)) if !self.nodes.list().is_empty() => {
                return self.conclude(pod, Answer::Objected(message), None, now);
            }
            Err(Objection::Unschedulable(_)) => None,
            Err(Objection::Error(message)) => {
                let message = format!("running PreFilter plugin \"VolumeBinding\": {message}");
                return self.conclude(pod, Answer::Failed(message), None, now);
            }
        };
        let state = self.take_state(class_id);
        let answer = self.ask(pod, &state, volumes.as_ref());
        self.states.insert(class_id, state);
        self.conclude(pod, answer, volumes, now)
    }

    fn prepare_volumes(&self, pod: PodId) -> Result<Option<PodVolumes>, Objection> {
        let (row, class) = (self.pods.row(pod), self.pods.class_of(pod));
        if class.named.as_ref().is_some_and(|named| named.is_empty()) {
            return Err(Objection::Unschedulable("pod affinity terms conflict".to_owned()));
        }
        if row.claims.is_empty() {
            return Ok(None);
        }
        self.volumes.prepare(class, &row.claims, &row.uid).map(Some)
    }

    /// The state of a class, up to date, taken out of the table.
    fn take_state(&mut self, id: ClassId) -> Box<ClassState> {
        let (names, counts, nodes) = (&mut self.names, &mut self.counts, &mut self.nodes);
        let class = &self.pods.classes[id as usize];
        let known = self.states.remove(&id);
        let fresh = known.is_none();
        let mut state = known.unwrap_or_else(|| Box::new(ClassState::new(names, counts, nodes, class)));
        if !class.own_spread && (fresh || state.workloads_epoch != self.workloads.epoch) {
            state.workloads_epoch = self.workloads.epoch;
            let labels = counts.identities[class.identity as usize].labels.clone();
            let spread =
                self.workloads.default_spread(names, class, counts.namespace_name(class.namespace), &labels);
            state.set_soft(names, counts, nodes, class, &spread, false);
        }
        state.catch_up(names, counts, nodes, class);
        state.used = self.attempts;
        if self.states.len() >= MOST_STATES {
            let oldest = self.states.iter().map(|(id, state)| (state.used, *id)).min();
            oldest.map(|(_, id)| self.states.remove(&id));
        }
        state
    }

    /// Holds a pod against the nodes.
    fn ask(&mut self, pod: PodId, state: &ClassState, volumes: Option<&PodVolumes>) -> Answer {
        let order = self.nodes.list();
        if order.is_empty() {
            return Answer::NoNodes;
        }
        let class = self.pods.class_of(pod);
        let view = View {
            names: &self.names,
            nodes: &self.nodes,
            pods: &self.pods,
            counts: &self.counts,
            volumes: &self.volumes,
            class,
            state,
            pod,
            pod_volumes: volumes,
        };
        if let Some(node) = self.pods.row(pod).nominated
            && self.nodes.rows[node as usize].present
            && view.verdict(node).is_none()
        {
            return Answer::Found { equals: vec![node] };
        }
        let named: Option<Vec<NodeId>> = class.named.as_ref().map(|named| {
            let known = named.iter().filter_map(|name| self.nodes.known(name));
            known.filter(|node| self.nodes.rows[*node as usize].present).collect()
        });
        let asked = named.as_deref().unwrap_or(order);
        let wanted = self.enough(asked.len());
        let (mut feasible, mut refusals) = (Vec::new(), Refusals::default());
        refusals.others = named.is_some().then_some(Reason::NotNamed);
        for at in 0..asked.len() {
            let node = asked[(self.next_start + at) % asked.len()];
            match view.verdict(node) {
                None => feasible.push(node),
                Some(refusal) => refusals.list.push((node, refusal)),
            }
            if feasible.len() == wanted {
                break;
            }
        }
        let processed = feasible.len() + refusals.list.len();
        let answer = match feasible[..] {
            [] => {
                let sentence = refusals.sentence(&self.names, order.len());
                let preemption = view.preempt(&refusals, &self.budgets, order.len());
                Answer::Refused { sentence, rules: refusals.rules(), preemption }
            }
            [only] => Answer::Found { equals: vec![only] },
            _ => {
                let scores = view.scores(&feasible);
                let best = scores.iter().copied().max().unwrap_or(0);
                let equals = feasible.iter().zip(&scores).filter(|(_, score)| **score == best);
                Answer::Found { equals: equals.map(|(node, _)| *node).collect() }
            }
        };
        self.next_start = (self.next_start + processed) % order.len();
        answer
    }

    /// How many nodes must accept a pod before the search ends.
    fn enough(&self, nodes: usize) -> usize {
        if nodes < FEWEST_FEASIBLE {
            return nodes;
        }
        let percentage = match self.settings.percentage_of_nodes_to_score {
            Some(given) if given > 0 => given as usize,
            _ => 50_usize.saturating_sub(nodes / 125).max(LEAST_PERCENTAGE),
        };
        (nodes * percentage / 100).max(FEWEST_FEASIBLE)
    }

    fn conclude(
        &mut self,
        pod: PodId,
        answer: Answer,
        volumes: Option<PodVolumes>,
        now: Timestamp,
    ) -> Vec<Write> {
        let nodes = self.nodes.list().len();
        match answer {
            Answer::Found { equals } => self.bind(pod, equals, volumes, now),
            Answer::Failed(message) => self.failed(pod, message, now),
            Answer::NoNodes => {
                let message = "no nodes available to schedule pods".to_owned();
                self.queue.refuse(pod, Rules::ALL, now);
                self.write_refusal(pod, "Unschedulable", message, Some(None), now)
            }
            Answer::Objected(message) => {
                // What the last words are about is a plugin for resource claims that has not run.
                let message = format!("0/{nodes} nodes are available: {message}. not found");
                let rules =
                    [Rule::NodeAffinity, Rule::VolumeRestrictions, Rule::VolumeBinding, Rule::VolumeZone];
                self.queue.refuse(pod, Rules::of(&rules), now);
                self.write_refusal(pod, "Unschedulable", message, None, now)
            }
            Answer::Refused { sentence, rules, preemption } => {
                self.queue.refuse(pod, rules, now);
                let post = |why: &str| format!("{sentence} no new claims to deallocate, preemption: {why}");
                match preemption {
                    Preemption::Hopeless(why) => {
                        self.write_refusal(pod, "Unschedulable", post(&why), Some(None), now)
                    }
                    Preemption::NotEligible(why) => {
                        self.write_refusal(pod, "Unschedulable", post(why), None, now)
                    }
                    Preemption::Found(candidates) => self.make_room(pod, sentence, &candidates, now),
                }
            }
        }
    }

    fn failed(&mut self, pod: PodId, message: String, now: Timestamp) -> Vec<Write> {
        self.queue.retry(pod, now);
        self.write_refusal(pod, "SchedulerError", message, Some(None), now)
    }

    fn bind(
        &mut self,
        pod: PodId,
        equals: Vec<NodeId>,
        volumes: Option<PodVolumes>,
        now: Timestamp,
    ) -> Vec<Write> {
        let Some(node) = equals.first().copied() else { return Vec::new() };
        let (key, name) = (self.pods.row(pod).key.clone(), self.nodes.rows[node as usize].name.clone());
        self.last = Some(Attempt {
            pod: key.clone(),
            verdict: Verdict::Bound { node: name.to_string(), equals: Vec::new() },
        });
        self.last_equals = equals;
        let started = volumes.map_or_else(Vec::new, |volumes| {
            let row = &self.nodes.rows[node as usize];
            let site = Site { name: &row.name, labels: &row.labels };
            let (_, binding) = self.volumes.reach(&self.names, &volumes, site);
            self.volumes.writes(&binding, &row.name)
        });
        let live = !self.pods.row(pod).deleting;
        self.place(pod, node, live);
        if started.is_empty() {
            self.nominate(pod, None);
            return vec![self.bind_write(pod, &name)];
        }
        self.awaiting_volumes.insert(pod, now.checked_add(VOLUME_PATIENCE).unwrap_or(now));
        let mut writes = vec![Write::merge_status(key, json!({"status": {"nominatedNodeName": *name}}))];
        writes.extend(started);
        writes
    }

    fn bind_write(&self, pod: PodId, node: &str) -> Write {
        let row = self.pods.row(pod);
        Write::Bind { pod: row.key.clone(), uid: row.uid.clone(), node: node.to_owned() }
    }

    /// Binds pods whose volumes are bound, and gives up on those that took too long.
    pub(super) fn bind_awaiting(&mut self, now: Timestamp) -> Vec<Write> {
        let mut writes = Vec::new();
        for (pod, patience) in self.awaiting_volumes.clone() {
            let row = self.pods.row(pod);
            let Some((node, _)) = row.on else { continue };
            let name = self.nodes.rows[node as usize].name.clone();
            match self.volumes.all_bound(&row.claims, &name) {
                Some(true) => {
                    self.awaiting_volumes.remove(&pod);
                    self.nominate(pod, None);
                    writes.push(self.bind_write(pod, &name));
                }
                Some(false) if now < patience => {}
                _ => self.give_up(pod, now),
            }
        }
        writes
    }

    /// A binding came to nothing: the pod comes again.
    pub(super) fn give_up(&mut self, pod: PodId, now: Timestamp) {
        self.awaiting_volumes.remove(&pod);
        if self.pods.row(pod).bound.is_none() {
            self.unplace(pod);
            self.queue.retry(pod, now);
        }
    }

    fn make_room(
        &mut self,
        pod: PodId,
        sentence: String,
        candidates: &[Candidate],
        now: Timestamp,
    ) -> Vec<Write> {
        let Some(chosen) = candidates.first() else { return Vec::new() };
        let nominations = candidates
            .iter()
            .map(|candidate| {
                let victims = candidate.victims.iter().map(|victim| self.pods.row(*victim).key.clone());
                (self.nodes.rows[candidate.node as usize].name.to_string(), victims.collect())
            })
            .collect();
        let name = self.nodes.rows[chosen.node as usize].name.clone();
        let priority = self.pods.class_of(pod).priority;
        let lower: Vec<PodId> = self.nodes.rows[chosen.node as usize]
            .nominated
            .iter()
            .copied()
            .filter(|other| self.pods.class_of(*other).priority < priority)
            .collect();
        let mut writes = self.write_refusal(pod, "Unschedulable", sentence, Some(Some(chosen.node)), now);
        if let Some(Attempt { verdict: Verdict::Refused { nominations: shown, .. }, .. }) = &mut self.last {
            *shown = nominations;
        }
        for other in lower {
            self.nominate(other, None);
            let key = self.pods.row(other).key.clone();
            writes.push(Write::merge_status(key, json!({"status": {"nominatedNodeName": null}})));
        }
        let preemptor = self.pods.row(pod).uid.clone();
        let scheduler = self.pods.class_of(pod).scheduler.clone();
        for victim in &chosen.victims {
            let row = self.pods.row(*victim);
            if row.deleting {
                continue;
            }
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                "message": format!("{scheduler}: preempting to accommodate a higher priority pod"),
                "lastProbeTime": null, "lastTransitionTime": moment(now),
            });
            writes.push(status_patch(row.key.clone(), json!({"conditions": [condition]})));
            writes.push(Write::delete(row.key.clone(), &row.uid));
            let message = format!("Preempted by pod {preemptor} on node {name}");
            writes.push(self.note(*victim, false, "Preempted", message));
        }
        writes
    }

    /// Tells that a pod was refused. `nominated`: leave it as it is, take it away, or set it.
    fn write_refusal(
        &mut self,
        pod: PodId,
        reason: &'static str,
        message: String,
        nominated: Option<Option<NodeId>>,
        now: Timestamp,
    ) -> Vec<Write> {
        let before = self.pods.row(pod).nominated;
        let after = nominated.unwrap_or(before);
        self.nominate(pod, after);
        let row = self.pods.row(pod);
        self.last = Some(Attempt {
            pod: row.key.clone(),
            verdict: Verdict::Refused { reason, message: message.clone(), nominations: Vec::new() },
        });
        let known = row.refused.as_ref();
        let mut status = json!({});
        if known.is_none_or(|(old, text, _)| old != reason || *text != message) {
            // The time is that of the change of the condition's status, and it was `False` before if it was there.
            let since = known.map_or_else(|| moment(now), |(.., since)| since.clone());
            status["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
                "lastProbeTime": null, "lastTransitionTime": since,
            }]);
        }
        if before != after {
            status["nominatedNodeName"] = match after {
                Some(node) => Value::from(&*self.nodes.rows[node as usize].name),
                None => Value::Null,
            };
        }
        if status.as_object().is_none_or(serde_json::Map::is_empty) {
            return Vec::new();
        }
        let key = row.key.clone();
        vec![self.note(pod, true, "FailedScheduling", truncated(message)), status_patch(key, status)]
    }

    /// An entry for people about a pod.
    pub(super) fn note(&self, pod: PodId, warning: bool, reason: &'static str, message: String) -> Write {
        let row = self.pods.row(pod);
        Write::Event(Note {
            about: row.key.clone(),
            uid: row.uid.clone(),
            warning,
            reason,
            message,
            component: COMPONENT,
        })
    }
}

fn status_patch(key: Key, status: Value) -> Write {
    debug_assert_eq!(key.kind, Kind::Pod);
    Write::Patch {
        key,
        subresource: Some("status"),
        how: PatchKind::Strategic,
        patch: json!({"status": status}),
    }
}

/// A moment as Kubernetes writes it: whole seconds, UTC.
fn moment(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

fn truncated(message: String) -> String {
    if message.len() <= LONGEST_NOTE {
        return message;
    }
    let end = (0..=LONGEST_NOTE - 4).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    format!("{} ...", &message[..end])
}
