//! The suite that every provider passes: what its contract says, tried on a cloud that can be made to fail.
//!
//! A provider's tests implement [`Cloud`] over a simulation of the cloud and call [`assert_conforms`] with a function that makes a new one. Every
//! check gets a cloud of its own. `examples/in_memory` is the shortest complete case.

mod ending;
mod launching;
mod listing;
pub mod node_groups;
mod support;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{LaunchRequest, OfferingKey, Provider};

/// A simulated cloud, as the suite sees it from behind the provider's back.
pub trait Cloud: Send + Sync {
    /// A new process: a provider that remembers nothing but what the cloud keeps. Faults of the process before are over.
    fn provider(&self) -> Arc<dyn Provider>;

    /// A request for a claim of this name, with at least two offerings. Equal names give equal claims, different ones different uids.
    fn request(&self, name: &str) -> LaunchRequest;

    /// The machines there really are, those that are still being made included.
    fn machines(&self) -> BoxFuture<'_, Vec<Machine>>;

    /// Lets pass as much time as it takes until nothing happens by itself any more.
    fn settle(&self) -> BoxFuture<'_, ()>;

    /// Makes the cloud fail from now on, instead of as before; false if this cloud cannot fail so.
    fn inject(&self, fault: Fault) -> bool;
}

/// A machine, by the cloud's own books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// `None` while it has no identity.
    pub provider_id: Option<String>,
    /// Uid of the claim it was made for.
    pub claim_uid: String,
}

/// A way to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// None: all works again.
    Nothing,
    /// So many more calls of the present process take effect, the last of them without an answer; all calls after that fail. Every cloud
    /// can do this.
    Crash {
        /// With 0 the process is cut off at once.
        after_calls: usize,
    },
    /// The answer to one call is lost, which takes effect all the same; the process goes on. Every cloud can do this.
    LostAnswer {
        /// After so many calls that are answered.
        after_calls: usize,
    },
    /// Calls about the machine of the claim of this name fail, those about others do not. Every cloud can do this.
    BrokenFor(String),
    /// This offering cannot be had.
    NoCapacity(OfferingKey),
    /// Machines get their identity only with [`Cloud::settle`].
    LateIdentity,
}

/// A check that a provider did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The check, named by the rule it holds.
    pub check: &'static str,
    /// What was seen instead.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.message)
    }
}

type Check = for<'c> fn(&'c dyn Cloud) -> BoxFuture<'c, Result<(), String>>;

/// All checks with the rules they hold.
const CHECKS: [(&str, Check); 18] = [
    ("types are there from the start", |cloud| Box::pin(launching::types_are_there(cloud))),
    ("the first offering is taken", |cloud| Box::pin(launching::first_offering_is_taken(cloud))),
    ("what is out of stock is passed over and told", |cloud| {
        Box::pin(launching::next_offering_is_taken(cloud))
    }),
    ("every request of a batch gets one outcome", |cloud| Box::pin(launching::batch_is_answered(cloud))),
    ("a launch repeated is one machine", |cloud| Box::pin(launching::launch_is_idempotent(cloud))),
    ("another claim of the same name gets no old machine", |cloud| {
        Box::pin(launching::names_are_no_tokens(cloud))
    }),
    ("a crash at any call of a launch leaves one machine", |cloud| {
        Box::pin(launching::launch_survives_crashes(cloud))
    }),
    ("an answer lost at any call of a launch leaves one machine", |cloud| {
        Box::pin(launching::launch_survives_lost_answers(cloud))
    }),
    ("a request that fails takes no other with it", |cloud| {
        Box::pin(launching::failures_are_per_item(cloud))
    }),
    ("the machine of a claim is found by its uid", |cloud| {
        Box::pin(launching::machine_is_found_by_claim(cloud))
    }),
    ("a pending launch resolves", |cloud| Box::pin(launching::pending_resolves(cloud))),
    ("a cancelled launch leaves nothing", |cloud| Box::pin(ending::cancel_leaves_nothing(cloud))),
    ("exactly the named machine is ended", |cloud| Box::pin(ending::exactly_the_named_is_ended(cloud))),
    ("a crash at any call of an ending loses nothing", |cloud| {
        Box::pin(ending::ending_survives_crashes(cloud))
    }),
    ("an answer lost at any call of an ending loses nothing", |cloud| {
        Box::pin(ending::ending_survives_lost_answers(cloud))
    }),
    ("an ending that fails takes no other with it", |cloud| Box::pin(ending::failures_are_per_item(cloud))),
    ("machines are got by id", |cloud| Box::pin(listing::machines_are_got_by_id(cloud))),
    ("the list comes to agree with the cloud", |cloud| Box::pin(listing::list_agrees_in_the_end(cloud))),
];

/// Runs all checks, each on a new cloud; what is returned was not passed.
pub async fn violations<C, F>(new_cloud: impl Fn() -> F) -> Vec<Violation>
where
    C: Cloud,
    F: Future<Output = C>,
{
    let mut found = Vec::new();
    for (check, run) in CHECKS {
        let cloud = new_cloud().await;
        if let Err(message) = run(&cloud).await {
            found.push(Violation { check, message });
        }
    }
    found
}

/// Fails the calling test unless all checks pass.
///
/// # Panics
/// Some check does not pass; all that do not are named.
pub async fn assert_conforms<C, F>(new_cloud: impl Fn() -> F)
where
    C: Cloud,
    F: Future<Output = C>,
{
    let found = violations(new_cloud).await;
    let lines: Vec<String> = found.iter().map(Violation::to_string).collect();
    assert!(found.is_empty(), "{} of {} checks fail:\n{}", found.len(), CHECKS.len(), lines.join("\n"));
}
