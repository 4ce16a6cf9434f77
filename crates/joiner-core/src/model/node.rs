//! Existing nodes and in-flight machines: places that are there already.

use std::sync::Arc;

use super::ResVec;
use super::catalogue::PriceSource;
use super::ids::{
    CatalogueIdx, GroupIdx, IdentityIdx, OfferingIdx, PoolIdx, ReqId, TaintsId, ValueId, VolumeIdx,
};
use super::pod::Port;

/// A node that is there, or a machine that was asked for and has not joined yet.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels as requirements of one value each; keys nobody asks about may be left out.
    pub labels: ReqId,
    /// Its value of the hostname key, if some requirement names that key.
    pub hostname: Option<ValueId>,
    /// Its taints, those ignored while it starts left out.
    pub taints: TaintsId,
    /// Allocatable less the requests of all its non-terminal pods.
    pub available: ResVec,
    /// Requests of the daemon pods among them.
    pub daemons_present: ResVec,
    /// Whether pods may be placed here (not cordoned, not leaving).
    pub accepts_pods: bool,
    /// Tried before those that are not.
    pub initialised: bool,
    /// Host ports in use.
    pub ports: Vec<Port>,
    /// Volumes in use, and per driver the most that can be attached.
    pub volumes: Vec<(Box<str>, VolumeIdx)>,
    /// Limits per driver; an absent one is infinite.
    pub volume_limits: Vec<(Box<str>, u32)>,
    /// Bound pods that selectors can see, by identity.
    pub pods: Vec<(IdentityIdx, u32)>,
    /// Required anti-affinity of the pods on it: a group once per owner.
    pub anti_affinity: Vec<GroupIdx>,
    /// The pool it belongs to.
    pub pool: Option<PoolIdx>,
    /// A machine that its pool keeps whatever pods there are, and that is still to be bought: part of every plan.
    pub bought: Option<Bought>,
    /// What it was bought as, where the catalogue knows it.
    pub offering: Option<(CatalogueIdx, OfferingIdx)>,
    /// What it costs in nano-dollars per hour, where that is known.
    pub price_nano_usd: Option<i64>,
    /// For display: type, zone, capacity type, price per hour.
    pub shown: Arc<ShownNode>,
}

/// What a machine that is not there yet will be bought as.
#[derive(Debug, Clone)]
pub struct Bought {
    /// The cheapest offering its pool's template allows.
    pub offering: OfferingIdx,
    /// Its price in nano-dollars per hour.
    pub price_nano_usd: i64,
}

/// What a plan shows of a node.
#[derive(Debug, Clone, Default)]
pub struct ShownNode {
    /// Pool name, if any.
    pub pool: Option<Box<str>>,
    /// Instance type label.
    pub instance_type: Option<Box<str>>,
    /// Zone label.
    pub zone: Option<Box<str>>,
    /// Capacity type label.
    pub capacity_type: Option<Box<str>>,
    /// Price, where the catalogue knows it.
    pub price: Option<f64>,
    /// How well that price is known.
    pub price_source: PriceSource,
    /// Allocatable, for bars.
    pub allocatable: ResVec,
}
