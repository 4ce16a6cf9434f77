//! The provider at work: machines are Nodes that it writes, lists and deletes.
//!
//! A machine exists from the moment it is chosen. With a `nodeRegistrationDelay` its Node appears later; until then the machine is kept in a table, so that
//! listing finds it and ending it stops the Node from ever appearing. After a restart the table is filled again from the claims.

mod classes;
mod instances;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, ready};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use joiner_api::names::{AWS_GROUP, KWOK_GROUP, kinds};
use joiner_api::nodepool::NodeClassReference;
use joiner_provider::{
    Clock, Error, Instance, Launch, LaunchOutcome, LaunchRequest, Launched, Listed, NodeClassKind,
    OfferingKey, Provider, Terminated, TypeFeed, TypePublisher, Unregistered,
};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use self::classes::AwsClasses;
pub use self::classes::TypesOfClass;
use self::instances::Instances;
use crate::Catalogue;
use crate::launch::{self, PROVIDER_ID_PREFIX};

/// How long a failed write of a Node waits before the next try.
const RETRY: Duration = Duration::from_secs(1);
/// Nodes asked for in one page.
const PAGE: u32 = 500;
/// Requests of one batch that are under way at the same time.
const AT_ONCE: usize = 32;

/// A machine whose Node has not appeared yet.
struct Pending {
    launched: Launched,
    claim_uid: Option<String>,
    writer: AbortHandle,
}

/// Machines waiting for their Nodes, by claim.
type Table = Arc<Mutex<BTreeMap<String, Pending>>>;

/// The KWOK provider.
pub struct KwokProvider {
    client: Client,
    nodes: Api<Node>,
    kinds: Vec<NodeClassKind>,
    types: TypePublisher,
    /// Types of classes of AWS, if they are served.
    aws: Option<AwsClasses>,
    clock: Arc<dyn Clock>,
    pending: Table,
    instances: Instances,
}

impl KwokProvider {
    /// A provider that writes its Nodes through a client.
    pub fn new(client: Client, catalogue: Catalogue, clock: Arc<dyn Clock>) -> Self {
        Self {
            nodes: Api::all(client.clone()),
            client,
            kinds: vec![NodeClassKind {
                group: KWOK_GROUP.to_owned(),
                version: "v1alpha1".to_owned(),
                kind: kinds::KWOK_NODE_CLASS.to_owned(),
                plural: "kwoknodeclasses".to_owned(),
            }],
            types: published(catalogue),
            aws: None,
            clock,
            pending: Table::default(),
            instances: Instances::default(),
        }
    }

    /// Serves classes of AWS too: each has the types that are made for it.
    #[must_use]
    pub fn serving_aws(mut self, types: TypesOfClass) -> Self {
        self.kinds.push(NodeClassKind {
            group: AWS_GROUP.to_owned(),
            version: "v1".to_owned(),
            kind: kinds::EC2_NODE_CLASS.to_owned(),
            plural: "ec2nodeclasses".to_owned(),
        });
        self.aws = Some(AwsClasses::new(self.client.clone(), self.clock.clone(), types));
        self
    }

    /// Offers another list from now on. Machines that were launched stay what they are.
    pub fn set_catalogue(&self, catalogue: Catalogue) {
        self.types.publish(catalogue.types, catalogue.well_known);
    }

    fn feed_of(&self, class: &NodeClassReference) -> TypeFeed {
        match &self.aws {
            Some(classes) if class.group == AWS_GROUP => classes.feed(&class.name),
            _ => self.types.feed(),
        }
    }

    async fn launch_one(&self, request: &LaunchRequest) -> Result<Launched, Error> {
        let name = request.claim.name_any();
        let uid = request.claim.uid();
        if let Some(pending) = self.pending.lock().get(&name)
            && pending.claim_uid == uid
        {
            return Ok(pending.launched.clone());
        }
        // Whatever an earlier call chose stays chosen, also if the catalogue or the stock is another one today.
        if let Some(node) = self.nodes.get_opt(&name).await.map_err(|error| transient(&error))? {
            let is_same = launch::claim_uid(&node).is_none_or(|of| Some(of) == uid.as_deref());
            return match launch::of_node(&node) {
                Some(launched)
                    if is_same
                        && launched.provider_id == launch::provider_id(&name)
                        && node.metadata.deletion_timestamp.is_none() =>
                {
                    Ok(launched)
                }
                _ => Err(Error::Transient(format!(
                    "node `{name}` is there and was not launched for this claim; waiting for its end"
                ))),
            };
        }
        let delay = registration_delay(request.class.as_deref())?;
        let types = self.feed_of(&request.claim.spec.node_class_ref).current();
        let choice = launch::first_offered(&types, &request.offerings)?;
        let launched = launch::launched(&request.claim, choice);
        let node = launch::node(&request.claim, &launched);
        if delay.is_zero() {
            write(&self.nodes, &node).await.map_err(|error| transient(&error))?;
        } else {
            self.write_later(name, uid, node, launched.clone(), delay);
        }
        Ok(launched)
    }

    fn write_later(
        &self,
        name: String,
        claim_uid: Option<String>,
        node: Node,
        launched: Launched,
        delay: Duration,
    ) {
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
        let earlier = entries.insert(name, Pending { launched, claim_uid, writer: writer.abort_handle() });
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
        found.extend(self.pending.lock().iter().map(|(claim, pending)| pending.instance(claim)));
        Ok(found)
    }

