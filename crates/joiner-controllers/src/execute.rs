//! Carries commands out: the one place that writes to the API server or calls the provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_api::{NodeClaim, NodePool};
use joiner_provider::{Error, GroupKind, Provider, Registry, Terminated};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::Value;

use crate::command::{Command, Done, Failure};
use crate::pods;

/// The name under which fields are written.
const MANAGER: &str = "joiner";

/// The doors to the outside.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    registry: Registry,
    claims: Api<NodeClaim>,
    nodes: Api<Node>,
    pools: Api<NodePool>,
}

impl Executor {
    /// An executor over a client and providers.
    pub fn new(client: Client, registry: Registry) -> Self {
        Self {
            claims: Api::all(client.clone()),
            nodes: Api::all(client.clone()),
            pools: Api::all(client.clone()),
            client,
            registry,
        }
    }

    /// Carries out one after the other; the first failure is the last answer.
    pub async fn run_in_order(&self, commands: &[Command]) -> Vec<Result<Done, Failure>> {
        let mut versions = Versions::default();
        let mut answers = Vec::with_capacity(commands.len());
        for command in commands {
            let answer = self.run(&versions.follow(command)).await;
            let failed = answer.is_err();
            if let Ok(done) = &answer {
                versions.learn(command, done);
            }
            answers.push(answer);
            if failed {
                break;
            }
        }
        answers
    }

    /// Carries out commands that have nothing to do with each other.
    pub async fn run_each(&self, commands: &[Command], at_once: usize) -> Vec<Result<Done, Failure>> {
        let mut answers = Vec::with_capacity(commands.len());
        for chunk in commands.chunks(at_once.max(1)) {
            answers.extend(futures::future::join_all(chunk.iter().map(|command| self.run(command))).await);
        }
        answers
    }

    async fn run(&self, command: &Command) -> Result<Done, Failure> {
        let merge = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let post = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match command {
            Command::CreateClaim(claim) => match self.claims.create(&post, claim).await {
                Ok(claim) => Ok(Done::Claim(Box::new(claim))),
                // Names follow from the plan: this is what an earlier run of the same plan made.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    let name = claim.metadata.name.as_deref().unwrap_or_default();
                    answer(self.claims.get(name).await, claim_done)
                }
                Err(error) => Err(failure(error)),
            },
            Command::PatchClaim { name, patch } => {
                answer(self.claims.patch(name, &merge, &Patch::Merge(patch)).await, claim_done)
            }
            Command::PatchClaimStatus { name, patch } => {
                answer(self.claims.patch_status(name, &merge, &Patch::Merge(patch)).await, claim_done)
            }
            Command::DeleteClaim { name, uid } => match self.claims.delete(name, &exactly(uid)).await {
                Ok(either) => Ok(either.left().map_or(Done::Nothing, claim_done)),
                Err(error) => Err(failure(error)),
            },
            Command::PatchNode { name, patch } => {
                answer(self.nodes.patch(name, &merge, &Patch::Merge(patch)).await, node_done)
            }
            Command::DeleteNode { name, uid } => match self.nodes.delete(name, &exactly(uid)).await {
                Ok(either) => Ok(either.left().map_or(Done::Nothing, node_done)),
                Err(error) => Err(failure(error)),
            },
            Command::ConfirmEmpty { node } => self.confirm_empty(node).await,
            Command::PatchPool { name, patch } => {
                answer(self.pools.patch(name, &merge, &Patch::Merge(patch)).await, pool_done)
            }
            Command::PatchPoolStatus { name, patch } => {
                answer(self.pools.patch_status(name, &merge, &Patch::Merge(patch)).await, pool_done)
            }
            Command::Evict { namespace, name, uid } => {
                let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
                let eviction = EvictParams { delete_options: Some(exactly(uid)), ..EvictParams::default() };
                answer(api.evict(name, &eviction).await, |_| Done::Nothing)
            }
            Command::DeletePod { namespace, name, uid, grace_seconds } => {
                let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
                let deletion = DeleteParams { grace_period_seconds: Some(*grace_seconds), ..exactly(uid) };
                answer(api.delete(name, &deletion).await, |_| Done::Nothing)
            }
            Command::Terminate { class, provider_id } => {
                machine_done(self.provider(class)?.terminate(vec![provider_id.clone()]).await)
            }
            Command::CancelLaunch { class, handle } => {
                machine_done(self.provider(class)?.cancel(vec![handle.clone()]).await)
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
        }
    }

