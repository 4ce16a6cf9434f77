//! What a pool can launch: offerings that match its template, with the room daemons leave on each.

use hashbrown::HashMap;

use crate::algebra::Algebra;
use crate::model::ids::{CatalogueIdx, KeyId, OfferingIdx, ReqId, RqId};
use crate::model::resources::{add_into, lane_of};
use crate::model::{Catalogue, FixedState, Port, ResVec, Snapshot, fixed_state};
use crate::offer_set::{self, OfferSet};

/// A pool's future machine.
#[derive(Debug)]
pub struct Template {
    /// Its catalogue.
    pub catalogue: CatalogueIdx,
    /// What a fresh machine requires.
    pub requirements: ReqId,
    /// Offerings that can be had.
    pub offered: OfferSet,
    /// Of these the ones that hold their daemons.
    pub base: OfferSet,
    /// Per offering: allocatable less daemons.
    pub room: Vec<ResVec>,
    /// Per offering: what its daemons ask for.
    pub overhead: Vec<ResVec>,
    /// Per lane: which offerings have at least so much room.
    lanes: Vec<LaneIndex>,
    /// Host ports of daemons, with the offerings whose daemons take them.
    daemon_ports: Vec<(Vec<Port>, Vec<u64>)>,
    /// Keys with minValues.
    pub min_values: Vec<KeyId>,
    /// Some offering draws from a reservation.
    pub has_reserved: bool,
    /// Some type limits volumes.
    pub has_volume_limits: bool,
}

#[derive(Debug)]
struct LaneIndex {
    /// Rising.
    thresholds: Vec<i64>,
    /// Offerings with at least that much, for each threshold.
    sets: Vec<Box<[u64]>>,
}

impl Template {
    /// Evaluates a pool once per run.
    pub fn new(snapshot: &Snapshot, algebra: &mut Algebra, offers: &mut OfferTable, pool: usize) -> Self {
        let pool = &snapshot.pools[pool];
        let catalogue = &snapshot.catalogues[pool.catalogue.at()];
        let words = offer_set::words(catalogue.offerings.len());
        let mut base: Vec<u64> = offers.of(snapshot, algebra, pool.catalogue, pool.requirements).to_vec();
        if algebra.items(pool.requirements).iter().any(|(_, rq)| algebra.requirement(*rq).is_empty()) {
            // Requirements that contradict each other, perhaps on a key of which no offering speaks.
            base.fill(0);
        }
        let mut offered = base.clone();
        let daemons: Vec<usize> = (0..snapshot.daemons.len())
            .filter(|at| algebra.tolerates(pool.taints, snapshot.daemons[*at].tolerations, true))
            .collect();
        // Per daemon the offerings it comes with: any OR-term compatible with the template and the offering's type.
        let mut comes_with: Vec<(usize, Vec<u64>)> = Vec::new();
        for at in daemons {
            let mut set = offer_set::empty(words);
            for ask in &snapshot.daemons[at].asks {
                if algebra.meet(pool.daemon_requirements, *ask).is_some() {
                    let with_types = offers.types_of(snapshot, algebra, pool.catalogue, *ask);
                    for (a, b) in set.iter_mut().zip(with_types.iter()) {
                        *a |= *b;
                    }
                }
            }
            if !offer_set::is_empty(&set) {
                comes_with.push((at, set));
            }
        }
        let mut room = Vec::with_capacity(catalogue.offerings.len());
        let mut overheads = Vec::with_capacity(catalogue.offerings.len());
        for (at, offering) in catalogue.offerings.iter().enumerate() {
            let mut overhead = ResVec::new();
            for (daemon, set) in &comes_with {
                if offer_set::contains(set, at) {
                    add_into(&mut overhead, &snapshot.daemons[*daemon].requests);
                }
            }
            let mut free = offering.allocatable.clone();
            let mut holds = offering.available;
            for lane in 0..overhead.len().max(free.len()) {
                let (have, need) = (lane_of(&free, lane), lane_of(&overhead, lane));
                holds &= have >= 0 && (need <= 0 || need <= have);
                if free.len() <= lane {
                    free.resize(lane + 1, 0);
                }
                free[lane] = have.saturating_sub(need);
            }
            if !offering.available {
                offered[at / 64] &= !(1 << (at % 64));
            }
            if !holds {
                base[at / 64] &= !(1 << (at % 64));
            }
            room.push(free);
            overheads.push(overhead);
        }
        let mut daemon_ports: Vec<(Vec<Port>, Vec<u64>)> = Vec::new();
        for (daemon, set) in &comes_with {
            if !snapshot.daemons[*daemon].ports.is_empty() {
                daemon_ports.push((snapshot.daemons[*daemon].ports.clone(), set.clone()));
            }
        }
        let lanes =
            (0..algebra.names().lane_count()).map(|lane| LaneIndex::new(&room, lane, &base)).collect();
        let min_values = algebra
            .items(pool.requirements)
            .iter()
            .filter(|(_, rq)| algebra.requirement(*rq).min_values.is_some())
            .map(|(key, _)| *key)
            .collect();
        let has_reserved = offer_set::iter(&base).any(|at| catalogue.offerings[at].reservation.is_some());
        Self {
            catalogue: pool.catalogue,
            requirements: pool.requirements,
            has_reserved,
            has_volume_limits: catalogue.types.iter().any(|t| !t.volume_limits.is_empty()),
            offered: offered.into(),
            base: base.into(),
            room,
            overhead: overheads,
            lanes,
            daemon_ports,
            min_values,
        }
    }

