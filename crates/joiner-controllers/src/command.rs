//! What the controllers do to the outside, as values. Steps return commands, the executor carries them out, and what came of them comes
//! back as an event of the loop.
//!
//! Every command may be repeated. Those that take something away name the object by uid; patches of lists carry the version
//! they were made from, so a change in between makes them fail instead of undoing it.

use jiff::Timestamp;
use joiner_api::{NodeClaim, NodePool};
use joiner_provider::{GroupKind, Growth, Handle, HookPoint, NodeGroup, NodeGroupKey, Terminated};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node};
use serde_json::Value;

use crate::decision::Decided;
use crate::record::Note;

/// One write, or one call of the provider.
#[derive(Debug, Clone)]
pub enum Command {
    /// Creates a claim; one of that name is taken for it.
    CreateClaim(Box<NodeClaim>),
    /// Merges into a claim.
    PatchClaim {
        /// Name.
        name: String,
        /// What to merge.
        patch: Value,
    },
    /// Merges into a claim's status.
    PatchClaimStatus {
        /// Name.
        name: String,
        /// What to merge.
        patch: Value,
    },
    /// Deletes a claim.
    DeleteClaim {
        /// Name.
        name: String,
        /// Only this one.
        uid: String,
    },
    /// Merges into a node.
    PatchNode {
        /// Name.
        name: String,
        /// What to merge.
        patch: Value,
    },
    /// Deletes a node.
    DeleteNode {
        /// Name.
        name: String,
        /// Only this one.
        uid: String,
    },
    /// Asks the server itself whether pods that need another place are on a node; fails if so.
    ConfirmEmpty {
        /// Name of the node.
        node: String,
    },
    /// Merges into a pool.
    PatchPool {
        /// Name.
        name: String,
        /// What to merge.
        patch: Value,
    },
    /// Merges into a pool's status.
    PatchPoolStatus {
        /// Name.
        name: String,
        /// What to merge.
        patch: Value,
    },
    /// Asks a pod to leave.
    Evict {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Only this one.
        uid: String,
    },
    /// Deletes a pod whatever its budget says.
    DeletePod {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Only this one.
        uid: String,
        /// Seconds it gets to end.
        grace_seconds: u32,
    },
    /// Ends a machine.
    Terminate {
        /// Kind of its node class, which tells the provider.
        class: GroupKind,
        /// Provider id.
        provider_id: String,
    },
    /// Gives a launch up that is pending.
    CancelLaunch {
        /// Kind of its node class, which tells the provider.
        class: GroupKind,
        /// What the provider calls it.
        handle: Handle,
    },
    /// Ends whatever machine was made for a claim that names none; gone once the provider finds none.
    EndMachineOf {
        /// Kind of its node class, which tells the provider.
        class: GroupKind,
        /// Uid of the claim.
        claim_uid: String,
    },
    /// Asks the provider itself whether there still is a machine.
    FindMachine {
        /// Kind of its node class, which tells the provider.
        class: GroupKind,
        /// Provider id.
        provider_id: String,
    },
    /// Raises the target of a node group, if it still is what this was decided from.
    GrowGroup {
        /// The provider that keeps it.
        provider: String,
        /// Which group, from where to where.
        growth: Growth,
    },
    /// Takes a machine out of its node group and ends it; the group is smaller by it.
    RemoveMember {
        /// The group.
        group: NodeGroupKey,
        /// Only this one.
        provider_id: String,
    },
    /// Writes the last decisions.
    WriteRecord(Box<ConfigMap>),
    /// Writes an event.
    CreateEvent(Box<Event>),
    /// Counts an event up.
    PatchEvent {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// What to merge.
        patch: Value,
    },
}

