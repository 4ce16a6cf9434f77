//! Horizontal pod autoscalers: replicas follow the usage that pods report in their annotations.
//!
//! Every fifteen seconds the usage of a workload's ready pods is held against what they request, or against a wanted average. Metrics other
//! than cpu and memory of pods are not simulated; an autoscaler that asks for them says so in its conditions and does nothing.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use joiner_apiserver::selector::LabelSelector;
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::{Change, Event};
use crate::json::{moment, set_condition};
use crate::object::{Fields, Key, Kind, Object};
use crate::volumes::quantity;
use crate::workloads::{is_active, is_ready, note, status_write};
use crate::write::Write;

const NAME: &str = "horizontal-pod-autoscaler";
const EVERY: SignedDuration = SignedDuration::from_secs(15);

/// A ratio this near to one changes nothing.
const TOLERANCE: f64 = 0.1;

/// The controller.
#[derive(Default)]
pub struct Autoscalers {
    memory: BTreeMap<Key, Memory>,
}

/// What an autoscaler remembers.
#[derive(Debug, Default)]
struct Memory {
    /// What was recommended when, for the stabilisation windows.
    recommended: VecDeque<(Timestamp, i64)>,
    /// By how much the size was changed when, for the rates.
    changes: VecDeque<(Timestamp, i64)>,
    next: Option<Timestamp>,
}