    /// Narrows a set to offerings with room for a total of requests.
    pub fn keep_fitting(&self, set: &mut [u64], total: &[i64]) {
        for (lane, want) in total.iter().enumerate() {
            if *want > 0 {
                match self.lanes.get(lane) {
                    Some(index) => index.keep_at_least(set, *want),
                    None => set.fill(0),
                }
            }
        }
    }

    /// Takes out offerings whose daemons use one of these host ports.
    pub fn remove_port_clashes(&self, set: &mut [u64], ports: &[Port]) {
        for (taken, offerings) in &self.daemon_ports {
            if ports.iter().any(|port| taken.iter().any(|other| port.clashes(other))) {
                offer_set::remove_all(set, offerings);
            }
        }
    }

    /// Whether no daemon of an offering uses one of these host ports.
    pub fn ports_free(&self, offering: usize, ports: &[Port]) -> bool {
        !self.daemon_ports.iter().any(|(taken, offerings)| {
            offer_set::contains(offerings, offering)
                && ports.iter().any(|port| taken.iter().any(|other| port.clashes(other)))
        })
    }

    /// The largest room in a lane over a set of offerings.
    pub fn largest_room(&self, set: &[u64], lane: usize) -> i64 {
        offer_set::iter(set).map(|at| lane_of(&self.room[at], lane)).max().unwrap_or(0)
    }
}

impl LaneIndex {
    fn new(room: &[ResVec], lane: usize, base: &[u64]) -> Self {
        let mut thresholds: Vec<i64> = offer_set::iter(base).map(|at| lane_of(&room[at], lane)).collect();
        thresholds.sort_unstable();
        thresholds.dedup();
        // From the largest threshold down, each set is the one before plus the offerings with exactly that much.
        let mut by_room: Vec<usize> = offer_set::iter(base).collect();
        by_room.sort_unstable_by_key(|at| std::cmp::Reverse(lane_of(&room[*at], lane)));
        let mut sets = Vec::with_capacity(thresholds.len());
        let mut set = offer_set::empty(base.len());
        let mut next = 0;
        for threshold in thresholds.iter().rev() {
            while next < by_room.len() && lane_of(&room[by_room[next]], lane) >= *threshold {
                offer_set::insert(&mut set, by_room[next]);
                next += 1;
            }
            sets.push(set.clone().into_boxed_slice());
        }
        sets.reverse();
        Self { thresholds, sets }
    }

    #[inline]
    fn keep_at_least(&self, set: &mut [u64], want: i64) {
        // The first set holds every offering of the base; members of `set` are all among them.
        match self.thresholds.partition_point(|have| *have < want) {
            0 if !self.thresholds.is_empty() => {}
            at if at < self.sets.len() => offer_set::and_into(set, &self.sets[at]),
            _ => set.fill(0),
        }
    }
}

/// Which offerings of a catalogue name values of a key.
#[derive(Debug, Clone)]
pub enum Naming {
    /// All that can be had.
    Every,
    /// These: the others leave the key open, or their machines lack it.
    Some(OfferSet),
    /// None.
    None,
}

/// Which offerings satisfy which requirements, looked up after the first time.
#[derive(Debug)]
pub struct OfferTable {
    by_set: HashMap<(CatalogueIdx, ReqId), OfferSet, FixedState>,
    by_type_set: HashMap<(CatalogueIdx, ReqId), OfferSet, FixedState>,
    by_requirement: HashMap<(CatalogueIdx, RqId), OfferSet, FixedState>,
    naming: HashMap<(CatalogueIdx, KeyId), Naming, FixedState>,
}

impl Default for OfferTable {
    fn default() -> Self {
        Self {
            by_set: HashMap::with_hasher(fixed_state()),
            by_type_set: HashMap::with_hasher(fixed_state()),
            by_requirement: HashMap::with_hasher(fixed_state()),
            naming: HashMap::with_hasher(fixed_state()),
        }
    }
}

