//! Existing nodes: the first that accepts the pod.

use smallvec::SmallVec;

use super::{HostVerdict, Query, Want};
use crate::filter;
use crate::model::PodClass;
use crate::model::ids::*;
use crate::model::resources::fits;
use crate::pack::finder::{Dropped, Entry, Heaps, MISSING, NodeList, Signature};
use crate::pack::scratch::Scratch;

impl Scratch<'_> {
    pub(super) fn find_node(&mut self, want: &Want, query: &Query) -> Option<NodeIdx> {
        let mut finder = self.finders.take(want.finder);
        let list = match &mut finder.nodes {
            Some(list) => list,
            None => finder.nodes.insert(self.list_nodes(want)),
        };
        let mut later: SmallVec<[(usize, Entry); 8]> = SmallVec::new();
        let acceptable: SmallVec<[bool; 8]> = list
            .heaps
            .subs
            .iter()
            .map(|(signature, _)| self.node_signature_ok(want, query, signature))
            .collect();
        let mut found = None;
        while let Some(sub) = list.heaps.best(&acceptable) {
            let Some(entry) = list.heaps.subs[sub].1.pop() else { break };
            self.work += 1;
            let node = NodeIdx(entry.place);
            if self.ranks_change() {
                let order = self.node_rank(node);
                if order != entry.order {
                    // A node that was touched may come back to where it stood: it is in twice then, which does no harm.
                    self.note_drop(dropped(want.finder, list.generation, sub, entry));
                    list.heaps.subs[sub].1.push(Entry { order, ..entry });
                    continue;
                }
            }
            match self.node_verdict(want, node) {
                HostVerdict::Never => self.note_drop(dropped(want.finder, list.generation, sub, entry)),
                HostVerdict::NotNow => later.push((sub, entry)),
                HostVerdict::Ok => {
                    later.push((sub, entry));
                    found = Some(node);
                    break;
                }
            }
        }
        for (sub, entry) in later {
            list.heaps.subs[sub].1.push(entry);
        }
        self.finders.give_back(want.finder, finder);
        found
    }

    /// All nodes that pass what never changes: labels, taints, and the room they have now. A node that may be as it was before once more is
    /// in the list whatever its room.
    pub(super) fn list_nodes(&mut self, want: &Want) -> NodeList {
        let snapshot = self.snapshot;
        let class = &snapshot.classes[want.class.at()];
        let rung = &class.rungs[want.rung];
        let mut heaps = Heaps::default();
        for (at, node) in snapshot.nodes.iter().enumerate() {
            let full = self.is_closed(NodeIdx::new(at)) || !fits(&class.requests, &self.room[at]);
            // A node with too much on it was so from the beginning.
            if !node.accepts_pods
                || full && !self.is_touched(NodeIdx::new(at))
                || self.room[at].iter().any(|left| *left < 0)
                || !self.algebra.tolerates(node.taints, class.tolerations, rung.spare_preferred)
                || !self.node_labels_ok(node.labels, node.hostname, rung.ask)
                || !self.reaches_volumes(class, NodeIdx::new(at))
            {
                continue;
            }
            let signature: Signature = want
                .keys
                .iter()
                .map(|k| self.algebra.single(node.labels, k.key).map_or(MISSING, |value| value.0))
                .collect();
            heaps.push(&signature, Entry { order: self.node_rank(NodeIdx::new(at)), place: at as u32 });
        }
        NodeList { heaps, generation: self.finders.next_generation() }
    }

    pub(super) fn node_labels_ok(&mut self, labels: ReqId, hostname: Option<ValueId>, ask: ReqId) -> bool {
        // The hostname is kept out of label sets, so that nodes alike share one.
        let Some(key) = self.snapshot.hostname else { return self.algebra.node_accepts(labels, ask) };
        if self.algebra.get(ask, key).is_none() {
            return self.algebra.node_accepts(labels, ask);
        }
        let labels = match hostname {
            Some(value) => self.algebra.pin(labels, key, value),
            None => labels,
        };
        self.algebra.labels_refusal(labels, ask).is_none()
    }

    pub(super) fn reaches_volumes(&mut self, class: &PodClass, node: NodeIdx) -> bool {
        class.volume_alternatives.is_empty()
            || class.volume_alternatives.iter().any(|alternative| {
                let row = &self.snapshot.nodes[node.at()];
                self.node_labels_ok(row.labels, row.hostname, *alternative)
            })
    }

    pub(super) fn node_signature_ok(&self, want: &Want, query: &Query, signature: &Signature) -> bool {
        want.keys.iter().zip(signature).all(|(key, value)| match *value {
            MISSING => !key.must_exist,
            value => self.value_ok(want, query, key.key, ValueId(value)),
        })
    }

    pub(super) fn node_verdict(&self, want: &Want, node: NodeIdx) -> HostVerdict {
        let class = &self.snapshot.classes[want.class.at()];
        let (row, load) = (&self.snapshot.nodes[node.at()], &self.on_node[node.at()]);
        if self.is_closed(node)
            || !fits(&class.requests, &self.room[node.at()])
            || !filter::ports_free(
                &class.ports,
                row.ports.iter().chain(&load.ports).chain(&*self.daemon_ports[node.at()]),
            )
        {
            return HostVerdict::Never;
        }
        match self.host_verdict(want, Self::node_host(node)) {
            HostVerdict::Ok if !self.node_attaches(class, node) => HostVerdict::NotNow,
            verdict => verdict,
        }
    }

    /// Whether a node can attach a pod's volumes on top of those it has.
    pub(crate) fn node_attaches(&self, class: &PodClass, node: NodeIdx) -> bool {
        let (row, load) = (&self.snapshot.nodes[node.at()], &self.on_node[node.at()]);
        row.volume_limits.iter().all(|(driver, limit)| {
            let mut used: Vec<VolumeIdx> = row
                .volumes
                .iter()
                .filter(|(d, _)| d == driver)
                .map(|(_, v)| *v)
                .chain(load.volumes.iter().filter(|(_, d)| d == driver).map(|(v, _)| *v))
                .collect();
            let before = used.len();
            for volume in class.volumes.iter().filter(|v| v.driver == *driver) {
                if !used.contains(&volume.volume) {
                    used.push(volume.volume);
                }
            }
            filter::volumes_ok(before, used.len() - before, *limit)
        })
    }
}

fn dropped(finder: u32, generation: u64, sub: usize, entry: Entry) -> Dropped {
    Dropped { finder, generation, sub: sub as u32, entry }
}