impl Command {
    /// What it does, as metrics and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CreateClaim(_) => "create_claim",
            Self::PatchClaim { .. } => "patch_claim",
            Self::PatchClaimStatus { .. } => "patch_claim_status",
            Self::DeleteClaim { .. } => "delete_claim",
            Self::PatchNode { .. } => "patch_node",
            Self::DeleteNode { .. } => "delete_node",
            Self::ConfirmEmpty { .. } => "confirm_empty",
            Self::PatchPool { .. } => "patch_pool",
            Self::PatchPoolStatus { .. } => "patch_pool_status",
            Self::Evict { .. } => "evict",
            Self::DeletePod { .. } => "delete_pod",
            Self::Terminate { .. } => "terminate",
            Self::CancelLaunch { .. } => "cancel_launch",
            Self::EndMachineOf { .. } => "end_machine_of_claim",
            Self::FindMachine { .. } => "find_machine",
            Self::GrowGroup { .. } => "grow_group",
            Self::RemoveMember { .. } => "remove_member",
            Self::WriteRecord(_) => "write_record",
            Self::CreateEvent(_) => "create_event",
            Self::PatchEvent { .. } => "patch_event",
        }
    }

    /// What it is about: a name, with the namespace in front where there is one, or a provider id.
    pub fn object(&self) -> String {
        match self {
            Self::CreateClaim(claim) => claim.metadata.name.clone().unwrap_or_default(),
            Self::PatchClaim { name, .. }
            | Self::PatchClaimStatus { name, .. }
            | Self::DeleteClaim { name, .. }
            | Self::PatchNode { name, .. }
            | Self::DeleteNode { name, .. }
            | Self::ConfirmEmpty { node: name }
            | Self::PatchPool { name, .. }
            | Self::PatchPoolStatus { name, .. } => name.clone(),
            Self::Evict { namespace, name, .. }
            | Self::DeletePod { namespace, name, .. }
            | Self::PatchEvent { namespace, name, .. } => format!("{namespace}/{name}"),
            Self::Terminate { provider_id, .. }
            | Self::FindMachine { provider_id, .. }
            | Self::RemoveMember { provider_id, .. } => provider_id.clone(),
            Self::GrowGroup { provider, growth } => format!("{provider}/{}", growth.group),
            Self::EndMachineOf { claim_uid, .. } => claim_uid.clone(),
            Self::CancelLaunch { handle, .. } => handle.0.clone(),
            Self::WriteRecord(map) => map.metadata.name.clone().unwrap_or_default(),
            Self::CreateEvent(event) => event.metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// What came of a command.
#[derive(Debug)]
pub enum Done {
    /// The claim as it is now.
    Claim(Box<NodeClaim>),
    /// The node as it is now.
    Node(Box<Node>),
    /// The pool as it is now.
    Pool(Box<NodePool>),
    /// The node group as it is now.
    Group(NodeGroupKey, Box<NodeGroup>),
    /// How far the end of a machine is.
    Machine(Terminated),
    /// Whether the provider has the machine.
    Found(bool),
    /// Nothing to tell.
    Nothing,
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// Somebody else changed the object.
    #[error("somebody else changed the object")]
    Conflict,
    /// There is no such object.
    #[error("there is no such object")]
    Gone,
    /// A disruption budget says no, or the server asks for patience.
    #[error("{0}")]
    Later(String),
    /// Pods came to the node.
    #[error("pods came to the node")]
    NotEmpty,
    /// It was decided by a leader that leads no more, or the process is ending: it was not sent.
    #[error("decided in an earlier epoch, not sent")]
    Fenced,
    /// Too many calls wait already: it was not sent.
    #[error("too many calls are waiting, not sent")]
    Overloaded,
    /// There was no answer, and the object shows that nothing was done.
    #[error("{0}; it was not carried out")]
    NotDone(String),
    /// There was no answer, and the object cannot be read either.
    #[error("{0}")]
    Unknown(String),
    /// The provider failed.
    #[error("{0}")]
    Provider(joiner_provider::Error),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// Its name in metrics.
    pub fn name(&self) -> &'static str {
        use joiner_provider::Error;
        match self {
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Later(_) => "later",
            Self::NotEmpty => "not_empty",
            Self::Fenced => "fenced",
            Self::Overloaded => "overloaded",
            Self::NotDone(_) => "not_done",
            Self::Unknown(_) => "unknown",
            Self::Provider(Error::NoCapacity { .. }) => "insufficient_capacity",
            Self::Provider(Error::ClassNotReady(_)) => "node_class_not_ready",
            Self::Provider(Error::Throttled { .. }) => "throttled",
            Self::Provider(Error::Denied(_)) => "denied",
            Self::Provider(Error::Quota { .. }) => "quota",
            Self::Provider(Error::Invalid { .. }) => "rejected",
            Self::Provider(Error::Transient(_)) => "transient",
            Self::Other(_) => "failed",
        }
    }
}

/// What reconciling a key leads to.
#[derive(Debug, Default)]
pub struct Step {
    /// To be done first, each whatever becomes of the others.
    pub each: Vec<Command>,
    /// To be done one after the other; the first failure ends it.
    pub commands: Vec<Command>,
    /// When to reconcile again, if nothing happens before.
    pub requeue_at: Option<Timestamp>,
    /// Events to write.
    pub notes: Vec<Note>,
    /// What was decided; the commands carry it out.
    pub decisions: Vec<Decided>,
    /// The claim is to be launched.
    pub launch: bool,
    /// The provider is to be asked whether it has done its part.
    pub hook: Option<HookPoint>,
}

impl Step {
    /// Reconciles again at that time, or at an earlier one that was asked for.
    pub fn requeue_at(&mut self, time: Timestamp) {
        self.requeue_at = Some(self.requeue_at.map_or(time, |have| have.min(time)));
    }
}
