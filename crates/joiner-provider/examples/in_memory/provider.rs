//! The provider: everything that a cloud has to say to joiner, and nothing else.

use std::collections::BTreeMap;

use futures::future::{BoxFuture, ready};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use joiner_api::instance_type::{InstanceType, Offering, ResourceList, TypeRequirement};
use joiner_api::names::{CAPACITY_TYPE_LABEL, INSTANCE_TYPE_LABEL, ON_DEMAND, SPOT, ZONE_LABEL};
use joiner_api::nodepool::NodeClassReference;
use joiner_api::quantity::Quantity;
use joiner_provider::{
    Error, Handle, Instance, Launch, LaunchOutcome, LaunchRequest, Launched, Listed, NodeClassKind, Provider,
    Scope, Terminated, TypeFeed, TypePublisher,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use crate::cloud::{Connection, Refusal, Server};

/// Machines in the memory of a pretended cloud.
pub struct MemoryProvider {
    kinds: Vec<NodeClassKind>,
    types: TypePublisher,
    connection: Connection,
}

impl MemoryProvider {
    pub fn new(connection: Connection) -> Self {
        let kind = NodeClassKind {
            group: "memory.example.com".to_owned(),
            version: "v1".to_owned(),
            kind: "MemoryNodeClass".to_owned(),
            plural: "memorynodeclasses".to_owned(),
        };
        Self { kinds: vec![kind], types: TypePublisher::new(vec![small()], Vec::new()), connection }
    }

    fn launch_one(&self, request: &LaunchRequest) -> Result<Launch, Error> {
        let mut scopes = Vec::new();
        for offering in request.offerings.iter() {
            // The cloud gives the same server to the same token, so neither a lost answer nor a crash makes a second one.
            match self.connection.create(request.token(), &request.claim.metadata.name, &offering.key) {
                Ok(server) => return Ok(self.launch_of(server)),
                Err(Refusal::SoldOut) => {
                    scopes.push(Scope::Offering { class: None, offering: offering.key.clone() });
                }
                Err(Refusal::Failed(message)) => return Err(Error::Transient(message)),
            }
        }
        Err(Error::NoCapacity { scopes, retry_after: None, message: "the memory is full".to_owned() })
    }

    fn launch_of(&self, server: Server) -> Launch {
        let Some(provider_id) = server.id else { return Launch::Pending(Handle(server.token)) };
        let machine = small();
        let texts = |amounts: ResourceList| {
            amounts.into_iter().map(|(name, amount)| (name, Text(amount.to_string()))).collect()
        };
        let labels = [
            (INSTANCE_TYPE_LABEL, Some(server.offering.instance_type.clone())),
            (ZONE_LABEL, server.offering.zone.clone()),
            (CAPACITY_TYPE_LABEL, server.offering.capacity_type.clone()),
        ];
        Launch::Launched(Box::new(Launched {
            provider_id,
            offering: server.offering,
            image_id: None,
            labels: labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect(),
            annotations: BTreeMap::new(),
            capacity: texts(machine.capacity.clone()),
            allocatable: texts(machine.allocatable()),
        }))
    }

    fn end(&self, is_meant: impl Fn(&Server) -> bool) -> Result<Terminated, Error> {
        self.connection.delete(is_meant).map_err(transient)?;
        Ok(Terminated::Gone)
    }
}

impl Provider for MemoryProvider {
    fn name(&self) -> &str {
        "memory"
    }

    fn node_class_kinds(&self) -> &[NodeClassKind] {
        &self.kinds
    }

    fn watch_types(&self, _: &NodeClassReference) -> TypeFeed {
        self.types.feed()
    }

    fn launch(&self, batch: Vec<LaunchRequest>) -> BoxStream<'_, LaunchOutcome> {
        let outcome = |request: LaunchRequest| LaunchOutcome {
            token: request.token().to_owned(),
            result: self.launch_one(&request),
        };
        stream::iter(batch).map(outcome).boxed()
    }

    fn poll(&self, handles: Vec<Handle>) -> BoxFuture<'_, Vec<Result<Launch, Error>>> {
        let poll = |handle: Handle| {
            let found = self.connection.find(|server| server.token == handle.0).map_err(transient)?;
            let unknown = || Error::Transient(format!("there is no launch `{handle}`"));
            found.into_iter().next().map(|server| self.launch_of(server)).ok_or_else(unknown)
        };
        ready(handles.into_iter().map(poll).collect()).boxed()
    }

    fn cancel(&self, handles: Vec<Handle>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        let cancel = |handle: Handle| self.end(|server| server.token == handle.0);
        ready(handles.into_iter().map(cancel).collect()).boxed()
    }

    fn find_by_claim(&self, uid: &str) -> BoxFuture<'_, Result<Option<Launched>, Error>> {
        let found =
            self.connection.find(|server| server.token == uid && server.id.is_some()).map_err(transient);
        let launched = found.map(|servers| {
            servers.into_iter().find_map(|server| match self.launch_of(server) {
                Launch::Launched(launched) => Some(*launched),
                Launch::Pending(_) => None,
            })
        });
        async move { launched }.boxed()
    }

    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        let end = |id: String| self.end(|server| server.id.as_ref() == Some(&id));
        ready(ids.into_iter().map(end).collect()).boxed()
    }

    fn get(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Option<Instance>, Error>>> {
        let get = |id: String| {
            let found = self.connection.find(|server| server.id.as_ref() == Some(&id)).map_err(transient)?;
            Ok(found.into_iter().find_map(instance))
        };
        ready(ids.into_iter().map(get).collect()).boxed()
    }

    fn list(&self) -> BoxStream<'_, Result<Listed, Error>> {
        let listed = match self.connection.list() {
            Ok(servers) => {
                servers.into_iter().filter_map(instance).map(|of| Ok(Listed::Instance(of))).collect()
            }
            Err(message) => vec![Err(transient(message))],
        };
        stream::iter(listed).boxed()
    }
}

fn transient(message: String) -> Error {
    Error::Transient(message)
}

fn instance(server: Server) -> Option<Instance> {
    Some(Instance {
        provider_id: server.id?,
        claim: Some(server.name),
        claim_uid: Some(server.token),
        created: None,
        terminating: false,
    })
}

/// The one type there is.
fn small() -> InstanceType {
    InstanceType {
        name: "small".to_owned(),
        requirements: vec![TypeRequirement::one_of(INSTANCE_TYPE_LABEL, ["small"])],
        offerings: vec![Offering::in_zone("here", SPOT, 0.01), Offering::in_zone("here", ON_DEMAND, 0.03)],
        capacity: [
            ("cpu".to_owned(), Quantity::from_value(2)),
            ("pods".to_owned(), Quantity::from_value(30)),
        ]
        .into(),
        overhead: Default::default(),
        volume_limits: BTreeMap::new(),
    }
}
