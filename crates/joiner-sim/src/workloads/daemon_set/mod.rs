//! DaemonSets: one pod on every node that will have it.

mod eligible;
mod update;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use joiner_apiserver::selector::LabelSelector;
use serde_json::{Value, json};

use super::history::{History, hash_of};
use super::{
    availability, claim, name_from_prefix, note, owners_of, pod_from_template, status_write, warning,
};
use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::{Change, Event};
use crate::json::put_nonzero;
use crate::object::{Fields, Key, Kind, Object};
use crate::write::Write;

const NAME: &str = "daemonset-controller";
const HASH: &str = "controller-revision-hash";
const GENERATION: &str = "pod-template-generation";

/// So many pods are created or deleted at a time.
const BURST: usize = 250;

/// The first wait before a failed pod is replaced, and the longest.
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_mins(15);

/// The controller.
pub struct DaemonSets {
    seed: u64,
    turn: u64,
    /// Per set and node: failures, and until when to wait.
    failures: BTreeMap<(Key, String), (u32, Timestamp)>,
}

impl DaemonSets {
    /// Names of pods come from the seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, turn: 0, failures: BTreeMap::new() }
    }
}

/// The pods of a set by node; a pod that waits for its node to be bound counts there.
type ByNode<'a> = BTreeMap<&'a str, Vec<(&'a Key, &'a Object)>>;

