//! Instance types that classes bring along: written in the class, kept in a ConfigMap, or in a file.
//!
//! Classes are watched from the first question on, and so are the ConfigMaps that they name. A list takes the place of the one before as a whole. One that cannot be used changes nothing but
//! the condition `InstanceTypesReady` of the class: it says what is wrong, once, together with an event, and the last list that could be used stays. A class that never had one is not ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use joiner_api::names::{KWOK_GROUP, conditions, kinds};
use joiner_api::{KwokConfigMapKey, KwokInstanceTypes, KwokNodeClassSpec};
use joiner_provider::{Clock, TypeFeed, TypePublisher};
use k8s_openapi::api::core::v1::{ConfigMap, Event as Note, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::Catalogue;
use crate::chaos::Behaviour;

/// How long a watch that failed waits before the next try.
const RETRY: Duration = Duration::from_secs(1);
/// So does a condition that could not be written; whoever stands by may not write at all.
const RETELL: Duration = Duration::from_secs(5);
/// The condition of a class that brings types along.
const CONDITION: &str = "InstanceTypesReady";
const LOADED: &str = "InstanceTypesLoaded";
const INVALID: &str = "InstanceTypesInvalid";
/// Who events come from, as with all others.
const COMPONENT: &str = "karpenter";
/// Longer messages are cut; an event takes 1024 bytes.
const LONGEST: usize = 900;

/// Reads a file of instance types by its name.
pub type ReadTypes = Arc<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// The classes of KWOK, with what they offer.
pub(super) struct KwokClasses {
    shared: Arc<Shared>,
    follower: Mutex<Option<AbortHandle>>,
}

struct Shared {
    client: Client,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
    /// Counts what was heard of classes.
    heard: watch::Sender<u64>,
}

#[derive(Default)]
struct Known {
    /// What classes offer that bring nothing along.
    usual: Offer,
    read_file: Option<ReadTypes>,
    classes: BTreeMap<String, Class>,
    published: BTreeMap<String, TypePublisher>,
}

#[derive(Clone, Default)]
struct Offer(Vec<joiner_api::instance_type::InstanceType>, Vec<String>);

impl From<Catalogue> for Offer {
    fn from(Catalogue { types, well_known, .. }: Catalogue) -> Self {
        Self(types, well_known)
    }
}

/// A class as it is now.
#[derive(Default)]
struct Class {
    spec: KwokNodeClassSpec,
    own: Own,
    /// Follows the ConfigMap.
    follower: Tasks,
    /// Writes the condition.
    teller: Tasks,
}

/// The types that a class brings along.
#[derive(Default)]
struct Own {
    source: Option<KwokInstanceTypes>,
    /// The last list that could be used.
    good: Option<Offer>,
    /// What is wrong with the present one.
    problem: Option<String>,
}

/// A task that ends with whoever wanted it.
#[derive(Default)]
struct Tasks(Option<AbortHandle>);

impl Tasks {
    fn replace(&mut self, task: Option<AbortHandle>) {
        if let Some(before) = std::mem::replace(&mut self.0, task) {
            before.abort();
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.replace(None);
    }
}

impl KwokClasses {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>, usual: Catalogue) -> Self {
        let known = Known { usual: usual.into(), ..Known::default() };
        let shared = Shared { client, clock, known: Mutex::new(known), heard: watch::Sender::new(0) };
        Self { shared: Arc::new(shared), follower: Mutex::default() }
    }

    /// How files are read that classes name.
    pub(super) fn read_files(&self, read: ReadTypes) {
        self.shared.known.lock().read_file = Some(read);
    }

    /// The types of a class, from now on.
    pub(super) fn feed(&self, class: &str) -> TypeFeed {
        self.follow();
        let mut known = self.shared.known.lock();
        if let Some(publisher) = known.published.get(class) {
            return publisher.feed();
        }
        let Offer(types, well_known) = known.offer(class);
        let publisher = TypePublisher::new(types, well_known);
        let feed = publisher.feed();
        known.published.insert(class.to_owned(), publisher);
        feed
    }

    /// Classes that bring nothing along offer this from now on.
    pub(super) fn set_usual(&self, catalogue: Catalogue) {
        let mut known = self.shared.known.lock();
        known.usual = catalogue.into();
        let names: Vec<String> = known.published.keys().cloned().collect();
        names.iter().for_each(|name| known.publish(name));
    }

    /// Files may say something else now.
    pub(super) fn files_changed(&self) {
        let known = self.shared.known.lock();
        let of_files = known
            .classes
            .iter()
            .filter_map(|(name, class)| Some((name.clone(), class.own.source.as_ref()?.file.clone()?)));
        let of_files: Vec<(String, String)> = of_files.collect();
        drop(known);
        for (name, file) in of_files {
            self.shared.read_file(&name, &file);
        }
    }

    /// What a class says, if it is there.
    pub(super) fn spec(&self, class: &str) -> Option<KwokNodeClassSpec> {
        self.shared.known.lock().classes.get(class).map(|class| class.spec.clone())
    }

    /// Whether any class has machines that end by themselves.
    pub(super) fn any_ends_machines(&self) -> bool {
        let known = self.shared.known.lock();
        known.classes.values().any(|class| {
            Behaviour::of_spec(class.spec.clone()).is_ok_and(|behaviour| behaviour.ends_machines())
        })
    }

    /// Tells when something was heard of classes. Begins the watch, if it has not begun.
    pub(super) fn heard(&self) -> watch::Receiver<u64> {
        self.follow();
        self.shared.heard.subscribe()
    }

    fn follow(&self) {
        let mut follower = self.follower.lock();
        if follower.is_some() {
            return;
        }
        let shared = self.shared.clone();
        let task = tokio::spawn(async move {
            let mut events = watcher(shared.classes(), watcher::Config::default()).boxed();
            let mut listed = Vec::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => listed.clear(),
                    Ok(Event::InitApply(class)) => {
                        listed.push(class.name_any());
                        shared.take(&class);
                    }
                    Ok(Event::InitDone) => shared.keep(&listed),
                    Ok(Event::Apply(class)) => shared.take(&class),
                    Ok(Event::Delete(class)) => shared.forget(&class.name_any()),
                    Err(_) => shared.clock.sleep(RETRY).await,
                }
            }
        });
        *follower = Some(task.abort_handle());
    }
}

