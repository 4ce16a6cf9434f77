//! A floor under the hourly price of any plan: no way to buy machines for these pods costs less.
//!
//! Pods are split fractionally over offerings and offerings are bought in fractions:
//!
//! ```text
//! minimise  Σ_o price_o · y_o
//! such that Σ_c x_co · request_cl ≤ allocatable_ol · y_o    for every offering o and lane l
//!           Σ_{c in g} x_co       ≤ most_g · y_o            for every offering o and group g that keeps apart on hosts
//!           Σ_o x_co = count_c,   x, y ≥ 0                  over offerings that hold at least one such pod
//! ```
//!
//! What is solved is the dual, because there every point is already a bound: an offering divides its price over
//! its lanes, a pod is worth what it takes of each lane, at the offering where that is least, and the worth of all
//! pods together cannot exceed what any plan pays. The linear program only searches for the division that makes
//! the sum largest; what is returned is recomputed from that division by plain arithmetic, so round-off in the
//! solver cannot lift the result above the truth.
//!
//! Most of thousands of offerings are beaten by another one and go before anything is solved. Of the rest, pods touch
//! few at the optimum: the program starts with a handful of offerings and a few rows per class of pods, and grows
//! by those the current answer violates until none is left.

mod program;
mod reduce;
mod search;

use std::borrow::Cow;
use std::rc::Rc;

use reduce::{Model, Work};
use search::Search;

/// The work [`lower_bound`] may cost unless told otherwise: enough for several hundred kinds of pods, and at most
/// about a second and a half.
pub const DEFAULT_WORK: u64 = 1_200_000_000;

/// Identical pods that wait for a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// How many pods there are.
    pub count: u64,
    /// What one pod takes of each resource lane.
    pub requests: Vec<i64>,
    /// The offerings a pod may use, as indices into the list of offerings, ascending. Long, and the same for many demands: shared.
    pub offers: Rc<[u32]>,
    /// Groups of which a machine holds only so many pods: one (required anti-affinity by host name), or a few (spread by host name).
    pub apart: Vec<(u32, u32)>,
}

/// A machine that can be bought any number of times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer<'a> {
    /// Price per hour in nano-dollars.
    pub price_nano_usd: i64,
    /// What pods can use of each resource lane: allocatable less what daemons take.
    pub allocatable: Cow<'a, [i64]>,
}

/// The least any plan can cost, in dollars per hour, or `None` if finding out would take more than `work_budget`.
///
/// Pods that fit no offering they may use count nothing: a plan refuses them. The budget is measured in elementary
/// steps (about a nanosecond each), never in time, so equal inputs give equal answers. A search that does not come
/// to its end gives no answer rather than a weak one: the result is below the optimum by a millionth at most.
pub fn lower_bound(demands: &[Demand], offers: &[Offer<'_>], work_budget: u64) -> Option<f64> {
    let mut work = Work { left: work_budget };
    let model = Model::build(demands, offers, &mut work)?;
    if model.classes.is_empty() {
        return Some(0.0);
    }
    Search::new(&model).run(&mut work).map(|dollars| dollars * (1.0 - SAFETY))
}

/// What one pod of each demand is worth by the shadow prices behind [`lower_bound`]: the least it costs at any offering when all prices
/// are divided so that pods are worth most; infinite if no offering takes it. `None` if finding out would take more than `work_budget`.
pub(crate) fn worths(demands: &[Demand], offers: &[Offer<'_>], work_budget: u64) -> Option<Vec<f64>> {
    let mut work = Work { left: work_budget };
    let model = Model::build(demands, offers, &mut work)?;
    let mut search = Search::new(&model);
    if !model.classes.is_empty() {
        search.run(&mut work)?;
    }
    Some(demands.iter().map(|demand| search.worth_of(demand)).collect())
}

/// The result is lowered by this share, far above the round-off of adding up millions of terms.
const SAFETY: f64 = 1e-9;
