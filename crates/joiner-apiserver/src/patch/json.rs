//! JSON patch (RFC 6902).

use serde_json::Value;

use super::PatchError;

/// Patches with more operations are refused.
const MAX_OPERATIONS: usize = 10_000;

/// Applies a JSON patch.
///
/// # Errors
///
/// 400 if `patch` is no list of operations, 413 if it is too long, 422 if an operation fails.
pub fn json(doc: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Some(operations) = patch.as_array() else {
        return Err(PatchError::undecodable(patch, "[]handlers.jsonPatchOp"));
    };
    if let Some(odd) = operations.iter().find(|operation| !operation.is_object()) {
        return Err(PatchError::undecodable(odd, "handlers.jsonPatchOp"));
    }
    if operations.len() > MAX_OPERATIONS {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(PatchError { status: 413, reason: "RequestEntityTooLarge", message });
    }
    let operations: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(|_| PatchError::unprocessable())?;
    let mut result = doc.clone();
    json_patch::patch(&mut result, &operations).map_err(|_| PatchError::unprocessable())?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    #[test]
    fn operations_run_in_order() {
        let doc = value!({"metadata": {}, "data": {"k": "v"}});
        let patch = value!([
            {"op": "test", "path": "/data/k", "value": "v"},
            {"op": "replace", "path": "/data/k", "value": "w"},
            {"op": "add", "path": "/metadata/labels", "value": {"x/y": "1"}},
            {"op": "remove", "path": "/metadata/labels/x~1y"},
        ]);
        assert_eq!(json(&doc, &patch), Ok(value!({"metadata": {"labels": {}}, "data": {"k": "w"}})));
    }

    #[test]
    fn failures_have_the_status_of_kubernetes() {
        let doc = value!({"data": {"k": "v"}});
        for patch in [
            value!([{"op": "test", "path": "/data/k", "value": "z"}]),
            value!([{"op": "remove", "path": "/data/nope"}]),
            value!([{"op": "frobnicate", "path": "/data/k"}]),
        ] {
            let error = json(&doc, &patch).unwrap_err();
            assert_eq!((error.status, error.reason), (422, "Invalid"), "{patch}");
        }
        let error = json(&doc, &value!({"op": "x"})).unwrap_err();
        let expected = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
        assert_eq!((error.status, error.message.as_str()), (400, expected));
        let many = Value::Array(vec![value!({"op": "remove", "path": "/x"}); MAX_OPERATIONS + 1]);
        assert_eq!(json(&doc, &many).unwrap_err().status, 413);
    }
}
