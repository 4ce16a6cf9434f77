//! The values that pass between joiner and a provider.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::instance_type::{InstanceType, Offering};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

/// A kind of node class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClassKind {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural, as in paths.
    pub plural: String,
}

impl NodeClassKind {
    /// The label that names the class on claims and nodes.
    pub fn label(&self) -> String {
        format!("{}/{}", self.group, self.kind.to_lowercase())
    }
}

/// The machine types of a node class at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeSet {
    /// Grows with every change.
    pub generation: u64,
    /// All types.
    pub types: Vec<InstanceType>,
    /// Label keys that become well-known with them, sorted.
    pub well_known: Vec<String>,
}

impl TypeSet {
    /// The price of a machine by its labels, if an offering has one.
    pub fn price(&self, instance_type: &str, zone: Option<&str>, capacity_type: Option<&str>) -> Option<f64> {
        let found = self.types.iter().find(|of| of.name == instance_type)?;
        let matches = |offering: &&Offering| {
            offering.zone().is_none_or(|of| Some(of) == zone)
                && offering.capacity_type().is_none_or(|of| Some(of) == capacity_type)
        };
        let prices = found.offerings.iter().filter(matches).map(|offering| offering.price);
        prices.filter(|price| price.is_finite()).min_by(f64::total_cmp)
    }
}

/// An offering by what makes it one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingKey {
    /// Type.
    pub instance_type: String,
    /// Zone, if the offering names one.
    pub zone: Option<String>,
    /// Capacity type, if the offering names one.
    pub capacity_type: Option<String>,
}

impl OfferingKey {
    /// The key of a type's offering.
    pub fn of(instance_type: &InstanceType, offering: &Offering) -> Self {
        Self {
            instance_type: instance_type.name.clone(),
            zone: offering.zone().map(str::to_owned),
            capacity_type: offering.capacity_type().map(str::to_owned),
        }
    }
}

/// One machine to launch.
#[derive(Debug, Clone)]
pub struct LaunchRequest {
    /// What is asked for; its uid is the token that makes repeating safe.
    pub claim: Arc<NodeClaim>,
    /// The node class as stored, if there is one.
    pub class: Option<Arc<Value>>,
    /// Offerings that had no capacity a short while ago: not to be tried.
    pub unavailable: Arc<BTreeSet<OfferingKey>>,
}

/// A machine that was launched.
#[derive(Debug, Clone, PartialEq)]
pub struct Launched {
    /// Its identity, equal to `spec.providerID` of the Node that will join.
    pub provider_id: String,
    /// The image it was started from.
    pub image_id: Option<String>,
    /// Labels its Node will carry.
    pub labels: BTreeMap<String, String>,
    /// Annotations its Node will carry.
    pub annotations: BTreeMap<String, String>,
    /// What it has.
    pub capacity: BTreeMap<String, Quantity>,
    /// What pods can use of it.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// A machine that was launched before a restart and has not joined.
#[derive(Debug, Clone)]
pub struct Unregistered {
    /// Its claim.
    pub claim: Arc<NodeClaim>,
    /// The node class as stored, if there is one.
    pub class: Option<Arc<Value>>,
    /// When it was launched.
    pub launched_at: Timestamp,
}

/// How far the end of a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminated {
    /// On its way; ask again.
    Terminating,
    /// There is no such machine.
    Gone,
}

/// A machine that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its identity.
    pub provider_id: String,
    /// The claim it was launched for, where the provider knows.
    pub claim: Option<String>,
    /// When it was made, where the provider knows.
    pub created: Option<Timestamp>,
    /// It is being ended.
    pub terminating: bool,
}
