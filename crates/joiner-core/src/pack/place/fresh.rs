//! New machines: pool by pool, within their limits.

use super::{Attempt, Failure, Fresh, HostVerdict, Query, Settled, Want, alternatives};
use crate::model::ResVec;
use crate::model::ids::*;
use crate::model::resources::lane_of;
use crate::offer_set::{self, OfferSet};
use crate::pack::scratch::Growth;
use crate::pack::scratch::Scratch;

impl Scratch<'_> {
    pub(super) fn open_machine(
        &mut self,
        pod: PodIdx,
        want: &Want,
        query: &Query,
    ) -> Result<Option<MachineIdx>, Failure> {
        // A new host has no pods: only affinity by host can object.
        let new_host = self.machine_host(MachineIdx::new(self.machines.len()));
        if !matches!(self.host_verdict(want, new_host), HostVerdict::Ok) {
            return Ok(None);
        }
        for at in 0..self.templates.len() {
            let pool = PoolIdx::new(at);
            match self.try_pool(want, query, pool, true) {
                Settled::Accepts(growth) => {
                    let (growth, holds) = self.holds_of(want, pool, growth);
                    return Ok(Some(self.open(pod, growth, pool, holds)));
                }
                Settled::Reserved => return Err(Failure::Reserved),
                Settled::NoOffering | Settled::Refused => {}
            }
        }
        Ok(None)
    }

    /// What a new machine holds of its pool's limits. Machines alike share their offerings and are measured once.
    pub(super) fn holds_of(
        &mut self,
        want: &Want,
        pool: PoolIdx,
        mut growth: Growth,
    ) -> (Growth, Option<ResVec>) {
        if self.snapshot.pools[pool.at()].limits.is_empty() {
            return (growth, None);
        }
        if self.sharing.is_some() {
            let holds = self.claim_share(pool, &growth);
            return (growth, Some(holds));
        }
        let memo = (pool, growth.requirements, want.finder);
        if let Some(known) = self.wants.pinned.get(&memo)
            && *known.offers == *growth.offers
        {
            growth.offers = known.offers.clone();
            return (growth, Some(known.largest.clone()));
        }
        let largest = self.largest_capacity(pool, &growth.offers);
        self.wants.pinned.insert(memo, Fresh { offers: growth.offers.clone(), largest: largest.clone() });
        (growth, Some(largest))
    }

    /// Whether a pool would launch a machine for a pod.
    pub(super) fn try_pool(
        &mut self,
        want: &Want,
        query: &Query,
        pool: PoolIdx,
        with_limits: bool,
    ) -> Settled {
        let snapshot = self.snapshot;
        let class = &snapshot.classes[want.class.at()];
        let rung = &class.rungs[want.rung];
        let row = &snapshot.pools[pool.at()];
        if row.not_ready.is_some()
            || !self.algebra.tolerates(row.taints, class.tolerations, rung.spare_preferred)
            || (with_limits && self.no_node_left(pool))
        {
            return Settled::NoOffering;
        }
        let Some(met) = self.algebra.meet(self.templates[pool.at()].requirements, rung.ask) else {
            return Settled::NoOffering;
        };
        self.work += 1;
        let attempt = Attempt { want, query, pool, machine: None, limits: with_limits };
        for alternative in alternatives(class) {
            let Some(met) = alternative.map_or(Some(met), |a| self.algebra.meet(met, a)) else { continue };
            let Some((set, largest)) = self.fresh(&attempt, met) else { continue };
            let set = if with_limits { self.within_limits(pool, &set, &largest) } else { Some(set) };
            let Some(set) = set else { continue };
            for set in self
                .least_opening(pool, met, set, class.filler || self.sharing.is_some())
                .into_iter()
                .flatten()
            {
                match self.pin_and_finish(&attempt, met, &set, &set, 0) {
                    Settled::NoOffering | Settled::Refused => {}
                    settled => return settled,
                }
            }
        }
        Settled::NoOffering
    }

    /// Whether some pool has limits.
    pub(crate) fn any_limits(&self) -> bool {
        self.snapshot.pools.iter().any(|pool| !pool.limits.is_empty())
    }

    /// Whether some pool would launch a machine for pods of a class, were it not for its limits.
    pub fn limits_are_to_blame(&mut self, class: ClassIdx) -> bool {
        // A pod refused before packing has no rungs that say what it wants; no limit keeps it out.
        if !self.any_limits() || self.snapshot.classes[class.at()].refused.is_some() {
            return false;
        }
        let pools: Vec<PoolIdx> = (0..self.templates.len())
            .map(PoolIdx::new)
            .filter(|p| !self.snapshot.pools[p.at()].limits.is_empty())
            .collect();
        let new_host = self.machine_host(MachineIdx::new(self.machines.len()));
        (0..self.snapshot.classes[class.at()].rungs.len()).any(|rung| {
            let want = self.want(class, rung);
            let query = self.query(&want);
            matches!(self.host_verdict(&want, new_host), HostVerdict::Ok)
                && pools.iter().any(|pool| {
                    !matches!(self.try_pool(&want, &query, *pool, true), Settled::Accepts(_))
                        && matches!(self.try_pool(&want, &query, *pool, false), Settled::Accepts(_))
                })
        })
    }

    /// Whether a pool would launch a machine for a pod that it refuses, were it not for its limits.
    pub(crate) fn only_limits_refuse(&mut self, class: ClassIdx, rung: usize, pool: PoolIdx) -> bool {
        if self.snapshot.pools[pool.at()].limits.is_empty() {
            return false;
        }
        let want = self.want(class, rung);
        let query = self.query(&want);
        let new_host = self.machine_host(MachineIdx::new(self.machines.len()));
        matches!(self.host_verdict(&want, new_host), HostVerdict::Ok)
            && matches!(self.try_pool(&want, &query, pool, false), Settled::Accepts(_))
    }

    /// Offerings for a machine with only this pod, before topology and limits.
    pub(super) fn fresh(&mut self, attempt: &Attempt, met: ReqId) -> Option<(OfferSet, ResVec)> {
        let memo = (attempt.pool, met, attempt.want.finder);
        if !self.wants.fresh.contains_key(&memo) {
            let class = &self.snapshot.classes[attempt.want.class.at()];
            let template = &self.templates[attempt.pool.at()];
            let mut set = template.base.to_vec();
            let allowed = self.offers.of(self.snapshot, &self.algebra, template.catalogue, met);
            offer_set::and_into(&mut set, &allowed);
            template.keep_fitting(&mut set, &class.requests);
            template.remove_port_clashes(&mut set, &class.ports);
            let fresh = (!offer_set::is_empty(&set)).then(|| Fresh {
                largest: if self.snapshot.pools[attempt.pool.at()].limits.is_empty() {
                    ResVec::new()
                } else {
                    self.largest_capacity(attempt.pool, &set)
                },
                offers: set.into(),
            });
            self.wants.fresh.insert(memo, fresh);
        }
        self.wants.fresh[&memo].as_ref().map(|fresh| (fresh.offers.clone(), fresh.largest.clone()))
    }

    fn no_node_left(&self, pool: PoolIdx) -> bool {
        let limits = &self.snapshot.pools[pool.at()].limits;
        limits.iter().zip(&self.limits[pool.at()]).any(|(limit, left)| limit.lane.is_none() && *left < 1)
    }

    /// Drops types that exceed what the pool may still hold; `None` if none is left.
    pub(super) fn within_limits(
        &mut self,
        pool: PoolIdx,
        set: &OfferSet,
        largest: &ResVec,
    ) -> Option<OfferSet> {
        let limits = &self.snapshot.pools[pool.at()].limits;
        if limits.is_empty() || self.sharing.is_some() {
            return Some(set.clone());
        }
        let all_fit = |left: &[i64]| {
            limits.iter().zip(left).all(|(limit, left)| match limit.lane {
                Some(lane) => *left >= 0 && lane_of(largest, lane) <= *left,
                None => *left >= 1,
            })
        };
        if all_fit(&self.most_of(pool)) || (self.refresh_holds(pool) && all_fit(&self.most_of(pool))) {
            return Some(set.clone());
        }
        let kept = self.limited(pool, set);
        if offer_set::is_empty(&kept) { None } else { Some(kept.into()) }
    }

    /// A set without the types that exceed what the pool may still hold.
    fn limited(&self, pool: PoolIdx, set: &[u64]) -> Vec<u64> {
        let row = &self.snapshot.pools[pool.at()];
        let catalogue = &self.snapshot.catalogues[row.catalogue.at()];
        let (mut kept, most) = (set.to_vec(), self.most_of(pool));
        for at in offer_set::iter(set) {
            let capacity = &catalogue.types[catalogue.offerings[at].instance_type.at()].capacity;
            let over = row.limits.iter().zip(&most).any(|(limit, left)| match limit.lane {
                Some(lane) => *left < 0 || lane_of(capacity, lane) > *left,
                None => *left < 1,
            });
            if over {
                kept[at / 64] &= !(1 << (at % 64));
            }
        }
        kept
    }
}