impl Drop for KwokClasses {
    fn drop(&mut self) {
        if let Some(follower) = self.follower.lock().take() {
            follower.abort();
        }
        self.shared.known.lock().classes.clear();
    }
}

impl Known {
    fn offer(&self, class: &str) -> Offer {
        match self.classes.get(class).filter(|class| class.own.source.is_some()) {
            Some(class) => class.own.good.clone().unwrap_or_default(),
            None => self.usual.clone(),
        }
    }

    fn publish(&self, class: &str) {
        if let Some(publisher) = self.published.get(class) {
            let Offer(types, well_known) = self.offer(class);
            publisher.publish(types, well_known);
        }
    }
}

impl Shared {
    fn resource() -> ApiResource {
        let kind = GroupVersionKind::gvk(KWOK_GROUP, "v1alpha1", kinds::KWOK_NODE_CLASS);
        ApiResource::from_gvk_with_plural(&kind, "kwoknodeclasses")
    }

    fn classes(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &Self::resource())
    }

    fn take(self: &Arc<Self>, object: &DynamicObject) {
        let name = object.name_any();
        // A class that cannot be read says so when a machine of it is launched.
        let spec: KwokNodeClassSpec = serde_json::from_value(object.data["spec"].clone()).unwrap_or_default();
        let mut known = self.known.lock();
        let is_new = !known.classes.contains_key(&name);
        let class = known.classes.entry(name.clone()).or_default();
        class.spec = spec;
        let source = class.spec.instance_types_from.clone();
        let had_own = object.data["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|of| of["type"] == CONDITION));
        if source != class.own.source || (is_new && source.is_none() && had_own) {
            class.own.source.clone_from(&source);
            class.follower.replace(None);
            match source {
                None => {
                    class.own = Own::default();
                    known.publish(&name);
                    drop(known);
                    self.tell(&name);
                }
                Some(KwokInstanceTypes { inline: Some(entries), .. }) => {
                    drop(known);
                    self.read(&name, "spec.instanceTypesFrom.inline", Ok(Value::from(entries).to_string()));
                }
                Some(KwokInstanceTypes { config_map: Some(reference), .. }) => {
                    let task = tokio::spawn(self.clone().follow_map(name.clone(), reference));
                    class.follower.replace(Some(task.abort_handle()));
                    known.publish(&name);
                    drop(known);
                }
                Some(KwokInstanceTypes { file: Some(file), .. }) => {
                    drop(known);
                    self.read_file(&name, &file);
                }
                Some(_) => {
                    drop(known);
                    let why =
                        "spec.instanceTypesFrom names no source: give one of inline, configMap and file";
                    self.read(&name, "", Err(why.to_owned()));
                }
            }
        } else {
            drop(known);
        }
        self.heard.send_modify(|count| *count += 1);
    }

    fn forget(&self, name: &str) {
        let mut known = self.known.lock();
        known.classes.remove(name);
        known.publish(name);
        drop(known);
        self.heard.send_modify(|count| *count += 1);
    }

    /// These classes are all there are.
    fn keep(&self, listed: &[String]) {
        let gone: Vec<String> =
            self.known.lock().classes.keys().filter(|name| !listed.contains(name)).cloned().collect();
        gone.iter().for_each(|name| self.forget(name));
    }

    async fn follow_map(self: Arc<Self>, class: String, reference: KwokConfigMapKey) {
        let KwokConfigMapKey { namespace, name, .. } = &reference;
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let one = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = watcher(api, one).boxed();
        let mut is_there = false;
        while let Some(event) = events.next().await {
            let text = match event {
                Ok(Event::Init) => {
                    is_there = false;
                    continue;
                }
                Ok(Event::Apply(map) | Event::InitApply(map)) => {
                    is_there = true;
                    value_of(&map, &reference)
                }
                Ok(Event::InitDone) if is_there => continue,
                Ok(Event::InitDone | Event::Delete(_)) => {
                    Err(format!("there is no ConfigMap `{namespace}/{name}`"))
                }
                Err(error) => {
                    let is_refused = matches!(&error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 403);
                    if is_refused {
                        let why = format!(
                            "the ConfigMap `{namespace}/{name}` may not be read: grant get, list and watch of configmaps there"
                        );
                        self.read(&class, "", Err(why));
                    }
                    self.clock.sleep(RETRY).await;
                    continue;
                }
            };
            self.read(&class, &format!("ConfigMap {namespace}/{name}"), text);
        }
    }

    fn read_file(self: &Arc<Self>, class: &str, file: &str) {
        let read = self.known.lock().read_file.clone();
        let text = match read {
            Some(read) => read(file),
            None => Err("spec.instanceTypesFrom.file names a file in the folder of --instance-types-file-path, which joiner was started without".to_owned()),
        };
        self.read(class, file, text);
    }

    /// Takes in what a source says.
    fn read(self: &Arc<Self>, class: &str, source: &str, text: Result<String, String>) {
        let read =
            text.and_then(|text| Catalogue::from_text(source, &text).map_err(|error| error.to_string()));
        let mut known = self.known.lock();
        let Some(of) = known.classes.get_mut(class) else { return };
        let before = (of.own.good.is_some(), of.own.problem.clone());
        match read {
            Ok(catalogue) => {
                of.own.good = Some(catalogue.into());
                of.own.problem = None;
            }
            Err(problem) => of.own.problem = Some(cut(problem)),
        }
        let now = (of.own.good.is_some(), of.own.problem.clone());
        known.publish(class);
        drop(known);
        if before != now {
            self.tell(class);
        }
    }

    /// Sees to it that the class says how it stands with its types.
    fn tell(self: &Arc<Self>, class: &str) {
        let mut known = self.known.lock();
        let Some(of) = known.classes.get_mut(class) else { return };
        let (shared, name) = (self.clone(), class.to_owned());
        let state = State::of(&of.own);
        let task = tokio::spawn(async move {
            while shared.write(&name, &state).await.is_err() {
                shared.clock.sleep(RETELL).await;
            }
        });
        of.teller.replace(Some(task.abort_handle()));
    }

    async fn write(&self, name: &str, state: &State) -> Result<(), kube::Error> {
        let Some(class) = self.classes().get_opt(name).await? else { return Ok(()) };
        let now = self.clock.now();
        let Some(patch) = status_patch(&class, state, now) else { return Ok(()) };
        self.classes().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        let was_bad = condition(&class, CONDITION).is_some_and(|of| of["status"] == "False");
        let note = match state {
            State::Bad { message, .. } => Some(("Warning", INVALID, message.clone())),
            State::Good(count) if was_bad => {
                Some(("Normal", LOADED, format!("{count} instance types are in use")))
            }
            _ => None,
        };
        if let Some((level, reason, message)) = note {
            let api: Api<Note> = Api::namespaced(self.client.clone(), "default");
            // An event that is lost is no loss: the condition says the same.
            let _ = api.create(&PostParams::default(), &event(&class, level, reason, message, now)).await;
        }
        Ok(())
    }
}

