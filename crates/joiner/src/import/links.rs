//! References between objects: uids are those of this cluster, and owners that are not here are nobody's owners.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{at_mut, kind, remove, text};
use crate::field::is_uid;

/// Kind, namespace and name.
type Name = (String, String, String);

/// Gives every object a uid, keeping those that the files have, and lets references follow. `fresh` makes uids.
pub fn relink(objects: &mut [Value], mut fresh: impl FnMut() -> String) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut uids: BTreeMap<Name, String> = BTreeMap::new();
    for object in objects.iter_mut() {
        let given = text(object, "/metadata/uid");
        let uid = match is_uid(given) && !taken.contains(given) {
            true => given.to_owned(),
            false => fresh(),
        };
        taken.insert(uid.clone());
        uids.insert(name_of(object), uid.clone());
        object["metadata"]["uid"] = uid.into();
    }
    for object in objects.iter_mut() {
        relink_owners(object, |owner_kind, namespace, name| {
            uids.get(&named(owner_kind, namespace, name)).cloned()
        });
        if kind(object) == "PersistentVolume" {
            relink_claim(object, &uids);
        }
    }
}

/// Looks up every owner; those that are not found are taken off.
pub fn relink_owners(object: &mut Value, find: impl Fn(&str, &str, &str) -> Option<String>) {
    let namespace = text(object, "/metadata/namespace").to_owned();
    let Some(owners) = at_mut(object, "/metadata/ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    owners.retain_mut(|owner| {
        let (owner_kind, name) = (kind(owner).to_owned(), text(owner, "/name").to_owned());
        // An owner is in the same namespace or in none.
        let uid = find(&owner_kind, &namespace, &name).or_else(|| find(&owner_kind, "", &name));
        match uid {
            Some(uid) => {
                owner["uid"] = uid.into();
                true
            }
            None => false,
        }
    });
    if owners.is_empty() {
        remove(object, "/metadata", "ownerReferences");
    }
}

fn relink_claim(volume: &mut Value, uids: &BTreeMap<Name, String>) {
    let claim = named(
        "PersistentVolumeClaim",
        text(volume, "/spec/claimRef/namespace"),
        text(volume, "/spec/claimRef/name"),
    );
    match uids.get(&claim) {
        Some(uid) if volume.pointer("/spec/claimRef").is_some() => {
            volume["spec"]["claimRef"]["uid"] = uid.clone().into();
        }
        _ => remove(volume, "/spec/claimRef", "uid"),
    }
}

fn named(kind: &str, namespace: &str, name: &str) -> Name {
    (kind.to_owned(), namespace.to_owned(), name.to_owned())
}

fn name_of(object: &Value) -> Name {
    named(kind(object), text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ONE: &str = "00000000-0000-4000-8000-000000000001";

    #[test]
    fn owners_are_found_by_name() {
        let owned = |name: &str, owner: &str| {
            json!({
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "a", "ownerReferences": [{"kind": "ReplicaSet", "name": owner, "uid": "old"}]},
            })
        };
        let set = json!({"kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "a", "uid": ONE}});
        let twin = json!({"kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "b", "uid": ONE}});
        let volume = json!({"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"claimRef": {"namespace": "a", "name": "data", "uid": "old"}}});
        let claim = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "a"}});
        let mut objects = vec![set, twin, owned("p", "web"), owned("q", "gone"), volume, claim];
        let mut made = 0;
        relink(&mut objects, || {
            made += 1;
            format!("new-{made}")
        });
        assert_eq!(objects[0]["metadata"]["uid"], ONE);
        assert_eq!(objects[1]["metadata"]["uid"], "new-1", "a uid that is there twice is kept once");
        assert_eq!(objects[2]["metadata"]["ownerReferences"][0]["uid"], ONE);
        assert!(objects[3]["metadata"].get("ownerReferences").is_none());
        assert_eq!(objects[4]["spec"]["claimRef"]["uid"], objects[5]["metadata"]["uid"]);
    }
}
