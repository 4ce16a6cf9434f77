//! What joiner asks of a cloud.
//!
//! A [`Provider`] offers machine types, launches and ends machines, and says which ones are there. Everything else (which machine to
//! ask for, in which order to try offerings, when to give one back, what to leave alone after a failure) is decided elsewhere, once for all
//! clouds. Any number of providers stand side by side in a [`Registry`], each with its kinds of node classes.
//!
//! The contract, in the order in which a claim meets it:
//!
//! * [`Provider::watch_types`] feeds **all** types of a node class, unavailable offerings included. A new list has a new
//!   [`TypeSet::generation`] and is pushed: whoever holds a [`TypeFeed`] has the newest set at hand without asking the cloud.
//! * [`Provider::launch`] takes a batch and answers item by item, as outcomes come. Each item carries the offerings to try, best
//!   first ([`RankedOffering`]): the provider takes the first it can get and never chooses for itself. A launch is repeated until it succeeds or the claim
//!   is given up, also after a crash between the launch and its record: a provider must find what it launched for a claim before it
//!   launches anything. The claim's uid is the token for that ([`LaunchRequest::token`]).
//! * A machine that has no identity yet is [`Launch::Pending`]. Its [`Handle`] is kept on the claim, and [`Provider::cancel`] gives it back if the
//!   claim goes first: nothing is left half made.
//! * [`Provider::adopt`] is called after a start, with the claims that were launched and have not registered.
//! * [`Provider::terminate`] is repeated until it answers [`Terminated::Gone`]. An id nobody knows is gone.
//! * [`Provider::list`] names everything this cluster owns. What it leaves out counts as lost, what nobody claims is ended; so a machine that cannot be
//!   read is an item of its own ([`Listed::Unreadable`]), and an error ends a list that proves nothing.
//!
//! What could not be had is remembered by [`Health`], by scope and for all providers alike; types, requirements and health together give
//! the list of offerings ([`offerings_of_claim`]), the same after a restart.
//!
//! Clouds that keep machines in groups, raised and lowered by a target, are [`NodeGroups`]: a contract of its own, beside the one above, since
//! nobody asks them for a single machine. The registry holds both; what is followed and planned is a machine either way.
//!
//! [`conformance`] is the suite that every provider passes; `examples/in_memory` is a short one that does.
//!
//! # Choices
//!
//! *Batches*, because fleets, replica counts and bulk inserts all want them, and a provider without them loops. *A stream of outcomes*, because one machine
//! that takes a minute must not hold up the record of those that took a second, and because a batch cut off by a crash has then lost no more than
//! what had not come. *Boxed futures*, so that a provider is chosen at run time. *A closed set of errors* ([`Error`]): what happens next
//! is a `match`, and a new kind of failure makes the compiler ask.
//!
//! Rejected: a provider found by the form of its provider ids (Cluster API's are those of the cloud below it); outcomes by callback (it would run in the provider's
//! task); back-off inside providers (three of them got its key wrong in three ways).

mod class;
mod clock;
pub mod conformance;
mod error;
mod feed;
mod health;
mod instance;
mod launch;
mod node_group;
mod offering;
mod policy;
mod provider;
mod registry;
mod types;

pub use class::{GroupKind, NodeClassKind};
pub use clock::{Clock, Monotonic};
pub use error::{Error, Scope};
pub use feed::{TypeFeed, TypePublisher};
pub use health::{Health, Unavailable};
pub use instance::{Instance, Listed, Terminated};
pub use launch::{Handle, Launch, LaunchOutcome, LaunchRequest, Launched, Unregistered};
pub use node_group::{
    Growth, ListedGroup, Member, MemberState, NodeGroup, NodeGroupKey, NodeGroups, Resized,
};
pub use offering::{OfferingKey, RankedOffering, offerings_of_claim};
pub use policy::{
    Drift, HookAnswer, HookPoint, Interruption, InterruptionKind, MatchBy, Observed, Price,
    RegistrationPolicy, RepairPolicy,
};
pub use provider::Provider;
pub use registry::{Registry, RegistryError};
pub use types::TypeSet;
