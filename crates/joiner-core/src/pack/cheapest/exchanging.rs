//! Exchanging single pods of a fill for others that are worth more.
//!
//! A machine that is filled pod by pod is full in one lane and half empty in another as soon as nothing more fits. Often a pod on it can make
//! way for one that takes no more of the full lane and more of the empty one. With few pods on a machine that is much of its price.

use super::bins::holds;
use super::filling::{Fill, Filler, Stock};
use crate::offer_set;
use crate::pack::scratch::Scratch;

/// The most exchanges on one machine, those that turn out not to be possible included.
const MOST: usize = 8;
/// An exchange has to gain more than this share of the fill's worth.
const LEAST_GAIN: f64 = 1e-6;

/// One pod for another, or one more.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Exchange {
    /// Which of the fill's kinds gives one up; `None`: there is room.
    out: Option<usize>,
    shape: u32,
}

/// Exchanges pods of a fill as long as that makes it worth more.
pub(super) fn exchange(
    filler: &mut Filler,
    scratch: &mut Scratch,
    bin_at: usize,
    stock: &Stock,
    fill: &mut Fill,
) {
    let bins = filler.bins;
    let bin = &bins.bins[bin_at];
    let mut room = bin.room.to_vec();
    let mut left: Vec<(u32, u32)> = bin
        .shapes
        .iter()
        .map(|shape| (*shape, stock.shapes[*shape as usize]))
        .filter(|(_, n)| *n > 0)
        .collect();
    for (kind, n) in &fill.takes {
        let shape = filler.shape_of(*kind);
        room.iter_mut().zip(&bins.sizes[shape]).for_each(|(room, size)| *room -= size * i64::from(*n));
        if let Ok(at) = left.binary_search_by_key(&(shape as u32), |(shape, _)| *shape) {
            left[at].1 -= n;
        }
    }
    let mut refused: Vec<Exchange> = Vec::new();
    for _ in 0..MOST {
        filler.work += ((1 + fill.takes.len()) * left.len()) as u64;
        let Some(found) = best(filler, &room, &left, fill, &refused) else { return };
        let Some(changed) = carried_out(filler, scratch, bin_at, stock, fill, found) else {
            refused.push(found);
            continue;
        };
        let mut count = |shape: usize, by: i64| {
            room.iter_mut().zip(&bins.sizes[shape]).for_each(|(room, size)| *room -= size * by);
            if let Ok(at) = left.binary_search_by_key(&(shape as u32), |(shape, _)| *shape) {
                left[at].1 = left[at].1.saturating_add_signed(-by as i32);
            }
        };
        count(found.shape as usize, 1);
        if let Some(out) = found.out {
            count(filler.shape_of(fill.takes[out].0), -1);
        }
        *fill = changed;
        refused.clear();
    }
}

/// The exchange that gains most.
fn best(
    filler: &Filler,
    room: &[i64],
    left: &[(u32, u32)],
    fill: &Fill,
    refused: &[Exchange],
) -> Option<Exchange> {
    let bins = filler.bins;
    let mut best = (LEAST_GAIN * fill.worth, None);
    let mut wider = room.to_vec();
    let outs = std::iter::once(None).chain((0..fill.takes.len()).map(Some));
    for out in outs {
        let mut lost = 0.0;
        wider.copy_from_slice(room);
        if let Some(out) = out {
            let shape = filler.shape_of(fill.takes[out].0);
            lost = filler.worth[shape];
            wider.iter_mut().zip(&bins.sizes[shape]).for_each(|(room, size)| *room += size);
        }
        for (shape, n) in left {
            let gain = filler.worth[*shape as usize] - lost;
            if gain > best.0 && *n > 0 && holds(&wider, &bins.sizes[*shape as usize]) {
                let found = Exchange { out, shape: *shape };
                if !refused.contains(&found) {
                    best = (gain, Some(found));
                }
            }
        }
    }
    best.1
}

/// The fill after an exchange; `None` if those on it would not get along, or the machine would have to be another one.
fn carried_out(
    filler: &mut Filler,
    scratch: &mut Scratch,
    bin_at: usize,
    stock: &Stock,
    fill: &Fill,
    exchange: Exchange,
) -> Option<Fill> {
    let task = filler.task;
    let mut changed = fill.clone();
    if let Some(out) = exchange.out {
        changed.worth -= filler.worth[filler.shape_of(fill.takes[out].0)];
        changed.takes[out].1 -= 1;
        if changed.takes[out].1 == 0 {
            changed.takes.remove(out);
        }
    }
    changed.worth += filler.worth[exchange.shape as usize];
    let access = task.shapes[exchange.shape as usize].access;
    let known = |(kind, _): &(u32, u32)| task.shapes[filler.shape_of(*kind)].access == access;
    if !changed.takes.iter().any(known) {
        let bin = &filler.bins.bins[bin_at];
        let mut met = scratch.templates[bin.pool.at()].requirements;
        for (kind, _) in &changed.takes {
            met = filler.narrow(scratch, met, task.shapes[filler.shape_of(*kind)].access)?;
        }
        met = filler.narrow(scratch, met, access)?;
        let catalogue = scratch.snapshot.pools[bin.pool.at()].catalogue;
        let set = scratch.offers.of(scratch.snapshot, &scratch.algebra, catalogue, met);
        if !offer_set::contains(&set, bin.offering) {
            return None;
        }
    }
    for kind in &task.shapes[exchange.shape as usize].kinds {
        let at = changed.takes.iter().position(|(have, _)| have == kind);
        let taken = at.map_or(0, |at| changed.takes[at].1);
        let row = &task.kinds[*kind as usize];
        if stock.kinds[*kind as usize] <= taken || !row.ports.is_empty() {
            continue;
        }
        match at {
            Some(at) => changed.takes[at].1 += 1,
            None => changed.takes.push((*kind, 1)),
        }
        filler.work += 16 * changed.takes.len() as u64;
        if filler.get_along(&changed) {
            return Some(changed);
        }
        match at {
            Some(at) => changed.takes[at].1 -= 1,
            None => drop(changed.takes.pop()),
        }
    }
    None
}
