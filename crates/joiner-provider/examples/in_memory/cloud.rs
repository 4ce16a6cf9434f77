//! The pretended cloud: servers in a map, and faults on demand. A real provider's tests put a simulation of its API here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use jiff::Timestamp;
use joiner_api::nodepool::NodeClassReference;
use joiner_api::{NodeClaim, NodeClaimSpec};
use joiner_provider::conformance::{Cloud, Fault, Machine};
use joiner_provider::{LaunchRequest, OfferingKey, Provider, Unavailable, offerings_of_claim};

use crate::provider::MemoryProvider;

/// A server as the cloud describes it.
#[derive(Debug, Clone)]
pub struct Server {
    pub token: String,
    pub name: String,
    /// Given late in a cloud that takes its time.
    pub id: Option<String>,
    pub offering: OfferingKey,
}

/// Why the cloud gives no server.
pub enum Refusal {
    SoldOut,
    Failed(String),
}

#[derive(Default)]
struct State {
    servers: Vec<Server>,
    made: usize,
    process: usize,
    fault: Option<Fault>,
}

impl State {
    fn take_ids(&mut self) {
        for server in self.servers.iter_mut().filter(|server| server.id.is_none()) {
            self.made += 1;
            server.id = Some(format!("memory://{}", self.made));
        }
    }
}

/// The cloud.
#[derive(Clone, Default)]
pub struct MemoryCloud(Arc<Mutex<State>>);

/// The cloud as one process reaches it.
pub struct Connection {
    cloud: MemoryCloud,
    process: usize,
}

impl MemoryCloud {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// One call. Its effect and its answer are two things: the last call before a crash has the one and not the other.
    fn call<T>(&self, work: impl FnOnce(&mut State) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let mut state = self.cloud.state();
        let cut_off = || Err(Refusal::Failed("the connection is cut off".to_owned()));
        if state.process != self.process {
            return cut_off();
        }
        match &mut state.fault {
            Some(Fault::Crash { after_calls: 0 }) => cut_off(),
            Some(Fault::Crash { after_calls }) => {
                *after_calls -= 1;
                let last = *after_calls == 0;
                let answer = work(&mut state);
                if last { cut_off() } else { answer }
            }
            Some(Fault::LostAnswer { after_calls: 0 }) => {
                state.fault = None;
                work(&mut state)?;
                Err(Refusal::Failed("the answer is lost".to_owned()))
            }
            Some(Fault::LostAnswer { after_calls }) => {
                *after_calls -= 1;
                work(&mut state)
            }
            _ => work(&mut state),
        }
    }

    pub fn create(
        &self,
        token: &str,
        name: &Option<String>,
        offering: &OfferingKey,
    ) -> Result<Server, Refusal> {
        let name = name.clone().unwrap_or_default();
        self.call(|state| {
            if let Some(server) = state.servers.iter().find(|server| server.token == token) {
                return Ok(server.clone());
            }
            match &state.fault {
                Some(Fault::BrokenFor(broken)) if *broken == name => {
                    return Err(Refusal::Failed(format!("server `{name}` is broken")));
                }
                Some(Fault::NoCapacity(scarce)) if scarce == offering => return Err(Refusal::SoldOut),
                _ => {}
            }
            let (token, offering) = (token.to_owned(), offering.clone());
            state.servers.push(Server { token, name, id: None, offering });
            if state.fault != Some(Fault::LateIdentity) {
                state.take_ids();
            }
            Ok(state.servers[state.servers.len() - 1].clone())
        })
    }

    pub fn find(&self, is_meant: impl Fn(&Server) -> bool) -> Result<Vec<Server>, String> {
        let found = self.call(|state| {
            let found: Vec<Server> =
                state.servers.iter().filter(|server| is_meant(server)).cloned().collect();
            match (&state.fault, found.first()) {
                (Some(Fault::BrokenFor(broken)), Some(server)) if *broken == server.name => {
                    Err(Refusal::Failed(format!("server `{broken}` is broken")))
                }
                _ => Ok(found),
            }
        });
        found.map_err(message)
    }

    pub fn list(&self) -> Result<Vec<Server>, String> {
        self.call(|state| Ok(state.servers.clone())).map_err(message)
    }

    pub fn delete(&self, is_meant: impl Fn(&Server) -> bool) -> Result<(), String> {
        self.find(&is_meant)?;
        self.call(|state| {
            state.servers.retain(|server| !is_meant(server));
            Ok(())
        })
        .map_err(message)
    }
}

fn message(refusal: Refusal) -> String {
    match refusal {
        Refusal::SoldOut => "sold out".to_owned(),
        Refusal::Failed(message) => message,
    }
}

impl Cloud for MemoryCloud {
    fn provider(&self) -> Arc<dyn Provider> {
        let mut state = self.state();
        state.process += 1;
        state.fault = None;
        Arc::new(MemoryProvider::new(Connection { cloud: self.clone(), process: state.process }))
    }

    fn request(&self, name: &str) -> LaunchRequest {
        let mut claim = NodeClaim::new(name, NodeClaimSpec::default());
        claim.metadata.uid = Some(format!("uid-of-{name}"));
        let class = NodeClassReference {
            group: "memory.example.com".to_owned(),
            kind: "MemoryNodeClass".to_owned(),
            name: "default".to_owned(),
        };
        let nobody = Connection { cloud: self.clone(), process: 0 };
        let types = MemoryProvider::new(nobody).watch_types(&class).current();
        claim.spec.node_class_ref = class;
        let offerings = offerings_of_claim(&claim, &types, &Unavailable::default()).unwrap_or_default();
        LaunchRequest {
            claim: claim.into(),
            class: None,
            offerings: offerings.into(),
            overlaid: None,
            unavailable_subnets: Default::default(),
            deadline: Timestamp::MAX,
        }
    }

    fn machines(&self) -> BoxFuture<'_, Vec<Machine>> {
        let machine =
            |server: &Server| Machine { provider_id: server.id.clone(), claim_uid: server.token.clone() };
        ready(self.state().servers.iter().map(machine).collect()).boxed()
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        self.state().take_ids();
        ready(()).boxed()
    }

    fn inject(&self, fault: Fault) -> bool {
        self.state().fault = Some(fault);
        true
    }
}
