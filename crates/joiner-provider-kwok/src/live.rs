//! The provider at work: machines are Nodes that it writes, lists and deletes.
//!
//! A machine exists from the moment it is chosen. With a `nodeRegistrationDelay` its Node appears later; until then the machine is kept in a table, so that
//! listing finds it and ending it stops the Node from ever appearing. After a restart the table is filled again from the claims.
//!
//! A class may bring types of its own ([`own_types`]), and ask for accidents ([`crate::chaos`]): launches that fail, offerings without capacity, stocks that end, Nodes that never
//! appear, machines that vanish or are taken back ([`accidents`]).

mod accidents;
mod classes;
mod instances;
mod own_types;
mod stock;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, ready};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::names::{AWS_GROUP, KWOK_GROUP, kinds};
use joiner_api::nodepool::NodeClassReference;
use joiner_provider::{
    Clock, Error, Instance, Interruption, Launch, LaunchOutcome, LaunchRequest, Launched, Listed,
    NodeClassKind, OfferingKey, Provider, Terminated, TypeFeed, Unregistered,
};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::AbortHandle;

use self::accidents::Accidents;
use self::classes::AwsClasses;
pub use self::classes::TypesOfClass;
use self::instances::{Instances, Standing};
use self::own_types::KwokClasses;
pub use self::own_types::ReadTypes;
use self::stock::Stock;
use crate::Catalogue;
use crate::chaos::Behaviour;
use crate::launch;

/// How long a failed write of a Node waits before the next try.
const RETRY: Duration = Duration::from_secs(1);
/// Nodes asked for in one page.
const PAGE: u32 = 500;
/// Requests of one batch that are under way at the same time.
const AT_ONCE: usize = 32;

/// A machine whose Node has not appeared yet.
struct Pending {
    launched: Launched,
    claim: String,
    claim_uid: Option<String>,
    writer: AbortHandle,
}

/// Machines waiting for their Nodes, by the Node's name.
type Table = Arc<Mutex<BTreeMap<String, Pending>>>;

/// The KWOK provider.
pub struct KwokProvider {
    client: Client,
    nodes: Api<Node>,
    kinds: Vec<NodeClassKind>,
    classes: KwokClasses,
    /// Types of classes of AWS, if they are served.
    aws: Option<AwsClasses>,
    clock: Arc<dyn Clock>,
    /// How long after a node is ready its startup taints go; nothing if that is left to others.
    startup_taints: Option<Duration>,
    pending: Table,
    instances: Instances,
    stock: Stock,
    /// How often launches have failed on purpose, by the claim's uid.
    failed: Mutex<BTreeMap<String, u32>>,
}

