//! The cloud as joiner meets it in a simulation: KWOK's provider, whose answers may be lost, and which the referee hears.

use std::sync::Arc;

use futures::future::{BoxFuture, pending, ready};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use joiner_api::nodepool::NodeClassReference;
use joiner_provider::{
    Error, Handle, HookAnswer, HookPoint, Instance, Interruption, Launch, LaunchOutcome, LaunchRequest,
    Launched, Listed, NodeClassKind, Provider, RegistrationPolicy, RepairPolicy, Terminated, TypeFeed,
    Unregistered,
};
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use crate::simulate::happening::What;
use crate::simulate::outside::{Fate, Way};

/// A provider behind the way outside.
pub struct Cloud {
    inner: Arc<dyn Provider>,
    way: Way,
}

fn no_answer() -> Error {
    Error::Transient("connection reset by peer".to_owned())
}

fn unavailable() -> Error {
    Error::Throttled { retry_after: std::time::Duration::from_secs(5) }
}

impl Cloud {
    /// The provider, met through this way.
    pub fn new(inner: Arc<dyn Provider>, way: Way) -> Self {
        Self { inner, way }
    }

    /// Carries a call out, or not, as its fate is; answers are one per item.
    async fn call<T, A>(
        &self,
        what: &str,
        is_read: bool,
        count: usize,
        work: impl Future<Output = Vec<Result<A, Error>>>,
        heard: T,
    ) -> Vec<Result<A, Error>>
    where
        T: FnOnce(&[Result<A, Error>]),
    {
        let failed = |error: fn() -> Error| (0..count).map(|_| Err(error())).collect();
        let fate = self.way.fate(&format!("cloud {what}"), is_read, false);
        match fate {
            Fate::Instead(_) => return failed(unavailable),
            Fate::NotSent => return failed(no_answer),
            Fate::Void => return pending().await,
            _ => {}
        }
        let answers = work.await;
        heard(&answers);
        match fate {
            Fate::After(_) | Fate::Lost => failed(no_answer),
            Fate::Silence => pending().await,
            _ => answers,
        }
    }

    fn ended(&self, machine: &str) {
        self.way.referee().machine(What::Ended { machine: machine.to_owned() });
    }
}

impl Provider for Cloud {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }
    fn well_known_labels(&self) -> &[&'static str] {
        self.inner.well_known_labels()
    }
    fn restricted_domains(&self) -> &[&'static str] {
        self.inner.restricted_domains()
    }
    fn watch_types(&self, class: &NodeClassReference) -> TypeFeed {
        self.inner.watch_types(class)
    }
    fn resolve_class(&self, class: &Value) -> BoxFuture<'_, Result<Option<Value>, Error>> {
        self.inner.resolve_class(class)
    }
    fn launch(&self, batch: Vec<LaunchRequest>) -> BoxStream<'_, LaunchOutcome> {
        let fate = self.way.fate("cloud launch", false, false);
        let refused = match fate {
            Fate::Instead(_) => Some(unavailable()),
            Fate::NotSent => Some(no_answer()),
            Fate::Void => return stream::pending().boxed(),
            _ => None,
        };
        if let Some(error) = refused {
            let answers: Vec<LaunchOutcome> = batch
                .iter()
                .map(|request| LaunchOutcome {
                    token: request.token().to_owned(),
                    result: Err(error.clone()),
                })
                .collect();
            return stream::iter(answers).boxed();
        }
        let heard = self.inner.launch(batch).inspect(|outcome| {
            if let Ok(Launch::Launched(launched)) = &outcome.result {
                let (claim_uid, machine) = (outcome.token.clone(), launched.provider_id.clone());
                self.way.referee().machine(What::Launched { claim_uid, machine });
            }
        });
        match fate {
            Fate::After(_) | Fate::Lost => heard.filter(|_| ready(false)).boxed(),
            Fate::Silence => heard.filter(|_| ready(false)).chain(stream::pending()).boxed(),
            _ => heard.boxed(),
        }
    }
    fn poll(&self, handles: Vec<Handle>) -> BoxFuture<'_, Vec<Result<Launch, Error>>> {
        self.inner.poll(handles)
    }
    fn cancel(&self, handles: Vec<Handle>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        let count = handles.len();
        async move { self.call("cancel", false, count, self.inner.cancel(handles), |_| {}).await }.boxed()
    }
    fn find_by_claim(&self, uid: &str) -> BoxFuture<'_, Result<Option<Launched>, Error>> {
        let uid = uid.to_owned();
        async move {
            let asked = self.inner.find_by_claim(&uid).map(|answer| vec![answer]);
            let heard = |answers: &[Result<Option<Launched>, Error>]| {
                if let [Ok(None)] = answers {
                    self.way.referee().machine(What::NoneFor { claim_uid: uid.clone() });
                }
            };
            let answers = self.call("find", true, 1, asked, heard).await;
            answers.into_iter().next().unwrap_or_else(|| Err(no_answer()))
        }
        .boxed()
    }
    fn adopt(&self, machines: Vec<Unregistered>, now: Timestamp) -> BoxFuture<'_, ()> {
        self.inner.adopt(machines, now)
    }
    fn stand_down(&self) {
        self.inner.stand_down();
    }
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        async move {
            let work = async {
                for machine in &ids {
                    self.way.referee().machine(What::EndAsked { machine: machine.clone() });
                }
                self.inner.terminate(ids.clone()).await
            };
            let heard = |answers: &[Result<Terminated, Error>]| {
                for (id, answer) in ids.iter().zip(answers) {
                    if matches!(answer, Ok(Terminated::Gone)) {
                        self.ended(id);
                    }
                }
            };
            self.call("terminate", false, ids.len(), work, heard).await
        }
        .boxed()
    }
    fn get(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Option<Instance>, Error>>> {
        async move {
            let heard = |answers: &[Result<Option<Instance>, Error>]| {
                for (id, answer) in ids.iter().zip(answers) {
                    if matches!(answer, Ok(None)) {
                        self.ended(id);
                    }
                }
            };
            self.call("get", true, ids.len(), self.inner.get(ids.clone()), heard).await
        }
        .boxed()
    }
    fn list(&self) -> BoxStream<'_, Result<Listed, Error>> {
        match self.way.fate("cloud list", true, false) {
            Fate::Fine => self.inner.list(),
            Fate::Void | Fate::Silence => stream::pending().boxed(),
            // Some of it comes, and then no more: such a list proves nothing.
            Fate::After(_) | Fate::Lost => {
                self.inner.list().take(1).chain(stream::iter([Err(no_answer())])).boxed()
            }
            Fate::Instead(_) | Fate::NotSent => stream::iter([Err(no_answer())]).boxed(),
        }
    }
    fn repair_policies(&self) -> &[RepairPolicy] {
        self.inner.repair_policies()
    }
    fn registration_policy(&self) -> RegistrationPolicy {
        self.inner.registration_policy()
    }
    fn hook_points(&self) -> &[HookPoint] {
        self.inner.hook_points()
    }
    fn hook<'a>(
        &'a self,
        point: HookPoint,
        claim: &'a joiner_api::NodeClaim,
        node: &'a Node,
    ) -> BoxFuture<'a, Result<HookAnswer, Error>> {
        self.inner.hook(point, claim, node)
    }
    fn interruptions(&self) -> BoxStream<'_, Interruption> {
        self.inner.interruptions()
    }
}
