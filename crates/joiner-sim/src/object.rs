//! Objects of the cluster as the controllers see them: JSON that is shared and never changed in place, the kinds that
//! are watched, and short ways to the fields that everybody reads.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use joiner_apiserver::{selector, store};
use serde_json::{Map, Value};

use crate::outline::{self, Outline};

/// One state of an object, without the record of who owns its fields. A change makes a new one.
///
/// It reads as a [`Value`] and is parsed when somebody looks inside for the first time: parsed it takes ten times the memory of the text,
/// which the server keeps anyway.
#[derive(Clone)]
pub struct Object(Arc<State>);

struct State {
    value: OnceLock<Value>,
    /// What many ask about it.
    outline: OnceLock<Arc<Outline>>,
    /// Nothing for an object that did not come from a server.
    text: Option<Arc<store::Object>>,
}

impl Object {
    /// A state that the server keeps.
    pub fn kept(text: Arc<store::Object>) -> Self {
        Self::new(OnceLock::new(), Some(text))
    }

    /// The same for one that is parsed already.
    pub fn parsed(text: Arc<store::Object>, value: Value) -> Self {
        Self::new(OnceLock::from(value), Some(text))
    }

    fn new(value: OnceLock<Value>, text: Option<Arc<store::Object>>) -> Self {
        Self(Arc::new(State { value, outline: OnceLock::new(), text }))
    }

    fn outline(&self) -> &Outline {
        let State { value, outline, text } = &*self.0;
        outline.get_or_init(|| {
            Arc::new(match (value.get(), text) {
                (None, Some(text)) => Outline::read(text.text()),
                _ => Outline::of(self),
            })
        })
    }

    /// Whether somebody has looked inside, and the server could tell again what is there.
    pub(crate) fn is_warm(&self) -> bool {
        self.0.text.is_some() && self.0.value.get().is_some()
    }

    /// The same state, not parsed, if the server keeps it.
    pub(crate) fn cold(&self) -> Self {
        match &self.0.text {
            Some(text) => Self(Arc::new(State {
                value: OnceLock::new(),
                outline: self.0.outline.clone(),
                text: Some(text.clone()),
            })),
            None => self.clone(),
        }
    }
}

impl From<Value> for Object {
    fn from(value: Value) -> Self {
        Self::new(OnceLock::from(value), None)
    }
}

impl Deref for Object {
    type Target = Value;

    fn deref(&self) -> &Value {
        let State { value, text, .. } = &*self.0;
        value.get_or_init(|| text.as_ref().map(|text| text.parse_slim()).unwrap_or_default())
    }
}

impl selector::Selectable for Object {
    fn label(&self, key: &str) -> Option<&str> {
        match &self.0.text {
            Some(text) => text.label(key),
            None => selector::Selectable::label(&**self, key),
        }
    }

    fn field(&self, path: &str) -> Cow<'_, str> {
        selector::Selectable::field(&**self, path)
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, out)
    }
}

impl fmt::Display for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, out)
    }
}

/// Declares the kinds with their names in the API, so that the facts stand in one table.
macro_rules! kinds {
    ($($variant:ident: $group:literal $version:literal $plural:literal $scope:ident,)*) => {
        /// The kinds that participants of the simulation read or write.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(
                #[doc = concat!("`", stringify!($variant), "`")]
                $variant,
            )*
        }

        impl Kind {
            /// All kinds, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in `kind:`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }

            /// The API group, empty for the core group.
            pub fn group(self) -> &'static str {
                match self { $(Self::$variant => $group,)* }
            }

            /// The version.
            pub fn version(self) -> &'static str {
                match self { $(Self::$variant => $version,)* }
            }

            /// The name in paths.
            pub fn plural(self) -> &'static str {
                match self { $(Self::$variant => $plural,)* }
            }

            /// Whether objects live in namespaces.
            pub fn namespaced(self) -> bool {
                match self { $(Self::$variant => kinds!(@scope $scope),)* }
            }
        }
    };
    (@scope namespaced) => { true };
    (@scope cluster) => { false };
}

