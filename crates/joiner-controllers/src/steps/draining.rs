//! A node's pods are asked to leave: which of them now, which by force, and what keeps the others. Only the tries are remembered between steps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration as Length;

use jiff::{SignedDuration, Timestamp};
use joiner_api::condition::{ConditionSet, Status};
use joiner_api::names::{self, conditions};
use joiner_provider::Monotonic;
use kube::ResourceExt;

use crate::command::{Command, Step};
use crate::pods::{self, CachedPod, Protection};
use crate::record::{Level, Note};
use crate::steps::termination::{NodeFacts, again_in};

/// First and longest pause between two tries to evict a pod.
const EVICTION_PAUSES: (Length, Length) = (Length::from_millis(100), Length::from_secs(10));
/// What keeps a drain is named on the claim when it has done so for so long: most refusals are over in a moment.
const BLOCKED_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// Pods named there; of more it says how many.
const MOST_BLOCKERS: usize = 5;

/// When pods may be asked to leave again.
#[derive(Debug, Default)]
pub struct Evictions(BTreeMap<String, Asked>);

#[derive(Debug)]
struct Asked {
    due: Monotonic,
    times: u32,
    /// Since when the server has said no, and its last words.
    refused: Option<(Monotonic, String)>,
}

impl Evictions {
    /// Whether a pod may be asked now.
    pub fn is_due(&self, uid: &str, now: Monotonic) -> bool {
        self.0.get(uid).is_none_or(|asked| asked.due <= now)
    }

    /// A pod was asked; when to ask it again if it stays.
    pub fn asked(&mut self, uid: &str, now: Monotonic) -> Monotonic {
        let asked = self.0.entry(uid.to_owned()).or_insert(Asked { due: now, times: 0, refused: None });
        let pause = EVICTION_PAUSES.0.saturating_mul(1 << asked.times.min(20)).min(EVICTION_PAUSES.1);
        asked.times += 1;
        asked.due = now + pause;
        asked.due
    }

    /// The server refused to evict a pod; when to try again.
    pub fn refused(&mut self, uid: &str, why: String, now: Monotonic) -> Monotonic {
        let due = self.asked(uid, now);
        if let Some(asked) = self.0.get_mut(uid) {
            let since = asked.refused.take().map_or(now, |(since, _)| since);
            asked.refused = Some((since, why));
        }
        due
    }

    /// Since when the server has refused to evict a pod, and what it said last.
    pub fn refusal(&self, uid: &str) -> Option<(Monotonic, &str)> {
        self.0.get(uid)?.refused.as_ref().map(|(since, why)| (*since, why.as_str()))
    }

    /// The pod is gone or going.
    pub fn done(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

/// Asks the pods of the first tier that is not empty to leave; true when there is none.
pub fn drain(facts: &NodeFacts, step: &mut Step) -> bool {
    let now = facts.now();
    let deadline = facts.deadline();
    for pod in &facts.pods {
        step.notes.extend(protection_told(pod, now));
    }
    let waiting: Vec<&CachedPod> =
        facts.pods.iter().copied().filter(|pod| facts.is_waiting_eviction(pod)).collect();
    if waiting.is_empty() {
        return true;
    }
    let (forced, rest): (Vec<&CachedPod>, Vec<&CachedPod>) = waiting
        .iter()
        .copied()
        .partition(|pod| deadline.is_some_and(|deadline| is_forced(facts, pod, deadline)));
    for pod in forced {
        let uid = pod.uid.to_string();
        let over = facts.end_of(pod).zip(deadline).is_none_or(|(end, deadline)| end > deadline);
        if over && facts.evictions.is_due(&uid, facts.present.monotonic) {
            let left = deadline.map_or(0, |deadline| deadline.duration_since(now).as_secs());
            step.notes.push(Note::new(
                pod,
                Level::Normal,
                "Disrupted",
                "deleted: the time its node had to drain is over",
            ));
            step.each.push(Command::DeletePod {
                namespace: pod.common.namespace.clone(),
                name: pod.name.to_string(),
                uid,
                grace_seconds: u32::try_from(left).unwrap_or(0).max(1),
            });
        }
    }
    for pod in first_tier(&rest).into_iter().filter(|pod| pods::is_evictable(pod, now)) {
        let uid = pod.uid.to_string();
        if facts.evictions.is_due(&uid, facts.present.monotonic) {
            step.each.push(Command::Evict {
                namespace: pod.common.namespace.clone(),
                name: pod.name.to_string(),
                uid,
            });
        }
    }
    let message = match waiting.len() {
        1 => "Failed to drain node, 1 pod is waiting to be evicted".to_owned(),
        count => format!("Failed to drain node, {count} pods are waiting to be evicted"),
    };
    step.notes.push(Note::new(facts.node, Level::Warning, "FailedDraining", message));
    again_in(facts, step, facts.settings.drain_interval);
    false
}

/// The pods whose turn it is: others, daemons, critical pods, critical daemons, each when those before have left.
fn first_tier<'p>(pods: &[&'p CachedPod]) -> Vec<&'p CachedPod> {
    let tier = |pod: &CachedPod| (pods::is_critical(pod), pods::is_daemon(pod));
    let Some(first) = pods.iter().map(|pod| tier(pod)).min() else { return Vec::new() };
    pods.iter().copied().filter(|pod| tier(pod) == first).collect()
}

/// Whether a pod must be deleted now so that it is gone at the deadline.
fn is_forced(facts: &NodeFacts, pod: &CachedPod, deadline: Timestamp) -> bool {
    if let Some(end) = facts.end_of(pod) {
        return end > deadline;
    }
    let grace = SignedDuration::from_secs(pod.common.grace_seconds);
    let latest = deadline.checked_sub(grace).unwrap_or(Timestamp::MIN);
    facts.now() > latest
}