/// How it stands with the types of a class.
#[derive(Debug, Clone, PartialEq)]
enum State {
    /// It brings none along.
    Usual,
    /// So many.
    Good(usize),
    /// The present list cannot be used.
    Bad { message: String, has_types: bool },
}

impl State {
    fn of(own: &Own) -> Self {
        let count = own.good.as_ref().map(|Offer(types, _)| types.len());
        match (&own.source, &own.problem) {
            (None, _) => Self::Usual,
            (Some(_), None) => Self::Good(count.unwrap_or(0)),
            (Some(_), Some(problem)) => {
                let stays =
                    count.map(|count| format!("; the last good list of {count} instance types stays in use"));
                Self::Bad {
                    message: format!("{problem}{}", stays.unwrap_or_default()),
                    has_types: count.is_some(),
                }
            }
        }
    }
}

fn condition<'a>(class: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    class.data["status"]["conditions"].as_array()?.iter().find(|of| of["type"] == kind)
}

/// What to write into the status of a class; nothing if it says so already.
fn status_patch(class: &DynamicObject, state: &State, now: Timestamp) -> Option<Value> {
    let before = class.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut after = before.clone();
    let mut set = |kind: &str, status: &str, reason: &str, message: &str| {
        let at = after.iter().position(|of| of["type"] == kind);
        let same = |of: &&Value| {
            of["status"] == status
                && of["reason"] == reason
                && of["message"].as_str().unwrap_or_default() == message
        };
        if at.and_then(|at| after.get(at)).filter(same).is_some() {
            return;
        }
        let since = at.and_then(|at| after.get(at)).filter(|of| of["status"] == status);
        let since = since.map_or_else(|| json!(Time(now)), |of| of["lastTransitionTime"].clone());
        let generation = class.metadata.generation.unwrap_or_default();
        let new = json!({
            "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since, "observedGeneration": generation,
        });
        match at.and_then(|at| after.get_mut(at)) {
            Some(of) => *of = new,
            None => after.push(new),
        }
    };
    match state {
        State::Usual => {
            set(conditions::READY, "True", conditions::READY, "");
            after.retain(|of| of["type"] != CONDITION);
        }
        State::Good(count) => {
            set(CONDITION, "True", LOADED, &format!("{count} instance types"));
            set(conditions::READY, "True", conditions::READY, "");
        }
        State::Bad { message, has_types } => {
            set(CONDITION, "False", INVALID, message);
            match has_types {
                true => set(conditions::READY, "True", conditions::READY, ""),
                false => set(conditions::READY, "False", INVALID, message),
            }
        }
    }
    let version = &class.metadata.resource_version;
    (after != before)
        .then(|| json!({"metadata": {"resourceVersion": version}, "status": {"conditions": after}}))
}

