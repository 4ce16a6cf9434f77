//! Merge patch (RFC 7396).

use serde_json::Value;

use super::PatchError;

/// Applies a merge patch: objects merge, null removes, everything else replaces.
pub fn merge(mut doc: Value, patch: &Value) -> Value {
    json_patch::merge(&mut doc, patch);
    doc
}

/// Whether a value can be a merge patch or a strategic merge patch at all.
///
/// # Errors
///
/// 400 if it is no object.
pub fn check_merge(patch: &Value) -> Result<(), PatchError> {
    if patch.is_object() { Ok(()) } else { Err(PatchError::undecodable(patch, "map[string]interface {}")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_removes_and_lists_are_replaced() {
        let doc = json!({"data": {"k": "v"}, "l": [{"a": 1}, {"b": 2}]});
        let patch = json!({"data": {"k": null, "l": "1"}, "l": [{"c": 3}]});
        assert_eq!(merge(doc, &patch), json!({"data": {"l": "1"}, "l": [{"c": 3}]}));
    }

    #[test]
    fn only_objects_are_merge_patches() {
        assert_eq!(check_merge(&json!({})), Ok(()));
        let error = check_merge(&json!([1])).unwrap_err();
        assert_eq!(error.status, 400);
        assert_eq!(
            error.message,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
    }
}
