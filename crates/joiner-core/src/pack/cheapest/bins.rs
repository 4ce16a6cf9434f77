//! The machines to choose from, and what every shape may use of them.
//!
//! A bin is an offering of a pool. Of the thousands most are never worth buying: another one costs no more, holds as
//! much in every lane and takes the same pods.

use hashbrown::HashMap;

use super::task::{self, Task, Weights};
use crate::model::ids::*;
use crate::model::resources::lane_of;
use crate::model::{FixedState, ResVec, fixed_state};
use crate::offer_set::{self, OfferSet};
use crate::pack::scratch::Scratch;

/// What can be bought.
#[derive(Debug)]
pub(super) struct Bin {
    pub pool: PoolIdx,
    /// Of its pool.
    pub weight: i32,
    pub offering: usize,
    /// Nano-dollars per hour, without the charge per node.
    pub price: i64,
    /// Room in the lanes that matter.
    pub room: Box<[i64]>,
    /// What it takes of its pool's limits, in their order.
    pub counts_as: Box<[i64]>,
    /// The commitment it draws from: only so many can be bought.
    pub units: Option<ReservationIdx>,
    /// Shapes one of which it can hold.
    pub shapes: Vec<u32>,
}

impl Bin {
    /// Whether it can hold one of a shape.
    pub fn takes(&self, shape: u32) -> bool {
        self.shapes.binary_search(&shape).is_ok()
    }
}

/// All of them, with the sizes of shapes in the lanes that matter.
#[derive(Debug)]
pub(super) struct Bins {
    /// By rising price.
    pub bins: Vec<Bin>,
    /// Lanes of the task that some shape takes something of.
    pub lanes: Vec<usize>,
    /// Per shape: requests in those lanes.
    pub sizes: Vec<Box<[i64]>>,
    /// The same, one after the other, for the loop that looks at all of them.
    pub amounts: Vec<f64>,
    /// Per access and pool: offerings that may be used.
    pub allowed: Vec<Vec<Option<OfferSet>>>,
    /// Weights of pools, descending, if heavier ones are to be used up first; otherwise nothing.
    pub levels: Vec<i32>,
    /// Per shape: its worth is what bins of this weight or less cost.
    pub valued_at: Vec<i32>,
}

impl Bins {
    pub fn new(scratch: &mut Scratch, task: &Task) -> Self {
        let lanes: Vec<usize> = (0..task.lanes())
            .filter(|lane| (0..task.shapes.len()).any(|shape| task.request(shape as u32, *lane) > 0))
            .collect();
        let sizes: Vec<Box<[i64]>> = (0..task.shapes.len())
            .map(|shape| lanes.iter().map(|lane| task.request(shape as u32, *lane).max(0)).collect())
            .collect();
        let allowed = task.accesses.iter().map(|_| Vec::new()).collect();
        let amounts = sizes.iter().flat_map(|size| size.iter().map(|amount| *amount as f64)).collect();
        let mut found = Self {
            bins: Vec::new(),
            lanes,
            sizes,
            amounts,
            allowed,
            levels: Vec::new(),
            valued_at: Vec::new(),
        };
        for at in 0..scratch.snapshot.pools.len() {
            found.add_pool(scratch, task, PoolIdx::new(at));
        }
        found.bins.sort_by_key(|bin| (bin.price, bin.pool, bin.offering));
        found.valued_at = vec![i32::MAX; task.shapes.len()];
        if task.weights == Weights::Free {
            found.sort_into_levels(scratch);
        }
        found
    }

    /// Tells the weights apart. A shape may use pools of falling weight down to the first that has no limit.
    fn sort_into_levels(&mut self, scratch: &Scratch) {
        let mut lightest = vec![i32::MIN; self.sizes.len()];
        for bin in &self.bins {
            if scratch.snapshot.pools[bin.pool.at()].limits.is_empty() {
                for shape in &bin.shapes {
                    let known = &mut lightest[*shape as usize];
                    *known = bin.weight.max(*known);
                }
            }
        }
        for bin in &mut self.bins {
            bin.shapes.retain(|shape| lightest[*shape as usize] <= bin.weight);
        }
        self.bins.retain(|bin| !bin.shapes.is_empty());
        let mut weights: Vec<i32> = self.bins.iter().map(|bin| bin.weight).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        weights.dedup();
        self.levels = weights;
        // What a pod saves when it gets into the heaviest pool is what it costs in the others.
        let mut used: Vec<Vec<i32>> = vec![Vec::new(); self.sizes.len()];
        for bin in &self.bins {
            for shape in &bin.shapes {
                let used = &mut used[*shape as usize];
                if !used.contains(&bin.weight) {
                    used.push(bin.weight);
                }
            }
        }
        for (valued_at, mut used) in self.valued_at.iter_mut().zip(used) {
            used.sort_unstable_by(|a, b| b.cmp(a));
            *valued_at = used.get(1).or(used.first()).copied().unwrap_or(i32::MAX);
        }
    }

    /// Whether some pods have a choice of weights.
    pub fn have_a_choice(&self) -> bool {
        self.bins
            .iter()
            .any(|bin| bin.shapes.iter().any(|shape| self.valued_at[*shape as usize] < bin.weight))
    }

