//! The provider at work: machines are Nodes that it writes, lists and deletes.
//!
//! A machine exists from the moment it is chosen. With a `nodeRegistrationDelay` its Node appears later; until then the machine is kept in a table, so that
//! listing finds it and ending it stops the Node from ever appearing. After a restart the table is filled again from the claims.

mod instances;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use joiner_api::names::{AWS_GROUP, KWOK_GROUP, kinds};
use joiner_api::nodepool::NodeClassReference;
use joiner_provider::{
    Clock, Error, Instance, LaunchRequest, Launched, NodeClassKind, Provider, Terminated, TypeSet,
    Unregistered,
};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use self::instances::Instances;
use crate::Catalogue;
use crate::launch::{self, PROVIDER_ID_PREFIX};

/// How long a failed write of a Node waits before the next try.
const RETRY: Duration = Duration::from_secs(1);
/// Nodes asked for in one page.
const PAGE: u32 = 500;

/// A machine whose Node has not appeared yet.
struct Pending {
    launched: Launched,
    writer: AbortHandle,
}

/// Machines waiting for their Nodes, by claim.
type Table = Arc<Mutex<BTreeMap<String, Pending>>>;

/// The KWOK provider.
pub struct KwokProvider {
    nodes: Api<Node>,
    kinds: Vec<NodeClassKind>,
    types: Arc<TypeSet>,
    /// Types of classes of AWS, if they differ from those of the others. Many clusters never ask for them.
    types_of_aws: Option<OnceLock<Arc<TypeSet>>>,
    clock: Arc<dyn Clock>,
    seed: u64,
    pending: Table,
    instances: Instances,
}

impl KwokProvider {
    /// A provider that writes its Nodes through a client. Equal seeds choose equally among offerings of one price.
    pub fn new(client: Client, catalogue: Catalogue, clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self {
            nodes: Api::all(client),
            kinds: vec![NodeClassKind {
                group: KWOK_GROUP.to_owned(),
                version: "v1alpha1".to_owned(),
                kind: kinds::KWOK_NODE_CLASS.to_owned(),
                plural: "kwoknodeclasses".to_owned(),
            }],
            types: type_set(catalogue),
            types_of_aws: None,
            clock,
            seed,
            pending: Table::default(),
            instances: Instances::default(),
        }
    }

    /// Serves classes of AWS too: with the shipped list of AWS, or with the types that all other classes have. What such a class says is not
    /// simulated.
    #[must_use]
    pub fn serving_aws(mut self, same_types: bool) -> Self {
        self.kinds.push(NodeClassKind {
            group: AWS_GROUP.to_owned(),
            version: "v1".to_owned(),
            kind: kinds::EC2_NODE_CLASS.to_owned(),
            plural: "ec2nodeclasses".to_owned(),
        });
        self.types_of_aws = (!same_types).then(OnceLock::new);
        self
    }

    fn types_of(&self, class: &NodeClassReference) -> &Arc<TypeSet> {
        match &self.types_of_aws {
            Some(types) if class.group == AWS_GROUP => types.get_or_init(|| type_set(Catalogue::aws())),
            _ => &self.types,
        }
    }

    async fn launch_one(&self, request: &LaunchRequest) -> Result<Launched, Error> {
        let name = request.claim.name_any();
        if let Some(pending) = self.pending.lock().get(&name) {
            return Ok(pending.launched.clone());
        }
        // Whatever an earlier call chose stays chosen, also if the catalogue or the stock is another one today.
        if let Some(node) = self.nodes.get_opt(&name).await.map_err(|error| transient(&error))?
            && let Some(launched) = launch::of_node(&node)
            && launched.provider_id == launch::provider_id(&name)
        {
            return Ok(launched);
        }
        let delay = registration_delay(request.class.as_deref())?;
        let types = self.types_of(&request.claim.spec.node_class_ref);
        let choice = launch::choose(&request.claim, &types.types, self.seed, &request.unavailable)?;
        let launched = launch::launched(&request.claim, choice);
        let node = launch::node(&request.claim, &launched);
        if delay.is_zero() {
            write(&self.nodes, &node).await.map_err(|error| transient(&error))?;
        } else {
            self.write_later(name, node, launched.clone(), delay);
        }
        Ok(launched)
    }

    fn write_later(&self, name: String, node: Node, launched: Launched, delay: Duration) {
        let (nodes, table, key) = (self.nodes.clone(), self.pending.clone(), name.clone());
        let clock = self.clock.clone();
        // Held until the entry is in, so that a writer without delay cannot look for it before.
        let mut entries = self.pending.lock();
        let writer = tokio::spawn(async move {
            clock.sleep(delay).await;
            while write(&nodes, &node).await.is_err() {
                clock.sleep(RETRY).await;
            }
            table.lock().remove(&key);
        });
        let earlier = entries.insert(name, Pending { launched, writer: writer.abort_handle() });
        if let Some(earlier) = earlier {
            earlier.writer.abort();
        }
    }

