//! Changes of the cluster, taken in one by one; and who is worth another look because of them.

use jiff::Timestamp;
use joiner_core::model::resources::{add_into, fits, sub_into};

use super::Scheduler;
use super::nodes::{NodeId, PodId};
use super::pods::{PodRow, refused};
use super::queue::{Rule, Rules};
use super::terms::labels;
use super::volumes::Volumes;
use crate::event::{Change, Event};
use crate::object::{Fields, Kind};

const VOLUME_RULES: Rules =
    Rules::of(&[Rule::VolumeRestrictions, Rule::VolumeLimits, Rule::VolumeBinding, Rule::VolumeZone]);
/// What a pod that leaves a node may help against.
const LEAVING: Rules = Rules::of(&[
    Rule::Ports,
    Rule::Fit,
    Rule::VolumeRestrictions,
    Rule::VolumeLimits,
    Rule::Spread,
    Rule::PodAffinity,
]);
const COMING: Rules = Rules::of(&[Rule::Spread, Rule::PodAffinity]);
const LABELS: Rules =
    Rules::of(&[Rule::NodeAffinity, Rule::VolumeBinding, Rule::VolumeZone, Rule::Spread, Rule::PodAffinity]);
const TAINTS: Rules = Rules::of(&[Rule::Unschedulable, Rule::Taints, Rule::Spread]);
const FIT: Rules = Rules::of(&[Rule::Fit]);
const ALL_BUT_FIT: Rules = Rules::of(&[
    Rule::Unschedulable,
    Rule::Taints,
    Rule::NodeAffinity,
    Rule::Ports,
    Rule::VolumeRestrictions,
    Rule::VolumeLimits,
    Rule::VolumeBinding,
    Rule::VolumeZone,
    Rule::Spread,
    Rule::PodAffinity,
]);

impl Scheduler {
    /// Takes in one change.
    pub(super) fn take_in(&mut self, event: &Event, now: Timestamp) {
        let object = event.present().map(|object| &**object);
        let (key, names) = (&event.key, &mut self.names);
        match key.kind {
            Kind::Node => self.take_in_node(event, now),
            Kind::Pod => self.take_in_pod(event, now),
            Kind::Namespace => {
                let labels = labels(names, object.and_then(|object| object.entries(&["metadata", "labels"])));
                self.counts.set_namespace(names, &key.name, labels);
                self.queue.stir(Rules::of(&[Rule::PodAffinity]), now, |_| true);
            }
            Kind::Service => self.workloads.set_service(names, key, object),
            Kind::ReplicaSet | Kind::StatefulSet | Kind::ReplicationController => {
                self.workloads.set_controller(names, key, object);
            }
            Kind::PodDisruptionBudget => self.budgets.set(names, key, object),
            Kind::PersistentVolumeClaim => {
                self.volumes.set_claim(names, key, object);
                self.queue.stir(VOLUME_RULES, now, |_| true);
            }
            Kind::PersistentVolume => {
                self.volumes.set_volume(names, key, object);
                self.queue.stir(VOLUME_RULES, now, |_| true);
            }
            Kind::StorageClass => {
                self.volumes.set_class(names, key, object);
                self.queue.stir(VOLUME_RULES, now, |_| true);
            }
            Kind::CSINode => {
                self.volumes.set_drivers(key, object);
                self.queue.stir(VOLUME_RULES, now, |_| true);
            }
            Kind::VolumeAttachment => {
                self.volumes.set_attachment(key, object);
                self.queue.stir(Rules::of(&[Rule::VolumeLimits]), now, |_| true);
            }
            _ => {}
        }
    }

    fn take_in_node(&mut self, event: &Event, now: Timestamp) {
        let Some(object) = event.present() else {
            self.nodes.remove(&event.key.name);
            self.queue.stir(Rules::of(&[Rule::Spread]), now, |_| true);
            return;
        };
        let Some((node, change)) = self.nodes.update(&mut self.names, object) else { return };
        if change.added {
            self.queue.stir(ALL_BUT_FIT, now, |_| true);
        } else {
            if change.labels {
                self.queue.stir(LABELS, now, |_| true);
            }
            if change.taints {
                self.queue.stir(TAINTS, now, |_| true);
            }
        }
        if change.added || change.room {
            let (room, pods) = (&self.nodes.rows[node as usize].room, &self.pods);
            self.queue.stir(FIT, now, |pod| fits(&pods.class_of(pod).requests, room));
        }
    }

