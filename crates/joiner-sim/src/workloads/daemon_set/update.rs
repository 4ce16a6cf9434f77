//! The way to a new template: old pods go first, or new ones come first.

use jiff::Timestamp;
use serde_json::Value;

use super::{ByNode, HASH, eligible};
use crate::cache::Cache;
use crate::controller::Outcome;
use crate::json::share;
use crate::object::{Fields, Key, Kind, Object};
use crate::workloads::availability;
use crate::write::Write;

/// How many nodes may have two pods.
pub(super) fn surge(set: &Value, desired: i64) -> i64 {
    let strategy = set.at(&["spec", "updateStrategy"]);
    if strategy.text(&["type"]) != "RollingUpdate" {
        return 0;
    }
    share(strategy.at(&["rollingUpdate", "maxSurge"]), desired, true)
}

fn desired(set: &Value, cache: &Cache) -> i64 {
    let nodes = cache.all(Kind::Node).filter(|(_, node)| eligible::verdict(set, node).runs);
    i64::try_from(nodes.count()).unwrap_or(0)
}

type Entry<'a> = (&'a Key, &'a Object);

/// The old and the new pod of a node.
fn pair<'a>(pods: &[(&'a Key, &'a Object)], hash: &str) -> (Option<Entry<'a>>, Option<Entry<'a>>) {
    let living = || pods.iter().copied().filter(|(_, pod)| !pod.is_deleting());
    let new = living().find(|(_, pod)| pod.label(HASH) == Some(hash));
    let old = living().find(|(_, pod)| pod.label(HASH) != Some(hash));
    (old, new)
}

/// What to do on one node during an update with a surge.
pub(super) enum Step<'a> {
    /// The old pod goes.
    End(Entry<'a>),
    /// A new pod comes beside the old one.
    Join,
    /// Nothing yet.
    Nothing,
}

/// An update with a surge, over all nodes.
#[derive(Default)]
pub(super) struct Surge<'a> {
    /// Nodes whose new pod is on its way.
    under_way: i64,
    /// Nodes whose old pod works and could be joined by a new one.
    candidates: Vec<&'a str>,
}

impl<'a> Surge<'a> {
    /// Looks at the pods of one node: the old one goes when the new one is available, and one that does not work is joined at once.
    pub fn look(
        &mut self,
        set: &Value,
        running: &[Entry<'a>],
        hash: &str,
        now: Timestamp,
        node: &'a str,
    ) -> Step<'a> {
        let min_ready = set.number(&["spec", "minReadySeconds"]).unwrap_or(0);
        let available = |pod: &Object| availability(pod, min_ready, now).0;
        match pair(running, hash) {
            (Some(old), Some((_, new))) if available(new) => return Step::End(old),
            (Some(_), Some(_)) => self.under_way += 1,
            (Some((_, old)), None) if !available(old) => return Step::Join,
            (Some(_), None) => self.candidates.push(node),
            (None, Some((_, new))) => self.under_way += i64::from(!available(new)),
            (None, None) => {}
        }
        Step::Nothing
    }

    /// The nodes that may have a second pod now.
    pub fn room(self, set: &Value, cache: &Cache) -> impl Iterator<Item = &'a str> {
        let rolling = set.text(&["spec", "updateStrategy", "type"]) == "RollingUpdate";
        let most = if rolling { surge(set, desired(set, cache)) } else { 0 };
        let room = usize::try_from((most - self.under_way).max(0)).unwrap_or(0);
        self.candidates.into_iter().take(room)
    }
}

/// One step of a rolling update.
pub(super) fn roll(
    set: &Object,
    pods: &ByNode<'_>,
    hash: &str,
    cache: &Cache,
    now: Timestamp,
    outcome: &mut Outcome,
) {
    let strategy = set.at(&["spec", "updateStrategy"]);
    if strategy.text(&["type"]) != "RollingUpdate" || surge(set, 1) != 0 {
        return;
    }
    let most = share(strategy.at(&["rollingUpdate", "maxUnavailable"]), desired(set, cache), true);
    let min_ready = set.number(&["spec", "minReadySeconds"]).unwrap_or(0);
    let available = |pod: &Object| availability(pod, min_ready, now).0;
    let mut unavailable = 0;
    let (mut replaced, mut candidates) = (Vec::new(), Vec::new());
    for here in pods.values() {
        if here.iter().any(|(_, pod)| pod.is_deleting()) {
            unavailable += 1;
            continue;
        }
        match pair(here, hash) {
            (None, None) | (Some(_), Some(_)) => unavailable += 1,
            (None, Some((_, new))) => unavailable += i64::from(!available(new)),
            (Some(old), None) if !available(old.1) => {
                replaced.push(old);
                unavailable += 1;
            }
            (Some(old), None) => candidates.push(old),
        }
    }
    let room = usize::try_from((most - unavailable).max(0)).unwrap_or(0);
    replaced.extend(candidates.into_iter().take(room));
    outcome.writes.extend(replaced.into_iter().map(|(key, pod)| Write::delete(key.clone(), pod.uid())));
}
