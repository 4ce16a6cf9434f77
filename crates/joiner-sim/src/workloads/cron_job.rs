//! CronJobs: a Job at every moment of a schedule, on the calendar of its time zone; without one it means UTC.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use joiner_api::schedule::Schedule;
use serde_json::{Value, json};

use super::{note, owner_reference, owners_of, status_write, warning};
use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::Event;
use crate::json::moment;
use crate::object::{Fields, Key, Kind, Object};
use crate::write::{Propagation, Write};

const NAME: &str = "cronjob-controller";

/// The annotation that says for which moment a Job was made.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// More missed moments than this are not counted.
const MOST_MISSED: usize = 100;

/// The controller.
pub struct CronJobs;

impl Controller for CronJobs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::CronJob => keys.push(event.key.clone()),
            Kind::Job if event.object.manager().is_some() => owners_of(event, Kind::CronJob, cache, keys),
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome {
        let Some(cron) = cache.get(key).filter(|cron| !cron.is_deleting()) else {
            return Outcome::nothing();
        };
        let mut turn = Turn {
            key,
            cron,
            jobs: cache.managed_by(cron.uid(), Kind::Job).map(|(key, job)| (key.clone(), job)).collect(),
            now,
            status: cron.at(&["status"]).clone(),
            outcome: Outcome::nothing(),
        };
        if !turn.status.is_object() {
            turn.status = json!({});
        }
        turn.follow_jobs();
        turn.forget_old_jobs();
        turn.schedule();
        let status = turn.status;
        let mut outcome = turn.outcome;
        outcome.writes.extend(status_write(key, cron, status));
        outcome
    }
}

struct Turn<'a> {
    key: &'a Key,
    cron: &'a Object,
    jobs: Vec<(Key, &'a Object)>,
    now: Timestamp,
    status: Value,
    outcome: Outcome,
}

fn ended(job: &Value) -> Option<&'static str> {
    ["Complete", "Failed"].into_iter().find(|kind| job.condition_is_true(kind))
}