kinds! {
    Namespace: "" "v1" "namespaces" cluster,
    ServiceAccount: "" "v1" "serviceaccounts" namespaced,
    ConfigMap: "" "v1" "configmaps" namespaced,
    Node: "" "v1" "nodes" cluster,
    Pod: "" "v1" "pods" namespaced,
    Service: "" "v1" "services" namespaced,
    ReplicationController: "" "v1" "replicationcontrollers" namespaced,
    PersistentVolume: "" "v1" "persistentvolumes" cluster,
    PersistentVolumeClaim: "" "v1" "persistentvolumeclaims" namespaced,
    Event: "" "v1" "events" namespaced,
    Deployment: "apps" "v1" "deployments" namespaced,
    ReplicaSet: "apps" "v1" "replicasets" namespaced,
    StatefulSet: "apps" "v1" "statefulsets" namespaced,
    DaemonSet: "apps" "v1" "daemonsets" namespaced,
    ControllerRevision: "apps" "v1" "controllerrevisions" namespaced,
    Job: "batch" "v1" "jobs" namespaced,
    CronJob: "batch" "v1" "cronjobs" namespaced,
    HorizontalPodAutoscaler: "autoscaling" "v2" "horizontalpodautoscalers" namespaced,
    PodDisruptionBudget: "policy" "v1" "poddisruptionbudgets" namespaced,
    PriorityClass: "scheduling.k8s.io" "v1" "priorityclasses" cluster,
    StorageClass: "storage.k8s.io" "v1" "storageclasses" cluster,
    CSINode: "storage.k8s.io" "v1" "csinodes" cluster,
    CSIDriver: "storage.k8s.io" "v1" "csidrivers" cluster,
    VolumeAttachment: "storage.k8s.io" "v1" "volumeattachments" cluster,
    Lease: "coordination.k8s.io" "v1" "leases" namespaced,
}

impl Kind {
    /// `apiVersion` of the kind: `v1`, `apps/v1`.
    pub fn api_version(self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// The kind with this name in `kind:`, if it is one that is watched.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// Which object: kind, namespace (empty outside namespaces) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The kind.
    pub kind: Kind,
    /// The namespace, empty for objects outside namespaces.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Key {
    /// Names an object.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object that the server keeps under `namespace/name`, or under its name alone.
    pub fn stored(kind: Kind, key: &str) -> Self {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        Self::new(kind, namespace, name)
    }

    /// The key of an object of this kind.
    pub fn of(kind: Kind, object: &Value) -> Self {
        Self::new(kind, object.namespace(), object.name())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(out, "{}/{}", self.kind.plural(), self.name),
            namespace => write!(out, "{}/{namespace}/{}", self.kind.plural(), self.name),
        }
    }
}

/// Who manages an object: its owner reference with `controller: true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manager<'a> {
    /// `kind` of the reference.
    pub kind: &'a str,
    /// `name` of the reference.
    pub name: &'a str,
    /// `uid` of the reference.
    pub uid: &'a str,
}

/// Short ways to fields. A field that is absent or has another type reads as nothing, empty or zero.
pub trait Fields {
    /// The value at a path, `null` where there is none.
    fn at(&self, path: &[&str]) -> &Value;
    /// Text at a path.
    fn text(&self, path: &[&str]) -> &str;
    /// A number at a path.
    fn number(&self, path: &[&str]) -> Option<i64>;
    /// The elements of a list at a path.
    fn items(&self, path: &[&str]) -> &[Value];
    /// The fields of a map at a path.
    fn entries(&self, path: &[&str]) -> Option<&Map<String, Value>>;
    /// A moment at a path.
    fn time(&self, path: &[&str]) -> Option<Timestamp>;
    /// `metadata.name`
    fn name(&self) -> &str;
    /// `metadata.namespace`
    fn namespace(&self) -> &str;
    /// `metadata.uid`
    fn uid(&self) -> &str;
    /// `metadata.generation`
    fn generation(&self) -> i64;
    /// `metadata.creationTimestamp`
    fn created(&self) -> Option<Timestamp>;
    /// Whether `metadata.deletionTimestamp` is set.
    fn is_deleting(&self) -> bool;
    /// A label.
    fn label(&self, key: &str) -> Option<&str>;
    /// An annotation.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// The owner reference with `controller: true`.
    fn manager(&self) -> Option<Manager<'_>>;
    /// A condition of the status.
    fn condition(&self, kind: &str) -> Option<&Value>;
    /// Whether a condition is `True`.
    fn condition_is_true(&self, kind: &str) -> bool;
    /// Since when a condition is `True`.
    fn true_since(&self, kind: &str) -> Option<Timestamp>;
}

static NULL: Value = Value::Null;

impl Fields for Value {
    fn at(&self, path: &[&str]) -> &Value {
        path.iter().try_fold(self, |place, part| place.get(part)).unwrap_or(&NULL)
    }

    fn text(&self, path: &[&str]) -> &str {
        self.at(path).as_str().unwrap_or_default()
    }

    fn number(&self, path: &[&str]) -> Option<i64> {
        self.at(path).as_i64()
    }

    fn items(&self, path: &[&str]) -> &[Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }

    fn entries(&self, path: &[&str]) -> Option<&Map<String, Value>> {
        self.at(path).as_object()
    }

    fn time(&self, path: &[&str]) -> Option<Timestamp> {
        self.at(path).as_str()?.parse().ok()
    }

    fn name(&self) -> &str {
        self.text(&["metadata", "name"])
    }

    fn namespace(&self) -> &str {
        self.text(&["metadata", "namespace"])
    }

    fn uid(&self) -> &str {
        self.text(&["metadata", "uid"])
    }

    fn generation(&self) -> i64 {
        self.number(&["metadata", "generation"]).unwrap_or(0)
    }

