//! When a job has failed: too many failures, too long, or a rule that says so.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Turn;
use crate::object::{Fields, Object};

/// What the newly failed pods mean.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// How many of them count towards the limit.
    pub counted: i64,
    /// Why the job fails: reason and sentence.
    pub fails: Option<(String, String)>,
}

const LIMIT: &str = "BackoffLimitExceeded";
const DEADLINE: &str = "DeadlineExceeded";
const POLICY: &str = "PodFailurePolicy";
pub(super) const TOO_MANY_INDEXES: &str = "MaxFailedIndexesExceeded";
pub(super) const FAILED_INDEXES: &str = "FailedIndexes";

/// The reason of an entry must be one we know.
pub(super) fn known_reason(reason: &str) -> &'static str {
    let known = [LIMIT, DEADLINE, POLICY, TOO_MANY_INDEXES, FAILED_INDEXES];
    known.into_iter().find(|known| *known == reason).unwrap_or("Failed")
}

/// What the failure of a pod means where its job has no rule that ends all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mercy {
    Counts,
    Ignored,
    FailIndex,
}

/// Asks the pod failure policy.
pub(super) fn mercy(job: &Object, pod: &Value) -> Mercy {
    match rule(job, pod) {
        Some((_, "Ignore", _)) => Mercy::Ignored,
        Some((_, "FailIndex", _)) => Mercy::FailIndex,
        _ => Mercy::Counts,
    }
}

/// Judges the failures so far.
pub(super) fn judge(turn: &mut Turn<'_>, start: Option<Timestamp>) -> Verdict {
    let mut verdict = Verdict::default();
    for (key, pod) in turn.new_failed.clone() {
        match rule(turn.job, pod) {
            Some((index, "FailJob", what)) => {
                verdict.counted += 1;
                let pod = format!("{}/{}", key.namespace, key.name);
                let message = format!("{} matching FailJob rule at index {index}", what.replace("POD", &pod));
                verdict.fails.get_or_insert((POLICY.to_owned(), message));
            }
            Some((_, "Ignore", _)) => {}
            _ => verdict.counted += 1,
        }
    }
    if verdict.fails.is_some() || turn.has("FailureTarget") || turn.has("SuccessCriteriaMet") {
        return verdict;
    }
    let limit = turn.job.number(&["spec", "backoffLimit"]).unwrap_or(6);
    let failed = turn.number("failed") + verdict.counted;
    if failed > limit || restarts_exceed(turn, limit) {
        let message = "Job has reached the specified backoff limit".to_owned();
        verdict.fails = Some((LIMIT.to_owned(), message));
        return verdict;
    }
    let seconds = turn.job.number(&["spec", "activeDeadlineSeconds"]);
    if let (Some(seconds), Some(start)) = (seconds, start)
        && turn.job.at(&["spec", "suspend"]) != true
    {
        let due = start.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        if due > turn.now {
            turn.outcome.again(due);
        } else {
            let message = "Job was active longer than specified deadline".to_owned();
            verdict.fails = Some((DEADLINE.to_owned(), message));
        }
    }
    verdict
}

/// Containers that start again count where pods are not replaced.
fn restarts_exceed(turn: &Turn<'_>, limit: i64) -> bool {
    if turn.job.text(&["spec", "template", "spec", "restartPolicy"]) != "OnFailure" {
        return false;
    }
    let restarts: i64 = turn
        .active
        .iter()
        .flat_map(|(_, pod)| pod.items(&["status", "containerStatuses"]))
        .filter_map(|container| container.number(&["restartCount"]))
        .sum();
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

fn exit_codes(pod: &Value) -> impl Iterator<Item = (&str, i64)> {
    let containers = pod.items(&["status", "containerStatuses"]).iter();
    containers.filter_map(|container| {
        let code = container.number(&["state", "terminated", "exitCode"])?;
        Some((container.text(&["name"]), code))
    })
}

/// The first rule of the pod failure policy that a failed pod matches: its place, its action, and what it matched.
fn rule<'a>(job: &'a Object, pod: &Value) -> Option<(usize, &'a str, String)> {
    let rules = job.items(&["spec", "podFailurePolicy", "rules"]);
    rules.iter().enumerate().find_map(|(index, rule)| {
        let what = match (rule.get("onExitCodes"), rule.get("onPodConditions")) {
            (Some(codes), _) => on_exit_codes(codes, pod)?,
            (None, Some(patterns)) => on_conditions(patterns, pod)?,
            (None, None) => return None,
        };
        Some((index, rule.text(&["action"]), what))
    })
}

fn on_exit_codes(codes: &Value, pod: &Value) -> Option<String> {
    let wanted = codes["containerName"].as_str();
    let listed = |code: i64| codes.items(&["values"]).iter().any(|value| value.as_i64() == Some(code));
    let not_in = codes.text(&["operator"]) == "NotIn";
    let mut found = exit_codes(pod).filter(|(name, code)| {
        *code != 0 && wanted.is_none_or(|wanted| wanted == *name) && listed(*code) != not_in
    });
    found.next().map(|(name, code)| format!("Container {name} for pod POD failed with exit code {code}"))
}

fn on_conditions(patterns: &Value, pod: &Value) -> Option<String> {
    let found = patterns.as_array()?.iter().find(|pattern| {
        let condition = pod.condition(pattern.text(&["type"]));
        condition.is_some_and(|condition| condition["status"] == pattern["status"])
    })?;
    Some(format!("Pod POD has condition {}", found.text(&["type"])))
}
