//! The machines whose Nodes are there, kept up to date by a watch: they are asked for again and again and hardly ever change.
//!
//! The watch begins with the first question. Until it has told everything, and while it is cut off, the question goes to the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use joiner_api::names::KWOK_NODE_CLASS_LABEL;
use joiner_provider::{Clock, Instance, OfferingKey};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::launch::{self, PROVIDER_ID_PREFIX};

/// How long a watch that failed waits before the next try.
const RETRY: Duration = Duration::from_secs(1);

/// A machine and what it was bought as.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    pub(crate) instance: Instance,
    pub(crate) offering: Option<OfferingKey>,
    /// Its class, by its name.
    pub(crate) class: Option<String>,
}

/// Machines by the names of their Nodes.
#[derive(Default)]
pub(crate) struct Instances {
    known: Arc<Mutex<Known>>,
    follower: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct Known {
    machines: BTreeMap<String, Standing>,
    /// A new list while it comes in.
    coming: BTreeMap<String, Standing>,
    /// Whether `machines` is all there is, as far as the server has told.
    complete: bool,
}

impl Known {
    fn take(&mut self, event: Event<Node>) {
        match event {
            Event::Init => {
                self.complete = false;
                self.coming.clear();
            }
            Event::InitApply(node) => self.coming.extend(machine(node)),
            Event::InitDone => {
                self.machines = std::mem::take(&mut self.coming);
                self.complete = true;
            }
            Event::Apply(node) => {
                self.machines.remove(&node.name_any());
                self.machines.extend(machine(node));
                self.complete = true;
            }
            Event::Delete(node) => {
                self.machines.remove(&node.name_any());
                self.complete = true;
            }
        }
    }
}

/// The machine behind a Node, if it is one of ours.
pub(crate) fn machine(node: Node) -> Option<(String, Standing)> {
    if launch::has_vanished(&node) {
        return None;
    }
    let offering = node.metadata.labels.as_ref().and_then(OfferingKey::of_labels);
    let class = node.labels().get(KWOK_NODE_CLASS_LABEL).cloned();
    let claim_uid = launch::claim_uid(&node).map(str::to_owned);
    let id = node.spec.and_then(|spec| spec.provider_id).filter(|id| id.starts_with(PROVIDER_ID_PREFIX))?;
    let instance = Instance {
        claim_uid,
        claim: id.strip_prefix(PROVIDER_ID_PREFIX).map(str::to_owned),
        provider_id: id,
        created: node.metadata.creation_timestamp.map(|time| time.0),
        terminating: node.metadata.deletion_timestamp.is_some(),
    };
    Some((node.metadata.name?, Standing { instance, offering, class }))
}

impl Instances {
    /// All machines by their Nodes, if the watch knows them.
    pub(crate) fn all(&self) -> Option<BTreeMap<String, Standing>> {
        let known = self.known.lock();
        known.complete.then(|| known.machines.clone())
    }

    /// Begins the watch, if it has not begun.
    pub(crate) fn follow(&self, nodes: &Api<Node>, clock: &Arc<dyn Clock>) {
        let mut follower = self.follower.lock();
        if follower.is_some() {
            return;
        }
        let (nodes, clock, known) = (nodes.clone(), clock.clone(), self.known.clone());
        let task = tokio::spawn(async move {
            let mut events = watcher(nodes, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => known.lock().take(event),
                    Err(_) => {
                        known.lock().complete = false;
                        clock.sleep(RETRY).await;
                    }
                }
            }
        });
        *follower = Some(task.abort_handle());
    }
}

impl Drop for Instances {
    fn drop(&mut self) {
        if let Some(follower) = self.follower.lock().take() {
            follower.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, id: &str) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.spec.get_or_insert_default().provider_id = Some(id.to_owned());
        node
    }

    fn ids(known: &Known) -> Vec<&str> {
        known.machines.values().map(|machine| machine.instance.provider_id.as_str()).collect()
    }

    #[test]
    fn a_list_counts_when_it_is_whole() {
        let mut known = Known::default();
        known.take(Event::Init);
        known.take(Event::InitApply(node("a", "kwok://a")));
        known.take(Event::InitApply(node("other", "aws:///zone/i-1")));
        assert!(!known.complete && known.machines.is_empty());
        known.take(Event::InitDone);
        assert!(known.complete);
        assert_eq!(ids(&known), ["kwok://a"]);

        known.take(Event::Init);
        assert!(!known.complete, "a new list may tell of less");
        known.take(Event::InitDone);
        assert!(known.complete && known.machines.is_empty());
    }

    #[test]
    fn nodes_come_change_and_go() {
        let mut known = Known { complete: true, ..Known::default() };
        known.take(Event::Apply(node("a", "kwok://a")));
        known.take(Event::Apply(node("b", "kwok://b")));
        known.take(Event::Apply(node("a", "kwok://c")));
        assert_eq!(ids(&known), ["kwok://c", "kwok://b"]);
        known.take(Event::Delete(node("b", "kwok://b")));
        known.take(Event::Apply(node("a", "else")));
        assert!(ids(&known).is_empty());
    }
}