    fn created(&self) -> Option<Timestamp> {
        self.time(&["metadata", "creationTimestamp"])
    }

    fn is_deleting(&self) -> bool {
        !self.text(&["metadata", "deletionTimestamp"]).is_empty()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "labels", key]).as_str()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "annotations", key]).as_str()
    }

    fn manager(&self) -> Option<Manager<'_>> {
        let references = self.items(&["metadata", "ownerReferences"]);
        let reference = references.iter().find(|reference| reference["controller"] == true)?;
        Some(Manager {
            kind: reference.text(&["kind"]),
            name: reference.text(&["name"]),
            uid: reference.text(&["uid"]),
        })
    }

    fn condition(&self, kind: &str) -> Option<&Value> {
        self.items(&["status", "conditions"]).iter().find(|condition| condition["type"] == kind)
    }

    fn condition_is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition["status"] == "True")
    }

    fn true_since(&self, kind: &str) -> Option<Timestamp> {
        self.condition(kind).filter(|condition| condition["status"] == "True")?.time(&["lastTransitionTime"])
    }
}

/// As of the parsed object; what is asked of every pod of a cluster, over and over, is answered without parsing or searching it.
impl Fields for Object {
    fn at(&self, path: &[&str]) -> &Value {
        (**self).at(path)
    }

    fn text(&self, path: &[&str]) -> &str {
        let kept = self.0.text.as_ref().and_then(|text| match path {
            ["spec", "nodeName"] => text.kept_field("spec.nodeName"),
            ["status", "phase"] => text.kept_field("status.phase"),
            ["metadata", "uid"] => Some(text.uid()),
            _ => None,
        });
        kept.unwrap_or_else(|| (**self).text(path))
    }

    fn number(&self, path: &[&str]) -> Option<i64> {
        (**self).number(path)
    }

    fn items(&self, path: &[&str]) -> &[Value] {
        match &self.0.text {
            Some(text) if path == ["metadata", "finalizers"] && !text.has_finalizers() => &[],
            _ => (**self).items(path),
        }
    }

    fn entries(&self, path: &[&str]) -> Option<&Map<String, Value>> {
        (**self).entries(path)
    }

    fn time(&self, path: &[&str]) -> Option<Timestamp> {
        (**self).time(path)
    }

    fn name(&self) -> &str {
        (**self).name()
    }

    fn namespace(&self) -> &str {
        (**self).namespace()
    }

    fn uid(&self) -> &str {
        self.text(&["metadata", "uid"])
    }

    fn generation(&self) -> i64 {
        (**self).generation()
    }

    fn created(&self) -> Option<Timestamp> {
        (**self).created()
    }

    fn is_deleting(&self) -> bool {
        match &self.0.text {
            Some(text) => text.is_deleting(),
            None => (**self).is_deleting(),
        }
    }

    fn label(&self, key: &str) -> Option<&str> {
        match &self.0.text {
            Some(text) => text.label(key),
            None => Fields::label(&**self, key),
        }
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        if self.outline().has_annotation(key) { (**self).annotation(key) } else { None }
    }

    fn manager(&self) -> Option<Manager<'_>> {
        self.outline().manager()
    }

    fn condition(&self, kind: &str) -> Option<&Value> {
        (**self).condition(kind)
    }

    fn condition_is_true(&self, kind: &str) -> bool {
        if kind == outline::READY { self.outline().ready } else { (**self).condition_is_true(kind) }
    }

    fn true_since(&self, kind: &str) -> Option<Timestamp> {
        if kind == outline::READY { self.outline().ready_since } else { (**self).true_since(kind) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_that_are_not_there_read_as_nothing() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "a", "labels": {"app": "web"}, "ownerReferences": [
                {"kind": "Node", "name": "n", "uid": "1"},
                {"kind": "ReplicaSet", "name": "r", "uid": "2", "controller": true},
            ]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        assert_eq!(Key::of(Kind::Pod, &pod).to_string(), "pods/a/p");
        assert_eq!(pod.manager(), Some(Manager { kind: "ReplicaSet", name: "r", uid: "2" }));
        assert!(pod.condition_is_true("Ready") && !pod.condition_is_true("Initialized"));
        assert_eq!((pod.label("app"), pod.label("tier"), pod.annotation("x")), (Some("web"), None, None));
        assert_eq!((pod.generation(), pod.is_deleting(), pod.created()), (0, false, None));
        assert!(pod.at(&["spec", "containers", "0"]).is_null());
    }

    #[test]
    fn kinds_know_their_place_in_the_api() {
        assert_eq!(Kind::Deployment.api_version(), "apps/v1");
        assert_eq!(Kind::Pod.api_version(), "v1");
        assert_eq!(Kind::named("CSINode"), Some(Kind::CSINode));
        assert_eq!(Kind::named("Unknown"), None);
        assert!(Kind::Pod.namespaced() && !Kind::Node.namespaced());
    }
}