fn value_of(map: &ConfigMap, reference: &KwokConfigMapKey) -> Result<String, String> {
    let KwokConfigMapKey { namespace, name, key } = reference;
    let data = map.data.clone().unwrap_or_default();
    match key {
        Some(key) => data
            .get(key)
            .cloned()
            .ok_or_else(|| format!("the ConfigMap `{namespace}/{name}` has no key `{key}`")),
        None => match data.len() {
            1 => Ok(data.into_values().next().unwrap_or_default()),
            count => Err(format!(
                "the ConfigMap `{namespace}/{name}` has {count} keys: name one in spec.instanceTypesFrom.configMap.key"
            )),
        },
    }
}

fn cut(message: String) -> String {
    match message.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}

fn event(class: &DynamicObject, level: &str, reason: &str, message: String, now: Timestamp) -> Note {
    let number = now.as_microsecond();
    Note {
        metadata: ObjectMeta {
            name: Some(format!("{}.{number:x}", class.name_any())),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: class.object_ref(&Shared::resource()),
        type_: Some(level.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        reporting_component: Some(COMPONENT.to_owned()),
        ..Note::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(conditions: Value) -> DynamicObject {
        let object = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
            "metadata": {"name": "c", "resourceVersion": "7"}, "status": {"conditions": conditions},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_class_says_how_it_stands_and_says_it_once() {
        let now: Timestamp = "2026-01-05T08:00:00Z".parse().unwrap();
        let born = json!([{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2024-01-01T01:01:01Z"}]);
        let says = |patch: &Value| -> Vec<String> {
            let all = patch["status"]["conditions"].as_array().unwrap().iter();
            all.map(|of| {
                format!(
                    "{}={} {}",
                    of["type"].as_str().unwrap(),
                    of["status"].as_str().unwrap(),
                    of["message"].as_str().unwrap()
                )
            })
            .collect()
        };
        assert_eq!(status_patch(&class(born.clone()), &State::Usual, now), None);
        let never = State::Bad { message: "bad".to_owned(), has_types: false };
        let patch = status_patch(&class(born.clone()), &never, now).unwrap();
        assert_eq!(says(&patch), ["Ready=False bad", "InstanceTypesReady=False bad"]);
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let after = class(patch["status"]["conditions"].clone());
        assert_eq!(status_patch(&after, &never, now), None, "told once");
        let patch = status_patch(&after, &State::Good(2), now).unwrap();
        assert_eq!(says(&patch), ["Ready=True ", "InstanceTypesReady=True 2 instance types"]);
        let later = State::Bad {
            message: "worse; the last good list of 2 instance types stays in use".to_owned(),
            has_types: true,
        };
        let patch = status_patch(&class(patch["status"]["conditions"].clone()), &later, now).unwrap();
        assert!(says(&patch)[0].starts_with("Ready=True"), "{patch}");
        let patch = status_patch(&class(patch["status"]["conditions"].clone()), &State::Usual, now).unwrap();
        assert_eq!(says(&patch), ["Ready=True "], "nothing is left of it");
    }
}
