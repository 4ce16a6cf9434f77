//! The trait itself.

use futures::future::{BoxFuture, ready};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::nodepool::NodeClassReference;
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use crate::{
    Drift, Error, Handle, HookAnswer, HookPoint, Instance, Interruption, Launch, LaunchOutcome,
    LaunchRequest, Launched, Listed, NodeClassKind, Observed, OfferingKey, Price, RegistrationPolicy,
    RepairPolicy, Terminated, TypeFeed, Unregistered,
};

/// A cloud. What has a default answer may be left out; the rest is the contract of the crate's first page.
pub trait Provider: Send + Sync {
    /// Its name, for people, metrics and the health of its offerings; no two providers of a process share one.
    fn name(&self) -> &str;

    /// The node classes it serves. Claims and pools of other classes belong to somebody else.
    fn node_class_kinds(&self) -> &[NodeClassKind];

    /// Label keys that its machines may carry whatever their types are; those that come with types are in [`crate::TypeSet::well_known`].
    fn well_known_labels(&self) -> &[&'static str] {
        &[]
    }

    /// Label domains in which users may set no labels but the well-known ones.
    fn restricted_domains(&self) -> &[&'static str] {
        &[]
    }

    /// The machine types of a node class, all of them, pushed. The feed has a set from the start, an empty one if nothing is known yet.
    fn watch_types(&self, class: &NodeClassReference) -> TypeFeed;

    /// What an offering costs at a moment; `None` = as its type says.
    fn price(&self, _class: &NodeClassReference, _offering: &OfferingKey, _at: Timestamp) -> Option<Price> {
        None
    }

    /// What to write into a node class's status: a merge patch, or nothing if nobody writes there.
    fn resolve_class(&self, _class: &Value) -> BoxFuture<'_, Result<Option<Value>, Error>> {
        ready(Ok(None)).boxed()
    }

    /// Launches machines. Outcomes come one by one in any order, exactly one per request; whoever stops reading has crashed, and will
    /// repeat the requests.
    fn launch(&self, batch: Vec<LaunchRequest>) -> BoxStream<'_, LaunchOutcome>;

    /// What became of launches that were pending; one answer per handle, in their order.
    fn poll(&self, handles: Vec<Handle>) -> BoxFuture<'_, Vec<Result<Launch, Error>>> {
        ready(handles.iter().map(unknown_handle).collect()).boxed()
    }

    /// Gives launches up that are pending, with whatever they have made so far; one answer per handle, in their order. Repeated until it
    /// answers [`Terminated::Gone`].
    fn cancel(&self, handles: Vec<Handle>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        ready(handles.iter().map(|_| Ok(Terminated::Gone)).collect()).boxed()
    }

    /// The machine of a claim, if one was launched: asked when an outcome was lost.
    fn find_by_claim(&self, uid: &str) -> BoxFuture<'_, Result<Option<Launched>, Error>>;

    /// Takes over machines that were launched before a restart and whose Nodes have not joined.
    fn adopt(&self, _machines: Vec<Unregistered>, _now: Timestamp) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    /// This process leads no more: what it would still do for machines by itself is dropped. Who leads next hands them over with
    /// [`Provider::adopt`].
    fn stand_down(&self) {}

    /// Ends machines by exactly these ids; one answer per id, in their order.
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>>;

    /// Machines by id, past every cache; `None` = the cloud itself says that there is none. One answer per id, in their order.
    fn get(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Option<Instance>, Error>>>;

    /// All machines of this cluster, read page by page as the stream is. An error ends it: the list is then not whole and proves no absence.
    fn list(&self) -> BoxStream<'_, Result<Listed, Error>>;

    /// Whether a machine is no longer what its class asks for, beyond what joiner compares for all clouds.
    fn drift(&self, _claim: &NodeClaim, _observed: &Observed<'_>) -> Option<Drift> {
        None
    }

    /// Conditions of Nodes that are repaired by replacement.
    fn repair_policies(&self) -> &[RepairPolicy] {
        &[]
    }

    /// How its Nodes join.
    fn registration_policy(&self) -> RegistrationPolicy {
        RegistrationPolicy::default()
    }

    /// Points at which [`Provider::hook`] has something to do; at the others it is not called.
    fn hook_points(&self) -> &[HookPoint] {
        &[]
    }

    /// Lets the provider do its part before a machine's life goes on. Repeated until it is done, also after a restart.
    fn hook<'a>(
        &'a self,
        _point: HookPoint,
        _claim: &'a NodeClaim,
        _node: &'a Node,
    ) -> BoxFuture<'a, Result<HookAnswer, Error>> {
        ready(Ok(HookAnswer::Done)).boxed()
    }

    /// What happens to machines without our doing, as it happens. A stream that ends is not asked for again.
    fn interruptions(&self) -> BoxStream<'_, Interruption> {
        stream::pending().boxed()
    }
}

fn unknown_handle(handle: &Handle) -> Result<Launch, Error> {
    Err(Error::Invalid {
        reason: "HandleUnknown".to_owned(),
        message: format!("there is no pending launch `{handle}`: this provider has none"),
    })
}