    fn add_pool(&mut self, scratch: &mut Scratch, task: &Task, pool: PoolIdx) {
        let snapshot = scratch.snapshot;
        let row = &snapshot.pools[pool.at()];
        for (at, access) in task.accesses.iter().enumerate() {
            let usable = row.not_ready.is_none()
                && access.weight.is_none_or(|weight| weight == row.weight)
                && access
                    .tolerations
                    .iter()
                    .all(|(t, spare)| scratch.algebra.tolerates(row.taints, *t, *spare))
                && access
                    .settled
                    .iter()
                    .all(|(key, value)| task::settled_value(scratch, pool, *key) == Some(*value));
            let set = usable.then(|| {
                let template = &scratch.templates[pool.at()];
                let mut met = Some(template.requirements);
                for ask in &access.asks {
                    met = met.and_then(|met| scratch.algebra.meet(met, *ask));
                }
                met.map(|met| {
                    let mut set = template.base.to_vec();
                    let matching = scratch.offers.of(snapshot, &scratch.algebra, row.catalogue, met);
                    offer_set::and_into(&mut set, &matching);
                    scratch.keep_closed(pool, met, &mut set);
                    set
                })
            });
            self.allowed[at].push(set.flatten().filter(|set| !offer_set::is_empty(set)).map(OfferSet::from));
        }
        let catalogue = &snapshot.catalogues[row.catalogue.at()];
        // Offerings that the same accesses may use compete with each other.
        let mut rivals: HashMap<Vec<u32>, Vec<usize>, FixedState> = HashMap::with_hasher(fixed_state());
        let template = &scratch.templates[pool.at()];
        for offering in offer_set::iter(&template.base) {
            let units = catalogue.offerings[offering].reservation;
            if units.is_some_and(|units| !snapshot.reservations[units.at()].commitment) {
                continue;
            }
            let by: Vec<u32> = (0..task.accesses.len())
                .filter(|access| {
                    let set = self.allowed[*access][pool.at()].as_ref();
                    set.is_some_and(|set| offer_set::contains(set, offering))
                })
                .map(|access| access as u32)
                .collect();
            if by.is_empty() {
                continue;
            }
            let room = self.room_of(scratch, task, pool, offering);
            let counts_as = counts_as(scratch, pool, offering);
            let price = catalogue.offerings[offering].price_nano_usd;
            let rivals = rivals.entry(by.clone()).or_default();
            let beaten = units.is_none()
                && rivals.iter().any(|at| {
                    let other = &self.bins[*at];
                    other.price <= price
                        && other.room.iter().zip(&room).all(|(theirs, mine)| theirs >= mine)
                        && other.counts_as.iter().zip(&counts_as).all(|(theirs, mine)| theirs <= mine)
                });
            if beaten {
                continue;
            }
            let mut shapes: Vec<u32> = (0..task.shapes.len() as u32)
                .filter(|shape| by.binary_search(&task.shapes[*shape as usize].access).is_ok())
                .filter(|shape| holds(&room, &self.sizes[*shape as usize]))
                .collect();
            if !shapes.is_empty() {
                // Thousands of lists that live as long as the search.
                shapes.shrink_to_fit();
                if units.is_none() {
                    rivals.push(self.bins.len());
                }
                self.bins.push(Bin {
                    units,
                    pool,
                    weight: row.weight,
                    offering,
                    price,
                    room,
                    counts_as,
                    shapes,
                });
            }
        }
    }

    fn room_of(&self, scratch: &Scratch, task: &Task, pool: PoolIdx, offering: usize) -> Box<[i64]> {
        let catalogue = &scratch.snapshot.catalogues[scratch.snapshot.pools[pool.at()].catalogue.at()];
        let room: &ResVec = &scratch.templates[pool.at()].room[offering];
        let limits = &catalogue.types[catalogue.offerings[offering].instance_type.at()].volume_limits;
        let volumes = |driver: &str| {
            let limit = limits.iter().find(|(limited, _)| &**limited == driver);
            limit.map_or(i64::MAX / 4, |(_, most)| i64::from(*most))
        };
        let lanes = self.lanes.iter().map(|lane| match lane.checked_sub(task.resource_lanes) {
            Some(driver) => volumes(&task.drivers[driver]),
            None => lane_of(room, *lane),
        });
        lanes.collect()
    }
}

/// What an offering's type takes of its pool's limits.
fn counts_as(scratch: &Scratch, pool: PoolIdx, offering: usize) -> Box<[i64]> {
    let row = &scratch.snapshot.pools[pool.at()];
    let catalogue = &scratch.snapshot.catalogues[row.catalogue.at()];
    let capacity = &catalogue.types[catalogue.offerings[offering].instance_type.at()].capacity;
    row.limits.iter().map(|limit| limit.lane.map_or(1, |lane| lane_of(capacity, lane))).collect()
}

/// Whether a size fits a room.
pub(super) fn holds(room: &[i64], size: &[i64]) -> bool {
    size.iter().zip(room).all(|(want, have)| *want <= 0 || want <= have)
}