    async fn get_one(&self, id: &str) -> Result<Option<Instance>, Error> {
        let Some(name) = id.strip_prefix(PROVIDER_ID_PREFIX) else { return Ok(None) };
        if let Some(pending) = self.pending.lock().get(name) {
            return Ok(Some(pending.instance(name)));
        }
        let node = self.nodes.get_opt(name).await.map_err(|error| transient(&error))?;
        let machine = node.and_then(instances::machine).map(|(_, machine)| machine);
        Ok(machine.filter(|machine| machine.provider_id == id))
    }

    async fn find(&self, uid: &str) -> Result<Option<Launched>, Error> {
        if let Some(pending) = self.pending.lock().values().find(|of| of.claim_uid.as_deref() == Some(uid)) {
            return Ok(Some(pending.launched.clone()));
        }
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let nodes = self.nodes.list(&page).await.map_err(|error| transient(&error))?;
            let is_meant = |node: &&Node| {
                launch::claim_uid(node) == Some(uid) && node.metadata.deletion_timestamp.is_none()
            };
            if let Some(launched) = nodes.items.iter().find(is_meant).and_then(launch::of_node) {
                return Ok(Some(launched));
            }
            match nodes.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(None),
            }
        }
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

    fn watch_types(&self, class: &NodeClassReference) -> TypeFeed {
        self.feed_of(class)
    }

    fn launch(&self, batch: Vec<LaunchRequest>) -> BoxStream<'_, LaunchOutcome> {
        let outcomes = stream::iter(batch).map(move |request| async move {
            let result = self.launch_one(&request).await;
            LaunchOutcome {
                token: request.token().to_owned(),
                result: result.map(|launched| Launch::Launched(Box::new(launched))),
            }
        });
        outcomes.buffer_unordered(AT_ONCE).boxed()
    }

    fn find_by_claim(&self, uid: &str) -> BoxFuture<'_, Result<Option<Launched>, Error>> {
        let uid = uid.to_owned();
        async move { self.find(&uid).await }.boxed()
    }

    fn adopt(&self, machines: Vec<Unregistered>, now: Timestamp) -> BoxFuture<'_, ()> {
        for Unregistered { claim, class, launched_at } in machines {
            let name = claim.name_any();
            if self.pending.lock().contains_key(&name) {
                continue;
            }
            let status = claim.status.clone().unwrap_or_default();
            let labels = claim.metadata.labels.clone().unwrap_or_default();
            let launched = Launched {
                provider_id: launch::provider_id(&name),
                offering: OfferingKey::of_labels(&labels).unwrap_or_default(),
                image_id: None,
                labels,
                annotations: BTreeMap::new(),
                capacity: status.capacity.unwrap_or_default(),
                allocatable: status.allocatable.unwrap_or_default(),
            };
            let delay = registration_delay(class.as_deref()).unwrap_or_default();
            let passed = Duration::try_from(now.duration_since(launched_at)).unwrap_or_default();
            let node = launch::node(&claim, &launched);
            self.write_later(name, claim.uid(), node, launched, delay.saturating_sub(passed));
        }
        ready(()).boxed()
    }

    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        let each = stream::iter(ids).map(move |id| async move { self.terminate_one(&id).await });
        each.buffered(AT_ONCE).collect().boxed()
    }

    fn get(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Option<Instance>, Error>>> {
        let each = stream::iter(ids).map(move |id| async move { self.get_one(&id).await });
        each.buffered(AT_ONCE).collect().boxed()
    }

    fn list(&self) -> BoxStream<'_, Result<Listed, Error>> {
        let all = stream::once(self.list_all()).flat_map(|listed| match listed {
            Ok(found) => stream::iter(found).map(|machine| Ok(Listed::Instance(machine))).left_stream(),
            Err(error) => stream::once(ready(Err(error))).right_stream(),
        });
        all.boxed()
    }
}

impl Pending {
    fn instance(&self, claim: &str) -> Instance {
        Instance {
            provider_id: self.launched.provider_id.clone(),
            claim: Some(claim.to_owned()),
            claim_uid: self.claim_uid.clone(),
            created: None,
            terminating: false,
        }
    }
}

impl Drop for KwokProvider {
    fn drop(&mut self) {
        for pending in self.pending.lock().values() {
            pending.writer.abort();
        }
    }
}

fn published(catalogue: Catalogue) -> TypePublisher {
    TypePublisher::new(catalogue.types, catalogue.well_known)
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
        return Err(Error::ClassNotReady("there is no such node class".to_owned()));
    };
    let Some(text) = class.pointer("/spec/nodeRegistrationDelay").and_then(|delay| delay.as_str()) else {
        return Ok(Duration::ZERO);
    };
    let delay = joiner_api::duration::Duration::parse(text)
        .map_err(|error| Error::ClassNotReady(format!("spec.nodeRegistrationDelay: {error}")))?;
    Ok(Duration::from_nanos(delay.nanos().max(0).unsigned_abs()))
}

fn transient(error: &kube::Error) -> Error {
    Error::Transient(error.to_string())
}
