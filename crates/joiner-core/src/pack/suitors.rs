//! Who of the run wants to be with, or away from, pods like one.
//!
//! A pod without wishes of its own is often the one that others wait for: where it goes they must go, or can't. So when a value is chosen for
//! its machine, those who could be served there count, and those who would lose the last value that is free to them. The same goes for a pod that keeps others away.

use std::collections::BTreeMap;
use std::rc::Rc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::model::ids::*;
use crate::model::{FixedState, GroupSpec, Snapshot, fixed_state};
use crate::pack::groups::{Groups, Selected, World, sorted_by_name};

/// Pods alike in what they want of the pods that their terms select, and where they could go themselves.
#[derive(Debug)]
pub(crate) struct Suitor {
    /// The topology key.
    pub key: KeyId,
    /// Values that they could get on a new machine, by name.
    reach: Rc<[ValueId]>,
    /// How many pods.
    pods: u32,
    /// Groups of required affinity.
    together: SmallVec<[GroupIdx; 1]>,
    /// Groups of required anti-affinity.
    apart: SmallVec<[GroupIdx; 1]>,
}

/// The classes whose pods own required affinity and anti-affinity by other keys than the host name, by group.
#[derive(Debug)]
pub(crate) struct Owners {
    of_group: Vec<Vec<ClassIdx>>,
    /// By class.
    pods: Vec<u32>,
    reach: HashMap<(ClassIdx, KeyId), Rc<[ValueId]>, FixedState>,
    /// By group of anti-affinity: where the pods could go that it selects, and how many they are.
    targets: HashMap<GroupIdx, Rc<[Target]>, FixedState>,
}

/// Values that some pods could get on a new machine, by name, and how many pods.
type Target = (Rc<[ValueId]>, u32);

impl Owners {
    /// Of the pods that wait; those of buffers want nothing of anybody.
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let mut of_group = vec![Vec::new(); snapshot.groups.len()];
        for (at, class) in snapshot.classes.iter().enumerate().filter(|(_, class)| !class.filler) {
            let kept = class.rungs.last().into_iter().flat_map(|rung| &rung.groups);
            let together = kept.filter(|group| matches!(snapshot.group(**group), GroupSpec::Affinity { .. }));
            for group in together.chain(&class.anti_affinity) {
                if Some(snapshot.group(*group).key()) != snapshot.hostname {
                    of_group[group.at()].push(ClassIdx::new(at));
                }
            }
        }
        let mut pods = vec![0; snapshot.classes.len()];
        snapshot.pods.iter().for_each(|pod| pods[pod.class.at()] += 1);
        let (reach, targets) = (HashMap::with_hasher(fixed_state()), HashMap::with_hasher(fixed_state()));
        Self { of_group, pods, reach, targets }
    }
}

impl Groups {
    /// Who wants something of the pods that these groups select.
    pub(crate) fn suitors(&mut self, world: &mut World, selected: &Selected) -> Vec<Suitor> {
        type Wanted = (SmallVec<[GroupIdx; 1]>, SmallVec<[GroupIdx; 1]>);
        let snapshot = world.snapshot;
        let mut by_class: BTreeMap<(ClassIdx, KeyId), Wanted> = BTreeMap::new();
        for group in &selected.peers {
            let spec = snapshot.group(*group);
            for class in &self.owners.of_group[group.at()] {
                let (together, apart) = by_class.entry((*class, spec.key())).or_default();
                match spec {
                    GroupSpec::Affinity { .. } => together.push(*group),
                    _ => apart.push(*group),
                }
            }
        }
        let mut suitors: Vec<Suitor> = Vec::new();
        for ((class, key), (together, apart)) in by_class {
            let (reach, pods) = (self.reach(world, class, key), self.owners.pods[class.at()]);
            let alike = suitors.iter_mut().find(|known| {
                known.key == key && known.together == together && known.apart == apart && known.reach == reach
            });
            match alike {
                Some(known) => known.pods += pods,
                None => suitors.push(Suitor { key, reach, pods, together, apart }),
            }
        }
        suitors
    }

    /// The pods that wait and that a group of required anti-affinity keeps away from its owners.
    pub(crate) fn targets(&mut self, world: &mut World, group: GroupIdx) -> Rc<[Target]> {
        if let Some(known) = self.owners.targets.get(&group) {
            return known.clone();
        }
        let snapshot = world.snapshot;
        let key = snapshot.group(group).key();
        let mut targets: Vec<Target> = Vec::new();
        for (at, class) in snapshot.classes.iter().enumerate() {
            let waits = !class.filler && class.refused.is_none();
            if waits && self.selected(snapshot, world.algebra, class.identity).inverse.contains(&group) {
                let (reach, pods) = (self.reach(world, ClassIdx::new(at), key), self.owners.pods[at]);
                match targets.iter_mut().find(|(known, _)| *known == reach) {
                    Some((_, known)) => *known += pods,
                    None => targets.push((reach, pods)),
                }
            }
        }
        let targets: Rc<[Target]> = targets.into();
        self.owners.targets.insert(group, targets.clone());
        targets
    }

    /// How many pods would have owners of a group at every value that they can reach.
    pub(crate) fn barred(&self, group: GroupIdx, (reach, pods): &Target, value: ValueId) -> u32 {
        let taken = |other: &ValueId| *other == value || self.owner_count(group, *other) > 0;
        if reach.contains(&value) && reach.iter().all(taken) { *pods } else { 0 }
    }

    /// Values of a key that pods of a class could get on a new machine, whatever they give up.
    fn reach(&mut self, world: &mut World, class_idx: ClassIdx, key: KeyId) -> Rc<[ValueId]> {
        if let Some(known) = self.owners.reach.get(&(class_idx, key)) {
            return known.clone();
        }
        let class = &world.snapshot.classes[class_idx.at()];
        let mut values: Vec<ValueId> = Vec::new();
        for rung in &class.rungs {
            let more = self.future_values(world, key, rung.strict, class.tolerations, rung.spare_preferred);
            values.extend(more.iter().copied());
        }
        let values = sorted_by_name(values, world.algebra.names(), key);
        self.owners.reach.insert((class_idx, key), values.clone());
        values
    }

    /// How many pods could be served at a value that nothing they can reach serves now.
    pub(crate) fn unserved(&self, suitor: &Suitor, value: ValueId) -> u32 {
        let waits = |group: &GroupIdx| suitor.reach.iter().all(|other| self.count(*group, *other) == 0);
        let serves = suitor.reach.contains(&value) && suitor.together.iter().any(waits);
        if serves { suitor.pods } else { 0 }
    }

    /// How many pods would lose the last value that is free to them.
    pub(crate) fn displaced(&self, suitor: &Suitor, value: ValueId) -> u32 {
        let free = |group: &GroupIdx, other: &ValueId| self.count(*group, *other) == 0;
        let is_last = |group: &GroupIdx| {
            free(group, &value) && suitor.reach.iter().all(|other| *other == value || !free(group, other))
        };
        let displaces = suitor.reach.contains(&value) && suitor.apart.iter().any(is_last);
        if displaces { suitor.pods } else { 0 }
    }
}