impl Controller for Autoscalers {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interested(&mut self, event: &Event, _: &Cache, keys: &mut Vec<Key>) {
        if event.key.kind == Kind::HorizontalPodAutoscaler {
            if event.change == Change::Deleted {
                self.memory.remove(&event.key);
            } else {
                keys.push(event.key.clone());
            }
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome {
        let Some(scaler) = cache.get(key) else { return Outcome::nothing() };
        let memory = self.memory.entry(key.clone()).or_default();
        let mut outcome = Outcome::nothing();
        // Its own status brings it here too; only the clock counts.
        if let Some(next) = memory.next
            && now < next
        {
            outcome.again(next);
            return outcome;
        }
        let next = now.saturating_add(EVERY).unwrap_or(Timestamp::MAX);
        memory.next = Some(next);
        outcome.again(next);
        scale(key, scaler, cache, now, memory, &mut outcome);
        outcome
    }
}

fn scale(
    key: &Key,
    scaler: &Object,
    cache: &Cache,
    now: Timestamp,
    memory: &mut Memory,
    outcome: &mut Outcome,
) {
    let mut status = scaler.at(&["status"]).clone();
    if !status.is_object() {
        status = json!({"currentReplicas": 0, "desiredReplicas": 0});
    }
    let mut conditions = scaler.items(&["status", "conditions"]).to_vec();
    let mut set = |kind: &str, holds: bool, reason: &str, message: String| {
        let status = if holds { "True" } else { "False" };
        let condition = json!({"type": kind, "status": status, "reason": reason, "message": message});
        set_condition(&mut conditions, condition, now);
    };
    let target = scaler.at(&["spec", "scaleTargetRef"]);
    let found = Kind::named(target.text(&["kind"])).and_then(|kind| {
        cache.find(kind, &key.namespace, target.text(&["name"])).map(|object| (kind, object))
    });
    let Some((kind, workload)) = found else {
        let message = format!(
            "the HPA controller was unable to get the target's current scale: {} \"{}\" not found",
            target.text(&["kind"]),
            target.text(&["name"])
        );
        set("AbleToScale", false, "FailedGetScale", message);
        status["conditions"] = conditions.into();
        outcome.writes.extend(status_write(key, scaler, status));
        return;
    };
    let present = workload.number(&["spec", "replicas"]).unwrap_or(1);
    set(
        "AbleToScale",
        true,
        "SucceededGetScale",
        "the HPA controller was able to get the target's current scale".to_owned(),
    );
    let wanted = match (present, recommend(scaler, workload, present, cache, &key.namespace)) {
        (0, _) => {
            let message = "scaling is disabled since the replica count of the target is zero".to_owned();
            set("ScalingActive", false, "ScalingDisabled", message);
            None
        }
        (_, Ok((wanted, metrics))) => {
            let message = "the HPA was able to successfully calculate a replica count".to_owned();
            set("ScalingActive", true, "ValidMetricFound", message);
            status["currentMetrics"] = metrics.into();
            Some(wanted)
        }
        (_, Err(message)) => {
            set("ScalingActive", false, "FailedGetResourceMetric", message);
            None
        }
    };
    if let Some(wanted) = wanted {
        let Bounded { size: wanted_size, held_back, limited } = bounded(scaler, present, wanted, memory, now);
        let (reason, message) =
            held_back.unwrap_or(("ReadyForNewScale", "recommended size matches current size"));
        set("AbleToScale", true, reason, message.to_owned());
        let (reason, message) =
            limited.unwrap_or(("DesiredWithinRange", "the desired count is within the acceptable range"));
        set("ScalingLimited", limited.is_some(), reason, message.to_owned());
        if wanted_size != present {
            let message = format!("the HPA controller was able to update the target scale to {wanted_size}");
            set("AbleToScale", true, "SucceededRescale", message);
            let target = Key::new(kind, &key.namespace, workload.name());
            outcome.writes.push(Write::Patch {
                key: target,
                subresource: Some("scale"),
                how: crate::write::PatchKind::Merge,
                patch: json!({"spec": {"replicas": wanted_size}}),
            });
            let direction = if wanted_size > present { "above" } else { "below" };
            let message = format!("New size: {wanted_size}; reason: resource metrics {direction} target");
            outcome.writes.push(note(NAME, key, scaler, "SuccessfulRescale", message));
            memory.changes.push_back((now, wanted_size - present));
            status["lastScaleTime"] = moment(now);
        }
        status["desiredReplicas"] = wanted_size.into();
    }
    status["currentReplicas"] = present.into();
    status["observedGeneration"] = scaler.generation().into();
    status["conditions"] = conditions.into();
    outcome.writes.extend(status_write(key, scaler, status));
}

/// The largest size that any metric asks for, with the metrics as they are.
fn recommend(
    scaler: &Value,
    workload: &Value,
    present: i64,
    cache: &Cache,
    namespace: &str,
) -> Result<(i64, Vec<Value>), String> {
    let selector = LabelSelector::from_object(workload.at(&["spec", "selector"]))
        .ok_or_else(|| "the target has no selector".to_owned())?;
    let pods: Vec<&Object> = cache
        .within(Kind::Pod, namespace)
        .map(|(_, pod)| pod)
        .filter(|pod| is_active(pod) && selector.matches(pod))
        .collect();
    let mut wanted = None;
    let mut shown = Vec::new();
    for metric in scaler.items(&["spec", "metrics"]) {
        if metric.text(&["type"]) != "Resource" {
            return Err(format!("metrics of type {} are not simulated", metric.text(&["type"])));
        }
        let (replicas, state) = by_resource(&metric["resource"], &pods, present)?;
        wanted = wanted.max(Some(replicas));
        shown.push(state);
    }
    wanted.map(|wanted| (wanted, shown)).ok_or_else(|| "there are no metrics".to_owned())
}

fn by_resource(metric: &Value, pods: &[&Object], present: i64) -> Result<(i64, Value), String> {
    let name = metric.text(&["name"]);
    let annotation = format!("kwok.x-k8s.io/usage-{name}");
    let target = metric.at(&["target"]);
    // A pod that does not say what it uses is as busy as its autoscaler wants it: nothing changes because of it.
    let wished = |pod: &Value| match target.number(&["averageUtilization"]) {
        Some(percent) => {
            let request = request(pod, name).map_or(0, thousandths);
            // Rounded up, so that the share comes out as it went in.
            request.saturating_mul(percent).saturating_add(99) / 100
        }
        None => quantity(target.text(&["averageValue"])).map_or(0, thousandths),
    };
    let ready: Vec<&&Object> = pods.iter().filter(|pod| is_ready(pod)).collect();
    if ready.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    let usage: i64 = ready
        .iter()
        .map(|pod| match pod.annotation(&annotation).and_then(quantity) {
            Some(usage) => thousandths(usage),
            None => wished(pod),
        })
        .fold(0, i64::saturating_add);
    let count = i64::try_from(ready.len()).unwrap_or(i64::MAX);
    let average = usage / count;
    let (ratio, mut current) = match target.number(&["averageUtilization"]) {
        Some(percent) => {
            let mut requested = 0_i64;
            for pod in &ready {
                let request = request(pod, name)
                    .ok_or_else(|| format!("failed to get {name} utilization: missing request for {name}"))?;
                requested = requested.saturating_add(thousandths(request));
            }
            // Whole percents, and what is wanted follows from them, as in Kubernetes.
            let share = usage.saturating_mul(100).checked_div(requested).unwrap_or(0);
            (share as f64 / percent as f64, json!({"averageUtilization": share}))
        }
        None => {
            let wished = quantity(target.text(&["averageValue"]))
                .ok_or_else(|| format!("invalid target of metric {name}"))?;
            (average as f64 / thousandths(wished) as f64, json!({}))
        }
    };
    current["averageValue"] = format!("{average}m").into();
    let wanted =
        if (ratio - 1.0).abs() <= TOLERANCE { present } else { (ratio * count as f64).ceil() as i64 };
    Ok((wanted, json!({"type": "Resource", "resource": {"name": name, "current": current}})))
}

/// A quantity in thousandths, in which usage is counted.
fn thousandths(quantity: f64) -> i64 {
    (quantity * 1000.0).round() as i64
}

/// What a pod's containers request together.
fn request(pod: &Value, resource: &str) -> Option<f64> {
    let containers = pod.items(&["spec", "containers"]).iter();
    containers.map(|container| quantity(container.text(&["resources", "requests", resource]))).sum()
}

/// A reason, and a sentence for it.
type Words = (&'static str, &'static str);

/// The recommendation after the windows, rates and limits of the autoscaler.
struct Bounded {
    size: i64,
    /// Why an older recommendation counts.
    held_back: Option<Words>,
    /// What limits the size.
    limited: Option<Words>,
}

fn bounded(scaler: &Value, present: i64, wanted: i64, memory: &mut Memory, now: Timestamp) -> Bounded {
    let window = |direction: &str, usual: i64| {
        let seconds = scaler.number(&["spec", "behavior", direction, "stabilizationWindowSeconds"]);
        SignedDuration::from_secs(seconds.unwrap_or(usual))
    };
    let (down, up) = (window("scaleDown", 300), window("scaleUp", 0));
    memory.recommended.push_back((now, wanted));
    let longest = down.max(up);
    while memory.recommended.front().is_some_and(|(time, _)| now.duration_since(*time) > longest) {
        memory.recommended.pop_front();
    }
    let within = |window: SignedDuration| {
        memory
            .recommended
            .iter()
            .filter(move |(time, _)| now.duration_since(*time) <= window)
            .map(|(_, size)| *size)
    };
    let highest = within(down).max().unwrap_or(wanted);
    let lowest = within(up).min().unwrap_or(wanted);
    let steady = present.max(lowest).min(highest);
    let least = scaler.number(&["spec", "minReplicas"]).unwrap_or(1);
    let most = scaler.number(&["spec", "maxReplicas"]).unwrap_or(i64::MAX);
    let held_back = match steady.cmp(&wanted) {
        std::cmp::Ordering::Greater => Some((
            "ScaleDownStabilized",
            "recent recommendations were higher than current one, applying the highest recent recommendation",
        )),
        std::cmp::Ordering::Less => Some((
            "ScaleUpStabilized",
            "recent recommendations were lower than current one, applying the lowest recent recommendation",
        )),
        std::cmp::Ordering::Equal => None,
    };
    let rated = match steady.cmp(&present) {
        std::cmp::Ordering::Greater => steady.min(rate(scaler, "scaleUp", present, memory, now)),
        std::cmp::Ordering::Less => steady.max(rate(scaler, "scaleDown", present, memory, now)),
        std::cmp::Ordering::Equal => steady,
    };
    let size = rated.clamp(least, most.max(least));
    let limited = match size.cmp(&steady) {
        std::cmp::Ordering::Less if size == most => {
            Some(("TooManyReplicas", "the desired replica count is more than the maximum replica count"))
        }
        std::cmp::Ordering::Less => Some((
            "ScaleUpLimit",
            "the desired replica count is increasing faster than the maximum scale rate",
        )),
        std::cmp::Ordering::Greater if size == least => {
            Some(("TooFewReplicas", "the desired replica count is less than the minimum replica count"))
        }
        std::cmp::Ordering::Greater => Some((
            "ScaleDownLimit",
            "the desired replica count is decreasing faster than the maximum scale rate",
        )),
        std::cmp::Ordering::Equal => None,
    };
    Bounded { size, held_back, limited }
}

/// How far the size may move now.
fn rate(scaler: &Value, direction: &str, present: i64, memory: &mut Memory, now: Timestamp) -> i64 {
    let up = direction == "scaleUp";
    let behaviour = scaler.at(&["spec", "behavior", direction]);
    let usual = match up {
        true => vec![
            json!({"type": "Pods", "value": 4, "periodSeconds": 15}),
            json!({"type": "Percent", "value": 100, "periodSeconds": 15}),
        ],
        false => vec![json!({"type": "Percent", "value": 100, "periodSeconds": 15})],
    };
    let policies = match behaviour.items(&["policies"]) {
        [] => usual,
        policies => policies.to_vec(),
    };
    if behaviour["selectPolicy"] == "Disabled" {
        return present;
    }
    memory.changes.retain(|(time, _)| now.duration_since(*time) <= SignedDuration::from_mins(30));
    let limits = policies.iter().map(|policy| {
        let period = SignedDuration::from_secs(policy.number(&["periodSeconds"]).unwrap_or(15));
        let recent = memory.changes.iter().filter(|(time, _)| now.duration_since(*time) < period);
        let moved: i64 = recent.map(|(_, change)| *change).filter(|change| (*change > 0) == up).sum();
        let start = present - moved;
        let value = policy.number(&["value"]).unwrap_or(0);
        let step = match policy.text(&["type"]) == "Pods" {
            true => value,
            false if up => (start * value + 99) / 100,
            false => start * value / 100,
        };
        if up { start + step } else { start - step }
    });
    let least_change = behaviour["selectPolicy"] == "Min";
    let chosen = if up != least_change { limits.max() } else { limits.min() };
    chosen.unwrap_or(present)
}
