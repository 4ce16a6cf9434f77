//! Why a provider could not do what it was asked, in kinds that differ in what happens next.

#![allow(missing_docs, reason = "fields and variants that explain themselves have no comment")]

use std::collections::BTreeSet;
use std::time::Duration;

use joiner_api::nodepool::NodeClassReference;

use crate::OfferingKey;

/// A failure. The caller's answer to each kind is fixed: see the variants.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// None of the offerings can be had now. The claim is deleted, its pods are planned anew without these scopes for a while.
    #[error("no capacity: {message}")]
    NoCapacity {
        scopes: Vec<Scope>,
        /// When to try them again, where the cloud says; otherwise pauses grow with every failure.
        retry_after: Option<Duration>,
        message: String,
    },
    /// A limit of the account is reached. As above, with all offerings that count against the limit.
    #[error("quota is used up: {message}")]
    Quota { scope: Scope, retry_after: Option<Duration>, message: String },
    /// The node class is missing or not ready. The claim is deleted.
    #[error("node class is not ready: {0}")]
    ClassNotReady(String),
    /// Too many calls. Tried again after the time given.
    #[error("asked to call less often; try again in {} s", retry_after.as_secs())]
    Throttled { retry_after: Duration },
    /// The cloud does not let us. Shown on the claim, tried again with growing pauses.
    #[error("not allowed: {0}")]
    Denied(String),
    /// The request makes no sense to the cloud. Shown on the claim under `reason`, tried again with growing pauses.
    #[error("{message}")]
    Invalid { reason: String, message: String },
    /// Anything that may be gone at the next try.
    #[error("{0}")]
    Transient(String),
}

/// What could not be had, as far as the cloud tells. The wider a scope, the more offerings it takes out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// One offering; with a class, only for machines of that class (a placement group, an image, a network of its own).
    Offering { class: Option<NodeClassReference>, offering: OfferingKey },
    /// A zone, or one capacity type in it.
    Zone { zone: String, capacity_type: Option<String> },
    /// A subnet without addresses. Its zone is out for the class only when all of the class's subnets there are.
    Subnet { class: NodeClassReference, zone: String, subnet: String, subnets_of_zone: BTreeSet<String> },
    /// A limit of the account, with what counts against it; no types or no capacity type = all.
    Quota { quota: String, instance_types: BTreeSet<String>, capacity_type: Option<String> },
}