    async fn terminate_one(&self, id: &str) -> Result<Terminated, Error> {
        let Some(name) = id.strip_prefix(PROVIDER_ID_PREFIX) else { return Ok(Terminated::Gone) };
        if let Some(pending) = self.pending.lock().remove(name) {
            pending.writer.abort();
        }
        let Some(node) = self.nodes.get_opt(name).await.map_err(|error| transient(&error))? else {
            return Ok(Terminated::Gone);
        };
        let own = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(id);
        if own && node.metadata.deletion_timestamp.is_none() {
            let exactly = Preconditions { uid: node.uid(), resource_version: None };
            let deletion = DeleteParams { preconditions: Some(exactly), ..DeleteParams::default() };
            match self.nodes.delete(name, &deletion).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
                Err(error) => return Err(transient(&error)),
            }
        }
        // The Node may live on for a while under its finalizers; the machine behind it does not.
        Ok(Terminated::Gone)
    }

    async fn list_all(&self) -> Result<Vec<Instance>, Error> {
        self.instances.follow(&self.nodes, &self.clock);
        let mut found = match self.instances.all() {
            Some(known) => known,
            None => self.ask_for_all().await?,
        };
        for (claim, pending) in self.pending.lock().iter() {
            let provider_id = pending.launched.provider_id.clone();
            found.push(Instance {
                provider_id,
                claim: Some(claim.clone()),
                created: None,
                terminating: false,
            });
        }
        Ok(found)
    }

    /// The machines whose Nodes are there, from the server.
    async fn ask_for_all(&self) -> Result<Vec<Instance>, Error> {
        let mut found = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let nodes = self.nodes.list(&page).await.map_err(|error| transient(&error))?;
            let next = nodes.metadata.continue_.filter(|token| !token.is_empty());
            found.extend(nodes.items.into_iter().filter_map(instances::machine).map(|(_, machine)| machine));
            match next {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(found),
            }
        }
    }
}

impl Provider for KwokProvider {
    fn name(&self) -> &'static str {
        "kwok"
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        &self.kinds
    }

    fn types(&self, class: &NodeClassReference) -> Arc<TypeSet> {
        self.types_of(class).clone()
    }

    fn launch(&self, requests: Vec<LaunchRequest>) -> BoxFuture<'_, Vec<Result<Launched, Error>>> {
        async move {
            let mut outcomes = Vec::with_capacity(requests.len());
            for request in &requests {
                outcomes.push(self.launch_one(request).await);
            }
            outcomes
        }
        .boxed()
    }

    fn adopt(&self, machines: Vec<Unregistered>, now: Timestamp) -> BoxFuture<'_, ()> {
        for Unregistered { claim, class, launched_at } in machines {
            let name = claim.name_any();
            if self.pending.lock().contains_key(&name) {
                continue;
            }
            let status = claim.status.clone().unwrap_or_default();
            let launched = Launched {
                provider_id: launch::provider_id(&name),
                image_id: None,
                labels: claim.metadata.labels.clone().unwrap_or_default(),
                annotations: BTreeMap::new(),
                capacity: status.capacity.unwrap_or_default(),
                allocatable: status.allocatable.unwrap_or_default(),
            };
            let delay = registration_delay(class.as_deref()).unwrap_or_default();
            let passed = Duration::try_from(now.duration_since(launched_at)).unwrap_or_default();
            let node = launch::node(&claim, &launched);
            self.write_later(name, node, launched, delay.saturating_sub(passed));
        }
        futures::future::ready(()).boxed()
    }

    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        async move {
            let mut outcomes = Vec::with_capacity(ids.len());
            for id in &ids {
                outcomes.push(self.terminate_one(id).await);
            }
            outcomes
        }
        .boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, Error>> {
        self.list_all().boxed()
    }
}

impl Drop for KwokProvider {
    fn drop(&mut self) {
        for pending in self.pending.lock().values() {
            pending.writer.abort();
        }
    }
}

fn type_set(catalogue: Catalogue) -> Arc<TypeSet> {
    let Catalogue { types, well_known, .. } = catalogue;
    Arc::new(TypeSet { generation: 1, types, well_known })
}

/// Writes a Node; one that is there already is the one we wanted to write.
async fn write(nodes: &Api<Node>, node: &Node) -> Result<(), kube::Error> {
    match nodes.create(&PostParams::default(), node).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error),
    }
}

fn registration_delay(class: Option<&serde_json::Value>) -> Result<Duration, Error> {
    let Some(class) = class else {
        return Err(Error::NodeClassNotReady("there is no such node class".to_owned()));
    };
    let Some(text) = class.pointer("/spec/nodeRegistrationDelay").and_then(|delay| delay.as_str()) else {
        return Ok(Duration::ZERO);
    };
    let delay = joiner_api::duration::Duration::parse(text)
        .map_err(|error| Error::NodeClassNotReady(format!("spec.nodeRegistrationDelay: {error}")))?;
    Ok(Duration::from_nanos(delay.nanos().max(0).unsigned_abs()))
}

fn transient(error: &kube::Error) -> Error {
    Error::Transient(error.to_string())
}