impl OfferTable {
    /// Offerings whose type's and own requirements each overlap a set, key by key; availability is not asked.
    pub fn of(
        &mut self,
        snapshot: &Snapshot,
        algebra: &Algebra,
        catalogue: CatalogueIdx,
        set: ReqId,
    ) -> OfferSet {
        if let Some(known) = self.by_set.get(&(catalogue, set)) {
            return known.clone();
        }
        let offerings = snapshot.catalogues[catalogue.at()].offerings.len();
        let mut out = vec![!0u64; offer_set::words(offerings)];
        clear_tail(&mut out, offerings);
        for (key, rq) in algebra.items(set) {
            let one = self.of_requirement(snapshot, algebra, catalogue, *key, *rq);
            offer_set::and_into(&mut out, &one);
        }
        let out: OfferSet = out.into();
        self.by_set.insert((catalogue, set), out.clone());
        out
    }

    fn of_requirement(
        &mut self,
        snapshot: &Snapshot,
        algebra: &Algebra,
        catalogue: CatalogueIdx,
        key: KeyId,
        rq: RqId,
    ) -> OfferSet {
        if let Some(known) = self.by_requirement.get(&(catalogue, rq)) {
            return known.clone();
        }
        let table = &snapshot.catalogues[catalogue.at()];
        let types_ok = types_overlapping(table, algebra, key, rq);
        let wanted = algebra.requirement(rq);
        let mut out = offer_set::empty(offer_set::words(table.offerings.len()));
        for (at, offering) in table.offerings.iter().enumerate() {
            let own_ok = match algebra.get(offering.requirements, key) {
                Some(own) => !algebra.requirement(own).intersect(wanted, algebra.names(), key).is_empty(),
                None => true,
            };
            if own_ok && types_ok[offering.instance_type.at()] {
                offer_set::insert(&mut out, at);
            }
        }
        let out: OfferSet = out.into();
        self.by_requirement.insert((catalogue, rq), out.clone());
        out
    }

    /// Which offerings of a catalogue name values of a key.
    pub fn naming(
        &mut self,
        snapshot: &Snapshot,
        algebra: &Algebra,
        catalogue: CatalogueIdx,
        key: KeyId,
    ) -> &Naming {
        self.naming.entry((catalogue, key)).or_insert_with(|| {
            let table = &snapshot.catalogues[catalogue.at()];
            let mut some = offer_set::empty(offer_set::words(table.offerings.len()));
            let mut every = true;
            for (at, offering) in table.offerings.iter().enumerate() {
                let own = offering_requirement(snapshot, algebra, catalogue, OfferingIdx::new(at), key);
                let names_one = own.map(|own| algebra.requirement(own));
                if names_one.is_some_and(|own| !own.complement && !own.values.is_empty()) {
                    offer_set::insert(&mut some, at);
                } else {
                    every &= !offering.available;
                }
            }
            if every {
                Naming::Every
            } else if offer_set::is_empty(&some) {
                Naming::None
            } else {
                Naming::Some(some.into())
            }
        })
    }

    /// Offerings whose *type* overlaps a set: what daemons are matched against.
    pub fn types_of(
        &mut self,
        snapshot: &Snapshot,
        algebra: &Algebra,
        catalogue: CatalogueIdx,
        set: ReqId,
    ) -> OfferSet {
        if let Some(known) = self.by_type_set.get(&(catalogue, set)) {
            return known.clone();
        }
        let table = &snapshot.catalogues[catalogue.at()];
        let mut ok = vec![true; table.types.len()];
        for (key, rq) in algebra.items(set) {
            for (ok, fits) in ok.iter_mut().zip(types_overlapping(table, algebra, *key, *rq)) {
                *ok &= fits;
            }
        }
        let mut out = offer_set::empty(offer_set::words(table.offerings.len()));
        for (at, offering) in table.offerings.iter().enumerate() {
            if ok[offering.instance_type.at()] {
                offer_set::insert(&mut out, at);
            }
        }
        let out: OfferSet = out.into();
        self.by_type_set.insert((catalogue, set), out.clone());
        out
    }
}

fn types_overlapping(table: &Catalogue, algebra: &Algebra, key: KeyId, rq: RqId) -> Vec<bool> {
    let wanted = algebra.requirement(rq);
    table
        .types
        .iter()
        .map(|t| match algebra.get(t.requirements, key) {
            Some(own) => {
                own == rq || !algebra.requirement(own).intersect(wanted, algebra.names(), key).is_empty()
            }
            None => true,
        })
        .collect()
}

fn clear_tail(set: &mut [u64], offerings: usize) {
    if let Some(last) = set.last_mut().filter(|_| !offerings.is_multiple_of(64)) {
        *last &= (1u64 << (offerings % 64)) - 1;
    }
}

/// The values a key can take on an offering: the offering's own word first, else its type's.
pub fn offering_requirement(
    snapshot: &Snapshot,
    algebra: &Algebra,
    catalogue: CatalogueIdx,
    offering: OfferingIdx,
    key: KeyId,
) -> Option<RqId> {
    let table = &snapshot.catalogues[catalogue.at()];
    let offering = &table.offerings[offering.at()];
    algebra
        .get(offering.requirements, key)
        .or_else(|| algebra.get(table.types[offering.instance_type.at()].requirements, key))
}
