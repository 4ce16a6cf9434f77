//! Filling one machine: which pods are worth most on it.
//!
//! Pods have a worth (what the linear program says they are worth in money). A machine is filled greedily by worth per share of the
//! room that is left, so the lane that runs short becomes dear. The same pods in several proportions are tried; the
//! fill worth most wins.

use hashbrown::HashMap;

use super::bins::{Bin, Bins, holds};
use super::exchanging;
use super::task::Task;
use crate::model::ids::*;
use crate::model::{FixedState, Port, fixed_state};
use crate::offer_set;
use crate::pack::scratch::Scratch;

/// What goes onto one machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Fill {
    /// Kinds with their number, in order of arrival.
    pub takes: Vec<(u32, u32)>,
    /// What they are worth together.
    pub worth: f64,
}

/// What is left to place.
#[derive(Debug, Clone)]
pub(super) struct Stock {
    /// Per kind.
    pub kinds: Vec<u32>,
    /// Per shape.
    pub shapes: Vec<u32>,
    /// All.
    pub items: u64,
}

impl Stock {
    /// Everything.
    pub fn all(task: &Task) -> Self {
        let kinds = task.kinds.iter().map(|kind| kind.count).collect();
        let shapes: Vec<u32> = task.shapes.iter().map(|shape| shape.count).collect();
        let items = shapes.iter().map(|n| u64::from(*n)).sum();
        Self { kinds, shapes, items }
    }

    /// Nothing.
    pub fn none(task: &Task) -> Self {
        Self { kinds: vec![0; task.kinds.len()], shapes: vec![0; task.shapes.len()], items: 0 }
    }

    /// Takes a fill away so many times.
    pub fn take(&mut self, task: &Task, fill: &Fill, times: u32) {
        for (kind, n) in &fill.takes {
            self.kinds[*kind as usize] -= n * times;
            self.shapes[task.kinds[*kind as usize].shape as usize] -= n * times;
            self.items -= u64::from(n * times);
        }
    }

    /// Puts a fill back.
    pub fn put_back(&mut self, task: &Task, fill: &Fill) {
        for (kind, n) in &fill.takes {
            self.kinds[*kind as usize] += n;
            self.shapes[task.kinds[*kind as usize].shape as usize] += n;
            self.items += u64::from(*n);
        }
    }

    /// How many times a fill can be taken.
    pub fn times(&self, fill: &Fill) -> u32 {
        fill.takes.iter().map(|(kind, n)| self.kinds[*kind as usize] / n).min().unwrap_or(0)
    }
}

/// How the share of a pod is measured while a machine fills.
#[derive(Debug, Clone, Copy)]
pub(super) enum Measure {
    /// Of what is left in each lane, added up: proportions even out.
    Left,
    /// Of the whole machine, the largest lane: pods that waste least.
    Largest,
    /// As `Left`, but large pods count for more: they are hard to place later.
    Bulky,
}

/// Ways to fill a machine: the fill worth most, of those that some measures make.
pub(super) type Way = &'static [Measure];
/// The cheapest to find, and the one that alone does best where pods are at odds with each other.
pub(super) const QUICK: Way = &[Measure::Largest];
/// The best for the machine at hand.
pub(super) const THOROUGH: Way = &[Measure::Left, Measure::Largest];
/// The best for the machines to come.
pub(super) const BULKY: Way = &[Measure::Bulky];
/// All of them.
pub(super) const WAYS: [Way; 3] = [QUICK, THOROUGH, BULKY];

/// Fills machines; keeps its buffers.
pub(super) struct Filler<'t> {
    pub task: &'t Task,
    pub bins: &'t Bins,
    /// Per shape: what one item is worth.
    pub worth: Vec<f64>,
    /// What a machine costs beyond its price, nano-dollars per hour.
    pub charge: f64,
    /// Per bin: what it costs beyond that because limits are short, nano-dollars per hour. Empty: nothing.
    pub toll: Vec<f64>,
    /// Shapes looked at: the work done.
    pub work: u64,
    /// How shares are measured; the fill worth most wins.
    pub measures: Way,
    /// Whether single pods are exchanged for others that are worth more.
    pub exchanging: bool,
    narrowed: HashMap<(ReqId, u32), Option<ReqId>, FixedState>,
    /// Taken of each kind in the fill under way.
    taken: Vec<u32>,
    candidates: Vec<Candidate>,
    groups: Vec<GroupLoad>,
}

