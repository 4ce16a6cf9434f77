//! What may still be bought: the limits of pools and the units of commitments.

use super::bins::Bin;
use crate::model::ids::PoolIdx;
use crate::model::resources::lane_of;
use crate::pack::scratch::{Machine, Scratch};
use crate::plan;

/// What is left of both.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    /// Per pool, in the order of its limits.
    limits: Vec<Vec<i64>>,
    /// Per reservation; only those of commitments are used.
    units: Vec<u32>,
}

impl Budget {
    /// What machines that stay as they are leave.
    pub fn beside(scratch: &Scratch, frozen: &[Machine]) -> Self {
        let of_pool = |at: usize| -> Vec<i64> {
            let held = frozen.iter().filter(|machine| machine.pool.at() == at);
            let held: Vec<_> =
                held.map(|machine| scratch.largest_capacity(machine.pool, &machine.offers)).collect();
            let left = scratch.snapshot.pools[at].limits.iter().map(|limit| {
                held.iter().fold(limit.most.saturating_sub(limit.used), |left, capacity| {
                    left.saturating_sub(limit.lane.map_or(1, |lane| lane_of(capacity, lane)))
                })
            });
            left.collect()
        };
        Self {
            limits: (0..scratch.snapshot.pools.len()).map(of_pool).collect(),
            units: plan::units_after(scratch, frozen),
        }
    }

    /// What is left of a pool's limits, in their order.
    pub fn limits_of(&self, pool: PoolIdx) -> &[i64] {
        &self.limits[pool.at()]
    }

    /// How many machines of a bin may be bought.
    pub fn allows(&self, bin: &Bin) -> u32 {
        let mut most = bin.units.map_or(u32::MAX, |units| self.units[units.at()]);
        for (left, one) in self.limits[bin.pool.at()].iter().zip(&bin.counts_as) {
            if *left < 0 || one > left {
                return 0;
            }
            if *one > 0 {
                most = most.min(u32::try_from(left / one).unwrap_or(u32::MAX));
            }
        }
        most
    }

    /// So many of a bin are bought.
    pub fn spend(&mut self, bin: &Bin, times: u32) {
        for (left, one) in self.limits[bin.pool.at()].iter_mut().zip(&bin.counts_as) {
            *left = left.saturating_sub(one.saturating_mul(i64::from(times)));
        }
        if let Some(units) = bin.units {
            self.units[units.at()] = self.units[units.at()].saturating_sub(times);
        }
    }

    /// One is taken back.
    pub fn give_back(&mut self, bin: &Bin) {
        for (left, one) in self.limits[bin.pool.at()].iter_mut().zip(&bin.counts_as) {
            *left = left.saturating_add(*one);
        }
        if let Some(units) = bin.units {
            self.units[units.at()] += 1;
        }
    }

    /// Whether all of these may be bought together.
    pub fn covers<'b>(&self, bins: impl Iterator<Item = &'b Bin>) -> bool {
        let mut left = self.clone();
        for bin in bins {
            if left.allows(bin) == 0 {
                return false;
            }
            left.spend(bin, 1);
        }
        true
    }
}
