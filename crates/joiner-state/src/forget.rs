//! Drops what nobody has any more: pods come and go for months, and every kind of them, every set of labels leaves a row behind.

use crate::bytes::ByteTable;
use crate::cluster::{Cluster, NONE};

/// Old ids, new ids.
struct Renumbering(Vec<u32>);

impl Renumbering {
    fn over(rows: usize) -> Self {
        Self(vec![NONE; rows])
    }

    /// The new id of a row; `take` moves it over when it is first met.
    fn of(&mut self, old: u32, take: impl FnOnce() -> u32) -> u32 {
        if old == NONE {
            return NONE;
        }
        let new = &mut self.0[old as usize];
        if *new == NONE {
            *new = take();
        }
        *new
    }
}

impl Cluster {
    /// Keeps of all tables only the rows that some object still names. What was lowered from them must be lowered again.
    pub(crate) fn forget_unused(&mut self) {
        let (old_specs, old_spec_bytes) =
            (std::mem::take(&mut self.specs), std::mem::take(&mut self.spec_bytes));
        let (old_lists, old_list_bytes) =
            (std::mem::take(&mut self.claim_lists), std::mem::take(&mut self.claim_bytes));
        let old_labels = std::mem::take(&mut self.label_sets);
        let old_owners = std::mem::take(&mut self.owners);
        let old_names = std::mem::take(&mut self.node_names);
        let mut specs = Renumbering::over(old_specs.len());
        let mut lists = Renumbering::over(old_lists.len());
        let mut labels = Renumbering::over(old_labels.len());
        let mut owners = Renumbering::over(old_owners.len());
        let mut names = Renumbering::over(old_names.len());
        let mut old_specs: Vec<_> = old_specs.into_iter().map(Some).collect();
        let mut old_lists: Vec<_> = old_lists.into_iter().map(Some).collect();
        let copy = |table: &mut ByteTable, from: &ByteTable, id: u32| table.intern(from.get(id)).0;
        let (new_specs, new_spec_bytes) = (&mut self.specs, &mut self.spec_bytes);
        let mut spec = |id: u32| {
            specs.of(id, || {
                new_specs.extend(old_specs[id as usize].take());
                copy(new_spec_bytes, &old_spec_bytes, id)
            })
        };
        let (new_lists, new_list_bytes) = (&mut self.claim_lists, &mut self.claim_bytes);
        let (new_labels, new_owners) = (&mut self.label_sets, &mut self.owners);
        let new_names = &mut self.node_names;
        for (_, pod) in self.pods.iter_mut() {
            pod.spec = spec(pod.spec);
            let list = pod.claims;
            pod.claims = lists.of(list, || {
                new_lists.extend(old_lists[list as usize].take());
                copy(new_list_bytes, &old_list_bytes, list)
            });
            let set = pod.labels;
            pod.labels = labels.of(set, || copy(new_labels, &old_labels, set));
            let owner = pod.owner;
            pod.owner = owners.of(owner, || copy(new_owners, &old_owners, owner));
            let mut name = |id: u32| names.of(id, || copy(new_names, &old_names, id));
            pod.node = name(pod.node);
            if let crate::pod_table::Intent::Expected(node) = &mut pod.intent {
                *node = name(*node);
            }
        }
        for template in self.pod_templates.values_mut() {
            template.spec = spec(template.spec);
            let set = template.labels;
            template.labels = labels.of(set, || copy(new_labels, &old_labels, set));
        }
        (self.kept_specs, self.kept_node_names) = (self.specs.len(), self.node_names.len());
        self.count_all();
    }

    /// Counts all pods again.
    fn count_all(&mut self) {
        self.usage = vec![Default::default(); self.specs.len()];
        self.on_node = vec![Vec::new(); self.node_names.len()];
        self.pending.clear();
        self.claim_users.clear();
        let rows: Vec<u32> = self.pods.iter().map(|(row, _)| row).collect();
        rows.into_iter().for_each(|row| self.enter(row));
        self.changes = Default::default();
    }
}
