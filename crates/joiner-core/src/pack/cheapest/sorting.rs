//! Telling shapes and kinds apart.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::items::{Item, Range};
use super::roving::Rover;
use super::task::{Access, Kind, Shape, Task};
use crate::model::ids::*;
use crate::model::{FixedState, Port, ResVec, fixed_state};
use crate::pack::scratch::Scratch;

/// What makes a kind, its shape apart: counts, caps, ports, and who may change its zone together with it.
type KindKey = (u32, Vec<(u32, u32)>, Vec<(u32, u32)>, Vec<Port>, Option<u32>);
/// What makes a rover: a class and what it may use apart from its zone.
type RoverKey = (ClassIdx, Access);

/// What has a number already.
#[derive(Default)]
struct Index {
    accesses: HashMap<Access, u32, FixedState>,
    shapes: HashMap<(u32, ResVec, Vec<u32>), u32, FixedState>,
    kinds: HashMap<KindKey, u32, FixedState>,
    rovers: HashMap<RoverKey, u32, FixedState>,
}

impl Task {
    /// Sorts items into kinds, and kinds into shapes.
    pub(super) fn sort_into_kinds(&mut self, scratch: &mut Scratch, mut items: Vec<Item>) {
        // Only groups that cap something matter.
        let mut capped: Vec<u32> =
            items.iter().flat_map(|item| item.caps.iter().map(|(group, _)| *group)).collect();
        capped.sort_unstable();
        capped.dedup();
        for item in &mut items {
            item.counted.retain(|(group, _)| capped.binary_search(group).is_ok());
            item.counted.sort_unstable();
            item.caps.sort_unstable();
            // The smallest cap of a group comes first.
            item.caps.dedup_by_key(|(group, _)| *group);
        }
        renumber_groups(&mut items);
        let mut index = Index::default();
        for mut item in items {
            let rover = item.range.take().map(|range| self.rover(scratch, &mut index, &item, range));
            let kind = self.kind(&mut index, &item, rover);
            let set = self.kinds[kind as usize].set;
            self.sets[set as usize].push(item.pods);
            self.kinds[kind as usize].count += 1;
            let shape = self.kinds[kind as usize].shape;
            self.shapes[shape as usize].count += 1;
        }
        // A rule of one group that several classes have with different zones counts the pods of all of them.
        for rover in &mut self.rovers {
            let groups: Vec<GroupIdx> = rover.rules.iter().map(|at| self.rules[*at as usize].group).collect();
            let rules = self.rules.iter().enumerate().filter(|(_, rule)| groups.contains(&rule.group));
            rover.rules = rules.map(|(at, _)| at as u32).collect();
        }
    }

    /// The rover an item belongs to, with a kind for each of its zones.
    fn rover(&mut self, scratch: &mut Scratch, index: &mut Index, item: &Item, range: Range) -> u32 {
        let anywhere = Access { asks: SmallVec::from_slice(&[range.ask]), ..item.access.clone() };
        if let Some(known) = index.rovers.get(&(range.class, anywhere.clone())) {
            return *known;
        }
        let rover = self.rovers.len() as u32;
        index.rovers.insert((range.class, anywhere), rover);
        self.rovers.push(Rover { values: range.values.clone(), kinds: Vec::new(), rules: range.rules });
        let set = self.sets.len() as u32;
        for value in range.values.iter() {
            let ask = scratch.algebra.pin(range.ask, range.key, *value);
            let access = Access { asks: SmallVec::from_slice(&[ask]), ..item.access.clone() };
            let there = Item { pods: SmallVec::new(), access, range: None, ..item.clone() };
            let kind = self.kind(index, &there, Some(rover));
            self.kinds[kind as usize].set = set;
            self.rovers[rover as usize].kinds.push(kind);
        }
        rover
    }

    /// The kind of an item.
    fn kind(&mut self, index: &mut Index, item: &Item, rover: Option<u32>) -> u32 {
        let access = *index.accesses.entry(item.access.clone()).or_insert_with(|| {
            self.accesses.push(item.access.clone());
            self.accesses.len() as u32 - 1
        });
        let cap_of = |group: u32| item.caps.iter().find(|(g, _)| *g == group).map(|(_, cap)| *cap);
        // A pod that shares its machine with none of its group is dearer to place than one of its size that does.
        let exclusive: Vec<u32> = item
            .counted
            .iter()
            .filter(|(group, n)| cap_of(*group).is_some_and(|cap| cap < 2 * n))
            .map(|(group, _)| *group)
            .collect();
        let key = (access, item.requests.clone(), exclusive.clone());
        let shape = *index.shapes.entry(key).or_insert_with(|| {
            let requests = item.requests.to_vec().into();
            self.shapes.push(Shape { access, requests, exclusive, kinds: Vec::new(), count: 0 });
            self.shapes.len() as u32 - 1
        });
        let key = (shape, item.counted.clone(), item.caps.clone(), item.ports.clone(), rover);
        *index.kinds.entry(key).or_insert_with(|| {
            self.sets.push(Vec::new());
            self.kinds.push(Kind {
                shape,
                counted: item.counted.clone(),
                caps: item.caps.clone(),
                ports: item.ports.clone(),
                count: 0,
                set: self.sets.len() as u32 - 1,
            });
            let kind = self.kinds.len() as u32 - 1;
            self.shapes[shape as usize].kinds.push(kind);
            kind
        })
    }
}

/// Gives groups numbers that do not depend on the order in which they came to be known: by the items they are about. Groups that say the same of the
/// same items can change places without a difference.
fn renumber_groups(items: &mut [Item]) {
    // Per group: item, how many it counts as, its cap.
    type Said = Vec<(u32, u32, u32)>;
    let mut said: HashMap<u32, Said, FixedState> = HashMap::with_hasher(fixed_state());
    for (at, item) in items.iter().enumerate() {
        for (group, n) in &item.counted {
            said.entry(*group).or_default().push((at as u32, *n, u32::MAX));
        }
        for (group, cap) in &item.caps {
            said.entry(*group).or_default().push((at as u32, 0, *cap));
        }
    }
    let mut order: Vec<(Said, u32)> = said.into_iter().map(|(group, said)| (said, group)).collect();
    order.sort_unstable();
    let ranked = order.iter().enumerate().map(|(rank, (_, group))| (*group, rank as u32));
    let ranks: HashMap<u32, u32, FixedState> = ranked.collect();
    for item in items {
        for (group, _) in item.counted.iter_mut().chain(&mut item.caps) {
            *group = ranks[&*group];
        }
        item.counted.sort_unstable();
        item.caps.sort_unstable();
    }
}