/// A group on the machine being filled.
#[derive(Debug, Clone, Copy)]
struct GroupLoad {
    group: u32,
    count: u32,
    cap: u32,
}

struct Candidate {
    shape: u32,
    left: u32,
    /// Kinds of the shape before this one are used up or can't come any more.
    kind: usize,
    /// Worth per share, where that stays the same.
    density: f64,
}

impl<'t> Filler<'t> {
    pub fn new(task: &'t Task, bins: &'t Bins, charge: f64, worth: Vec<f64>) -> Self {
        Self {
            task,
            bins,
            worth,
            charge,
            toll: Vec::new(),
            work: 0,
            measures: THOROUGH,
            exchanging: false,
            narrowed: HashMap::with_hasher(fixed_state()),
            taken: vec![0; task.kinds.len()],
            candidates: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// The best fill of a bin from what is in stock.
    pub fn best(&mut self, scratch: &mut Scratch, bin: usize, stock: &Stock) -> Fill {
        let mut best = Fill::default();
        for measure in self.measures {
            let fill = self.fill(scratch, bin, stock, *measure);
            if fill.worth > best.worth {
                best = fill;
            }
        }
        if self.exchanging && !best.takes.is_empty() {
            exchanging::exchange(self, scratch, bin, stock, &mut best);
        }
        best
    }

    fn fill(&mut self, scratch: &mut Scratch, bin_at: usize, stock: &Stock, measure: Measure) -> Fill {
        let (task, bins) = (self.task, self.bins);
        let bin = &bins.bins[bin_at];
        let mut room: Vec<i64> = bin.room.to_vec();
        let mut requirements = scratch.templates[bin.pool.at()].requirements;
        let mut accesses: Vec<u32> = Vec::new();
        let mut ports: Vec<&Port> = Vec::new();
        let mut fill = Fill::default();
        self.groups.clear();
        self.candidates.clear();
        self.candidates.extend(bin.shapes.iter().filter(|shape| stock.shapes[**shape as usize] > 0).map(
            |shape| Candidate { shape: *shape, left: stock.shapes[*shape as usize], kind: 0, density: 0.0 },
        ));
        self.work += bin.shapes.len() as u64;
        if matches!(measure, Measure::Largest) {
            self.sort_by_largest(bin);
        }
        let mut per_unit: Vec<f64> = vec![0.0; room.len()];
        loop {
            let found = match measure {
                Measure::Largest => self.last_that_fits(&room),
                Measure::Left | Measure::Bulky => self.densest(&room, measure, &mut per_unit),
            };
            let Some(at) = found else { break };
            let shape = self.candidates[at].shape;
            let access = task.shapes[shape as usize].access;
            let joined = if accesses.contains(&access) {
                Some(requirements)
            } else {
                let catalogue = scratch.snapshot.pools[bin.pool.at()].catalogue;
                self.narrow(scratch, requirements, access).filter(|met| {
                    let set = scratch.offers.of(scratch.snapshot, &scratch.algebra, catalogue, *met);
                    offer_set::contains(&set, bin.offering)
                })
            };
            let Some(joined) = joined else {
                self.candidates.swap_remove(at);
                continue;
            };
            let size = &bins.sizes[shape as usize];
            let most =
                size.iter().zip(&room).filter(|(want, _)| **want > 0).map(|(want, have)| have / want).min();
            let most = most.unwrap_or(i64::MAX).min(i64::from(self.candidates[at].left)) as u32;
            let Some((kind, allowed)) = self.next_kind(scratch, bin.pool, bin.offering, stock, at, &ports)
            else {
                self.candidates.swap_remove(at);
                continue;
            };
            // One at a time where proportions matter, in larger steps while the machine is mostly empty.
            let n = allowed.min(match measure {
                Measure::Largest => most.max(1),
                Measure::Left | Measure::Bulky => (most / 8).max(1),
            });
            let worth = self.worth[shape as usize];
            if !accesses.contains(&access) {
                accesses.push(access);
                requirements = joined;
            }
            for (left, want) in room.iter_mut().zip(size) {
                *left -= want * i64::from(n);
            }
            let row = &task.kinds[kind as usize];
            for (group, cap) in &row.caps {
                let load = self.group(*group);
                load.cap = load.cap.min(*cap);
            }
            for (group, by) in &row.counted {
                self.group(*group).count += by * n;
            }
            ports.extend(row.ports.iter());
            self.taken[kind as usize] += n;
            self.candidates[at].left -= n;
            if self.candidates[at].left == 0 {
                self.candidates.swap_remove(at);
            }
            fill.worth += worth * f64::from(n);
            match fill.takes.iter_mut().find(|(have, _)| *have == kind) {
                Some((_, have)) => *have += n,
                None => fill.takes.push((kind, n)),
            }
        }
        for (kind, _) in &fill.takes {
            self.taken[*kind as usize] = 0;
        }
        fill
    }

    /// Candidates by worth per largest share of a machine, the best last: what is left of the machine does not matter to that.
    fn sort_by_largest(&mut self, bin: &Bin) {
        let (bins, worths) = (self.bins, &self.worth);
        let width = bin.room.len();
        let per_unit: Vec<f64> =
            bin.room.iter().map(|room| if *room > 0 { 1.0 / *room as f64 } else { 0.0 }).collect();
        self.work += 6 * self.candidates.len() as u64;
        for candidate in &mut self.candidates {
            let shape = candidate.shape as usize;
            let size = &bins.amounts[shape * width..][..width];
            let share = size.iter().zip(&per_unit).map(|(want, rate)| want * rate).fold(0.0, f64::max);
            candidate.density = if share > 0.0 { worths[shape] / share } else { f64::INFINITY };
        }
        self.candidates.sort_unstable_by(|a, b| {
            let worth = |candidate: &Candidate| worths[candidate.shape as usize];
            let by = a.density.total_cmp(&b.density).then(worth(a).total_cmp(&worth(b)));
            by.then(b.shape.cmp(&a.shape))
        });
    }

    /// The last candidate, without those that do not fit.
    fn last_that_fits(&mut self, room: &[i64]) -> Option<usize> {
        while let Some(last) = self.candidates.last() {
            if holds(room, &self.bins.sizes[last.shape as usize]) {
                return Some(self.candidates.len() - 1);
            }
            self.candidates.pop();
        }
        None
    }

    /// The candidate worth most per share of what is left; those that do not fit are dropped.
    fn densest(&mut self, room: &[i64], measure: Measure, per_unit: &mut [f64]) -> Option<usize> {
        let width = room.len();
        for (rate, left) in per_unit.iter_mut().zip(room) {
            // What asks for a lane of which nothing is left does not fit.
            *rate = if *left > 0 { 1.0 / *left as f64 } else { 0.0 };
        }
        self.work += self.candidates.len() as u64;
        let mut best: Option<(f64, f64, usize)> = None;
        let mut at = 0;
        while at < self.candidates.len() {
            let shape = self.candidates[at].shape as usize;
            let size = &self.bins.amounts[shape * width..][..width];
            let mut share = 0.0;
            let mut fits = true;
            for ((want, rate), left) in size.iter().zip(&*per_unit).zip(room) {
                fits &= *want <= *left as f64;
                share += want * rate;
            }
            if !fits {
                self.candidates.swap_remove(at);
                continue;
            }
            let worth = self.worth[shape];
            let mut density = if share > 0.0 { worth / share } else { f64::INFINITY };
            if matches!(measure, Measure::Bulky) {
                density *= worth.sqrt().sqrt();
            }
            // The order of candidates changes as they are dropped: equal ones go by shape.
            let better = best.is_none_or(|(best_density, best_worth, best_at)| {
                let by = density.total_cmp(&best_density).then(worth.total_cmp(&best_worth));
                by.then(self.candidates[best_at].shape.cmp(&(shape as u32))).is_gt()
            });
            if better {
                best = Some((density, worth, at));
            }
            at += 1;
        }
        best.map(|(_, _, at)| at)
    }

    /// What a machine costs: what bins are compared by.
    pub fn cost(&self, bin: usize) -> f64 {
        self.bins.bins[bin].price as f64 + self.charge + self.toll.get(bin).copied().unwrap_or(0.0)
    }

    /// The shape of a kind.
    pub fn shape_of(&self, kind: u32) -> usize {
        self.task.kinds[kind as usize].shape as usize
    }

    fn group(&mut self, group: u32) -> &mut GroupLoad {
        let at = match self.groups.iter().position(|load| load.group == group) {
            Some(at) => at,
            None => {
                self.groups.push(GroupLoad { group, count: 0, cap: u32::MAX });
                self.groups.len() - 1
            }
        };
        &mut self.groups[at]
    }

    /// A kind of a shape that may still come, and how many of it.
    fn next_kind(
        &mut self,
        scratch: &Scratch,
        pool: PoolIdx,
        offering: usize,
        stock: &Stock,
        candidate: usize,
        ports: &[&Port],
    ) -> Option<(u32, u32)> {
        let kinds = &self.task.shapes[self.candidates[candidate].shape as usize].kinds;
        // What is on a machine only grows, so a kind that can't come now can't come later.
        while let Some(kind) = kinds.get(self.candidates[candidate].kind) {
            let row = &self.task.kinds[*kind as usize];
            let mut n = stock.kinds[*kind as usize] - self.taken[*kind as usize];
            if n > 0 && !(row.counted.is_empty() && row.caps.is_empty()) {
                n = n.min(self.group_allows(*kind));
            }
            if n > 0 && !row.ports.is_empty() {
                let free = !row.ports.iter().any(|port| ports.iter().any(|taken| port.clashes(taken)))
                    && scratch.templates[pool.at()].ports_free(offering, &row.ports);
                n = if free { 1 } else { 0 };
            }
            if n > 0 {
                return Some((*kind, n));
            }
            self.candidates[candidate].kind += 1;
        }
        None
    }

    /// How many of a kind the groups on the machine allow.
    fn group_allows(&self, kind: u32) -> u32 {
        let row = &self.task.kinds[kind as usize];
        let load = |group: u32| {
            let found = self.groups.iter().find(|load| load.group == group);
            found.map_or((0, u32::MAX), |load| (load.count, load.cap))
        };
        let own_cap =
            |group: u32| row.caps.iter().find(|(g, _)| *g == group).map_or(u32::MAX, |(_, cap)| *cap);
        let mut most = u32::MAX;
        for (group, by) in &row.counted {
            let (count, cap) = load(*group);
            let cap = cap.min(own_cap(*group));
            most = most.min(cap.saturating_sub(count) / (*by).max(1));
        }
        for (group, cap) in &row.caps {
            if !row.counted.iter().any(|(counted, _)| counted == group) && load(*group).0 > *cap {
                return 0;
            }
        }
        most
    }

    /// A machine's requirements narrowed by an access.
    pub fn narrow(&mut self, scratch: &mut Scratch, requirements: ReqId, access: u32) -> Option<ReqId> {
        if let Some(known) = self.narrowed.get(&(requirements, access)) {
            return *known;
        }
        let mut met = Some(requirements);
        for ask in &self.task.accesses[access as usize].asks {
            met = met.and_then(|met| scratch.algebra.meet(met, *ask));
        }
        self.narrowed.insert((requirements, access), met);
        met
    }

    /// Whether the pods of a fill may share a host: groups and host ports.
    pub fn get_along(&mut self, fill: &Fill) -> bool {
        self.groups.clear();
        let mut ports: Vec<&Port> = Vec::new();
        let task = self.task;
        for (kind, n) in &fill.takes {
            let row = &task.kinds[*kind as usize];
            for _ in 0..if row.ports.is_empty() { 0 } else { *n } {
                if row.ports.iter().any(|port| ports.iter().any(|taken| port.clashes(taken))) {
                    return false;
                }
                ports.extend(&row.ports);
            }
            for (group, cap) in &row.caps {
                let load = self.group(*group);
                load.cap = load.cap.min(*cap);
            }
            for (group, by) in &row.counted {
                self.group(*group).count += by * n;
            }
        }
        self.groups.iter().all(|load| load.count <= load.cap)
    }
}
