//! The door for programs in the same process that have their objects parsed already: no HTTP, no JSON text.
//!
//! What a client writes here passes the same stations as what comes over HTTP (fields, defaults, admission, managers, validation,
//! versions, the garbage collector), because both call the same functions; only the reading of requests and the writing of answers
//! fall away. A controller of a simulation that binds a hundred thousand pods is why it exists.
//!
//! ```
//! # use std::sync::Arc;
//! # use joiner_apiserver::service::{ApiServer, Settings};
//! # use serde_json::json;
//! # fn main() -> Result<(), joiner_apiserver::rest::Failure> {
//! let server = ApiServer::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), &Settings::default());
//! let door = server.direct("example");
//! let maps = door.resource("", "configmaps")?;
//! let map = door.create(&maps, "default", json!({"metadata": {"name": "a"}, "data": {"k": "v"}}))?;
//! assert_eq!(map["data"]["k"], "v");
//! assert_eq!(map["metadata"]["managedFields"][0]["manager"], "example");
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use futures::Stream;
use serde_json::{Value, json};

use crate::resources::{Resource, Resources};
use crate::rest::{
    self, Core, DeleteOptions, Failure, FieldValidation, PatchLanguage, Target, WriteOptions, meta_text,
};
use crate::selector::LabelSelector;
use crate::store::{ChangeKind, Expired, Listed, Stored, Watch};

pub use crate::rest::Restored;

/// A client without a connection. Its methods do not wait: where objects are kept in a folder,
/// [`saved`](crate::service::ApiServer::saved) tells when they are safe.
#[derive(Clone)]
pub struct Direct {
    core: Arc<Core>,
    options: WriteOptions,
}

/// What a delete left behind.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// Nothing; the last state of the object.
    Gone(Stored),
    /// The object, which waits for its grace period or its finalizers.
    Held(Stored),
}

impl Direct {
    pub(crate) fn new(core: Arc<Core>, manager: &str) -> Self {
        let options = WriteOptions {
            dry_run: false,
            manager: manager.to_owned(),
            validation: FieldValidation::Strict,
            force: false,
        };
        Self { core, options }
    }

    /// The same client, whose writes lose fields that nobody knows instead of being refused for them.
    #[must_use]
    pub fn forgiving(mut self) -> Self {
        self.options.validation = FieldValidation::Ignore;
        self
    }

    /// A resource in the version that discovery prefers.
    ///
    /// # Errors
    /// There is none.
    pub fn resource(&self, group: &str, plural: &str) -> Result<Arc<Resource>, Failure> {
        let found = self.core.with_resources(|all| {
            let versions = |resources: &&Resources| {
                let group = resources.groups().iter().find(|known| known.name == group);
                group.into_iter().flat_map(|group| group.versions.clone()).collect::<Vec<_>>()
            };
            all.iter().find_map(|resources| {
                let mut versions = versions(resources).into_iter();
                versions.find_map(|version| resources.find(group, &version, plural).cloned())
            })
        });
        found.ok_or_else(Failure::unknown_resource)
    }

