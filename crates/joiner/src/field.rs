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
