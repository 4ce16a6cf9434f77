//! The status of a Deployment: counts, availability, and whether the rollout gets on.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::Rollout;
use crate::json::{moment, put_nonzero};
use crate::object::Fields;
use crate::workloads::status_write;

/// A deadline of this many seconds means that there is none.
const NO_DEADLINE: i64 = i32::MAX as i64;

impl Rollout<'_> {
    pub(super) fn has_deadline(&self) -> bool {
        self.deadline().is_some()
    }

    fn deadline(&self) -> Option<i64> {
        self.deployment.number(&["spec", "progressDeadlineSeconds"]).filter(|seconds| *seconds != NO_DEADLINE)
    }

    /// Says in the condition `Progressing` that the rollout was paused, or goes on.
    pub(super) fn note_pause(&mut self, paused: bool) {
        if !self.has_deadline() {
            return;
        }
        let present = self.conditions.iter().find(|condition| condition["type"] == "Progressing");
        let reason = present.map_or("", |condition| condition.text(&["reason"]));
        if reason == "ProgressDeadlineExceeded" {
            return;
        }
        if paused && reason != "DeploymentPaused" {
            self.set("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused".to_owned());
        } else if !paused && reason == "DeploymentPaused" {
            self.set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed".to_owned());
        }
    }

    /// Sets a condition, unless it has that status for that reason already.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: String) {
        let present = self.conditions.iter().find(|condition| condition["type"] == kind);
        if present.is_some_and(|present| present["status"] == status && present["reason"] == reason) {
            return;
        }
        self.replace(kind, status, reason, message);
    }

    /// Sets a condition in any case; it moves to the end.
    fn replace(&mut self, kind: &str, status: &str, reason: &str, message: String) {
        let place = self.conditions.iter().position(|condition| condition["type"] == kind);
        let since = match place.map(|place| self.conditions.remove(place)) {
            Some(old) if old["status"] == status => old["lastTransitionTime"].clone(),
            _ => moment(self.now),
        };
        self.conditions.push(json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastUpdateTime": moment(self.now), "lastTransitionTime": since,
        }));
    }

    /// Writes the status, if it differs.
    pub(super) fn sync_status(&mut self) {
        let sum = |field: &str| -> i64 {
            self.sets.iter().map(|set| set.object.number(&["status", field]).unwrap_or(0)).sum()
        };
        let (replicas, ready, available) = (sum("replicas"), sum("readyReplicas"), sum("availableReplicas"));
        let terminating = sum("terminatingReplicas");
        let updated =
            self.new.map_or(0, |index| self.sets[index].object.number(&["status", "replicas"]).unwrap_or(0));
        let counts = Counts { replicas, updated, ready, available };

        if available >= self.replicas - self.unavailable {
            let message = "Deployment has minimum availability.".to_owned();
            self.set("Available", "True", "MinimumReplicasAvailable", message);
        } else {
            let message = "Deployment does not have minimum availability.".to_owned();
            self.set("Available", "False", "MinimumReplicasUnavailable", message);
        }
        let paused = self.deployment.at(&["spec", "paused"]) == true;
        match self.deadline() {
            None => self.conditions.retain(|condition| condition["type"] != "Progressing"),
            Some(_) if paused || self.deployment.is_deleting() => {}
            Some(seconds) => self.judge_progress(&counts, seconds),
        }

        self.pass_on_failure();
        let mut status = Map::new();
        put_nonzero(&mut status, "observedGeneration", self.deployment.generation());
        put_nonzero(&mut status, "replicas", replicas);
        put_nonzero(&mut status, "updatedReplicas", updated);
        put_nonzero(&mut status, "readyReplicas", ready);
        put_nonzero(&mut status, "availableReplicas", available);
        put_nonzero(&mut status, "unavailableReplicas", (self.total() - available).max(0));
        status.insert("terminatingReplicas".to_owned(), terminating.into());
        let collisions = self.deployment.at(&["status", "collisionCount"]);
        if !collisions.is_null() {
            status.insert("collisionCount".to_owned(), collisions.clone());
        }
        status.insert("conditions".to_owned(), self.conditions.clone().into());
        self.outcome.writes.extend(status_write(self.key, self.deployment, Value::Object(status)));
    }

    /// What keeps a set from making its pods keeps the Deployment from it too.
    fn pass_on_failure(&mut self) {
        let sets = self.new.iter().copied().chain(self.old());
        let failure =
            sets.filter_map(|index| self.sets[index].object.condition("ReplicaFailure")).next().cloned();
        match failure {
            Some(failure) => {
                let text = |field: &str| failure.text(&[field]).to_owned();
                self.set("ReplicaFailure", &text("status"), &text("reason"), text("message"));
            }
            None => self.conditions.retain(|condition| condition["type"] != "ReplicaFailure"),
        }
    }

    fn judge_progress(&mut self, counts: &Counts, seconds: i64) {
        let present = self.conditions.iter().find(|condition| condition["type"] == "Progressing");
        let reason = present.map_or("", |condition| condition.text(&["reason"])).to_owned();
        if counts.replicas == counts.updated && reason == "NewReplicaSetAvailable" {
            return;
        }
        let subject = match self.new {
            Some(index) => format!("ReplicaSet \"{}\"", self.sets[index].key.name),
            None => format!("Deployment \"{}\"", self.key.name),
        };
        let old = |field: &str| self.deployment.number(&["status", field]).unwrap_or(0);
        let complete = counts.updated == self.replicas
            && counts.replicas == self.replicas
            && counts.available == self.replicas;
        let progressing = counts.updated > old("updatedReplicas")
            || counts.replicas - counts.updated < old("replicas") - old("updatedReplicas")
            || counts.ready > old("readyReplicas")
            || counts.available > old("availableReplicas");
        if complete {
            let message = format!("{subject} has successfully progressed.");
            self.set("Progressing", "True", "NewReplicaSetAvailable", message);
        } else if progressing {
            self.replace("Progressing", "True", "ReplicaSetUpdated", format!("{subject} is progressing."));
        } else if let Some(due) = self.times_out_at(seconds) {
            if due < self.now {
                let message = format!("{subject} has timed out progressing.");
                self.set("Progressing", "False", "ProgressDeadlineExceeded", message);
            } else {
                // A second more, because times are written down without their fractions.
                self.outcome.again(due.saturating_add(SignedDuration::from_secs(1)).unwrap_or(due));
            }
        }
    }

    /// When the rollout will have made no progress for too long; nothing if it is over, or nothing is known.
    fn times_out_at(&self, seconds: i64) -> Option<Timestamp> {
        let present = self.conditions.iter().find(|condition| condition["type"] == "Progressing")?;
        if matches!(present.text(&["reason"]), "NewReplicaSetAvailable" | "ProgressDeadlineExceeded") {
            return None;
        }
        present.time(&["lastUpdateTime"])?.saturating_add(SignedDuration::from_secs(seconds)).ok()
    }
}

struct Counts {
    replicas: i64,
    updated: i64,
    ready: i64,
    available: i64,
}
