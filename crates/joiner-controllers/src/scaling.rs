//! Machines of node groups, from the list of their groups to the end of one that nobody needs. They have no claim: what is known of them is their group's
//! target and, once they have joined, their Node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::names;
use joiner_provider::{Error, Growth, ListedGroup, MemberState, NodeGroup, NodeGroupKey, Scope};
use joiner_record::{Subject, Verb, Verdict};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::json;

use crate::cache::Change;
use crate::command::{Command, Failure, Step};
use crate::decision::{Decided, subject_of};
use crate::engine::Engine;
use crate::group_planning::{class_of, offering_of, scope_of};
use crate::pods;
use crate::queue::Key;
use crate::record::Note;
use crate::reports::Report;
use crate::roster::is_marked;
use crate::steps::emptiness;
use crate::steps::termination::disrupted_taints;

impl Engine {
    /// Asks the providers for their groups.
    pub(crate) fn list_groups(&mut self) {
        let (clouds, executor) = (self.registry.node_groups().to_vec(), self.executor.clone());
        if clouds.is_empty() {
            return;
        }
        self.busy.insert(Key::NodeGroups, false);
        self.spawn_guarded(vec![Key::NodeGroups], async move {
            let mut lists = Vec::with_capacity(clouds.len());
            for cloud in clouds {
                lists.push((cloud.name().to_owned(), executor.list_groups(&*cloud).await));
            }
            Report::Groups(lists)
        });
    }

    /// The lists have come.
    pub(crate) fn groups_listed(
        &mut self,
        lists: Vec<(String, Result<Vec<ListedGroup>, Failure>)>,
        now: Timestamp,
    ) {
        let again = self.busy.remove(&Key::NodeGroups) == Some(true);
        let (mut failed, mut changed) = (false, !self.cache.node_groups.is_current());
        for (provider, listed) in lists {
            match listed {
                Ok(listed) => changed |= self.cache.take_groups(&provider, listed),
                Err(failure) => {
                    failed = true;
                    // What was known before has to do; other pools need not wait for this cloud.
                    self.cache.node_groups.read(&provider);
                    let object = Subject::new("Provider", provider, None);
                    self.put_back(&Key::NodeGroups, Verb::List, object, &failure, now);
                }
            }
        }
        if !failed {
            self.pauses.remove(&Key::NodeGroups);
            self.requeue_after(&Key::NodeGroups, self.settings.group_interval);
        }
        if again {
            self.enqueue(Key::NodeGroups);
        }
        if changed {
            self.heard += 1;
            self.enqueue(Key::Provision);
            self.enqueue(Key::Disruption);
        }
    }

    /// What is known of a provider's groups is out of date: nothing more is decided from it.
    pub(crate) fn groups_outdated(&mut self, provider: &str) {
        self.cache.node_groups.outdated(provider);
        self.enqueue(Key::NodeGroups);
    }

    /// A group has its new target: the pods that it grew for are expected on its machines.
    pub(crate) fn group_grew(&mut self, key: NodeGroupKey, group: NodeGroup) {
        self.health.succeeded(&key.provider, &class_of(&key), &offering_of(&key, &group));
        self.cache.take_group(key, group);
        self.batch.decided.clear();
        self.enqueue(Key::Provision);
    }

    /// A group cannot grow, or was not as it was planned from.
    pub(crate) fn growth_failed(&mut self, provider: &str, growth: &Growth, failure: &Failure) {
        let key = NodeGroupKey { provider: provider.to_owned(), name: growth.group.clone() };
        let now = self.now();
        match failure {
            Failure::Provider(Error::Throttled { .. }) | Failure::Fenced | Failure::Overloaded => {}
            Failure::Provider(error) => {
                let retry_after = match error {
                    Error::NoCapacity { retry_after, .. } | Error::Quota { retry_after, .. } => *retry_after,
                    _ => None,
                };
                let Some(group) = self.cache.node_groups.get(&key) else { return };
                let mut scopes: Vec<Scope> = vec![scope_of(&key, group)];
                if let Error::NoCapacity { scopes: told, .. } = error {
                    scopes.extend(told.iter().cloned());
                }
                for scope in scopes {
                    self.health.failed(provider, scope, retry_after, now);
                }
                self.batch.decided.clear();
            }
            _ => {
                self.groups_outdated(provider);
                self.batch.decided.clear();
            }
        }
    }

    /// Pods came to a node or left it.
    pub(crate) fn touch_member(&mut self, node: &Node) {
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        if id.is_some_and(|id| self.cache.node_groups.touch(id)) {
            self.enqueue(Key::Disruption);
        }
    }

    /// A node that no group knows may be a new machine of one.
    pub(crate) fn node_of_group_changed(&mut self, change: &Change<Node>) {
        if self.registry.node_groups().is_empty() {
            return;
        }
        let id = |node: &Arc<Node>| node.spec.as_ref()?.provider_id.clone().filter(|id| !id.is_empty());
        let [old, new] = [&change.old, &change.new].map(|node| node.as_ref().and_then(id));
        let is_known =
            |id: &Option<String>| id.as_ref().is_none_or(|id| self.cache.node_groups.of(id).is_some());
        if old != new && (old.is_some() || !is_known(&new)) && self.started {
            self.enqueue(Key::NodeGroups);
        }
    }

