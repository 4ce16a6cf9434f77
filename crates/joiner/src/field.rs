//! Fields of JSON objects by fixed paths, such as `/metadata/name`, and what their values say.
//!
//! `Value::pointer` reads escapes, and copies each part of a path twice for that. Where every object of a large cluster is
//! looked at a few times that takes seconds, and paths of field names have no escapes.

use joiner_api::owners;
use serde_json::Value;

/// The value at a path of field names.
pub fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').skip(1).try_fold(object, |place, name| place.get(name))
}

/// The same, to be changed.
pub fn at_mut<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('/').skip(1).try_fold(object, |place, name| place.get_mut(name))
}

/// Text at a path, empty where there is none.
pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a pod belongs to its node: a daemon's, or a static one.
pub fn follows_nodes(pod: &Value) -> bool {
    let owners = at(pod, "/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| {
        let (version, kind) = (text(owner, "/apiVersion"), text(owner, "/kind"));
        owners::is_daemon_set(version, kind) || owners::is_node(version, kind)
    })
}

/// Whether a text has the shape of a uid: 36 letters, of which four are dashes in their places and the others hexadecimal.
pub fn is_uid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_leads_where_a_pointer_does() {
        let mut object = json!({"a": {"b": "text", "": {"c": 1}}, "list": [1]});
        for path in ["", "/a", "/a/b", "/a/b/c", "/a//c", "/none", "/none/b", "/a/none"] {
            assert_eq!(at(&object, path), object.pointer(path), "{path}");
            assert_eq!(at_mut(&mut object.clone(), path), object.pointer_mut(path), "{path}");
        }
        assert_eq!((text(&object, "/a/b"), text(&object, "/a"), text(&object, "/none")), ("text", "", ""));
    }
    #[test]
    fn uids_have_one_shape() {
        assert!(
            is_uid("0b0e5b5e-9c3e-4a56-8f0c-0d6a1d0d1f11") && is_uid("0B0E5B5E-9C3E-4A56-8F0C-0D6A1D0D1F11")
        );
        for wrong in
            ["", "0b0e5b5e", "0b0e5b5e9c3e-4a56-8f0c-0d6a1d0d1f11-", "xb0e5b5e-9c3e-4a56-8f0c-0d6a1d0d1f11"]
        {
            assert!(!is_uid(wrong), "{wrong}");
        }
    }

    #[test]
    fn daemons_and_mirrors_follow_their_node() {
        let owned = |version: &str, kind: &str| {
            follows_nodes(&json!({"metadata": {"ownerReferences": [{"apiVersion": version, "kind": kind}]}}))
        };
        assert!(owned("apps/v1", "DaemonSet") && owned("v1", "Node"));
        assert!(
            !owned("apps/v1", "ReplicaSet")
                && !owned("apps.example.com/v1", "DaemonSet")
                && !follows_nodes(&json!({}))
        );
    }
}