    fn provider(&self, class: &GroupKind) -> Result<&Arc<dyn Provider>, Failure> {
        let provider = self.registry.provider_of_kind(class);
        provider.ok_or_else(|| Failure::Other(format!("node classes of kind `{class}` are not served here")))
    }

    async fn confirm_empty(&self, node: &str) -> Result<Done, Failure> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let found = api.list(&ListParams::default().fields(&format!("spec.nodeName={node}"))).await;
        match found {
            Ok(list) if list.items.iter().any(pods::is_reschedulable) => Err(Failure::NotEmpty),
            Ok(_) => Ok(Done::Nothing),
            Err(error) => Err(failure(error)),
        }
    }
}

fn answer<T>(result: Result<T, kube::Error>, done: impl FnOnce(T) -> Done) -> Result<Done, Failure> {
    result.map(done).map_err(failure)
}

fn machine_done(outcomes: Vec<Result<Terminated, Error>>) -> Result<Done, Failure> {
    match outcomes.into_iter().next() {
        Some(Ok(terminated)) => Ok(Done::Machine(terminated)),
        Some(Err(error)) => Err(Failure::Provider(error)),
        None => Err(Failure::Other("the provider gave no answer".to_owned())),
    }
}

fn claim_done(claim: NodeClaim) -> Done {
    Done::Claim(Box::new(claim))
}

fn node_done(node: Node) -> Done {
    Done::Node(Box::new(node))
}

fn pool_done(pool: NodePool) -> Done {
    Done::Pool(Box::new(pool))
}

fn exactly(uid: &str) -> DeleteParams {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

fn failure(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => match status.code {
            404 => Failure::Gone,
            409 => Failure::Conflict,
            429 => Failure::Later(status.message.clone()),
            // Several budgets on one pod: nothing we can do, and nothing wrong with the server.
            500 if status.message.contains("more than one PodDisruptionBudget") => {
                Failure::Later(status.message.clone())
            }
            _ => Failure::Other(status.message.clone()),
        },
        error => Failure::Other(error.to_string()),
    }
}

/// Versions that our own writes in a row have made: a later patch of the same object was computed from the version before the first.
#[derive(Default)]
struct Versions(BTreeMap<(&'static str, String), (String, String)>);

impl Versions {
    fn follow(&self, command: &Command) -> Command {
        let mut command = command.clone();
        let Some((object, patch)) = patch_of(&mut command) else { return command };
        if let Some((before, after)) = self.0.get(&object)
            && let Some(version) = patch.pointer_mut("/metadata/resourceVersion")
            && version.as_str() == Some(before)
        {
            *version = Value::from(after.as_str());
        }
        command
    }

    fn learn(&mut self, command: &Command, done: &Done) {
        let mut command = command.clone();
        let Some((object, patch)) = patch_of(&mut command) else { return };
        let before = patch.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::to_owned);
        let after = match done {
            Done::Claim(claim) => claim.metadata.resource_version.clone(),
            Done::Node(node) => node.metadata.resource_version.clone(),
            Done::Pool(pool) => pool.metadata.resource_version.clone(),
            Done::Machine(_) | Done::Nothing => None,
        };
        if let (Some(before), Some(after)) = (before, after) {
            self.0.insert(object, (before, after));
        }
    }
}

fn patch_of(command: &mut Command) -> Option<((&'static str, String), &mut Value)> {
    match command {
        Command::PatchClaim { name, patch } | Command::PatchClaimStatus { name, patch } => {
            Some((("claim", name.clone()), patch))
        }
        Command::PatchNode { name, patch } => Some((("node", name.clone()), patch)),
        Command::PatchPool { name, patch } | Command::PatchPoolStatus { name, patch } => {
            Some((("pool", name.clone()), patch))
        }
        _ => None,
    }
}
