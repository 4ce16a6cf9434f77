//! What a provider sells: instance types and their offerings.

use super::ResVec;
use super::ids::{ReqId, ReservationIdx, TypeIdx, ValueId};

/// A kind of machine.
#[derive(Debug, Clone)]
pub struct InstanceType {
    /// Its name, the value of `node.kubernetes.io/instance-type`.
    pub name: Box<str>,
    /// What its labels can be.
    pub requirements: ReqId,
    /// What counts against limits.
    pub capacity: ResVec,
    /// Volumes each driver can attach, where known.
    pub volume_limits: Vec<(Box<str>, u32)>,
}

/// How well a price is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PriceSource {
    /// Stated in the list of types or in an object.
    #[default]
    Stated,
    /// The provider's list price.
    List,
    /// An estimate.
    Estimate,
    /// From a file of prices.
    File,
}

/// A type in a zone at a capacity type: what can be bought.
#[derive(Debug, Clone)]
pub struct Offering {
    /// Its type.
    pub instance_type: TypeIdx,
    /// What it adds to the type's requirements: zone, capacity type and perhaps more.
    pub requirements: ReqId,
    /// Dollars per hour as the provider said it.
    pub price: f64,
    /// The same in whole nano-dollars: what is compared and summed. A price that makes no sense is `i64::MAX / 1024`, so it ranks last.
    pub price_nano_usd: i64,
    /// How well the price is known.
    pub price_source: PriceSource,
    /// Whether it can be had now.
    pub available: bool,
    /// What pods and daemons can use.
    pub allocatable: ResVec,
    /// The reservation it draws from.
    pub reservation: Option<ReservationIdx>,
    /// Its zone, if it names one.
    pub zone: Option<ValueId>,
    /// Its capacity type, if it names one.
    pub capacity_type: Option<ValueId>,
}

/// A capacity reservation with the units it has left.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// The provider's id.
    pub id: Box<str>,
    /// Machines that can still be launched into it.
    pub capacity: u32,
    /// A price agreed for so many machines and not capacity set aside: nobody waits for it, and every offering under it is also
    /// there without it. Units go to machines in the order of the plan, once packing is done.
    pub commitment: bool,
}

/// Everything one node class can launch, or one pool of it where prices or capacity are the pool's own.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    /// Sorted by name.
    pub types: Vec<InstanceType>,
    /// Sorted by price, then type name, zone, capacity type: the cheapest of a set is its first bit.
    pub offerings: Vec<Offering>,
}
