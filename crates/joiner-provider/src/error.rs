//! Why a provider could not do what it was asked, in kinds that differ in what happens next.

use std::time::Duration;

use crate::OfferingKey;

/// A failure. The caller's answer to each kind is fixed: see the variants.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// None of the offerings can be had now. The claim is deleted, its pods are planned anew without these offerings for a while.
    #[error("no capacity: {message}")]
    InsufficientCapacity {
        /// The offerings that had none.
        offerings: Vec<OfferingKey>,
        /// What the cloud said.
        message: String,
    },
    /// The node class is missing or not ready. The claim is deleted.
    #[error("node class is not ready: {0}")]
    NodeClassNotReady(String),
    /// Too many calls. Tried again after the time given.
    #[error("asked to call less often; try again in {} s", retry_after.as_secs())]
    Throttled {
        /// How long to wait.
        retry_after: Duration,
    },
    /// The cloud does not let us. Shown on the claim, tried again with growing pauses.
    #[error("not allowed: {0}")]
    Denied(String),
    /// The request makes no sense to the cloud. Shown on the claim with its reason, tried again with growing pauses.
    #[error("{message}")]
    Rejected {
        /// One word, the reason of the claim's condition.
        reason: String,
        /// What is wrong.
        message: String,
    },
    /// Anything that may be gone at the next try.
    #[error("{0}")]
    Transient(String),
}
