//! Kubelet settings, which stood in pools and belong to node classes now.
//!
//! A pool is converted without a look at other objects, and keeps its settings in an annotation. Who converts many objects at once lets
//! [`settle_kubelets`] bring the settings home, where that is clear: the class is there, and nobody wants anything else of it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Converted;
use crate::names::{self, KUBELET_COMPATIBILITY_ANNOTATION, kinds};

/// Where an object is: the conversion it came from, and its number there.
type At = (usize, usize);

/// A pool that refers to a class.
struct User {
    at: At,
    name: String,
    /// The settings in its annotation.
    kubelet: Option<Value>,
    /// It was converted just now, and a note tells of the annotation.
    is_fresh: bool,
}

/// Moves the kubelet settings of converted pools to their AWS node classes, where these are among the objects, and says in the notes of the pools
/// what became of them.
pub fn settle_kubelets(all: &mut [Converted]) {
    let mut classes: BTreeMap<String, At> = BTreeMap::new();
    let mut users: BTreeMap<String, Vec<User>> = BTreeMap::new();
    for (of, converted) in all.iter().enumerate() {
        for (number, object) in converted.objects.iter().enumerate() {
            let at = (of, number);
            match (text(object, "/apiVersion"), text(object, "/kind")) {
                (names::AWS_API_VERSION, kinds::EC2_NODE_CLASS) => {
                    classes.insert(text(object, "/metadata/name").to_owned(), at);
                }
                (names::API_VERSION, kinds::NODE_POOL) => {
                    if let Some(class) = aws_class(object) {
                        users.entry(class.to_owned()).or_default().push(user(converted, object, at));
                    }
                }
                _ => {}
            }
        }
    }
    for (class, at) in classes {
        let users = users.remove(&class).unwrap_or_default();
        if users.iter().any(|user| user.is_fresh && user.kubelet.is_some()) {
            settle(all, &class, at, &users);
        }
    }
}

fn settle(all: &mut [Converted], class: &str, at: At, users: &[User]) {
    let own = object(all, at).pointer("/spec/kubelet").cloned().filter(|own| !own.is_null());
    let wanted = users.iter().find(|user| user.is_fresh).and_then(|user| user.kubelet.clone());
    let other = users.iter().find(|user| user.kubelet != wanted);
    let agree = other.is_none() && own.as_ref().is_none_or(|own| Some(own) == wanted.as_ref());
    if let (true, Some(wanted)) = (agree, wanted) {
        object(all, at)["spec"]["kubelet"] = wanted;
    }
    for user in users.iter().filter(|user| user.is_fresh && user.kubelet.is_some()) {
        let kept = format!("kept in annotation `{KUBELET_COMPATIBILITY_ANNOTATION}`");
        let message = if agree {
            drop_annotation(object(all, user.at));
            format!("moved to `spec.kubelet` of EC2NodeClass `{class}`")
        } else if let Some(other) = users.iter().find(|other| other.kubelet != user.kubelet) {
            format!(
                "kubelet settings belong to the node class now, and NodePool `{}` uses EC2NodeClass `{class}` with other ones: \
                 give each pool a class of its own, with them in its `spec.kubelet`; {kept}",
                other.name
            )
        } else {
            format!(
                "kubelet settings belong to the node class now, and EC2NodeClass `{class}` has other ones in its `spec.kubelet`: \
                 settle which count; {kept}"
            )
        };
        for note in all[user.at.0].notes.iter_mut().filter(|note| tells_of_kubelet(&note.path)) {
            note.message.clone_from(&message);
        }
    }
}

fn user(converted: &Converted, pool: &Value, at: At) -> User {
    let annotations = pool.pointer("/metadata/annotations");
    let kept = annotations.and_then(|all| all.get(KUBELET_COMPATIBILITY_ANNOTATION)).and_then(Value::as_str);
    User {
        at,
        name: text(pool, "/metadata/name").to_owned(),
        kubelet: kept.and_then(|kept| serde_json::from_str(kept).ok()),
        is_fresh: converted.notes.iter().any(|note| tells_of_kubelet(&note.path)),
    }
}

fn tells_of_kubelet(path: &str) -> bool {
    path == "spec.template.spec.kubelet" || path == "spec.kubeletConfiguration"
}

/// The class of AWS that a pool refers to.
fn aws_class(pool: &Value) -> Option<&str> {
    let reference = pool.pointer("/spec/template/spec/nodeClassRef")?;
    let is_aws =
        text(reference, "/group") == names::AWS_GROUP && text(reference, "/kind") == kinds::EC2_NODE_CLASS;
    is_aws.then(|| text(reference, "/name"))
}

fn drop_annotation(pool: &mut Value) {
    let Some(metadata) = pool.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.remove(KUBELET_COMPATIBILITY_ANNOTATION);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn object(all: &mut [Converted], (of, number): At) -> &mut Value {
    &mut all[of].objects[number]
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