    /// The resource of a kind in a version, `apps/v1` and `Deployment`.
    ///
    /// # Errors
    /// There is none.
    pub fn resource_of_kind(&self, api_version: &str, kind: &str) -> Result<Arc<Resource>, Failure> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = self.core.with_resources(|all| {
            all.iter().find_map(|resources| resources.of_kind(group, version, kind).cloned())
        });
        found.ok_or_else(Failure::unknown_resource)
    }

    /// A uid that nobody has.
    pub fn new_uid(&self) -> String {
        self.core.chance.uid()
    }

    /// Makes an object of another cluster ready for [`put_restored`](Self::put_restored): its uid, age and status are kept. Several may
    /// be made ready at a time.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn prepare_restored(&self, resource: &Arc<Resource>, object: Value) -> Result<Restored, Failure> {
        rest::prepare_restored(&self.core, resource, object)
    }

    /// Puts objects where they belong, owners before what they own: an object whose owner is not there is garbage.
    ///
    /// # Errors
    /// One of them is there already or has no namespace; it is named.
    pub fn put_restored(&self, objects: Vec<Restored>) -> Result<(), (String, Failure)> {
        rest::put_restored(&self.core, objects)
    }

    fn target<'a>(&'a self, resource: &'a Arc<Resource>, namespace: &'a str, name: &'a str) -> Target<'a> {
        Target { core: &self.core, resource, namespace, name, subresource: "" }
    }

    /// One object. Namespaces of objects outside namespaces are empty.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn get(&self, resource: &Arc<Resource>, namespace: &str, name: &str) -> Result<Stored, Failure> {
        let found = self.target(resource, namespace, name).stored(&self.core.store.open())?;
        Ok(rest::shown(resource, found))
    }

    /// The objects of a namespace, or of all, in order, and the version of the list: a watch can go on from there.
    pub fn list(
        &self,
        resource: &Arc<Resource>,
        namespace: Option<&str>,
        labels: &LabelSelector,
    ) -> (Vec<Stored>, u64) {
        let (found, revision) = {
            let session = self.core.store.open();
            (session.list(&resource.stored_as, namespace, None), session.revision())
        };
        let found = found.into_iter().map(|(_, object)| object).filter(|object| labels.matches(object));
        (found.map(|object| rest::shown(resource, object)).collect(), revision)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn create(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        object: Value,
    ) -> Result<Stored, Failure> {
        let object = rest::checked(resource, object, self.options.validation)?;
        rest::create_new(&self.core, resource, namespace, object, &self.options)
    }

    /// Replaces an object, found by its own name and namespace. With a resource version it must be the present one.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn update(&self, resource: &Arc<Resource>, object: Value) -> Result<Stored, Failure> {
        self.replace(resource, object, "")
    }

    /// Replaces the status of an object.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn update_status(&self, resource: &Arc<Resource>, object: Value) -> Result<Stored, Failure> {
        if !resource.has_status() {
            return Err(Failure::unknown_resource());
        }
        self.replace(resource, object, "status")
    }

    fn replace(&self, resource: &Arc<Resource>, object: Value, subresource: &str) -> Result<Stored, Failure> {
        let object = rest::checked(resource, object, self.options.validation)?;
        let (namespace, name) =
            (meta_text(&object, "namespace").to_owned(), meta_text(&object, "name").to_owned());
        let target = Target { subresource, ..self.target(resource, &namespace, &name) };
        rest::replace(&target, object, &self.options).map(|(_, stored)| stored)
    }

    /// Patches an object, or with a subresource (`status`, `resize`, `finalize`) the side of it that has a path of its own.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn patch(
        &self,
        resource: &Arc<Resource>,
        (namespace, name): (&str, &str),
        subresource: &str,
        language: PatchLanguage,
        patch: Value,
    ) -> Result<Stored, Failure> {
        let known = match subresource {
            "" => true,
            "status" | "resize" | "finalize" => resource.subresource(subresource).is_some(),
            _ => false,
        };
        if !known {
            return Err(Failure::unknown_resource());
        }
        let target = Target { subresource, ..self.target(resource, namespace, name) };
        rest::patch_object(&target, language, patch, &self.options).map(|(_, stored, _)| stored)
    }

    /// Deletes an object as far as its grace period and its finalizers allow.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn delete(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Failure> {
        Ok(match rest::delete_target(&self.target(resource, namespace, name), options)? {
            rest::Outcome::Gone(last) => Deleted::Gone(last),
            rest::Outcome::Held(object) => Deleted::Held(object),
        })
    }

    /// Binds a pod to a node, as a scheduler does.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<(), Failure> {
        let pods = self.resource("", "pods")?;
        let binding = json!({"target": {"kind": "Node", "name": node}});
        rest::bind_pod(&self.target(&pods, namespace, pod), &binding, &self.options)
    }

    /// As [`Direct::bind`], if the pod still is the one with this uid.
    ///
    /// # Errors
    /// The server refuses it.
    pub fn bind_exactly(&self, namespace: &str, pod: &str, uid: &str, node: &str) -> Result<(), Failure> {
        let pods = self.resource("", "pods")?;
        let binding = json!({"metadata": {"uid": uid}, "target": {"kind": "Node", "name": node}});
        rest::bind_pod(&self.target(&pods, namespace, pod), &binding, &self.options)
    }

    /// All objects with their keys (`namespace/name`, or the name alone), in order, and the version of the list.
    pub fn present(&self, resource: &Arc<Resource>) -> (Listed, u64) {
        let session = self.core.store.open();
        let found = session.list(&resource.stored_as, None, None);
        let revision = session.revision();
        drop(session);
        let shown = found.into_iter().map(|(key, object)| (key, rest::shown(resource, object)));
        (shown.collect(), revision)
    }

    /// Deletes a pod if its disruption budget allows.
    ///
    /// # Errors
    /// The server refuses it; code 429 when it is the budget that does.
    pub fn evict(&self, namespace: &str, pod: &str, options: &DeleteOptions) -> Result<(), Failure> {
        let pods = self.resource("", "pods")?;
        rest::evict_pod(&self.target(&pods, namespace, pod), options)
    }

    /// The changes of a resource after a version, as they happen.
    ///
    /// # Errors
    /// The history does not reach back to that version.
    pub fn watch(&self, resource: &Arc<Resource>, from: u64) -> Result<Changes, Failure> {
        let store = &self.core.store;
        let watch = store.open().watch(store, &resource.stored_as, from);
        let watch = watch.map_err(|expired| expired_failure(from, expired))?;
        Ok(Changes { watch, resource: resource.clone(), from })
    }
}

