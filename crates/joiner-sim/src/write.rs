//! What participants want changed. They return these values; the loop sends them to the server.

use serde_json::Value;

use crate::object::{Key, Kind};

/// How a patch is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7396.
    Merge,
    /// Kubernetes' own, lists merged by key.
    Strategic,
}

/// What becomes of dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

impl Propagation {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// An entry for `kubectl get events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The object it is about.
    pub about: Key,
    /// The uid of that object.
    pub uid: String,
    /// `Warning` rather than `Normal`.
    pub warning: bool,
    /// One word: `FailedScheduling`.
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
    /// Who says so: `replicaset-controller`.
    pub component: &'static str,
}

/// One change that a participant asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A new object. `metadata.generateName` works as with the real server.
    Create {
        /// The kind.
        kind: Kind,
        /// The namespace, empty for objects outside namespaces.
        namespace: String,
        /// The object.
        object: Value,
    },
    /// Replaces an object; refused when `metadata.resourceVersion` is given and is not the present one.
    Update {
        /// Which object.
        key: Key,
        /// Its new state.
        object: Value,
    },
    /// Replaces the status of an object, as [`Write::Update`].
    UpdateStatus {
        /// Which object.
        key: Key,
        /// Its new state, of which only the status counts.
        object: Value,
    },
    /// Changes some fields.
    Patch {
        /// Which object.
        key: Key,
        /// Of which the patch is to be applied: `status`, `scale`; nothing for the object itself.
        subresource: Option<&'static str>,
        /// How it is to be understood.
        how: PatchKind,
        /// The patch.
        patch: Value,
    },
    /// Deletes an object.
    Delete {
        /// Which object.
        key: Key,
        /// Only if it still is the one with this uid.
        uid: Option<String>,
        /// Seconds it may take to go; nothing for its own.
        grace: Option<i64>,
        /// What becomes of dependents; nothing for the default of its kind.
        propagation: Option<Propagation>,
    },
    /// Binds a pod to a node.
    Bind {
        /// The pod.
        pod: Key,
        /// Its uid.
        uid: String,
        /// The node's name.
        node: String,
    },
    /// Evicts a pod, if its budget allows.
    Evict {
        /// The pod.
        pod: Key,
    },
    /// Records an entry for people.
    Event(Note),
}

impl Write {
    /// Deletes an object if it still is the one with this uid, with its own grace.
    pub fn delete(key: Key, uid: &str) -> Self {
        Self::Delete { key, uid: Some(uid.to_owned()), grace: None, propagation: None }
    }

    /// A merge patch of an object.
    pub fn merge(key: Key, patch: Value) -> Self {
        Self::Patch { key, subresource: None, how: PatchKind::Merge, patch }
    }

    /// A merge patch of an object's status.
    pub fn merge_status(key: Key, patch: Value) -> Self {
        Self::Patch { key, subresource: Some("status"), how: PatchKind::Merge, patch }
    }

    /// The namespace in which an entry about an object is kept.
    pub(crate) fn namespace_of_note(note: &Note) -> &str {
        match &*note.about.namespace {
            "" => "default",
            namespace => namespace,
        }
    }
}