impl Turn<'_> {
    /// The status names the Jobs that have not ended, and when one last succeeded.
    fn follow_jobs(&mut self) {
        let active: Vec<Value> = self
            .jobs
            .iter()
            .filter(|(_, job)| ended(job).is_none() && !job.is_deleting())
            .map(|(key, job)| reference(key, job))
            .collect();
        match active.is_empty() {
            true => self.status.as_object_mut().and_then(|status| status.remove("active")),
            false => self
                .status
                .as_object_mut()
                .and_then(|status| status.insert("active".to_owned(), active.into())),
        };
        let known = self.status.time(&["lastSuccessfulTime"]);
        let successes = self.jobs.iter().filter(|(_, job)| ended(job) == Some("Complete"));
        let latest = successes.filter_map(|(_, job)| job.time(&["status", "completionTime"])).max();
        if latest > known
            && let Some(latest) = latest
        {
            self.status["lastSuccessfulTime"] = moment(latest);
        }
    }

    fn forget_old_jobs(&mut self) {
        for (kind, field) in
            [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")]
        {
            let Some(limit) = self.cron.number(&["spec", field]) else { continue };
            let mut done: Vec<&(Key, &Object)> =
                self.jobs.iter().filter(|(_, job)| ended(job) == Some(kind) && !job.is_deleting()).collect();
            done.sort_by_key(|(key, job)| (job.time(&["status", "startTime"]), key.clone()));
            let surplus = done.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
            for (job_key, job) in done.into_iter().take(surplus) {
                self.outcome.writes.push(removal(job_key, job));
                let message = format!("Deleted job {}", job_key.name);
                self.outcome.writes.push(note(NAME, self.key, self.cron, "SuccessfulDelete", message));
            }
        }
    }

    fn schedule(&mut self) {
        if self.cron.at(&["spec", "suspend"]) == true {
            return;
        }
        let text = self.cron.text(&["spec", "schedule"]);
        let Ok(schedule) = Schedule::parse(text) else {
            let message = format!("unparseable schedule: {text}");
            self.outcome.writes.push(warning(NAME, self.key, self.cron, "UnparseableSchedule", message));
            return;
        };
        let zone = match self.cron.text(&["spec", "timeZone"]) {
            "" => TimeZone::UTC,
            name => match TimeZone::get(name) {
                Ok(zone) => zone,
                Err(_) => {
                    let message = format!("invalid timeZone: {name:?}: unknown time zone {name}");
                    self.outcome.writes.push(warning(NAME, self.key, self.cron, "UnknownTimeZone", message));
                    return;
                }
            },
        };
        let last =
            self.status.time(&["lastScheduleTime"]).or_else(|| self.cron.created()).unwrap_or(self.now);
        let mut earliest = last;
        let deadline = self.cron.number(&["spec", "startingDeadlineSeconds"]);
        if let Some(seconds) = deadline {
            earliest = earliest.max(self.now - SignedDuration::from_secs(seconds));
        }
        let (due, next) = moments(&schedule, &zone, earliest, self.now);
        if let Some(next) = next {
            self.outcome.again(next);
        }
        let Some(due) = due else { return };
        let name = format!("{}-{}", self.key.name, due.as_second() / 60);
        if self.jobs.iter().any(|(key, _)| *key.name == *name)
            || Some(due) == self.status.time(&["lastScheduleTime"])
        {
            return;
        }
        let active: Vec<(Key, &Object)> =
            self.jobs.iter().filter(|(_, job)| ended(job).is_none()).cloned().collect();
        match self.cron.text(&["spec", "concurrencyPolicy"]) {
            "Forbid" if !active.is_empty() => {
                let message =
                    "Not starting job because prior execution is running and concurrency policy is Forbid"
                        .to_owned();
                self.outcome.writes.push(note(NAME, self.key, self.cron, "JobAlreadyActive", message));
                return;
            }
            "Replace" => {
                for (job_key, job) in &active {
                    self.outcome.writes.push(removal(job_key, job));
                }
            }
            _ => {}
        }
        self.create(&name, due);
    }

    fn create(&mut self, name: &str, due: Timestamp) {
        let template = self.cron.at(&["spec", "jobTemplate"]);
        let mut metadata = json!({
            "name": name, "namespace": self.cron.namespace(),
            "ownerReferences": [owner_reference(Kind::CronJob, self.cron)],
            "annotations": template.at(&["metadata", "annotations"]),
        });
        if !metadata["annotations"].is_object() {
            metadata["annotations"] = json!({});
        }
        metadata["annotations"][SCHEDULED] = moment(due);
        if let Some(labels) = template.entries(&["metadata", "labels"]) {
            metadata["labels"] = labels.clone().into();
        }
        let object = json!({"metadata": metadata, "spec": template["spec"]});
        let namespace = self.key.namespace.to_string();
        self.outcome.writes.push(Write::Create { kind: Kind::Job, namespace, object });
        let message = format!("Created job {name}");
        self.outcome.writes.push(note(NAME, self.key, self.cron, "SuccessfulCreate", message));
        self.status["lastScheduleTime"] = moment(due);
    }
}

fn reference(key: &Key, job: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "name": *key.name, "namespace": *key.namespace, "uid": job.uid(),
        "resourceVersion": job.text(&["metadata", "resourceVersion"]),
    })
}

fn removal(key: &Key, job: &Value) -> Write {
    Write::Delete {
        key: key.clone(),
        uid: Some(job.uid().to_owned()),
        grace: None,
        propagation: Some(Propagation::Background),
    }
}

/// The latest moment of the schedule after `from` and not after `now`, and the first one after `now`.
fn moments(
    schedule: &Schedule,
    zone: &TimeZone,
    from: Timestamp,
    now: Timestamp,
) -> (Option<Timestamp>, Option<Timestamp>) {
    let mut latest = None;
    let mut at = from;
    for _ in 0..MOST_MISSED {
        let Some(next) = schedule.next_after_in(at, zone) else { return (latest, None) };
        if next > now {
            return (latest, Some(next));
        }
        latest = Some(next);
        at = next;
    }
    (latest, schedule.next_after_in(now, zone))
}
