//! Finding the next place worth trying without looking at every one.
//!
//! Pods that would be refused for the same lasting reasons (needs, taints, ports, host-level topology) share a *finder*: heaps of the
//! places not yet refused for good, in the order in which they are to be tried. Within a run room only shrinks and
//! requirements only narrow, so such a refusal never has to be asked again. What can change back (spread over zones, affinity) is handled by
//! keeping one heap per combination of topology values: a query asks only the heaps whose values are valid now.
//!
//! Machines move in the order as they grow; entries are corrected when they come to the top, never searched for.

use std::collections::BinaryHeap;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::model::ids::{GroupIdx, KeyId, ReqId, TolerationsId};
use crate::model::{FixedState, Port, ResVec, fixed_state};

/// What a place says about each topology key of a finder: a value or requirement id, [`OPEN`] or [`MISSING`].
pub type Signature = SmallVec<[u32; 2]>;

/// A future machine that leaves the key open.
pub const OPEN: u32 = u32::MAX;
/// A place that does not have the key.
pub const MISSING: u32 = u32::MAX - 1;

/// Everything that decides lasting refusals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FinderKey {
    /// The ask.
    pub ask: ReqId,
    /// What the pod needs.
    pub requests: ResVec,
    /// What it tolerates.
    pub tolerations: TolerationsId,
    /// PreferNoSchedule does not count.
    pub spare_preferred: bool,
    /// Host ports.
    pub ports: Vec<Port>,
    /// Volume alternatives.
    pub alternatives: Vec<ReqId>,
    /// Own host-level spread and anti-affinity groups, and whether the pod counts itself.
    pub host_groups: Vec<(GroupIdx, bool)>,
    /// Host-level anti-affinity of others that selects the pod.
    pub inverse_hosts: Vec<GroupIdx>,
    /// Topology keys, hostname left out.
    pub keys: Vec<KeyId>,
}

/// A place in a heap; the smallest order comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Where it stood when it was put in.
    pub order: (u32, i64),
    /// Node or machine index.
    pub place: u32,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.order, other.place).cmp(&(self.order, self.place))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// One heap per signature.
#[derive(Debug, Default, Clone)]
pub struct Heaps {
    /// Signatures in order of appearance with their heaps.
    pub subs: Vec<(Signature, BinaryHeap<Entry>)>,
}

impl Heaps {
    /// Puts a place under its signature.
    pub fn push(&mut self, signature: &Signature, entry: Entry) {
        match self.subs.iter_mut().find(|(have, _)| have == signature) {
            Some((_, heap)) => heap.push(entry),
            None => self.subs.push((signature.clone(), BinaryHeap::from(vec![entry]))),
        }
    }

    /// The acceptable heap whose top comes first.
    pub fn best(&self, acceptable: &[bool]) -> Option<usize> {
        let mut best: Option<(usize, Entry)> = None;
        for (at, (_, heap)) in self.subs.iter().enumerate() {
            if acceptable[at]
                && let Some(top) = heap.peek()
                && best.is_none_or(|(_, have)| *top > have)
            {
                best = Some((at, *top));
            }
        }
        best.map(|(at, _)| at)
    }
}

/// Existing nodes as they were listed at one time.
#[derive(Debug, Default)]
pub struct NodeList {
    /// By topology values.
    pub heaps: Heaps,
    /// Tells this list from one made later.
    pub generation: u64,
}

/// A node that a finder no longer has.
#[derive(Debug, Clone, Copy)]
pub struct Dropped {
    /// The finder.
    pub finder: u32,
    /// The list it was in.
    pub generation: u64,
    /// Which of its heaps.
    pub sub: u32,
    /// The entry.
    pub entry: Entry,
}

/// The places pods of one kind may still use.
#[derive(Debug, Default)]
pub struct Finder {
    /// Existing nodes; `None` until first asked.
    pub nodes: Option<NodeList>,
    /// Machines opened.
    pub machines: Heaps,
    /// Machines before this index have been looked at.
    pub seen: usize,
    /// Kinds of pods still to come that use it.
    users: usize,
}

/// All finders of a run.
#[derive(Debug)]
pub struct Finders {
    ids: HashMap<FinderKey, u32, FixedState>,
    list: Vec<Finder>,
    /// By topology keys: all machines, as of a moment ago. New finders start from a copy.
    masters: HashMap<Vec<KeyId>, Master, FixedState>,
    /// Lists of nodes made so far.
    generation: u64,
}

/// All machines under their signatures.
#[derive(Debug, Default)]
pub struct Master {
    /// The heaps to copy.
    pub heaps: Heaps,
    /// Machines in them.
    pub machines: usize,
    /// The version of the state they were made at.
    pub version: u64,
}

impl Default for Finders {
    fn default() -> Self {
        let (ids, masters) = (HashMap::with_hasher(fixed_state()), HashMap::with_hasher(fixed_state()));
        Self { ids, list: Vec::new(), masters, generation: 0 }
    }
}

impl Finders {
    /// The finder of a key, with one more user.
    pub fn adopt(&mut self, key: FinderKey) -> u32 {
        let next = self.list.len() as u32;
        let id = *self.ids.entry(key).or_insert(next);
        if id == next {
            self.list.push(Finder::default());
        }
        self.list[id as usize].users += 1;
        id
    }

    /// One user less; the last one takes the heaps along.
    pub fn release(&mut self, id: u32) {
        let finder = &mut self.list[id as usize];
        finder.users = finder.users.saturating_sub(1);
        if finder.users == 0 {
            *finder = Finder::default();
        }
    }

    /// Lends a finder out; [`Finders::give_back`] must follow.
    pub fn take(&mut self, id: u32) -> Finder {
        std::mem::take(&mut self.list[id as usize])
    }

    /// Returns a finder.
    pub fn give_back(&mut self, id: u32, finder: Finder) {
        self.list[id as usize] = finder;
    }

    /// The copy source for finders with these topology keys.
    pub fn master(&mut self, keys: &[KeyId]) -> &mut Master {
        self.masters.entry(keys.to_vec()).or_default()
    }

    /// The number of a list of nodes that is about to be made.
    pub fn next_generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }

    /// A node may be tried again: what it was dropped for has been taken back.
    pub fn put_back(&mut self, dropped: Dropped) {
        if let Some(nodes) = &mut self.list[dropped.finder as usize].nodes
            && nodes.generation == dropped.generation
        {
            nodes.heaps.subs[dropped.sub as usize].1.push(dropped.entry);
        }
    }

    /// Forgets all machines: they are listed again when somebody asks.
    pub fn forget_machines(&mut self) {
        self.masters.clear();
        for finder in &mut self.list {
            finder.machines = Heaps::default();
            finder.seen = 0;
        }
    }

    /// Forgets every refusal.
    pub fn forget_all(&mut self) {
        self.masters.clear();
        for finder in &mut self.list {
            let users = finder.users;
            *finder = Finder { users, ..Finder::default() };
        }
    }
}