impl KwokProvider {
    /// A provider that writes its Nodes through a client.
    pub fn new(client: Client, catalogue: Catalogue, clock: Arc<dyn Clock>) -> Self {
        Self {
            nodes: Api::all(client.clone()),
            kinds: vec![NodeClassKind {
                group: KWOK_GROUP.to_owned(),
                version: "v1alpha1".to_owned(),
                kind: kinds::KWOK_NODE_CLASS.to_owned(),
                plural: "kwoknodeclasses".to_owned(),
            }],
            classes: KwokClasses::new(client.clone(), clock.clone(), catalogue),
            client,
            aws: None,
            clock,
            startup_taints: None,
            pending: Table::default(),
            instances: Instances::default(),
            stock: Stock::default(),
            failed: Mutex::default(),
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

    /// Tells the kubelets of a simulated cluster to take the startup taints off so long after a node is ready: nobody else is there to do it.
    #[must_use]
    pub fn lifting_startup_taints(mut self, after: Duration) -> Self {
        self.startup_taints = Some(after);
        self
    }

    /// The Node of a machine.
    fn node(&self, claim: &NodeClaim, launched: &Launched) -> Node {
        let mut node = launch::node(claim, launched);
        if let Some(after) = self.startup_taints {
            launch::lift_startup_taints(&mut node, claim, after);
        }
        node
    }

    /// How files are read that classes name as the source of their types.
    #[must_use]
    pub fn reading_types(self, read: ReadTypes) -> Self {
        self.classes.read_files(read);
        self
    }

    /// Files may say something else now: classes that name one get what it says.
    pub fn files_changed(&self) {
        self.classes.files_changed();
    }

    /// Offers another list from now on. Machines that were launched stay what they are.
    pub fn set_catalogue(&self, catalogue: Catalogue) {
        self.classes.set_usual(catalogue);
    }

    fn feed_of(&self, class: &NodeClassReference) -> TypeFeed {
        match &self.aws {
            Some(classes) if class.group == AWS_GROUP => classes.feed(&class.name),
            _ => self.classes.feed(&class.name),
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
                        && node.metadata.deletion_timestamp.is_none()
                        && !launch::has_vanished(&node) =>
                {
                    Ok(launched)
                }
                _ => Err(Error::Transient(format!(
                    "node `{name}` is there and was not launched for this claim; waiting for its end"
                ))),
            };
        }
        let reference = &request.claim.spec.node_class_ref;
        let behaviour = behaviour(reference, request.class.as_deref())?;
        self.fail_on_purpose(&behaviour, request.token())?;
        let standing = match behaviour.stocks() {
            [] => BTreeMap::new(),
            _ => self.standing().await?,
        };
        let types = self.feed_of(reference).current();
        let choice = self.stock.take(&name, behaviour.stocks(), &standing, |left| {
            launch::first_offered(&types, &request.offerings, |offering| {
                !behaviour.lacks(request.token(), offering) && left(offering)
            })
        })?;
        // No agent comes to put on the Node what overlays promise.
        let choice =
            request.overlaid.as_deref().map_or(choice, |overlaid| launch::overlaid(choice, overlaid));
        let launched = launch::launched(&request.claim, choice, behaviour.partition(request.token()));
        let node = self.node(&request.claim, &launched);
        let delay = behaviour.registers(request.token()).then(|| behaviour.delay(request.token()));
        if delay.is_some_and(|delay| delay.is_zero()) {
            write(&self.nodes, &node).await.map_err(|error| transient(&error))?;
        } else {
            self.write_later(&request.claim, node, launched.clone(), delay);
        }
        Ok(launched)
    }

    fn fail_on_purpose(&self, behaviour: &Behaviour, uid: &str) -> Result<(), Error> {
        let mut failed = self.failed.lock();
        let before = failed.get(uid).copied().unwrap_or(0);
        if behaviour.fails(uid, before) {
            failed.insert(uid.to_owned(), before + 1);
            return Err(Error::Transient("the node class asks for launches that fail".to_owned()));
        }
        failed.remove(uid);
        Ok(())
    }

    /// Writes a Node after a while, or never.
    fn write_later(&self, claim: &NodeClaim, node: Node, launched: Launched, delay: Option<Duration>) {
        let name = node.name_any();
        let (nodes, table, key) = (self.nodes.clone(), self.pending.clone(), name.clone());
        let clock = self.clock.clone();
        // Held until the entry is in, so that a writer without delay cannot look for it before.
        let mut entries = self.pending.lock();
        let writer = tokio::spawn(async move {
            match delay {
                Some(delay) => clock.sleep(delay).await,
                None => std::future::pending().await,
            }
            while write(&nodes, &node).await.is_err() {
                clock.sleep(RETRY).await;
            }
            table.lock().remove(&key);
        });
        let pending = Pending {
            launched,
            claim: claim.name_any(),
            claim_uid: claim.uid(),
            writer: writer.abort_handle(),
        };
        let earlier = entries.insert(name, pending);
        if let Some(earlier) = earlier {
            earlier.writer.abort();
        }
    }

    async fn terminate_one(&self, id: &str) -> Result<Terminated, Error> {
        let Some(name) = launch::node_name(id) else { return Ok(Terminated::Gone) };
        self.stock.give_back(name);
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
        let standing = self.standing().await?;
        let mut found: Vec<Instance> = standing.into_values().map(|machine| machine.instance).collect();
        found.extend(self.pending.lock().values().map(Pending::instance));
        Ok(found)
    }

    /// The machines whose Nodes are there, by the Node's name.
    async fn standing(&self) -> Result<BTreeMap<String, Standing>, Error> {
        self.instances.follow(&self.nodes, &self.clock);
        match self.instances.all() {
            Some(known) => Ok(known),
            None => self.ask_for_all().await,
        }
    }

    async fn get_one(&self, id: &str) -> Result<Option<Instance>, Error> {
        let Some(name) = launch::node_name(id) else { return Ok(None) };
        if let Some(pending) = self.pending.lock().get(name) {
            return Ok(Some(pending.instance()));
        }
        let node = self.nodes.get_opt(name).await.map_err(|error| transient(&error))?;
        let machine = node.and_then(instances::machine).map(|(_, machine)| machine.instance);
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
            let is_there = |node: &&Node| is_meant(node) && !launch::has_vanished(node);
            if let Some(launched) = nodes.items.iter().find(is_there).and_then(launch::of_node) {
                return Ok(Some(launched));
            }
            match nodes.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(None),
            }
        }
    }

    /// The same, from the server.
    async fn ask_for_all(&self) -> Result<BTreeMap<String, Standing>, Error> {
        let mut found = BTreeMap::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let nodes = self.nodes.list(&page).await.map_err(|error| transient(&error))?;
            let next = nodes.metadata.continue_.filter(|token| !token.is_empty());
            found.extend(nodes.items.into_iter().filter_map(instances::machine));
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
            let status = claim.status.clone().unwrap_or_default();
            // Whoever launched it chose the id; it need not follow from the claim's name.
            let id = status.provider_id.unwrap_or_else(|| launch::provider_id(&claim.name_any()));
            let Some(name) = launch::node_name(&id) else { continue };
            if self.pending.lock().contains_key(name) {
                continue;
            }
            let labels = claim.metadata.labels.clone().unwrap_or_default();
            let launched = Launched {
                provider_id: id.clone(),
                offering: OfferingKey::of_labels(&labels).unwrap_or_default(),
                image_id: None,
                labels,
                // A claim of other hands may not carry it, and without it nobody plays the Node's kubelet.
                annotations: launch::marks(),
                capacity: status.capacity.unwrap_or_default(),
                allocatable: status.allocatable.unwrap_or_default(),
            };
            let behaviour = behaviour(&claim.spec.node_class_ref, class.as_deref()).unwrap_or_default();
            let uid = claim.uid().unwrap_or_default();
            let passed = Duration::try_from(now.duration_since(launched_at)).unwrap_or_default();
            let delay = behaviour.registers(&uid).then(|| behaviour.delay(&uid).saturating_sub(passed));
            let node = self.node(&claim, &launched);
            self.write_later(&claim, node, launched, delay);
        }
        ready(()).boxed()
    }

    fn stand_down(&self) {
        for (_, pending) in std::mem::take(&mut *self.pending.lock()) {
            pending.writer.abort();
        }
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

    fn interruptions(&self) -> BoxStream<'_, Interruption> {
        let accidents = Accidents::new(self);
        stream::unfold(accidents, |mut accidents| async move { Some((accidents.next().await, accidents)) })
            .boxed()
    }
}

impl Pending {
    fn instance(&self) -> Instance {
        Instance {
            provider_id: self.launched.provider_id.clone(),
            claim: Some(self.claim.clone()),
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

/// Writes a Node; one that is there already is the one we wanted to write.
async fn write(nodes: &Api<Node>, node: &Node) -> Result<(), kube::Error> {
    match nodes.create(&PostParams::default(), node).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error),
    }
}

/// How machines of a class behave. What a class of AWS says is not simulated.
fn behaviour(reference: &NodeClassReference, class: Option<&Value>) -> Result<Behaviour, Error> {
    match class {
        None => Err(Error::ClassNotReady("there is no such node class".to_owned())),
        Some(class) if reference.group == KWOK_GROUP => Behaviour::of_class(class),
        Some(_) => Ok(Behaviour::default()),
    }
}

fn transient(error: &kube::Error) -> Error {
    Error::Transient(error.to_string())
}