    /// Machines of groups that nobody has needed for long enough, dearest groups first, as far as their groups may shrink; and marks to take back from
    /// those that are needed after all.
    pub(crate) fn unneeded_members(
        &mut self,
        spared: &BTreeSet<&String>,
        now: Timestamp,
    ) -> Vec<(Key, Step)> {
        if self.registry.node_groups().is_empty() {
            return Vec::new();
        }
        let present = self.present();
        let mut table = std::mem::take(&mut self.cache.node_groups);
        let nodes = |id: &str| self.cache.nodes_with_id(id).cloned().collect::<Vec<Arc<Node>>>();
        let holds_nothing =
            |node: &Node| !self.cache.pods_on(&node.name_any()).any(|pod| pods::is_reschedulable(pod));
        // A mark that a removal has left behind is to be looked at, too.
        let may_go = |id: &str| matches!(&nodes(id)[..], [node] if holds_nothing(node) || is_marked(node));
        let empty = table.empty(may_go).clone();
        let (mut steps, mut since) = (Vec::new(), BTreeMap::new());
        let mut due: Vec<(NodeGroupKey, Arc<NodeGroup>, String, Arc<Node>)> = Vec::new();
        let mut wake = None;
        for id in &empty {
            let Some((key, group)) = table.of(id) else { continue };
            let [node] = &nodes(id)[..] else { continue };
            let stays = group.member(id).is_some_and(|of| of.state == MemberState::Running)
                && node.metadata.deletion_timestamp.is_none();
            if !stays || self.busy.contains_key(&Key::Machine(id.clone())) {
                continue;
            }
            let on_it: Vec<_> = self.cache.pods_on(&node.name_any()).map(|pod| &**pod).collect();
            let nominated = spared.contains(&node.name_any());
            let may_go =
                emptiness::is_ready(node) && emptiness::judge_node(node, &on_it, nominated, now).is_ok();
            let known = self.unneeded_since.get(id).copied();
            if !may_go || known.is_none() {
                steps.extend(unmark(node).map(|step| (Key::Machine(id.clone()), step)));
            }
            if !may_go {
                continue;
            }
            let first = known.unwrap_or(present.monotonic);
            since.insert(id.clone(), first);
            let ripe = first + self.settings.group_unneeded;
            if ripe > present.monotonic {
                wake = Some(wake.map_or(ripe, |have| ripe.min(have)));
            } else {
                due.push((key.clone(), group.clone(), id.clone(), node.clone()));
            }
        }
        due.sort_by(|a, b| {
            let price = |group: &NodeGroup| group.price.unwrap_or(0.0);
            price(&b.1).total_cmp(&price(&a.1)).then_with(|| (&a.0, &a.2).cmp(&(&b.0, &b.2)))
        });
        let mut leaves: BTreeMap<NodeGroupKey, u32> = BTreeMap::new();
        for (key, group, id, node) in due {
            let gone = leaves.entry(key.clone()).or_default();
            if *gone < group.spare() && table.is_current() {
                *gone += 1;
                steps.push((Key::Machine(id.clone()), remove(&key, &group, &id, &node)));
            }
        }
        self.unneeded_since = since;
        self.cache.node_groups = table;
        if let Some(wake) = wake {
            self.queue.add(Key::Disruption, wake);
        }
        steps
    }
}

/// Takes an empty machine out of its group: no new pods, one more question to the server itself, then its end.
fn remove(group: &NodeGroupKey, of: &NodeGroup, provider_id: &str, node: &Node) -> Step {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let (taints, _) = disrupted_taints(taints);
    let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}});
    let name = node.name_any();
    let commands = vec![
        Command::PatchNode { name: name.clone(), patch },
        Command::ConfirmEmpty { node: name },
        Command::RemoveMember { group: group.clone(), provider_id: provider_id.to_owned() },
    ];
    let price = of.price.unwrap_or(0.0);
    let verdict = Verdict::Emptied { usd_per_hour: price };
    let notes = Note::of(node, &verdict, None).into_iter().collect();
    let subjects = vec![subject_of(node), Subject::new("Machine", provider_id, None)];
    let decided = Decided { change_usd_per_hour: Some(-price), ..Decided::new(verdict, subjects) };
    Step { commands, notes, decisions: vec![decided], ..Step::default() }
}

/// Lets pods come back to a node that was to go and does not.
fn unmark(node: &Node) -> Option<Step> {
    if !is_marked(node) {
        return None;
    }
    let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    taints.retain(|taint| taint.key != names::DISRUPTED_TAINT);
    let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}});
    let commands = vec![Command::PatchNode { name: node.name_any(), patch }];
    Some(Step { commands, ..Step::default() })
}
