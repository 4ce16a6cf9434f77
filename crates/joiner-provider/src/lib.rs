//! What joiner asks of a cloud.
//!
//! A [`Provider`] offers machine types, launches and ends machines, and says which ones are there. Everything else (which machine to
//! ask for, when to give it back, what to do when there is none) is decided elsewhere, once for all clouds.
//!
//! The contract, in the order in which a claim meets it:
//!
//! * [`Provider::types`] lists **all** types of a node class, unavailable offerings included. It is asked before every decision, so
//!   it answers from memory; a new list has a new [`TypeSet::generation`].
//! * [`Provider::launch`] takes a batch and answers item by item, in the order of the batch. It is repeated until it succeeds or the claim
//!   is given up, also after a crash between the launch and its record: it must find what it launched for a claim before it
//!   launches anything. The claim's uid is the token for that.
//! * [`Provider::adopt`] is called once after a start, with the claims that were launched and have not registered.
//! * [`Provider::terminate`] is repeated until it answers [`Terminated::Gone`]. An id nobody knows is gone.
//! * [`Provider::list`] names everything this cluster owns. What it leaves out counts as lost, what nobody claims is ended.
//!
//! # Choices
//!
//! *Batches*, because fleets, replica counts and bulk inserts all want them, and a provider without them loops. *Boxed futures*, so that a provider
//! is chosen at run time. *A closed set of errors* ([`Error`]): what happens next is a `match`, and a new kind of failure makes the compiler ask. *Capacity is
//! remembered by the caller*: a provider reports which offerings had none and is told in the next request which ones to leave
//! alone, so back-off is written once.
//!
//! Not here yet, because nothing calls it: drift, repair policies, registration hooks, interruptions.

mod clock;
mod error;
mod instance;

pub use clock::{Clock, Monotonic};
pub use error::Error;
pub use instance::{
    Instance, LaunchRequest, Launched, NodeClassKind, OfferingKey, Terminated, TypeSet, Unregistered,
};

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use joiner_api::nodepool::NodeClassReference;

/// A cloud.
pub trait Provider: Send + Sync {
    /// Its name, for people and metrics.
    fn name(&self) -> &'static str;

    /// The node classes it serves. Claims and pools of other classes belong to somebody else.
    fn node_class_kinds(&self) -> &[NodeClassKind];

    /// The machine types of a node class.
    fn types(&self, class: &NodeClassReference) -> Arc<TypeSet>;

    /// Launches machines; one answer per request, in their order.
    fn launch(&self, requests: Vec<LaunchRequest>) -> BoxFuture<'_, Vec<Result<Launched, Error>>>;

    /// Takes over machines that were launched before a restart and whose Nodes have not joined.
    fn adopt(&self, machines: Vec<Unregistered>, now: Timestamp) -> BoxFuture<'_, ()>;

    /// Ends machines by provider id; one answer per id, in their order.
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>>;

    /// All machines of this cluster.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, Error>>;
}