impl Controller for DaemonSets {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::DaemonSet => keys.push(event.key.clone()),
            Kind::Pod => owners_of(event, Kind::DaemonSet, cache, keys),
            Kind::ControllerRevision => owners_of(event, Kind::DaemonSet, cache, keys),
            // A node that may need a pod, or lose one; anything else about it can wait.
            Kind::Node if event.change != Change::Deleted => {
                let relevant = |node: &Object| {
                    json!([
                        node.at(&["metadata", "labels"]),
                        node.at(&["spec", "taints"]),
                        node.at(&["spec", "unschedulable"])
                    ])
                };
                if event.previous.as_ref().is_some_and(|before| relevant(before) == relevant(&event.object)) {
                    return;
                }
                for (key, set) in cache.all(Kind::DaemonSet) {
                    let verdict = eligible::verdict(set, &event.object);
                    if verdict.runs || !verdict.stays {
                        keys.push(key.clone());
                    }
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome {
        let Some(set) = cache.get(key) else { return Outcome::nothing() };
        let Some(selector) = LabelSelector::from_object(set.at(&["spec", "selector"])) else {
            return Outcome::nothing();
        };
        if selector.is_empty() {
            return Outcome::nothing();
        }
        let claimed = claim(cache, key, set, &selector, Kind::Pod);
        if !claimed.writes.is_empty() {
            return Outcome::writes(claimed.writes);
        }
        let history = History::of(cache, set);
        if !set.is_deleting()
            && let Some(write) = history.keep(Kind::DaemonSet, set, HASH)
        {
            return Outcome::writes(vec![write]);
        }
        let hash = history.present.map_or("", |index| hash_of(history.all[index].0));
        let pods = by_node(&claimed.objects);
        let mut outcome = Outcome::nothing();
        if !set.is_deleting() {
            self.manage(key, set, &pods, hash, cache, now, &mut outcome);
            if outcome.writes.is_empty() {
                update::roll(set, &pods, hash, cache, now, &mut outcome);
            }
            if outcome.writes.is_empty() {
                let limit = set.number(&["spec", "revisionHistoryLimit"]).unwrap_or(10);
                let used = |revision: &Key| {
                    claimed.objects.iter().any(|(_, pod)| pod.label(HASH) == Some(hash_of(revision)))
                };
                outcome.writes.extend(history.surplus(limit, used));
            }
        }
        if outcome.writes.is_empty() {
            let status = status(set, &pods, hash, cache, now, &mut outcome);
            outcome.writes.extend(status_write(key, set, status));
        }
        outcome
    }
}

fn by_node<'a>(pods: &[(&'a Key, &'a Object)]) -> ByNode<'a> {
    let mut nodes: ByNode<'a> = BTreeMap::new();
    for (key, pod) in pods {
        if pod.is_deleting() && super::is_finished(pod) {
            continue;
        }
        if let Some(node) = node_of(pod) {
            nodes.entry(node).or_default().push((key, pod));
        }
    }
    nodes
}

/// The node of a pod, bound or meant.
fn node_of(pod: &Value) -> Option<&str> {
    let bound = pod.text(&["spec", "nodeName"]);
    if !bound.is_empty() {
        return Some(bound);
    }
    let required = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = pod.at(&required).items(&["nodeSelectorTerms"]);
    terms.first()?.items(&["matchFields"]).first()?.items(&["values"]).first()?.as_str()
}

impl DaemonSets {
    #[allow(clippy::too_many_arguments, reason = "one step of one reconciliation")]
    fn manage<'a>(
        &mut self,
        key: &Key,
        set: &Object,
        pods: &ByNode<'a>,
        hash: &str,
        cache: &'a Cache,
        now: Timestamp,
        outcome: &mut Outcome,
    ) {
        let (mut create, mut delete): (Vec<&'a str>, Vec<(&'a Key, &'a Object)>) = (Vec::new(), Vec::new());
        let mut surge = update::Surge::default();
        for (_, node) in cache.all(Kind::Node) {
            let verdict = eligible::verdict(set, node);
            let here = pods.get(node.name()).map_or(&[][..], Vec::as_slice);
            if here.is_empty() {
                if verdict.runs {
                    create.push(node.name());
                }
                continue;
            }
            let staying = here.iter().filter(|(_, pod)| !pod.is_deleting());
            if !verdict.stays {
                delete.extend(staying);
                continue;
            }
            let mut running: Vec<(&'a Key, &'a Object)> = Vec::new();
            for (pod_key, pod) in staying {
                match pod.text(&["status", "phase"]) {
                    "Failed" => {
                        if self.may_replace(key, node.name(), now, outcome) {
                            let message = format!(
                                "Found failed daemon pod {}/{} on node {}, will try to kill it",
                                pod_key.namespace,
                                pod_key.name,
                                node.name()
                            );
                            outcome.writes.push(warning(NAME, key, set, "FailedDaemonPod", message));
                            delete.push((pod_key, pod));
                        }
                    }
                    "Succeeded" => {
                        let message = format!(
                            "Found succeeded daemon pod {}/{} on node {}, will try to delete it",
                            pod_key.namespace,
                            pod_key.name,
                            node.name()
                        );
                        outcome.writes.push(note(NAME, key, set, "SucceededDaemonPod", message));
                        delete.push((pod_key, pod));
                    }
                    _ => running.push((pod_key, pod)),
                }
            }
            // During an update with a surge the new pod stands beside the old one.
            if update::surge(set, 1) == 0 && running.len() > 1 {
                running.sort_by_key(|(pod_key, pod)| (pod.created(), (*pod_key).clone()));
                delete.extend(running.into_iter().skip(1));
            } else if update::surge(set, 1) != 0 {
                match surge.look(set, &running, hash, now, node.name()) {
                    update::Step::End(old) => delete.push(old),
                    update::Step::Join => create.push(node.name()),
                    update::Step::Nothing => {}
                }
            }
        }
        create.extend(surge.room(set, cache));
        for name in create.into_iter().take(BURST) {
            self.create(key, set, name, hash, cache, outcome);
        }
        for (pod_key, pod) in delete.into_iter().take(BURST) {
            outcome.writes.push(Write::delete(pod_key.clone(), pod.uid()));
            let message = format!("Deleted pod: {}", pod_key.name);
            outcome.writes.push(note(NAME, key, set, "SuccessfulDelete", message));
        }
    }

    /// Whether a failed pod may be replaced now; the waits between replacements double.
    fn may_replace(&mut self, key: &Key, node: &str, now: Timestamp, outcome: &mut Outcome) -> bool {
        let entry = self.failures.entry((key.clone(), node.to_owned())).or_insert((0, Timestamp::MIN));
        if now < entry.1 {
            outcome.again(entry.1);
            return false;
        }
        let factor = 1_i32.checked_shl(entry.0.min(10)).unwrap_or(1024);
        let wait = FIRST_BACKOFF.saturating_mul(factor).min(LONGEST_BACKOFF);
        *entry = (entry.0 + 1, now.saturating_add(wait).unwrap_or(Timestamp::MAX));
        true
    }

    fn create(
        &mut self,
        key: &Key,
        set: &Object,
        node: &str,
        hash: &str,
        cache: &Cache,
        outcome: &mut Outcome,
    ) {
        let mut pod = pod_from_template(Kind::DaemonSet, set, set.at(&["spec", "template"]));
        let labels = &mut pod["metadata"]["labels"];
        if !labels.is_object() {
            *labels = json!({});
        }
        labels[HASH] = hash.into();
        if let Some(generation) = set.annotation("deprecated.daemonset.template.generation") {
            labels[GENERATION] = generation.into();
        }
        eligible::aim(&mut pod, node);
        self.turn += 1;
        let turn = self.turn ^ cache.revision().rotate_left(32);
        let name = name_from_prefix(&mut pod, &format!("{}-", key.name), self.seed, turn);
        let namespace = key.namespace.to_string();
        outcome.writes.push(Write::Create { kind: Kind::Pod, namespace, object: pod });
        outcome.writes.push(note(NAME, key, set, "SuccessfulCreate", format!("Created pod: {name}")));
    }
}

fn status(
    set: &Object,
    pods: &ByNode<'_>,
    hash: &str,
    cache: &Cache,
    now: Timestamp,
    outcome: &mut Outcome,
) -> Value {
    let min_ready = set.number(&["spec", "minReadySeconds"]).unwrap_or(0);
    let (mut desired, mut current, mut wrong, mut ready, mut updated, mut available) = (0, 0, 0, 0, 0, 0);
    for (_, node) in cache.all(Kind::Node) {
        let here = pods.get(node.name()).map_or(&[][..], Vec::as_slice);
        if !eligible::verdict(set, node).runs {
            wrong += i64::from(!here.is_empty());
            continue;
        }
        desired += 1;
        // Of several the oldest ready one counts.
        let best = here.iter().min_by_key(|(_, pod)| (!super::is_ready(pod), pod.created()));
        let Some((_, pod)) = best else { continue };
        current += 1;
        if super::is_ready(pod) {
            ready += 1;
            let (is_available, due) = availability(pod, min_ready, now);
            available += i64::from(is_available);
            if let Some(due) = due {
                outcome.again(due);
            }
        }
        updated += i64::from(pod.label(HASH) == Some(hash));
    }
    let mut status = serde_json::Map::new();
    for (field, number) in [
        ("currentNumberScheduled", current),
        ("desiredNumberScheduled", desired),
        ("numberMisscheduled", wrong),
        ("numberReady", ready),
    ] {
        status.insert(field.to_owned(), number.into());
    }
    put_nonzero(&mut status, "observedGeneration", set.generation());
    put_nonzero(&mut status, "updatedNumberScheduled", updated);
    put_nonzero(&mut status, "numberAvailable", available);
    put_nonzero(&mut status, "numberUnavailable", desired - available);
    status.into()
}
