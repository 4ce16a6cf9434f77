//! One call of the API server per command, and what its answer means.

use joiner_api::{NodeClaim, NodePool};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions};

use crate::claims::planned_pods;
use crate::command::{Command, Done, Failure};
use crate::executor::NotSent;
use crate::pods::{self, CachedPod};

/// The name under which fields are written.
const MANAGER: &str = "joiner";

/// Why a call did not end well.
#[derive(Debug)]
pub enum Problem {
    /// The server said no: nothing has changed.
    Refused(Failure),
    /// Nobody knows whether it was carried out.
    Unanswered(String),
}

/// The API server as commands see it.
#[derive(Clone)]
pub struct Calls {
    client: Client,
    pub(super) claims: Api<NodeClaim>,
    pub(super) nodes: Api<Node>,
    pub(super) pools: Api<NodePool>,
}

impl Calls {
    /// Calls over a client.
    pub fn new(client: Client) -> Self {
        Self {
            claims: Api::all(client.clone()),
            nodes: Api::all(client.clone()),
            pools: Api::all(client.clone()),
            client,
        }
    }

    /// Pods of a namespace.
    pub fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Sends a command once. The provider's are not among them.
    ///
    /// # Errors
    /// It was refused, or there was no answer.
    pub async fn send(&self, command: &Command) -> Result<Done, Problem> {
        let merge = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let post = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match command {
            Command::CreateClaim(claim) => match self.claims.create(&post, claim).await {
                // Names follow from the plan: this may be what an earlier run of the same plan made.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    let name = claim.metadata.name.as_deref().unwrap_or_default();
                    let found = self.claims.get(name).await.map_err(problem)?;
                    if !is_of_one_plan(claim, &found) {
                        return Err(Problem::Refused(Failure::Conflict));
                    }
                    Ok(claim_done(found))
                }
                answered => answer(answered, claim_done),
            },
            Command::PatchClaim { name, patch } => {
                answer(self.claims.patch(name, &merge, &Patch::Merge(patch)).await, claim_done)
            }
            Command::PatchClaimStatus { name, patch } => {
                answer(self.claims.patch_status(name, &merge, &Patch::Merge(patch)).await, claim_done)
            }
            Command::DeleteClaim { name, uid } => {
                answer(self.claims.delete(name, &exactly(uid)).await, |deleted| {
                    deleted.left().map_or(Done::Nothing, claim_done)
                })
            }
            Command::PatchNode { name, patch } => {
                answer(self.nodes.patch(name, &merge, &Patch::Merge(patch)).await, node_done)
            }
            Command::DeleteNode { name, uid } => {
                answer(self.nodes.delete(name, &exactly(uid)).await, |deleted| {
                    deleted.left().map_or(Done::Nothing, node_done)
                })
            }
            Command::ConfirmEmpty { node } => self.confirm_empty(node).await,
            Command::PatchPool { name, patch } => {
                answer(self.pools.patch(name, &merge, &Patch::Merge(patch)).await, pool_done)
            }
            Command::PatchPoolStatus { name, patch } => {
                answer(self.pools.patch_status(name, &merge, &Patch::Merge(patch)).await, pool_done)
            }
            Command::Evict { namespace, name, uid } => {
                let eviction = EvictParams { delete_options: Some(exactly(uid)), ..EvictParams::default() };
                answer(self.pods(namespace).evict(name, &eviction).await, |_| Done::Nothing)
            }
            Command::DeletePod { namespace, name, uid, grace_seconds } => {
                let deletion = DeleteParams { grace_period_seconds: Some(*grace_seconds), ..exactly(uid) };
                answer(self.pods(namespace).delete(name, &deletion).await, |_| Done::Nothing)
            }
            Command::WriteRecord(map) => {
                let namespace = map.metadata.namespace.as_deref().unwrap_or("default");
                let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
                let name = map.metadata.name.as_deref().unwrap_or_default();
                // Nobody else writes it, and whoever did has nothing to say there.
                answer(api.patch(name, &merge.force(), &Patch::Apply(map)).await, |_| Done::Nothing)
            }
            Command::CreateEvent(event) => {
                let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
                let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
                answer(api.create(&post, event).await, |_| Done::Nothing)
            }
            Command::PatchEvent { namespace, name, patch } => {
                let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
                answer(api.patch(name, &merge, &Patch::Merge(patch)).await, |_| Done::Nothing)
            }
            Command::Terminate { .. }
            | Command::CancelLaunch { .. }
            | Command::EndMachineOf { .. }
            | Command::FindMachine { .. }
            | Command::GrowGroup { .. }
            | Command::RemoveMember { .. } => {
                Err(Problem::Refused(Failure::Other("the API server has no machines".to_owned())))
            }
        }
    }

    /// All claims, from the server itself.
    ///
    /// # Errors
    /// It was refused, or there was no answer.
    pub async fn all_claims(&self) -> Result<Vec<NodeClaim>, Problem> {
        self.claims.list(&ListParams::default()).await.map(|list| list.items).map_err(problem)
    }

    async fn confirm_empty(&self, node: &str) -> Result<Done, Problem> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let found = api.list(&ListParams::default().fields(&format!("spec.nodeName={node}"))).await;
        match found {
            Ok(list) if list.items.iter().any(|pod| pods::is_reschedulable(&CachedPod::new(pod))) => {
                Err(Problem::Refused(Failure::NotEmpty))
            }
            answered => answer(answered, |_| Done::Nothing),
        }
    }
}

/// Whether a claim that was found is the one that was to be made.
pub fn is_of_one_plan(wanted: &NodeClaim, found: &NodeClaim) -> bool {
    let owners = |claim: &NodeClaim| -> Vec<String> {
        claim.metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect()
    };
    planned_pods(wanted).eq(planned_pods(found)) && owners(wanted) == owners(found)
}

fn answer<T>(answered: Result<T, kube::Error>, done: impl FnOnce(T) -> Done) -> Result<Done, Problem> {
    answered.map(done).map_err(problem)
}

/// A claim as the answer to a command.
pub fn claim_done(claim: NodeClaim) -> Done {
    Done::Claim(Box::new(claim))
}

/// A node as the answer to a command.
pub fn node_done(node: Node) -> Done {
    Done::Node(Box::new(node))
}

/// A pool as the answer to a command.
pub fn pool_done(pool: NodePool) -> Done {
    Done::Pool(Box::new(pool))
}

fn exactly(uid: &str) -> DeleteParams {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

/// What an error means for the write that met it.
pub fn problem(error: kube::Error) -> Problem {
    let kube::Error::Api(status) = error else {
        if let kube::Error::Service(cause) = &error
            && cause.is::<NotSent>()
        {
            return Problem::Refused(Failure::Fenced);
        }
        // Some of these happen before anything is sent. Reading the object back costs little and is right for all.
        return Problem::Unanswered(error.to_string());
    };
    let message = status.message.clone();
    let named = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    let failure = match status.code {
        404 if named => Failure::Gone,
        // The kind is not served, or somebody between us and the server does not know the way.
        404 => Failure::Other(format!("the server does not know this kind of object: {message}")),
        409 => Failure::Conflict,
        429 => Failure::Later(message),
        // Several budgets on one pod: nothing we can do, and nothing wrong with the server.
        500 if message.contains("more than one PodDisruptionBudget") => Failure::Later(message),
        408 | 500..=599 => return Problem::Unanswered(message),
        _ => Failure::Other(message),
    };
    Problem::Refused(failure)
}
