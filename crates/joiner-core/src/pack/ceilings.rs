//! Smaller machines where limits refuse pods.
//!
//! The queue fills the largest types first. Where a pool wants a choice of types (`minValues`), a large machine that is full counts with types larger
//! still, because nothing else gives it that choice: a limit is then used up by what nobody will launch, and no choice of types for *these* machines
//! serves who is left. Smaller ones would. So the queue runs again with new machines held down to types below a ceiling, halved from run to run;
//! when such a run is at rest the ceiling is lifted for who is left. A run counts only if it places everybody whom the first one places, and more. A
//! limit that pods really use up costs nothing: then there are no ceilings.

use crate::model::ids::PoolIdx;
use crate::model::resources::lane_of;
use crate::offer_set;
use crate::pack::caps::Caps;
use crate::pack::scratch::Scratch;

/// How often ceilings are halved.
pub(crate) const LEVELS: u32 = 6;
/// Where pods ask for this share of what their machines count as, others would hardly hold more.
const FULL: f64 = 0.85;

/// The most that a type of a pool's new machines may have of the resource of one of its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ceiling {
    /// Which of the pool's limits.
    limit: usize,
    most: i64,
}

impl Scratch<'_> {
    /// For each pool that limits a resource: the limit of which least is left in proportion, and the largest amount of it that a type of the pool has.
    /// Not where pods ask for nearly all that their machines count as.
    pub(crate) fn tops(&mut self) -> Vec<Option<Ceiling>> {
        (0..self.templates.len()).map(|at| self.top(PoolIdx::new(at))).collect()
    }

    fn top(&mut self, pool: PoolIdx) -> Option<Ceiling> {
        let planned = self.planned_in(pool);
        let limits = self.snapshot.pools[pool.at()].limits.iter().zip(&self.limits[pool.at()]).enumerate();
        let share = |left: i64, most: i64| left.max(0) as f64 / most.max(1) as f64;
        let (limit, lane, counts) = limits
            .filter_map(|(at, (limit, left))| Some((at, limit.lane?, share(*left, limit.most))))
            .zip(planned)
            .min_by(|a, b| a.0.2.total_cmp(&b.0.2))
            .map(|((at, lane, _), counts)| (at, lane, counts))?;
        let machines = self.machines.iter().filter(|machine| machine.pool == pool);
        let asked: i64 = machines.map(|machine| lane_of(&machine.requests, lane)).sum();
        let base = &self.templates[pool.at()].base;
        let most = lane_of(&self.largest_capacity(pool, base), lane);
        let worthwhile = asked as f64 <= counts as f64 * FULL;
        (worthwhile && !offer_set::is_empty(base) && most > 0).then_some(Ceiling { limit, most })
    }

    /// What a new machine of a pool may count as at most, in the order of its limits, nodes included.
    pub(super) fn most_of(&self, pool: PoolIdx) -> Caps {
        let mut most = Caps::from_slice(&self.limits[pool.at()]);
        if let Some(ceiling) = self.ceilings[pool.at()]
            && let Some(most) = most.get_mut(ceiling.limit)
        {
            *most = (*most).min(ceiling.most);
        }
        most
    }

    /// New machines may be as large as limits allow from now on.
    pub(crate) fn lift_ceilings(&mut self) {
        self.ceilings.fill(None);
        self.version += 1;
    }
}

/// Ceilings halved so many times.
pub(crate) fn halved(tops: &[Option<Ceiling>], times: u32) -> Vec<Option<Ceiling>> {
    let half = |top: &Ceiling| Ceiling { most: top.most >> times, ..*top };
    tops.iter().map(|top| top.as_ref().map(half)).collect()
}