/// Tells what a pod's do-not-disrupt annotation is taken for, unless it is for ever.
pub fn protection_told(pod: &CachedPod, now: Timestamp) -> Option<Note> {
    let key = names::DO_NOT_DISRUPT_ANNOTATION;
    let (level, reason, message) = match pod.protection() {
        Protection::Ignored => (
            Level::Warning,
            "InvalidDoNotDisruptAnnotation",
            format!(
                "annotation `{key}` is ignored: its value is neither `true` nor a duration above zero, as `2h30m`"
            ),
        ),
        Protection::Until(end) if now < end => {
            (Level::Normal, "DoNotDisruptUntil", format!("is not disrupted before {end}: annotation `{key}`"))
        }
        Protection::Until(end) => (
            Level::Normal,
            "DoNotDisruptGracePeriodElapsed",
            format!("may be disrupted since {end}: the time of its annotation `{key}` is over"),
        ),
        Protection::None | Protection::Open => return None,
    };
    Some(Note::new(pod, level, reason, message))
}

/// Says on the claim which pods have kept the drain for a while, and why; takes it back when none does.
pub fn tell_blockers(facts: &NodeFacts, set: &mut ConditionSet, began: Option<Timestamp>) {
    let now = facts.now();
    let waiting: Vec<&CachedPod> =
        facts.pods.iter().copied().filter(|pod| facts.is_waiting_eviction(pod)).collect();
    let drains_long = began.is_some_and(|began| now.duration_since(began) >= BLOCKED_AFTER);
    let mut blockers: Vec<String> = Vec::new();
    for pod in first_tier(&waiting).into_iter().filter(|pod| pods::is_active(pod)) {
        if let Some(why) = blocker(facts, pod, drains_long) {
            blockers.push(format!("{}: {why}", pod.key()));
        }
    }
    if blockers.is_empty() {
        // Readiness does not depend on it, so it can always be cleared.
        let _ = set.clear(conditions::DRAIN_BLOCKED);
        return;
    }
    blockers.sort();
    let more = blockers.len().saturating_sub(MOST_BLOCKERS);
    blockers.truncate(MOST_BLOCKERS);
    let mut message = blockers.join("; ");
    if more > 0 {
        message.push_str(&format!("; {more} more pods"));
    }
    set.set(conditions::DRAIN_BLOCKED, Status::True, "PodsBlocked", &message);
}

fn blocker(facts: &NodeFacts, pod: &CachedPod, drains_long: bool) -> Option<String> {
    let now = facts.now();
    if pods::is_protected(pod, now) {
        let until = match pod.protection() {
            Protection::Until(end) => format!(" until {end}"),
            _ => String::new(),
        };
        return drains_long.then(|| format!("annotation `{}`{until}", names::DO_NOT_DISRUPT_ANNOTATION));
    }
    let (since, why) = facts.evictions.refusal(&pod.uid)?;
    let refused_for = SignedDuration::try_from(facts.present.monotonic.since(since)).unwrap_or_default();
    if refused_for < BLOCKED_AFTER {
        return None;
    }
    let of_pod = facts.budgets.iter().filter(|budget| {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        budget.metadata.namespace.as_ref() == Some(&pod.common.namespace)
            && selector.is_some_and(|selector| pods::selects(selector, pod))
    });
    let budgets: BTreeSet<String> = of_pod.map(|budget| format!("`{}`", budget.name_any())).collect();
    let names = budgets.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    Some(match budgets.len() {
        0 => why.to_owned(),
        1 => format!("PodDisruptionBudget {names}"),
        _ => format!("several PodDisruptionBudgets: {names}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    #[test]
    fn refusals_are_told_with_the_first_time_and_the_last_words() {
        let at = |seconds| Monotonic::new(Length::from_secs(seconds));
        let mut evictions = Evictions::default();
        assert!(evictions.is_due("a", at(0)) && evictions.refusal("a").is_none());
        assert_eq!(evictions.asked("a", at(0)), at(0) + EVICTION_PAUSES.0);
        assert!(evictions.refusal("a").is_none(), "nobody said no");
        evictions.refused("a", "first".to_owned(), at(1));
        evictions.refused("a", "second".to_owned(), at(2));
        assert_eq!(evictions.refusal("a"), Some((at(1), "second")));
        for _ in 0..40 {
            evictions.refused("a", String::new(), at(3));
        }
        assert!(!evictions.is_due("a", at(12)) && evictions.is_due("a", at(13)));
        evictions.done("a");
        assert!(evictions.is_due("a", at(3)));
    }

    #[test]
    fn what_an_annotation_is_taken_for_is_told() {
        let now: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
        let told = |value: &str| {
            let pod: Pod = serde_json::from_value(
                json!({"metadata": {"name": "a", "annotations": {"karpenter.sh/do-not-disrupt": value}},
                "status": {"startTime": "2026-01-01T00:00:00Z"}}),
            )
            .unwrap();
            protection_told(&CachedPod::new(&pod), now).map(|note| (note.reason, note.message))
        };
        assert_eq!(told("true"), None);
        let cases = [
            ("10m", "DoNotDisruptUntil", "2026-01-01T00:10:00Z"),
            ("1m", "DoNotDisruptGracePeriodElapsed", "2026-01-01T00:01:00Z"),
            ("false", "InvalidDoNotDisruptAnnotation", "`karpenter.sh/do-not-disrupt` is ignored"),
            ("-1m", "InvalidDoNotDisruptAnnotation", "ignored"),
        ];
        for (value, reason, part) in cases {
            let (told_reason, message) = told(value).unwrap();
            assert_eq!(told_reason, reason, "{value}");
            assert!(message.contains(part), "{message}");
        }
    }
}
