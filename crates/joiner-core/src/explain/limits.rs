//! Refusals by the limits of a pool: which, who uses it, what is left.
//!
//! What is planned counts as what it is bought as, not as all it may become: that is what would have to be less for the pod to find room.

use crate::explain::cause::{Cause, LimitReached};
use crate::model::ids::*;
use crate::model::resources::lane_of;
use crate::offer_set;
use crate::pack::caps::Caps;
use crate::pack::scratch::Scratch;

/// That the pool has as many nodes as it may, if so.
pub(super) fn nodes(scratch: &Scratch, pool: PoolIdx) -> Option<Cause> {
    let limit = scratch.snapshot.pools[pool.at()].limits.iter().find(|limit| limit.lane.is_none())?;
    let planned = scratch.machines.iter().filter(|machine| machine.pool == pool).count() as i64;
    (limit.most.saturating_sub(limit.used).saturating_sub(planned) < 1).then_some(Cause::NodeLimit {
        limit: limit.most,
        used: limit.used,
        planned,
    })
}

/// What of a set stays within what is left.
pub(super) fn kept(scratch: &mut Scratch, pool: PoolIdx, set: &[u64]) -> Vec<u64> {
    let left: Caps = reached(scratch, pool, &[]).iter().map(|reached| reached.left).collect();
    scratch.within_caps(pool, set, &left)
}

/// No type of a set stays within what is left.
pub(super) fn too_small(scratch: &mut Scratch, pool: PoolIdx, set: &[u64]) -> Cause {
    let catalogue = &scratch.snapshot.catalogues[scratch.snapshot.pools[pool.at()].catalogue.at()];
    let rows = offer_set::iter(set).map(|at| &catalogue.types[catalogue.offerings[at].instance_type.at()]);
    let smallest = rows
        .map(|row| scratch.as_caps(pool, &row.capacity))
        .reduce(|a, b| a.iter().zip(&b).map(|(a, b)| *a.min(b)).collect());
    let limits = at_fault(reached(scratch, pool, &smallest.unwrap_or_default()));
    Cause::Limit { limits, min_values: None }
}

/// What stays within what is left has too few values of a label.
pub(super) fn too_few(scratch: &mut Scratch, pool: PoolIdx, met: ReqId, set: &[u64], key: KeyId) -> Cause {
    let floor = scratch.menu(pool, met, set).floor.clone();
    let limits = at_fault(reached(scratch, pool, &floor));
    Cause::Limit { limits, min_values: Some(scratch.algebra.names().key_text(key).to_owned()) }
}

/// Those that leave too little; all of them if only all together do.
fn at_fault(limits: Vec<LimitReached>) -> Vec<LimitReached> {
    let short = |limit: &LimitReached| limit.smallest > limit.left;
    let mut limits = limits;
    if limits.iter().any(short) {
        limits.retain(short);
    }
    limits.iter_mut().for_each(|limit| limit.left = limit.left.max(0));
    limits
}

/// Every limit of a pool but that of nodes, with the least of it that is wanted.
fn reached(scratch: &mut Scratch, pool: PoolIdx, smallest: &[i64]) -> Vec<LimitReached> {
    let planned = scratch.planned_in(pool);
    let names = scratch.algebra.names();
    let limits = scratch.snapshot.pools[pool.at()].limits.iter();
    let limits = limits.filter_map(|limit| limit.lane.map(|lane| (limit, lane)));
    let one = |(at, (limit, lane)): (usize, (&crate::model::Limit, usize))| LimitReached {
        resource: names.lane_text(lane).to_owned(),
        limit: limit.most,
        used: limit.used,
        planned: lane_of(&planned, at),
        left: limit.most.saturating_sub(limit.used).saturating_sub(lane_of(&planned, at)),
        smallest: lane_of(smallest, at),
    };
    limits.enumerate().map(one).collect()
}