fn expired_failure(version: u64, expired: Expired) -> Failure {
    Failure::expired(format!("too old resource version: {version} ({})", expired.oldest))
}

/// A change of an object: what happened, and the object after it; of a deleted one the last state.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub kind: ChangeKind,
    /// Which object: `namespace/name`, or the name alone.
    pub key: Arc<str>,
    /// The object.
    pub object: Stored,
    /// The version of the change.
    pub revision: u64,
}

/// A watch of one resource.
#[derive(Debug)]
pub struct Changes {
    watch: Watch,
    resource: Arc<Resource>,
    from: u64,
}

impl Changes {
    /// Whether there may be something to take.
    pub fn has_moved(&self) -> bool {
        self.watch.has_moved()
    }

    /// The changes not yet taken, without waiting; some hundred at most.
    ///
    /// # Errors
    /// The watch has fallen behind the history.
    pub fn take(&mut self) -> Result<Vec<Event>, Failure> {
        let taken = self.watch.take();
        self.events(taken)
    }

    /// Waits until there is something to take, then takes it.
    ///
    /// # Errors
    /// The watch has fallen behind the history.
    pub async fn next(&mut self) -> Result<Vec<Event>, Failure> {
        let taken = self.watch.next().await;
        self.events(taken)
    }

    fn events(&mut self, taken: Result<crate::store::WatchBatch, Expired>) -> Result<Vec<Event>, Failure> {
        let batch = taken.map_err(|expired| expired_failure(self.from, expired))?;
        self.from = batch.seen;
        let events = batch.changes.iter().map(|change| Event {
            kind: change.kind,
            key: change.key.clone(),
            object: rest::shown(&self.resource, Stored::from(&change.object)),
            revision: change.revision,
        });
        Ok(events.collect())
    }

    /// The changes one by one. A failure is the last.
    pub fn into_stream(self) -> impl Stream<Item = Result<Event, Failure>> + Send {
        let start = (Some(self), Vec::new().into_iter());
        futures::stream::unfold(start, |(mut watch, mut taken)| async move {
            loop {
                if let Some(event) = taken.next() {
                    return Some((Ok(event), (watch, taken)));
                }
                match watch.as_mut()?.next().await {
                    Ok(events) => taken = events.into_iter(),
                    Err(failure) => return Some((Err(failure), (None, taken))),
                }
            }
        })
    }
}