    fn take_in_pod(&mut self, event: &Event, now: Timestamp) {
        let known = self.pods.find(&event.key);
        let finished = matches!(event.object.text(&["status", "phase"]), "Succeeded" | "Failed");
        if event.change == Change::Deleted || finished {
            if let Some(id) = known {
                self.forget(id, now);
            }
            return;
        }
        let pod = &event.object;
        // A pod of the same name may be another one.
        let known = match known {
            Some(id) if self.pods.row(id).uid != pod.uid() => {
                self.forget(id, now);
                None
            }
            known => known,
        };
        let same = event.previous.as_ref().is_some_and(|old| {
            old["spec"] == pod["spec"] && old.at(&["metadata", "labels"]) == pod.at(&["metadata", "labels"])
        });
        let class = match known {
            Some(id) if same => self.pods.row(id).class,
            _ => self.pods.class_for(&mut self.names, &mut self.counts, pod),
        };
        let bound = match pod.text(&["spec", "nodeName"]) {
            "" => None,
            name => Some(self.nodes.row(name)),
        };
        let nominated = match pod.text(&["status", "nominatedNodeName"]) {
            "" => None,
            name => self.nodes.known(name),
        };
        let preempted = pod.condition("DisruptionTarget").is_some_and(|condition| {
            condition["status"] == "True" && condition["reason"] == "PreemptionByScheduler"
        });
        let (id, old_class) = match known {
            Some(id) => (id, Some(self.pods.row(id).class)),
            None => {
                let lowered = &self.pods.classes[class as usize];
                let claims = Volumes::claims_of(lowered, pod.namespace(), pod.name());
                let row = PodRow {
                    key: event.key.clone(),
                    uid: pod.uid().to_owned(),
                    class,
                    on: None,
                    bound: None,
                    deleting: false,
                    started: None,
                    nominated: None,
                    claims,
                    refused: None,
                    preempted: false,
                };
                (self.pods.add(row), None)
            }
        };
        let assumed = self.pods.row(id).on.map(|(node, _)| node);
        if old_class.is_some_and(|old| old != class) {
            // What it is counted as changes with it.
            self.unplace(id);
            self.pods.row_mut(id).class = class;
        }
        let row = self.pods.row_mut(id);
        row.bound = bound;
        row.deleting = pod.is_deleting();
        row.started = pod.time(&["status", "startTime"]);
        row.refused = refused(pod);
        row.preempted = preempted;
        let (live, was_on) = (!row.deleting, row.on);
        self.nominate(id, if bound.is_some() { None } else { nominated });
        match bound.or(assumed) {
            Some(node) => {
                if was_on != Some((node, live)) {
                    self.unplace(id);
                    self.place(id, node, live);
                }
                if bound.is_some() {
                    self.awaiting_volumes.remove(&id);
                    let ours = self.queue.has(id);
                    self.queue.remove(id);
                    if ours && assumed == Some(node) {
                        let (key, name) = (&self.pods.row(id).key, &self.nodes.rows[node as usize].name);
                        let text = format!("Successfully assigned {}/{} to {name}", key.namespace, key.name);
                        self.notes.push(self.note(id, false, "Scheduled", text));
                    }
                    if ours || known.is_none() {
                        self.stir_by_coming(id, now);
                    }
                }
            }
            None => self.enqueue(id, old_class != Some(class), now),
        }
    }

    /// A pod without a node: it waits, if it is ours.
    fn enqueue(&mut self, id: PodId, changed: bool, now: Timestamp) {
        let row = self.pods.row(id);
        let class = &self.pods.classes[row.class as usize];
        if row.deleting || *class.scheduler != *self.settings.name {
            self.queue.remove(id);
        } else if !self.queue.has(id) {
            self.queue.add(id, class.priority, class.gated, now);
        } else if changed {
            self.queue.change(id, class.priority, class.gated, now);
        }
    }

    /// A pod that is gone.
    fn forget(&mut self, id: PodId, now: Timestamp) {
        let was_placed = self.unplace(id);
        let was_nominated = self.pods.row(id).nominated.is_some();
        self.nominate(id, None);
        self.queue.remove(id);
        self.awaiting_volumes.remove(&id);
        self.pods.remove(id);
        if was_placed || was_nominated {
            self.queue.stir(LEAVING, now, |_| true);
        }
    }

    /// A pod that came to a node may be company that others wait for.
    fn stir_by_coming(&mut self, id: PodId, now: Timestamp) {
        let (names, counts, pods) = (&self.names, &self.counts, &self.pods);
        let (identity, namespace) = (pods.class_of(id).identity, pods.class_of(id).namespace);
        let labels = &counts.identities[identity as usize].labels;
        self.queue.stir(COMING, now, |waiting| {
            let class = pods.class_of(waiting);
            class.affinity.iter().any(|term| counts.selects(names, &term.pods, identity))
                || class.namespace == namespace
                    && class.spread.iter().any(|spread| {
                        spread.hard
                            && spread
                                .selector
                                .as_ref()
                                .is_some_and(|selector| selector.matches(names, labels))
                    })
        });
    }

    /// Counts a pod on a node.
    pub(super) fn place(&mut self, id: PodId, node: NodeId, live: bool) {
        let row = self.pods.row_mut(id);
        row.on = Some((node, live));
        let claims = row.claims.clone();
        let class = self.pods.class_of(id);
        let at = &mut self.nodes.rows[node as usize];
        sub_into(&mut at.room, &class.requests);
        at.scored[0] += class.scored[0];
        at.scored[1] += class.scored[1];
        at.pods.push(id);
        at.ports.extend(class.ports.iter().cloned());
        self.counts.place(class.identity, &class.carried, node, live, 1);
        self.volumes.use_claims(&claims, 1);
    }

    /// Takes a pod off its node; whether it was on one.
    pub(super) fn unplace(&mut self, id: PodId) -> bool {
        let row = self.pods.row_mut(id);
        let Some((node, live)) = row.on.take() else { return false };
        let claims = row.claims.clone();
        let class = self.pods.class_of(id);
        let at = &mut self.nodes.rows[node as usize];
        add_into(&mut at.room, &class.requests);
        at.scored[0] -= class.scored[0];
        at.scored[1] -= class.scored[1];
        at.pods.retain(|other| *other != id);
        for port in &class.ports {
            if let Some(place) = at.ports.iter().position(|other| other == port) {
                at.ports.swap_remove(place);
            }
        }
        self.counts.place(class.identity, &class.carried, node, live, -1);
        self.volumes.use_claims(&claims, -1);
        true
    }

    /// Nominates a pod to a node, or to none.
    pub(super) fn nominate(&mut self, id: PodId, node: Option<NodeId>) {
        let old = std::mem::replace(&mut self.pods.row_mut(id).nominated, node);
        if old == node {
            return;
        }
        if let Some(old) = old {
            self.nodes.rows[old as usize].nominated.retain(|other| *other != id);
        }
        if let Some(new) = node {
            self.nodes.rows[new as usize].nominated.push(id);
        }
    }
}
