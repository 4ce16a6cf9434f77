//! What is asked of a launch, and what comes of it.

#![allow(missing_docs, reason = "fields and variants that explain themselves have no comment")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::NodeClaim;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use crate::{Error, OfferingKey, RankedOffering, TypeSet};

/// One machine to launch.
#[derive(Debug, Clone)]
pub struct LaunchRequest {
    pub claim: Arc<NodeClaim>,
    /// The node class as stored, if there is one.
    pub class: Option<Arc<Value>>,
    /// What to try, from the front: the first that can be had is taken, and nothing that is not in the list. Never empty.
    pub offerings: Arc<[RankedOffering]>,
    /// The types as overlays make them, where these change what the provider offers: resources that agents put on a machine, and what it is taken to
    /// cost. For providers whose machines have no agents.
    pub overlaid: Option<Arc<TypeSet>>,
    /// Subnets known to have no addresses left.
    pub unavailable_subnets: BTreeSet<String>,
    /// When the claim is given up.
    pub deadline: Timestamp,
}

impl LaunchRequest {
    /// What makes repeating safe: requests with equal tokens launch one machine together. It is the claim's uid.
    pub fn token(&self) -> &str {
        self.claim.metadata.uid.as_deref().unwrap_or_default()
    }
}

/// The answer to one request of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchOutcome {
    /// Of the request.
    pub token: String,
    pub result: Result<Launch, Error>,
}

/// How far a machine is.
#[derive(Debug, Clone, PartialEq)]
pub enum Launch {
    Launched(Box<Launched>),
    /// Accepted, and without an identity yet: a group that grows, a machine that is being racked. The same launch repeated, or
    /// [`Provider::poll`](crate::Provider::poll), tells when there is one.
    Pending(Handle),
}

/// What a provider calls a machine that has no id yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(pub String);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A machine that was launched.
#[derive(Debug, Clone, PartialEq)]
pub struct Launched {
    /// Equal to `spec.providerID` of the Node that will join.
    pub provider_id: String,
    /// What was bought; it names the type.
    pub offering: OfferingKey,
    pub image_id: Option<String>,
    /// Labels its Node will carry. A label that the Node will not carry must not be here: the claim would drift for ever.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub capacity: BTreeMap<String, Quantity>,
    /// Never more than the kubelet will report.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// A machine that was launched before a restart and has not joined.
#[derive(Debug, Clone)]
pub struct Unregistered {
    pub claim: Arc<NodeClaim>,
    /// The node class as stored, if there is one.
    pub class: Option<Arc<Value>>,
    pub launched_at: Timestamp,
}
